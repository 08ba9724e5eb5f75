"""One rule for what a word names; recipes out of model files and runs, for other data and other budgets."""

import json
import os
import struct
from pathlib import Path

import pytest

from clearhead.errors import (
    ClearheadError,
    DamagedFile,
    DataError,
    ForeignFile,
    ModelFileError,
    NewerFile,
    RecipeError,
    TruncatedFile,
)
from clearhead.recipe import (
    ClassifierSpec,
    named,
    read_recipe,
    recipe_table,
    recipe_toml,
    require_data,
    require_utf8,
    weights_of,
)

LABELLED = ["model.family=classifier", 'model.labels=["a", "b", "c"]', "model.classes=3", "model.vocabulary.source=77"]


def model_file(path: Path, *overrides: str, **metadata: str) -> Path:
    """A model file as far as its header; weights are nobody's business here."""
    recipe = json.dumps(recipe_table(read_recipe(None, *overrides)))
    header = json.dumps({"__metadata__": {"format": "clearhead", "format_version": "1", "recipe": recipe} | metadata})
    path.write_bytes(struct.pack("<Q", len(header)) + header.encode())
    return path


def run_folder(path: Path, *overrides: str) -> Path:
    path.mkdir()
    (path / "recipe.toml").write_text(recipe_toml(read_recipe(None, *overrides)))
    return path


def test_the_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path / "run")
    for folder in ("hub", "empty"):
        (tmp_path / folder).mkdir()
    (tmp_path / "hub" / "config.json").write_text("{}")
    model_file(tmp_path / "m.safetensors")
    model_file(tmp_path / "unnamed")
    for name in ("pairs.tsv", "a.toml", "tiny", "g2p-en"):
        (tmp_path / name).write_text("")
    os.mkfifo(tmp_path / "pipe")
    expected = {
        "-": "stdin",
        "gpt2": "preset",
        "digits": "task",
        "a.toml": "recipe",
        "m.safetensors": "model",
        "unnamed": "model",
        "run": "run",
        "hub": "huggingface",
        "empty": "folder",
        "pairs.tsv": "data",
        "pipe": "data",
        "nowhere": "missing",
        "nowhere.toml": "missing",
        "x" * 5000: "missing",
        "\0": "missing",
        # a name of ours comes first: the file of that name is ./tiny
        "tiny": "preset",
        "./tiny": "data",
        "g2p-en": "task",
        "./g2p-en": "data",
    }
    assert {word: named(word) for word in expected} == expected


def test_a_preset_wins_over_a_file_of_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").write_text("[model]\nlayers = 9\n")
    assert read_recipe("tiny").model == read_recipe("tiny", "model.layers=4").model
    assert read_recipe("./tiny").model != read_recipe("tiny").model


@pytest.mark.parametrize(
    ("word", "error", "message"),
    [
        ("tiny", RecipeError, "is a preset and has no weights: train it first: clearhead train DATA tiny -o RUN"),
        ("digits", RecipeError, "is a task and has no weights: train it first: clearhead train digits -o RUN"),
        ("a.toml", RecipeError, "is a recipe and has no weights"),
        ("run", ModelFileError, r"has no best\.safetensors yet"),
        ("empty", ModelFileError, "a run has recipe.toml inside, a Hugging Face folder config.json"),
        ("pairs.tsv", ForeignFile, "is data, not a clearhead model"),
        ("-", ForeignFile, "is data, not a clearhead model"),
        ("nowhere", ModelFileError, "cannot be read: no such model file, run or folder"),
    ],
)
def test_what_has_no_weights(
    word: str, error: type[ClearheadError], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run_folder(tmp_path / "run")
    (tmp_path / "empty").mkdir()
    for name in ("a.toml", "pairs.tsv"):
        (tmp_path / name).write_text("")
    with pytest.raises(error, match=message):
        weights_of(word)


def test_where_weights_are(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    best = model_file(run / "best.safetensors")
    assert weights_of(str(run)) == weights_of(str(run / "recipe.toml")) == weights_of(best) == (best, False)
    (tmp_path / "hub").mkdir()
    (tmp_path / "hub" / "config.json").write_text("{}")
    assert weights_of(tmp_path / "hub") == (tmp_path / "hub", True)


def test_what_is_no_data(tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run")
    for word, message in (
        (model_file(tmp_path / "m.safetensors"), "is a model file, not"),
        (run, "is a run, not"),
        (tmp_path, "is a folder, not"),
        (tmp_path / "nowhere", "no such file"),
    ):
        with pytest.raises(DataError, match=message):
            require_data(word)
    with pytest.raises(DataError, match=r"bad\\udcff.tsv: the name of the file is not UTF-8"):
        require_utf8("bad\udcff.tsv")


def test_a_model_file_and_a_run_give_their_recipe(tmp_path: Path) -> None:
    settings = [*LABELLED, "training.steps=40"]
    file, run = model_file(tmp_path / "m.safetensors", *settings), run_folder(tmp_path / "run", *settings)
    assert read_recipe(file) == read_recipe(str(run)) == read_recipe(None, *settings)


def test_other_data_and_another_budget(tmp_path: Path) -> None:
    """What a run's data decided is left out; what its owner asked for stays."""
    resolved = [*LABELLED, "training.steps=40", "training.evaluate_every=10", "training.seed=7", "model.layers=2"]
    run = str(run_folder(tmp_path / "run", *resolved, "data.train=old.tsv", "data.dev=dev.tsv", "data.more=m.tsv"))
    recipe = read_recipe(run, "data.train=new.tsv", "training.minutes=5", anew=True)
    assert isinstance(recipe.model, ClassifierSpec)
    assert (recipe.model.labels, recipe.model.classes) == ([], 2)
    assert recipe.model.vocabulary == read_recipe().model.vocabulary
    assert (recipe.data.train, recipe.data.dev, recipe.data.more) == ("new.tsv", None, None)
    assert (recipe.training.steps, recipe.training.minutes, recipe.training.evaluate_every) == (None, 5, None)
    assert recipe.training.seed == 7
    same = read_recipe(run, anew=True)
    assert same.data.more == "m.tsv"
    assert (same.data.dev, same.training.steps, same.training.evaluate_every) == ("dev.tsv", 40, 10)
    pairs = str(run_folder(tmp_path / "pairs", "model.embedding.tie=all", "model.width=32", "model.heads=2"))
    assert read_recipe(pairs, "data.train=new.tsv", anew=True).model.embedding.tie == "auto"


def test_a_typed_budget_replaces_the_one_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("[training]\nsteps = 100\n")
    assert read_recipe(file, "training.minutes=5").training.steps is None
    assert read_recipe(file, "training.seed=5").training.steps == 100
    with pytest.raises(RecipeError, match="one budget is enough"):
        read_recipe(file, "training.minutes=5", "training.epochs=1")


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", TruncatedFile),
        (b"x" * 100, ForeignFile),
        (struct.pack("<Q", 1000) + b"{", TruncatedFile),
        (struct.pack("<Q", 12) + b"{broken json", DamagedFile),
        (struct.pack("<Q", 2) + b"{}", ForeignFile),
        (struct.pack("<Q", 19) + b'{"__metadata__": 5}', ForeignFile),
    ],
)
def test_files_that_only_look_like_models(content: bytes, error: type[ClearheadError], tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    file.write_bytes(content)
    with pytest.raises(error):
        read_recipe(file)


def test_recipes_in_model_files_that_lie(tmp_path: Path) -> None:
    file = tmp_path / "m.safetensors"
    for recipe in ("5", "null", "{", "[" * 100_000):
        with pytest.raises(DamagedFile, match="has no readable recipe"):
            read_recipe(model_file(file, recipe=recipe))
    with pytest.raises(NewerFile):
        read_recipe(model_file(file, format_version="99"))
    with pytest.raises(RecipeError, match="no such setting"):
        read_recipe(model_file(file, recipe='{"model": {"lairs": 3}}'))


def test_a_model_of_the_package_without_a_task_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It answers, says its recipe and is no file; a file of that name is ./g2p-en-stress."""
    assert named("g2p-en-stress") == "shipped"
    assert named("g2p-en") == "task"
    path, foreign = weights_of("g2p-en-stress")
    assert (path.name, foreign) == ("g2p-en-stress.safetensors", False)
    assert read_recipe("g2p-en-stress").data.stress
    monkeypatch.chdir(tmp_path)
    (tmp_path / "g2p-en-stress").write_text("a\tb\n", encoding="utf-8")
    assert (named("g2p-en-stress"), named("./g2p-en-stress")) == ("shipped", "data")
