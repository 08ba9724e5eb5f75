"""``clearhead.export_model`` and ``clearhead export``: a folder whole or not at all, and what is said about it."""

import json
from pathlib import Path

import pytest

import clearhead
from clearhead.errors import ClearheadError, DataError, MissingExtra, RecipeError
from clearhead.files import whole_folder
from clearhead.interop import targets
from clearhead.models import SavedModel, build, save_model
from clearhead.recipe import read_recipe
from clearhead.training import prepare
from tests.cli.typed import typed
from tests.training.toy import write_pairs

SMALL = ["model.layers=1", "model.width=8", "model.heads=2", "model.feedforward.width=12"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder with its best model, and the data that it was made from."""
    folder = tmp_path_factory.mktemp("exporting")
    data = write_pairs(folder / "pairs.tsv", 60)
    run = folder / "run"
    ready = prepare(read_recipe(None, f'data.train="{data}"', *SMALL), run)
    run.mkdir(exist_ok=True)
    (run / "recipe.toml").write_text(clearhead.recipe_toml(ready.recipe), encoding="utf-8")
    save_model(SavedModel(build(ready.recipe, seed=5).eval(), ready.recipe, ready.tokenizers), run / "best.safetensors")
    return folder


def test_a_run_is_exported_and_compared_on_its_dev_data(place: Path, tmp_path: Path) -> None:
    exported = clearhead.export_model(place / "run", "ctranslate2", tmp_path / "out")
    assert exported.inputs == "the run's dev data"
    assert exported.agreement.answers == exported.agreement.same + exported.agreement.ties == exported.lines > 0
    assert exported.files.keys() >= {"model.bin", "config.json", "tokenizer_source.json", "tokenizer_target.json"}
    assert exported.files == {
        str(file.relative_to(tmp_path / "out")): file.stat().st_size
        for file in (tmp_path / "out").rglob("*")
        if file.name != "export.json"
    }
    assert json.loads((tmp_path / "out" / "export.json").read_text())["agreement"]["identical"] == exported.lines
    assert "max |Δ| of log p" in str(exported)
    assert repr(exported).startswith("Exported(ctranslate2, ")
    assert "model.bin" in exported._repr_html_()


def test_the_command(place: Path, tmp_path: Path) -> None:
    model, out = str(place / "run" / "best.safetensors"), str(tmp_path / "out")
    (tmp_path / "lines.txt").write_text("abc\nfade\n\n")
    done = typed("export", model, "--to", "ctranslate2", "-o", out, "--lines", str(tmp_path / "lines.txt"), "--int8")
    assert done.returncode == 0, done.stderr
    assert "compared on 2 lines (lines.txt)" in done.stdout
    assert "in eight bits: " in done.stdout
    again = typed("export", model, "--to", "ctranslate2", "-o", out)
    assert (again.returncode, "exists already; add --force" in again.stderr) == (1, True)
    wrong = typed("export", model, "--to", "onyx", "-o", str(tmp_path / "other"))
    assert (wrong.returncode, "did you mean onnx?" in wrong.stderr) == (2, True)
    refused = typed("export", model, "--to", "huggingface", "-o", str(tmp_path / "other"))
    assert refused.returncode == 2
    assert "the nearest, pegasus, differs: model.embedding.tie is output" in refused.stderr
    assert not (tmp_path / "other").exists()


def test_an_earlier_export_is_replaced_on_request(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "export.json").write_text("{}")
    (out / "old").write_text("")
    done = typed(
        "export", str(place / "run" / "best.safetensors"), "--to", "ctranslate2", "-o", str(out), "--force", "--json"
    )
    assert json.loads(done.stdout)["inputs"] == "made from the vocabulary"
    assert not (out / "old").exists()


def test_what_is_refused_before_anything_is_loaded(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = place / "run" / "best.safetensors"
    with pytest.raises(RecipeError, match="only an export to ctranslate2"):
        clearhead.export_model(model, "onnx", tmp_path / "out", int8=True)
    with pytest.raises(ClearheadError, match="does not exist"):
        clearhead.export_model(model, "onnx", tmp_path / "no" / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years of work")
    with pytest.raises(ClearheadError, match="is not an export"):
        clearhead.export_model(model, "onnx", tmp_path / "mine", force=True)
    (tmp_path / "file").write_text("")
    with pytest.raises(ClearheadError, match="is a file"):
        clearhead.export_model(model, "onnx", tmp_path / "file")
    with pytest.raises(DataError, match="has no lines"):
        clearhead.export_model(model, "ctranslate2", tmp_path / "out", lines=tmp_path / "file")

    def absent(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(targets, "import_module", absent)
    with pytest.raises(MissingExtra, match=r'needs the package onnx: pip install "clearhead\[export\]"'):
        clearhead.export_model(model, "onnx", tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "mine"]


def test_a_folder_appears_whole(tmp_path: Path) -> None:
    """A failure leaves the old folder as it was, and nothing beside it."""
    path = tmp_path / "out"
    with whole_folder(path) as folder:
        (folder / "a").write_text("1")
        assert not path.exists()
    with pytest.raises(FileNotFoundError), whole_folder(path) as folder:
        (folder / "b" / "no such folder").write_text("2")
    assert [file.name for file in path.iterdir()] == ["a"]
    with whole_folder(path) as folder:
        (folder / "c").write_text("3")
    assert [file.name for file in path.iterdir()] == ["c"]
    assert [one.name for one in tmp_path.iterdir()] == ["out"]
