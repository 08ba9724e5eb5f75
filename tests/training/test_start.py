"""Starting from a trained model: weights where they fit, new rows and heads where the data ask for more."""

from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.errors import RecipeError
from clearhead.inspection.pruning import without_heads
from clearhead.models import SavedModel, load_model, save_model, stored_tensors
from clearhead.recipe import address_of, means, read_header, read_recipe
from clearhead.recipe.starting import carried_over
from clearhead.training.start import _copy_rows
from tests.cli.typed import typed
from tests.training.toy import FEW, SMALL, write_labels, write_lines, write_pairs

ONE = ["training.threads=1"]


def weights(path: Path) -> dict[str, torch.Tensor]:
    return stored_tensors(load_model(path).model)


def began_and_start(run: clearhead.Run, start: Path) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """The weights that a run began with, and those of the run that it started from."""
    return weights(run.folder / "data" / "start.safetensors"), weights(start / "best.safetensors")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of pairs, of an encoder and of a classifier."""
    folder = tmp_path_factory.mktemp("starts")
    clearhead.train(write_pairs(folder / "pairs.tsv", FEW), folder / "pairs", steps=1, settings=SMALL)
    lines, symbols = write_lines(folder / "lines.txt", 100), "data.source.kind=symbols"
    settings = [*SMALL, "model.family=encoder", symbols]
    clearhead.train(lines, folder / "encoder", steps=1, settings=settings)
    settings = [*SMALL, "model.family=classifier", symbols]
    clearhead.train(write_labels(folder / "labels.tsv", 100), folder / "labels", steps=1, settings=settings)
    return folder


def test_it_begins_where_the_start_is(place: Path, tmp_path: Path) -> None:
    """Same data, same tokens: the model at step 0 is the start, bit for bit; from scratch it would be another."""
    run = clearhead.train(place / "pairs.tsv", tmp_path / "run", start=place / "pairs", steps=1, settings=ONE)
    began, start = began_and_start(run, place / "pairs")
    assert all(torch.equal(tensor, start[name]) for name, tensor in began.items())
    fingerprint = read_header(place / "pairs/best.safetensors").metadata["fingerprint"]
    origin = {"name": str(place / "pairs"), "fingerprint": fingerprint}
    assert run.origin == load_model(run.folder / "best.safetensors").origin == origin


def test_new_characters_get_rows_of_their_own(place: Path, tmp_path: Path) -> None:
    """After all others, whose rows stay; both are read, and said."""
    events: list[clearhead.Event] = []
    words = ("abc", "bcd", "cab", "gag", "fed", "bag")
    pairs = [(f"{word}é{digit}", " ".join(f"{word[::-1].upper()}ɛ")) for digit in range(7) for word in words]
    run = clearhead.train(
        pairs,
        tmp_path / "run",
        dev=pairs[:5],
        start=place / "pairs",
        steps=1,
        settings=ONE,
        report=events.append,
    )
    began, start = began_and_start(run, place / "pairs")
    name = "encoder.embedding.tokens.weight"
    assert len(began[name]) == len(start[name]) + 8
    assert torch.equal(began[name][: len(start[name])], start[name])
    assert run.model.source.encode(["abcé1"])[0][:3] == clearhead.load(place / "pairs").source.encode(["abc"])[0]
    assert 3 not in run.model.source.encode(["abcé1"])[0]
    told = [event.text for event in events if "does not know" in event.text]
    assert any(text.startswith("8 tokens that") and "on the source side: é" in text for text in told)
    assert any("on the target side: ɛ" in text for text in told)


def test_an_encoder_becomes_a_classifier(place: Path, tmp_path: Path) -> None:
    """The body is kept, the head is new; frozen, the body stays as it is."""
    settings = [*ONE, "model.family=classifier", "training.freeze=encoder"]
    run = clearhead.train(place / "labels.tsv", tmp_path / "run", start=place / "encoder", steps=2, settings=settings)
    now, start = weights(run.folder / "best.safetensors"), weights(place / "encoder/best.safetensors")
    assert all(torch.equal(tensor, start[name]) for name, tensor in now.items() if name.startswith("encoder."))
    assert now.keys() - start.keys() == {"head.weight", "head.bias"}
    assert run.model("a b c") in ("up", "down")


@pytest.mark.parametrize(
    ("names", "labels", "kept"),
    [
        ({}, ["down", "up"], [0, 1]),
        ({"down": "level"}, ["down", "up", "level"], [0, 1]),
        ({"down": "low", "up": "high"}, ["high", "low"], []),
    ],
    ids=["known", "one is new", "all are new"],
)
def test_labels(place: Path, tmp_path: Path, names: dict[str, str], labels: list[str], kept: list[int]) -> None:
    """A known label keeps its row of the head and its number; unless none is known."""
    rows = [line.split("\t") for line in (place / "labels.tsv").read_text().splitlines()]
    data = [{"label": names.get(label, label), "text": text} for label, text in rows]
    run = clearhead.train(data, tmp_path / "run", start=place / "labels", steps=1, settings=ONE)
    began, start = began_and_start(run, place / "labels")
    assert run.recipe.model.labels == labels  # type: ignore[attr-defined]
    same = [row for row in range(2) if torch.equal(began["head.weight"][row], start["head.weight"][row])]
    assert same == kept


def test_rows_of_a_head_follow_their_labels() -> None:
    """Also in another order than the start has them."""
    given, into = torch.tensor([[1.0], [2.0]]), torch.zeros(3, 1)
    assert _copy_rows(into, given, ["a", "b"], ["b", "c", "a"]) == 2
    assert into.tolist() == [[2.0], [0.0], [1.0]]


def test_a_pruned_model_trains_on(place: Path, tmp_path: Path) -> None:
    saved = load_model(place / "pairs/best.safetensors")
    smaller, recipe = without_heads(saved.model, saved.recipe, ["encoder.1.2"])
    save_model(SavedModel(smaller, recipe, saved.tokenizers), tmp_path / "smaller.safetensors")
    run = clearhead.train(
        place / "pairs.tsv", tmp_path / "run", start=tmp_path / "smaller.safetensors", steps=1, settings=ONE
    )
    assert weights(run.folder / "best.safetensors")["encoder.layers.0.attention.query.weight"].shape == (16, 32)
    assert isinstance(run.model("abc"), str)


@pytest.mark.parametrize(
    ("start", "settings", "words"),
    [
        ("pairs", ["model.width=64"], "model.width = 64: .*pairs has 32, and a tuned model keeps its settings"),
        ("pairs", ["model.layers=1", "model.position.kind=rope"], 'model.position.kind = "rope": .*has "sinusoidal"'),
        ("pairs", ["data.source.kind=bpe"], "a tuned tokenizer keeps its settings"),
        (
            "encoder",
            ["model.family=seq2seq"],
            "needs a decoder, which .*, of family encoder, does not",
        ),
    ],
)
def test_contradictions_are_refused(place: Path, tmp_path: Path, start: str, settings: list[str], words: str) -> None:
    """All that agrees passes, and so do dropout and the user's own training."""
    with pytest.raises(RecipeError, match=words):
        clearhead.train(place / "pairs.tsv", tmp_path / "run", start=place / start, steps=1, settings=settings)
    assert not (tmp_path / "run").exists()


def test_a_family_that_lacks_a_stack_is_told_which() -> None:
    start = read_recipe(None, "model.family=lm")
    with pytest.raises(RecipeError, match="needs an encoder, which runs/lm, of family lm, does not have"):
        carried_over(start, "classifier", "runs/lm")


def test_the_commands_say_where_it_comes_from(place: Path, tmp_path: Path) -> None:
    """train --from, then show, check and a resume from another start, which is refused."""
    run, pairs = str(tmp_path / "run"), str(place / "pairs.tsv")
    settings = ["model.layers=1", "model.dropout.residual=0.2", "training.adapters=lora", "--max-steps", "1", *ONE]
    found = typed("train", pairs, "--from", str(place / "pairs"), "-o", run, *settings)
    assert found.returncode == 0, found.stderr
    assert f"starting from {place / 'pairs'} (" in found.stderr
    assert "of which 3,072 are trained" in found.stderr.replace("\n", " ")
    assert f"{run} was tuned from {place / 'pairs'} (" in typed("show", run).stdout.replace("\n", " ")
    assert "tuned from" in typed("show", f"{run}/best.safetensors").stdout
    checked = typed("check", pairs, "--from", run).stdout
    assert f"to be tuned from {run}" in checked
    assert "adapters of rank 8 beside query, value" in typed("cost", run).stdout
    other = typed("train", "-o", run, "--resume", "--from", run)
    assert other.returncode == 2
    assert f"--from: the run started from {place / 'pairs'}, you ask for {run}" in other.stderr


def test_addresses() -> None:
    """A pattern names blocks in a row; layers are counted from 1; a part of a name is no name."""
    address = address_of("decoder.layers.2.around_cross.norm.gain")
    assert address == ("decoder", "3", "around_cross", "norm", "gain")
    meant = ["decoder", "decoder.3", "decoder.2-3", "decoder.*", "*norm", "around_cross.norm", "1-3.around_*"]
    assert all(means(pattern, address) for pattern in meant)
    assert not any(means(pattern, address) for pattern in ["decoder.2", "decoder.4-9", "cross", "norm.decoder", "3-"])
