"""Engines of other libraries: the answers are the native ones, and conversions are of the model that is there."""

import json
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.decoding import Hypothesis
from clearhead.errors import ClearheadError, Interrupted, MissingExtra, RecipeError, UnsupportedModel
from clearhead.events import Event, ignore
from clearhead.interop import engines
from clearhead.interop.engines import on_engine, require_engine
from clearhead.interop.exporting import ctranslate2 as exporting
from clearhead.interop.exporting import make_sample, onnx_answer
from clearhead.interop.exporting.onnx import OnnxEngine
from clearhead.interop.exporting.verifying import compare
from clearhead.models import SavedModel, build, save_model
from clearhead.predictor import Engine, TextWriter, ready
from clearhead.recipe import DecodingSpec, read_recipe
from clearhead.training import prepare
from clearhead.verbs import answer_file
from tests.training.toy import write_pairs

SMALL = [
    "model.layers=1",
    "model.width=16",
    "model.heads=2",
    "model.feedforward.width=12",
    "model.embedding.output_bias=true",
]
WORDS = ["abc", "bca", "a", "cab", "acbacbacb", "bbb", "cc", "abcabc"]


def saved_model(folder: Path, family: str, *overrides: str) -> SavedModel:
    """A random model that spells letters; its answers differ, and end now and then."""
    data = write_pairs(folder / "pairs.tsv", 60)
    if family == "lm":
        lines = data.read_text(encoding="utf-8").splitlines()
        data.write_text("".join(line.replace("\t", " ") + "\n" for line in lines), encoding="utf-8")
    prepared = prepare(
        read_recipe(None, f'data.train="{data}"', f"model.family={family}", *SMALL, *overrides), folder / "run"
    )
    model: Any = build(prepared.recipe, seed=5).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(2.0)
        assert model.output.bias is not None
        model.output.bias.normal_(0, 0.5, generator=torch.Generator().manual_seed(1))
        model.output.bias[[0, 1, 3]] = -30.0  # trained models do not write them either
    return SavedModel(model, prepared.recipe, prepared.tokenizers)


@pytest.fixture(scope="module")
def seq2seq(tmp_path_factory: pytest.TempPathFactory) -> tuple[SavedModel, Path]:
    """An encoder-decoder and its file."""
    folder = tmp_path_factory.mktemp("engines")
    saved = saved_model(folder, "seq2seq")
    save_model(saved, folder / "mine.safetensors")
    return saved, folder / "mine.safetensors"


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[SavedModel, Path]:
    """A language model and the name of a file that it would have."""
    folder = tmp_path_factory.mktemp("engines-lm")
    return saved_model(folder, "lm"), folder / "lm.safetensors"


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> tuple[SavedModel, Path]:
    """An encoder-decoder with T5's positions and the name of a file that it would have."""
    folder = tmp_path_factory.mktemp("engines-t5")
    return saved_model(
        folder, "seq2seq", "model.position.kind=t5", "model.cross.position.kind=rope"
    ), folder / "t5.safetensors"


@pytest.fixture(scope="module")
def shaw(tmp_path_factory: pytest.TempPathFactory) -> tuple[SavedModel, Path]:
    """A language model with Shaw's positions."""
    folder = tmp_path_factory.mktemp("engines-shaw")
    return saved_model(folder, "lm", "model.position.kind=shaw"), folder / "shaw.safetensors"


def converted(found: tuple[SavedModel, Path]) -> Path:
    """The folder of ONNX graphs beside a model."""
    writer(found, "onnxruntime")
    (folder,) = found[1].parent.glob(f"{found[1].name}.onnx*")
    return folder


def writer(found: tuple[SavedModel, Path], engine: str, **settings: Any) -> TextWriter:
    saved, path = found
    predictor = on_engine(ready(saved, path), saved, engine, ignore, beside=path, **settings)
    assert isinstance(predictor, TextWriter)
    return predictor


def close(found: list[list[Hypothesis]], wanted: list[list[Hypothesis]]) -> bool:
    """Whether all lists have the same answers with the same numbers."""
    return all(
        [(one.tokens, one.finished) for one in mine] == [(one.tokens, one.finished) for one in other]
        and all(
            abs(a.log_probability - b.log_probability) < 1e-4 and abs(a.score - b.score) < 1e-4
            for a, b in zip(mine, other, strict=True)
        )
        for mine, other in zip(found, wanted, strict=True)
    )


SETTINGS: list[dict[str, Any]] = [
    {"beam_size": 1},
    {"beam_size": 1, "max_length": 4},
    {"beam_size": 1, "max_ratio": 1.0, "max_extra": 1, "min_length": 3},
    {"beam_size": 4},
    {"beam_size": 3, "length_penalty": 0.0, "max_extra": 2},
]


@pytest.mark.parametrize(
    ("engine", "which"),
    [("ctranslate2", "seq2seq"), ("ctranslate2", "language_model"), ("onnxruntime", "t5"), ("onnxruntime", "shaw")],
)
def test_answers_are_the_native_ones(engine: str, which: str, request: pytest.FixtureRequest) -> None:
    """Greedy and with beams, with their numbers, in batches of any size; all ranks where the search is our own.

    CTranslate2 stops by another rule, which this random model, unlike a trained one, shows in the lower ranks.
    """
    model = writer(request.getfixturevalue(which), engine)
    native = Engine(model.model)
    lines = model._encode(WORDS, model.recipe.decoding)[0]
    for settings in SETTINGS:
        spec = DecodingSpec(**settings)
        ranks = 1 if engine == "ctranslate2" else spec.beam_size

        def search(by: Engine, asked: list[list[int]], spec: DecodingSpec = spec, ranks: int = ranks) -> Any:
            return [found[:ranks] for found in by.search(asked, spec, scored=True)]

        wanted = search(native, lines)
        assert len({tuple(best.tokens) for best, *_ in wanted}) > 1
        assert close(search(model.engine, lines), wanted), settings
        alone = [search(model.engine, [line])[0] for line in lines[:2]]
        assert close(alone, wanted[:2]), settings


@pytest.mark.parametrize("which", ["t5", "shaw"])
def test_graphs_for_onnxruntime_compute_what_the_model_computes(which: str, request: pytest.FixtureRequest) -> None:
    found = request.getfixturevalue(which)
    sample = make_sample(found[0])
    agreement = compare(sample, OnnxEngine(converted(found), sample.model))
    assert agreement.holds(1e-5)
    assert agreement.answers == 24


def test_an_encoder_decoder_answers_without_clearhead(t5: tuple[SavedModel, Path]) -> None:
    """answer.py imports numpy, onnxruntime and tokenizers alone, and gives the model's own greedy answers."""
    folder, texts = converted(t5), ["abc", "gfa", "bade"]
    assert {"encoder.onnx", "decoder.onnx", "answer.py", "model.json"} <= {file.name for file in folder.iterdir()}
    about = json.loads((folder / "model.json").read_text())
    assert about["graphs"]["decoder"]["inputs"]["past_0_key"] == ["lines", None, "past", None]
    program = "import sys; sys.modules['clearhead'] = None; sys.modules['torch'] = None; import runpy; "
    program += (
        f"sys.argv = ['answer.py', *{texts!r}]; runpy.run_path({str(folder / 'answer.py')!r}, run_name='__main__')"
    )
    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == ready(*t5).generate(texts, beam_size=1, max_length=256)


@pytest.mark.parametrize("which", ["t5", "shaw"])
def test_answer_py_begins_as_every_answer_must(
    which: str, request: pytest.FixtureRequest, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A prefix, such as the language of M2M100; without a tokenizer.json it says what it needs."""
    found = request.getfixturevalue(which)
    folder = shutil.copytree(converted(found), tmp_path / "folder")
    about = json.loads((folder / "model.json").read_text())
    assert (about["prefix"], about["names_are_text"]) == ([], True)
    texts, model = ["abc", "gfa"], ready(*found)
    free = model.generate(texts, beam_size=1, max_length=20)
    prefix = model.target.encode(["g f"])[0][:2]
    (folder / "model.json").write_text(json.dumps(about | {"prefix": prefix, "longest": 20}))
    onnx_answer.main(folder, texts)
    printed = capsys.readouterr().out.splitlines()
    assert printed == model.generate(texts, beam_size=1, max_length=20, prefix=prefix) != free
    (folder / "model.json").write_text(json.dumps(about | {"tokenizers": []}))
    with pytest.raises(SystemExit, match=r"there is no tokenizer\.json here"):
        onnx_answer.main(folder, texts)


def test_onnxruntime_does_what_the_native_search_does(t5: tuple[SavedModel, Path]) -> None:
    """Sampling, prefixes, permitted answers and streams, as the search is the same."""
    model = writer(t5, "onnxruntime")
    native = model.on_engine(Engine(model.model))
    for asked in (
        {"sample": True, "seed": 3},
        {"min_length": 4, "beam_size": 4},
        {"banned": [5], "beam_size": 2},
        {"no_repeat_ngram_size": 2},
    ):
        assert model.generate(WORDS, **asked) == native.generate(WORDS, **asked)
    prefixes = ["B"] * len(WORDS)
    forced = [[best.text for best, *_ in one.answers(WORDS, prefixes=prefixes)] for one in (model, native)]
    assert forced[0] == forced[1]
    assert all(text.startswith("B") for text in forced[0])
    assert list(model.stream("abc", beam_size=1)) == list(native.stream("abc", beam_size=1))


def test_what_ctranslate2_cannot_do_is_refused(seq2seq: tuple[SavedModel, Path]) -> None:
    model = writer(seq2seq, "ctranslate2")
    for settings, reason in (
        ({"sample": True}, r"decoding.sample: CTranslate2 draws for a batch"),
        ({"attention": "hard"}, r"decoding.attention: the model was converted"),
        ({"beam_size": 2, "min_length": 3}, r"decoding.min_length: CTranslate2's beams"),
        ({"beam_size": 50}, r"decoding.beam_size: CTranslate2 needs more than"),
        ({"no_repeat_ngram_size": 2}, r"decoding.no_repeat_ngram_size: CTranslate2 counts repetitions"),
        ({"repetition_penalty": 1.1}, r"decoding.repetition_penalty: CTranslate2 counts repetitions"),
    ):
        with pytest.raises(RecipeError, match=reason):
            model.generate(["abc"], **settings)
    with pytest.raises(ClearheadError, match=r"no prefixes \(such as an answer's language\) as clearhead has them"):
        model.answers(["abc"], prefixes=["B"])
    with pytest.raises(ClearheadError, match="whole answers"):
        list(model.stream("abc"))
    assert not model.in_pieces("abc", model.recipe.decoding)
    assert model.look("abc").answer == model.on_engine(Engine(model.model)).look("abc").answer


def test_a_conversion_is_made_once_and_again_when_the_model_changes(
    seq2seq: tuple[SavedModel, Path], tmp_path: Path
) -> None:
    saved, _ = seq2seq
    path = tmp_path / "m.safetensors"
    heard: list[Event] = []
    save_model(saved, path)

    def answers(model: SavedModel) -> list[str]:
        predictor = on_engine(ready(model, path), model, "ctranslate2", heard.append, beside=path)
        return predictor.generate(WORDS, beam_size=1)

    def folders() -> list[str]:
        return sorted(place.name for place in tmp_path.iterdir() if place.is_dir())

    first = answers(saved)
    (name,) = folders()
    assert name.startswith("m.safetensors.ctranslate2-")
    assert [event.text.split()[0] for event in heard] == ["converting", "converted"]
    assert answers(saved) == first
    assert len(heard) == 2, "it was converted a second time"
    changed = build(saved.recipe, seed=6).eval()
    other = SavedModel(changed, saved.recipe, saved.tokenizers)
    wanted = ready(other, path).generate(WORDS, beam_size=1)
    assert wanted != first, "both models answer the same: nothing would be noticed"
    assert answers(other) == wanted
    assert len(heard) == 4
    assert folders() != [name], "the conversion of the earlier model is still there"
    assert len(folders()) == 1


def test_a_conversion_that_was_altered_is_made_again(seq2seq: tuple[SavedModel, Path], tmp_path: Path) -> None:
    saved, _ = seq2seq
    path = tmp_path / "m.safetensors"
    wanted = ready(saved, path).generate(WORDS)

    def answers() -> list[str]:
        return on_engine(ready(saved, path), saved, "ctranslate2", ignore, beside=path).generate(WORDS)

    assert answers() == wanted
    (folder,) = tmp_path.iterdir()
    file = folder / "model.bin"
    content = bytearray(file.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 400] = bytes(400)
    file.write_bytes(content)
    assert answers() == wanted
    assert file.read_bytes() != bytes(content)
    about = json.loads((folder / "engine.json").read_text())
    (folder / "engine.json").write_text(json.dumps(about | {"format": 0}))
    assert answers() == wanted
    assert json.loads((folder / "engine.json").read_text()) == about


def test_a_conversion_that_computes_something_else_never_gets_its_name(
    seq2seq: tuple[SavedModel, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, _ = seq2seq
    right = exporting._positions
    monkeypatch.setattr(exporting, "_positions", lambda stack: right(stack)[1:])
    with pytest.raises(ClearheadError, match="computes something else"):
        on_engine(ready(saved, tmp_path), saved, "ctranslate2", ignore, beside=tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_written_the_cache_holds_it(
    seq2seq: tuple[SavedModel, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved, path = seq2seq
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    predictor = on_engine(ready(saved, path), saved, "ctranslate2", ignore)
    assert isinstance(predictor, TextWriter)
    assert isinstance(predictor.engine, engines.ForeignEngine)
    assert predictor.engine.folder.parent == tmp_path / "clearhead" / "engines"


def test_eight_bits_are_another_conversion(seq2seq: tuple[SavedModel, Path]) -> None:
    saved, path = seq2seq
    told: list[Event] = []
    model = on_engine(ready(saved, path), saved, "ctranslate2", told.append, beside=path, int8=True)
    assert re.search(r"compared: .* 24 of 24 .*; in eight bits: max \|Δ\| of log p \d.*\d of 24 greedy", told[-1].text)
    assert len(model.generate(WORDS)) == len(WORDS)
    assert [place.name for place in path.parent.iterdir() if ".ctranslate2-int8-" in place.name]


def test_a_predictor_keeps_its_engine_when_it_is_pickled(seq2seq: tuple[SavedModel, Path]) -> None:
    model = writer(seq2seq, "ctranslate2")
    again = pickle.loads(pickle.dumps(model))
    assert again.engine.name == "ctranslate2"
    assert again.generate(WORDS) == model.generate(WORDS)
    assert writer(seq2seq, "native").engine.name == "native"


def test_what_there_is_not_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RecipeError, match="did you mean ctranslate2"):
        require_engine("ctranslate")
    with pytest.raises(RecipeError, match="eight bits"):
        require_engine("onnxruntime", int8=True)
    saved = saved_model(tmp_path, "seq2seq", "model.position.kind=shaw")
    with pytest.raises(UnsupportedModel, match=r"--engine ctranslate2: .*position.kind is shaw; --engine native can"):
        on_engine(ready(saved, tmp_path), saved, "ctranslate2", ignore, beside=tmp_path / "m.safetensors")

    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(engines, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"the engine ctranslate2 needs the package ctranslate2: pip install"):
        require_engine("ctranslate2")
    with pytest.raises(MissingExtra, match="onnxruntime"):
        require_engine("onnxruntime")


def test_a_conversion_beside_a_model_that_is_only_read_is_found(
    seq2seq: tuple[SavedModel, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = writer(seq2seq, "ctranslate2").engine
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("clearhead.interop.engines.kept.os.access", lambda *_: False)
    assert writer(seq2seq, "ctranslate2").engine.where == made.where
    assert not list(tmp_path.iterdir())


def test_an_empty_text_is_answered_as_natively(seq2seq: tuple[SavedModel, Path]) -> None:
    """A source of the end alone is empty for CTranslate2, which would answer nothing."""
    model, native = writer(seq2seq, "ctranslate2"), ready(*seq2seq)
    assert isinstance(native, TextWriter)
    wanted = [answers[0].text for answers in native.answers(["", "abc"])]
    assert [answers[0].text for answers in model.answers(["", "abc"])] == wanted
    assert wanted[0]


def test_a_conversion_that_was_removed_is_named(seq2seq: tuple[SavedModel, Path], tmp_path: Path) -> None:
    saved, path = seq2seq
    save_model(saved, tmp_path / path.name)
    model = writer((saved, tmp_path / path.name), "ctranslate2")
    for folder in tmp_path.glob("*.ctranslate2-*"):
        shutil.rmtree(folder)
    with pytest.raises(ClearheadError, match="the conversion was removed; load the model again"):
        model("abc")


def test_answers_by_another_engine_do_not_continue_a_file(seq2seq: tuple[SavedModel, Path], tmp_path: Path) -> None:
    """The engine that answers counts, not the one that is asked for in the call."""
    (tmp_path / "words").write_text("".join(f"{word}\n" for word in WORDS * 100), encoding="utf-8")
    native, other = ready(*seq2seq), writer(seq2seq, "ctranslate2")

    def stop(event: Event) -> None:
        if event.kind == "lines":
            raise KeyboardInterrupt

    with pytest.raises(Interrupted):
        answer_file(native, tmp_path / "words", tmp_path / "out", report=stop)
    with pytest.raises(ClearheadError, match="--engine"):
        answer_file(other, tmp_path / "words", tmp_path / "out", resume=True)
