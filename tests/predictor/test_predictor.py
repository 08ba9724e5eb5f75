"""Text to text: the contracts of decoding, on a trained model."""

import math
import random
import re
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.decoding import Trie
from clearhead.errors import ClearheadError, DataError, RecipeError
from clearhead.models import count_parameters
from clearhead.predictor import TextWriter, UnknownCharacters
from tests.drawing.test_html import check, texts

WORDS = ["".join(random.Random(seed).choices("abcdefg", k=1 + seed % 9)) for seed in range(120)]
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "sampling": {"sample": True, "seed": 5},
}
search = pytest.mark.parametrize("settings", SEARCHES.values(), ids=SEARCHES.keys())


@search
def test_an_answer_does_not_depend_on_the_batch(predictor: TextWriter, settings: dict[str, object]) -> None:
    """Contract 1: alone, in batches of 7 or so lines, all together, and shuffled; sampling by the line's number."""
    spec = predictor.decoding(**settings)
    together = [best.text for best, *_ in predictor.answers(WORDS, spec)]
    for tokens in (1, 60, 100_000):
        small = predictor.decoding(**settings, batch_tokens=tokens)
        assert [best.text for best, *_ in predictor.answers(WORDS, small)] == together
    order = list(range(len(WORDS)))
    random.Random(1).shuffle(order)
    shuffled = predictor.answers([WORDS[index] for index in order], spec, numbers=order)
    assert [best.text for best, *_ in shuffled] == [together[index] for index in order]
    assert len(set(together)) > 60, "answers must differ, or the test shows nothing"


@search
def test_scores_are_those_of_teacher_forcing(predictor: TextWriter, settings: dict[str, object]) -> None:
    """L0.1: Σ log p(y_l | y_<l; x) found while writing is that of the finished text fed in, to 1e-5."""
    found = [best for best, *_ in predictor.answers(WORDS, predictor.decoding(**settings), scored=True)]
    finished = [(word, one) for word, one in zip(WORDS, found, strict=True) if one.finished]
    assert len(finished) > 100
    scores = predictor.score([word for word, _ in finished], [one.text for _, one in finished])
    for (_, one), score in zip(finished, scores, strict=True):
        assert one.log_probability == pytest.approx(score, abs=1e-5)
    swapped = predictor.score([word for word, _ in finished], [one.text for _, one in reversed(finished)])
    assert sum(abs(one.log_probability - score) < 1e-5 for (_, one), score in zip(finished, swapped, strict=True)) < 50


def test_a_beam_finds_what_is_more_probable(predictor: TextWriter) -> None:
    """Never worse than greedy here, for α = 0, and better somewhere; n-best sorted and distinct."""
    one = predictor.answers(WORDS, predictor.decoding(beam_size=1), scored=True)
    four = predictor.answers(WORDS, predictor.decoding(beam_size=4, length_penalty=0.0), n_best=4)
    gains = [best.log_probability - greedy.log_probability for (greedy,), (best, *_) in zip(one, four, strict=True)]
    assert sum(gain > 1e-3 for gain in gains) > sum(gain < -1e-3 for gain in gains)
    for answers in four:
        assert len({answer.text for answer in answers}) == len(answers)
        assert [answer.score for answer in answers] == sorted((answer.score for answer in answers), reverse=True)


def test_the_python_interface(run: Path, predictor: TextWriter) -> None:
    """What the guide shows: load, call, generate, stream."""
    model = clearhead.load(run)
    assert model("abc") == predictor.generate(["abc"])[0]
    assert model.generate(["abc", "gfe"], beam_size=2) == [model("abc", beam_size=2), model("gfe", beam_size=2)]
    pieces = list(model.stream("abcd"))
    assert "".join(pieces) == model("abcd", beam_size=1)
    assert len(pieces) > 2
    assert model("") == model.generate([""])[0]


def test_what_the_guide_shows_runs(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The Python of docs/guides/answers.md, on a run that is called as there."""
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "answers.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[0]
    assert "clearhead.load" in code
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "demo").symlink_to(run)
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UnknownCharacters, match="does not know AE$"):  # a phone, which this model does not write
        exec(compile(code, "answers.md", "exec"), {})


def test_prefixes_and_permitted_outputs(predictor: TextWriter) -> None:
    """Forced beginnings, and a trie of outputs, in text."""
    spec = predictor.decoding()
    for best, *_ in predictor.answers(WORDS[:20], spec, prefixes=["G A"] * 20):
        assert best.text.startswith("G A")
    permitted = ["A B", "C", "G F E D"]
    trie = Trie(predictor.target.encode(permitted), predictor.engine.eos)
    assert {best.text for best, *_ in predictor.answers(WORDS, spec, allowed=trie)} <= set(permitted)


def test_limits(predictor: TextWriter) -> None:
    """Lengths in tokens, absolute and by the source; a longer source is cut, and says so."""
    texts = ["abcdefg"] * 3
    assert all(len(text.split()) == 2 for text in predictor.generate(texts, max_length=2))
    assert all(len(text.split()) >= 16 for text in predictor.generate(texts, min_ratio=2.0))
    assert all(len(text.split()) >= 11 for text in predictor.generate(texts, min_length=11))
    (answers,) = predictor.answers(["abcdefg" * 30], predictor.decoding(max_source=7))
    assert answers[0].cut
    assert answers[0].text == predictor("abcdefg")


def test_what_cannot_be_is_refused(predictor: TextWriter) -> None:
    """One clear message each."""
    with pytest.raises(RecipeError, match=r"beam_sizes: no such setting; did you mean beam_size\?"):
        predictor.generate(["a"], beam_sizes=3)
    with pytest.raises(RecipeError, match="min_length"):
        predictor.generate(["a"], min_length=5, max_length=3)
    with pytest.raises(ClearheadError, match=r"5 answers need decoding\.beam_size ≥ 5"):
        predictor.answers(["a"], predictor.decoding(beam_size=4), n_best=5)
    with pytest.raises(DataError, match="surrogate"):
        predictor("\ud800")


def test_log_probabilities_are_only_computed_on_demand(predictor: TextWriter) -> None:
    (best,) = predictor.answers(["abc"], predictor.decoding(beam_size=1), scored=False)[0]
    assert math.isnan(best.log_probability)


def test_L0_3_a_softly_trained_model_answers_with_hard_attention(predictor: TextWriter) -> None:
    """L0.3 at decode time: every weight is 0 or 1, for the answer alone; afterwards attention is as it was trained."""
    cross = predictor.model.get_submodule("decoder.layers.0.cross")
    seen: list[Any] = []
    hook = cross.get_submodule("weights").register_forward_hook(lambda _m, _i, weights: seen.append(weights))
    try:
        hard = predictor.answers(WORDS, predictor.decoding(attention="hard", beam_size=1), scored=True)
        assert all(bool(((weights == 0) | (weights == 1)).all()) for weights in seen)
        seen.clear()
        soft = predictor.answers(WORDS, predictor.decoding(beam_size=1), scored=True)
        assert not all(bool(((weights == 0) | (weights == 1)).all()) for weights in seen)
    finally:
        hook.remove()
    assert [best.log_probability for best, *_ in hard] != [best.log_probability for best, *_ in soft]
    again = predictor.answers(WORDS, predictor.decoding(attention="soft", beam_size=1))
    assert [best.text for best, *_ in again] == [best.text for best, *_ in soft]


def test_it_says_what_it_is(predictor: TextWriter) -> None:
    line = repr(predictor)
    assert line.startswith(f"TextWriter(source: {len(predictor.source)} characters, target: {len(predictor.target)} ")
    assert line.endswith(f"parameters: {count_parameters(predictor.model):,})")
    root = check(predictor._repr_html_())
    assert texts(root, "h3") == ["TextWriter"]
    assert texts(root, "summary")[0].startswith("encoder")
