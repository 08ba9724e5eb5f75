"""``clearhead prune`` and ``clearhead.study_heads``: from a model file to a smaller one, a model like any other."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError, RecipeError
from clearhead.inspection import heads_off
from clearhead.models import SavedModel, build, save_model
from clearhead.recipe import read_recipe
from clearhead.training import prepare
from clearhead.verbs.session import make_trainer
from tests.cli.typed import typed
from tests.training.toy import write_pairs

SMALL = ["model.layers=2", "model.width=16", "model.heads=4", "model.feedforward.width=20", "training.steps=2"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``model.safetensors`` and ``dev.tsv``."""
    folder = tmp_path_factory.mktemp("pruning")
    data = write_pairs(folder / "pairs.tsv", 60)
    ready = prepare(read_recipe(None, f'data.train="{data}"', *SMALL), folder / "run")
    model, generator = build(ready.recipe, seed=5), torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3, generator=generator)
    save_model(SavedModel(model, ready.recipe, ready.tokenizers), folder / "model.safetensors")
    (folder / "dev.tsv").write_text("".join(data.read_text().splitlines(keepends=True)[:12]))
    return folder


def test_the_least_important_heads_are_removed(place: Path, tmp_path: Path) -> None:
    """The written file answers as the whole model does with these heads off, and costs what the formula says."""
    events: list[clearhead.Event] = []
    model, data, output = place / "model.safetensors", place / "dev.tsv", tmp_path / "smaller.safetensors"
    pruned = clearhead.prune(model, data, output, heads=5, report=events.append)
    assert pruned.study is not None
    assert pruned.removed == tuple(head.name for head in pruned.study.least(5))
    assert (pruned.before.heads, pruned.after.heads) == (24, 19)
    smaller, whole = clearhead.load(output), clearhead.load(model)
    assert clearhead.cost(output).parameters.at() == pruned.after.parameters < pruned.before.parameters
    assert clearhead.cost(output).macs.at(B=1, **pruned.lengths) == pruned.after.macs < pruned.before.macs
    words = ["abc", "gfa", "bade"]
    with heads_off(whole.model, pruned.removed):
        assert smaller.generate(words) == whole.generate(words)
        expected = whole.score(words, ["C B A", "A F G", "E D A B"])
    assert smaller.score(words, ["C B A", "A F G", "E D A B"]) == pytest.approx(expected, abs=1e-4)
    scores = clearhead.evaluate(output, data)
    assert scores["line_error"].value == pruned.after.scores["line_error"].value
    assert events[0].kind == "start"
    assert {"lines", "end"} <= {event.kind for event in events}
    again = clearhead.prune(output, data, heads=["encoder.1.1"])
    assert again.after.heads == 18


def test_the_command_prints_before_and_after(place: Path, tmp_path: Path) -> None:
    model, data, output = str(place / "model.safetensors"), str(place / "dev.tsv"), str(tmp_path / "a.safetensors")
    words = ["prune", model, data, "--heads", "cross.2.4,encoder.1.3", "-o", output]
    found = typed(*words)
    assert found.returncode == 0, found.stderr
    lines = found.stdout.splitlines()
    assert lines[0].split() == ["before", "after"]
    assert lines[1].split() == ["heads", "24", "22"]
    assert lines[-2:] == ["removed: cross.2.4, encoder.1.3", f"{output}: written"]
    assert typed(*words).returncode == 1  # exists already
    table = json.loads(typed(*words, "--force", "--json").stdout)
    assert table["removed"] == ["cross.2.4", "encoder.1.3"]
    assert table["after"]["parameters"] < table["before"]["parameters"]


@pytest.mark.parametrize(
    ("heads", "code", "words"),
    [
        ("19", 3, "at most 18"),
        ("cross.9.1", 2, "no such head: a head is STACK.LAYER.HEAD, here encoder.1.1 … encoder.2.4"),
        ("0", 2, "give a number above 0, or names"),
        ("-3", 2, "give a number above 0, or names"),
        ("cross.2.1,cross.2.2,cross.2.3,cross.2.4", 2, "cross.2: would keep no head"),
    ],
)
def test_what_cannot_be_removed_is_refused(place: Path, tmp_path: Path, heads: str, code: int, words: str) -> None:
    output = tmp_path / "no.safetensors"
    found = typed(
        "prune", str(place / "model.safetensors"), str(place / "dev.tsv"), f"--heads={heads}", "-o", str(output)
    )
    assert found.returncode == code, found.stderr
    assert words in found.stderr
    assert not output.exists()


def test_wrong_arguments(place: Path, tmp_path: Path) -> None:
    model, data = place / "model.safetensors", place / "dev.tsv"
    with pytest.raises(TypeError, match="heads is a number, 8, or a list of names"):
        clearhead.prune(model, data, heads="cross.2.1")
    with pytest.raises(ClearheadError, match=r"a model file is called something\.safetensors"):
        clearhead.prune(model, data, tmp_path / "smaller", heads=2)
    with pytest.raises(RecipeError, match="no such metric; did you mean line_error"):
        clearhead.study_heads(model, data, metric="line_eror")


def test_a_study_by_name(place: Path, tmp_path: Path) -> None:
    """By file names, with a journal; as text, JSON and HTML."""
    journal = tmp_path / "journal.npz"
    arguments: dict[str, Any] = {"resume": journal, "bootstrap": 20}
    study = clearhead.study_heads(place / "model.safetensors", place / "dev.tsv", **arguments)
    assert journal.exists()
    assert (
        clearhead.study_heads(place / "model.safetensors", place / "dev.tsv", **arguments).as_dict() == study.as_dict()
    )
    assert len(study) == 24
    assert str(study).splitlines()[0].startswith("24 heads on 12 lines: loss ")
    assert study.ranked()[0].name in study._repr_html_()
    study.save(tmp_path / "study.json")
    table = json.loads((tmp_path / "study.json").read_text())
    assert table["heads"][0].keys() >= {"name", "stack", "layer", "head", "role", "score", "importance", "low", "high"}
    assert set(table["overlap"]) == {"encoder", "decoder", "cross"}


def test_a_recipe_whose_layers_differ_trains(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.tsv", 60)
    kept = ["model.encoder.attention.kept=[[1, 3], [2]]", "model.cross.attention.kept=[[1], [1, 2, 4]]"]
    make_trainer(prepare(read_recipe(None, f'data.train="{data}"', *SMALL, *kept), tmp_path / "run")).run()
    model = clearhead.load(tmp_path / "run")
    assert len(clearhead.head_names(model.model)) == 3 + 8 + 4
    assert isinstance(model("abc"), str)
