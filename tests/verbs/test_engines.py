"""Engines by name: ``load``, ``run``, ``eval`` and ``serve`` with them, and the comparison that sees other answers."""

import json
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import DataError
from clearhead.interop.engines.ctranslate2 import CTranslate2Search
from clearhead.models import save_model
from clearhead.serving.loading import loaded, on_engine_of
from clearhead.serving.server import checked_settings
from tests.cli.typed import typed
from tests.interop.test_engines import WORDS, saved_model


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model file, lines, and pairs to score it on."""
    folder = tmp_path_factory.mktemp("named-engines")
    save_model(saved_model(folder, "seq2seq"), folder / "m.safetensors")
    (folder / "lines.txt").write_text("".join(f"{word}\n" for word in WORDS))
    answers = clearhead.load(folder / "m.safetensors").generate(WORDS)
    (folder / "test.tsv").write_text(
        "".join(f"{word}\t{text or 'A'}\n" for word, text in zip(WORDS, answers, strict=True))
    )
    return folder


def test_run_answers_with_an_engine(place: Path) -> None:
    model, lines = str(place / "m.safetensors"), str(place / "lines.txt")
    native = typed("run", model, lines, "--threads", "1", "--scores")
    found = typed("run", model, lines, "--threads", "1", "--scores", "--engine", "ctranslate2")
    assert native.returncode == found.returncode == 0
    rows = [[row.split("\t") for row in text.stdout.splitlines()] for text in (native, found)]
    assert [text for text, _ in rows[1]] == [text for text, _ in rows[0]]
    assert [float(value) for _, value in rows[1]] == pytest.approx([float(value) for _, value in rows[0]], abs=1e-4)
    assert clearhead.load(model, engine="ctranslate2").generate(WORDS) == [text for text, _ in rows[0]]
    refused = typed("run", model, lines, "--engine", "ctranslate2", "decoding.sample=true")
    assert refused.returncode == 2
    assert "decoding.sample: CTranslate2 draws for a batch" in refused.stderr
    assert typed("run", model, lines, "--int8").returncode == 2


def test_a_file_of_answers_knows_its_engine(place: Path, tmp_path: Path) -> None:
    model, output = place / "m.safetensors", tmp_path / "answers.txt"
    clearhead.answer_file(model, place / "lines.txt", output, engine="ctranslate2")
    assert output.read_text().splitlines() == clearhead.load(model).generate(WORDS)


def test_eval_puts_the_native_scores_beside_and_counts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("eval", str(place / "m.safetensors"), str(place / "test.tsv"), "--engine", "ctranslate2")
    found = typed(*asked)
    assert found.returncode == 0, found.stderr
    assert f"ctranslate2: {len(WORDS)} of {len(WORDS)} answers are the native ones, 0 ties, 0 others" in found.stdout
    table = json.loads(typed(*asked, "--int8", "--json").stdout)
    assert table["engine"] == "ctranslate2 int8"
    assert list(table["beside"]) == ["ctranslate2", "native"]
    assert table["beside"]["ctranslate2"]["line_error"] == table["beside"]["native"]["line_error"]
    assert table["answers"]["same"]["ctranslate2"] == table["answers"]["lines"] == len(WORDS)
    # the wrong variant: an engine whose answers are others is seen, and they are no ties
    right = CTranslate2Search._numbered
    monkeypatch.setattr(CTranslate2Search, "_numbered", lambda self, names: [*right(self, names), 5])
    compared = clearhead.compare_engines(place / "m.safetensors", place / "test.tsv", engine="ctranslate2")
    assert compared.same["ctranslate2"] + compared.ties["ctranslate2"] < len(WORDS)
    assert compared.scores["ctranslate2"] != compared.scores["native"]
    with pytest.raises(DataError, match="read once for each engine"):
        clearhead.compare_engines(place / "m.safetensors", "-", engine="ctranslate2")


def test_a_worker_of_a_server_answers_with_an_engine(place: Path) -> None:
    path = place / "m.safetensors"
    found = loaded(path, str(path), foreign=False)
    served = on_engine_of(found, str(path), "ctranslate2", int8=False)
    assert served.fingerprint == found.fingerprint
    assert served.predictor.engine.name == "ctranslate2"  # type: ignore[attr-defined]
    assert served.predictor.generate(WORDS) == found.predictor.generate(WORDS)
    assert on_engine_of(found, str(path), "native", int8=False) is found
    with pytest.raises(clearhead.RecipeError, match="eight bits"):
        checked_settings({"int8": True})
