"""The Python API: what to pass, what comes back, in other processes and in several threads."""

import math
import multiprocessing
import pickle
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.models import Seq2Seq
from clearhead.predictor import Engine, Filler, Labeller, Predictor, TextWriter, UnknownCharacters, load
from tests.cli.typed import typed
from tests.training.toy import FAMILIES, SMALL, write_pairs

WORDS = ["abc", "gfedc", "a", "bbd", "ccdd", "abcdefg", "ge", "f"] * 2


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    """A model of every family that reads other things than pairs."""
    folder, found = tmp_path_factory.mktemp("families"), {}
    for name, write in FAMILIES.items():
        data = write(folder / f"{name}.{'tsv' if name == 'classifier' else 'txt'}", count=100)
        words = ["train", str(data), "-o", str(folder / name), "--max-steps", "10", *SMALL, f"model.family={name}"]
        result = typed(*words)
        assert result.returncode == 0, result.stderr
        found[name] = load(folder / name)
    return found


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda m: m.generate("hello"), TypeError, r"not one str: generate\(\['hello'\]\), or model\(…\) for one text"),
        (lambda m: m(["a", "b"]), TypeError, r"use model\.generate\(\[…\]\)"),
        (lambda m: m(5), TypeError, r"a str, not int \(5\)"),
        (lambda m: m.generate(["a", 5]), TypeError, r"texts\[1\] must be a str, not int \(5\)"),
        (lambda m: m.generate(None), TypeError, r"a list of str, not NoneType"),
        (lambda m: m.generate(b"abc"), TypeError, r"a list of str, not bytes"),
        (lambda m: m.answers("abc"), TypeError, r"answers\(\['abc'\]\)"),
        (lambda m: m.stream(["a"]), TypeError, r"answers one text"),
        (lambda m: m.score(["x"]), TypeError, r"score takes 2 lists, score\(sources, targets\), but was given 1"),
        (lambda m: m.score("abc", "C B A"), TypeError, r"sources must be a list of str, not one str"),
        (lambda m: m.score(["a", "b"], ["A"]), ValueError, r"2 sources and 1 targets"),
        (lambda m: m.score(["a"], [None]), TypeError, r"targets\[0\] must be a str, not NoneType"),
        (lambda m: m.vectors("abc"), TypeError, r"vectors\(\['abc'\]\)"),
        (lambda m: m.answers(["a"], m.decoding(), beam_size=2), TypeError, "give either spec or settings"),
    ],
)
def test_what_to_pass(predictor: TextWriter, call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(predictor)


def test_several_answers(predictor: TextWriter) -> None:
    """A beam that is wide enough comes by itself; any sequence of texts will do."""
    answers = predictor.answers(("abc", "ge"), n_best=6)
    assert [len(ways) for ways in answers] == [6, 6]
    assert [way.score for way in answers[0]] == sorted((way.score for way in answers[0]), reverse=True)
    assert answers == predictor.answers(["abc", "ge"], predictor.decoding(beam_size=6), n_best=6)
    (greedy,) = predictor.answers(("abc",), beam_size=1)[0]
    assert not math.isnan(greedy.log_probability)
    assert greedy.log_probability == pytest.approx(predictor.score(["abc"], [greedy.text])[0], abs=1e-5)


def test_probabilities(family: dict[str, Predictor]) -> None:
    labels = family["classifier"].answers(["a b c"], n_best=2)[0]
    assert labels[0].probabilities is not None
    assert sum(labels[0].probabilities.values()) == pytest.approx(1)
    assert math.exp(labels[1].log_probability) == pytest.approx(labels[0].probabilities[labels[1].text])
    (one,) = family["encoder"].answers(["a <mask> c"])[0]
    assert one.probabilities == one.masks[0]
    best = max(one.masks[0], key=one.masks[0].__getitem__)
    assert one.text == f"a {best} c"
    assert math.exp(one.log_probability) == pytest.approx(one.masks[0][best])
    (two,) = family["encoder"].answers(["<mask> b <mask>"])[0]
    assert (two.probabilities, len(two.masks)) == (None, 2)


def test_the_best_fillings_of_several_gaps(family: dict[str, Predictor]) -> None:
    """Against all combinations, sorted."""
    filler = family["encoder"]
    found = filler.answers(["<mask> b <mask> <mask>"], n_best=40)[0]
    everything = filler.answers(["<mask> b <mask> <mask>"], n_best=7**3)[0]
    assert [way.log_probability for way in found] == pytest.approx([way.log_probability for way in everything[:40]])
    assert len({way.text for way in everything}) == len(everything) == 7**3


def test_vectors(predictor: TextWriter, family: dict[str, Predictor]) -> None:
    """A text's vector is the mean over its own tokens, whatever stands beside it; models without an encoder refuse."""
    for model, texts in ((predictor, WORDS), (family["encoder"], ["a b", "a"]), (family["classifier"], ["a b", "c"])):
        together = model.vectors(texts)
        assert together.shape == (len(texts), 32 if model is not predictor else 64)
        alone = torch.cat([model.vectors([text]) for text in texts])
        torch.testing.assert_close(together, alone, atol=1e-5, rtol=1e-5)
        together.requires_grad_()  # an ordinary tensor, which can be learnt from
    ids = torch.tensor([[*predictor.source.encode(["abc"])[0], 2]])
    with torch.no_grad():
        assert isinstance(predictor.model, Seq2Seq)
        states = predictor.model.encode(ids).states
    torch.testing.assert_close(predictor.vectors(["abc"])[0], states[0].mean(0), atol=1e-5, rtol=1e-5)
    assert predictor.vectors([]).numel() == 0
    with pytest.raises(ClearheadError, match="family lm has no encoder"):
        family["lm"].vectors(["a b"])


def _answer(model: Predictor) -> list[str]:
    return model.generate(WORDS[:8])


def test_another_process_answers_the_same(predictor: TextWriter, family: dict[str, Predictor]) -> None:
    """Also after it has answered, when it holds more than weights; in a process that is started anew."""
    expected = _answer(predictor)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        assert pool.submit(_answer, predictor).result() == expected
    for name, texts in (("lm", ["a b"]), ("encoder", ["a <mask>"]), ("classifier", ["a b"])):
        again = pickle.loads(pickle.dumps(family[name]))
        assert type(again) is type(family[name])
        assert again.answers(texts) == family[name].answers(texts)
    changed = load_with(predictor, beam_size=1)
    assert pickle.loads(pickle.dumps(changed)).recipe.decoding.beam_size == 1


def test_other_settings_share_the_weights(predictor: TextWriter, family: dict[str, Predictor]) -> None:
    """Nothing is written out or built for them, and the settings of the first stay as they are."""
    other = predictor.answering(beam_size=1)
    assert other.model is predictor.model
    assert predictor.recipe.decoding.beam_size > other.recipe.decoding.beam_size == 1
    assert predictor.on_engine(Engine(predictor.model)).model is predictor.model
    for one in family.values():
        assert one.answering(batch_tokens=9).model is one.model


def load_with(predictor: TextWriter, **settings: Any) -> TextWriter:
    recipe = predictor.recipe.model_copy(update={"decoding": predictor.decoding(**settings)})
    return TextWriter(predictor.model, recipe, (predictor.source, predictor.target))


@pytest.mark.parametrize(("n_best", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), ("3", TypeError)])
def test_how_many_answers(predictor: TextWriter, family: dict[str, Predictor], n_best: Any, error: type) -> None:
    for one in (predictor, *family.values()):
        with pytest.raises(error, match="n_best must be"):
            one.answers(["a"], n_best=n_best)


def test_threads_answer_as_one_alone(predictor: TextWriter) -> None:
    """Eight threads at once, also with hard attention, a model in training mode, and streams that are left behind."""
    tasks: list[Callable[[], Any]] = [
        lambda: predictor.generate(WORDS, batch_tokens=20),
        lambda: predictor.generate(WORDS, attention="hard", batch_tokens=20),
        lambda: predictor.score(WORDS, ["A B C"] * len(WORDS)),
        lambda: "".join(predictor.stream("abcdefg")),
        lambda: "".join(predictor.stream("abcdefg", attention="hard")),
        lambda: predictor.generate(WORDS, sample=True, beam_size=1, batch_tokens=20),
        lambda: next(predictor.stream("abcdefg")),
        lambda: predictor.vectors(WORDS).tolist(),
    ]
    alone = [task() for task in tasks]
    predictor.model.train()
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda index: tasks[index % 8](), range(32)))
    finally:
        predictor.model.eval()
    assert together == alone * 4


def test_fillers_in_threads(family: dict[str, Predictor]) -> None:
    """One reads <mask> as a token to fill in while another reads it as text."""
    filler = family["encoder"]
    assert isinstance(filler, Filler)
    gaps = filler.source.encode_gaps(["a <mask> b"] * 50)
    texts = filler.source.encode(["a <mask> b"] * 50)
    assert gaps != texts
    read = filler.source.encode_gaps, filler.source.encode
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: read[n % 2](["a <mask> b"] * 50), range(64)))
    assert found == [gaps, texts] * 32


def test_a_stream_that_is_left_behind_keeps_nothing(predictor: TextWriter) -> None:
    """Neither the lock, nor inference mode in the caller's code."""
    begun = predictor.stream("abcdefg")
    next(begun)
    assert not torch.is_inference_mode_enabled()
    other: list[str] = []
    thread = threading.Thread(target=lambda: other.append(predictor("abc")))
    thread.start()
    thread.join(timeout=120)
    assert other == [predictor("abc")]
    assert "".join(begun)


def test_unknown_characters(predictor: TextWriter) -> None:
    with pytest.warns(UnknownCharacters, match="2 texts: the model does not know A Z; train with data.case=lower"):
        predictor.generate(["abc", "AbA", "Z"])
    for call in (lambda: predictor("x"), lambda: predictor.stream("x"), lambda: predictor.score(["x"], ["A"])):
        with pytest.warns(UnknownCharacters, match="1 text: the model does not know x$") as caught:
            call()
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        known, strange = (best for best, *_ in predictor.answers(["abc", "AbA\x07"]))
    assert (known.unknown, strange.unknown) == ((), ("A", "\x07"))


def test_case_is_kept_in_the_model(tmp_path: Path) -> None:
    """data.case=lower: the tokenizer itself reads capitals as small letters; targets keep theirs."""
    pairs = write_pairs(tmp_path / "pairs.tsv", count=200)
    assert (
        typed(
            "train", str(pairs), "-o", str(tmp_path / "run"), "--max-steps", "5", "data.case=lower", *SMALL
        ).returncode
        == 0
    )
    model = load(tmp_path / "run")
    assert model.generate(["AbC"]) == model.generate(["abc"])
    assert model.score(["ABC"], ["C B A"]) == model.score(["abc"], ["C B A"])
    with pytest.warns(UnknownCharacters, match="does not know c$"):
        model.score(["abc"], ["c"])
    text = (tmp_path / "run" / "recipe.toml").read_text()
    assert 'case = "lower"' in text


def test_labeller_names_what_it_does_not_know(family: dict[str, Predictor]) -> None:
    labeller = family["classifier"]
    assert isinstance(labeller, Labeller)
    assert labeller.answers(["a Q"])[0][0].unknown == ("Q",)
