"""Sizes follow the budget, unless somebody else decides them."""

from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.machine import cores
from clearhead.recipe import read_with_origins
from clearhead.verbs.sizing import SIZES, Size, sized_by_budget


def chosen(*words: str) -> tuple[int, int, str, str]:
    """Width, layers of the encoder, positions, and what is said about them."""
    recipe, said = sized_by_budget(*read_with_origins(None, *words))
    encoder = getattr(recipe.model, "encoder", recipe.model)
    position = getattr(encoder, "position", None)
    return getattr(encoder, "width", 0), getattr(encoder, "layers", 0), getattr(position, "kind", ""), said


def test_a_longer_budget_gets_a_larger_model() -> None:
    short, long = chosen("training.minutes=3", "training.threads=2"), chosen("training.minutes=6000")
    assert short[:3] == (SIZES[0].width, SIZES[0].layers, "rope")
    assert long[0] == SIZES[-1].width > short[0]
    assert "for 3 minutes on 2 cores" in short[3]
    assert list(SIZES) == sorted(SIZES, key=lambda size: size.until)


def test_more_cores_count_like_more_minutes() -> None:
    limit = SIZES[0].until
    assert chosen(f"training.minutes={limit}", "training.threads=1")[0] == SIZES[0].width
    assert chosen(f"training.minutes={limit}", "training.threads=2")[0] == SIZES[1].width
    assert chosen()[3].endswith("choose otherwise")
    assert f"for 10 minutes on {cores()}" in chosen()[3]


@pytest.mark.parametrize("budget", ["training.steps=1000000", "training.epochs=1000"])
def test_a_budget_whose_time_nobody_knows_gets_the_smallest_sizes(budget: str) -> None:
    """So that the steps of a run by the clock, said as steps, repeat it."""
    width, layers, position, said = chosen(budget)
    assert (width, layers, position) == (SIZES[0].width, SIZES[0].layers, "rope")
    assert "minutes" not in said


@pytest.mark.parametrize(
    "words",
    [
        ["model.width=64"],
        ["model.layers=2"],
        ["model.position.kind=alibi"],
        ["model.encoder.attention.heads=2"],
        ["model.family=lm"],
        ["model.family=recurrent"],
    ],
)
def test_where_somebody_else_decides_nothing_changes(words: list[str]) -> None:
    recipe, stated = read_with_origins(None, *words)
    assert sized_by_budget(recipe, stated) == (recipe, "")


def test_what_is_not_about_layers_leaves_the_choice() -> None:
    assert chosen("model.dropout.residual=0.2", "model.embedding.tie=none", "training.seed=3")[3]


@pytest.mark.parametrize(("settings", "expected"), [([], "rope"), (["model.width=16"], "none")])
def test_positions_across_are_chosen_with_the_sizes(
    settings: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What anybody says about layers leaves cross-attention as it is, too."""
    monkeypatch.setattr("clearhead.verbs.sizing.SIZES", (Size(float("inf"), 16, 16, 1),))
    pairs = [(" ".join(word), " ".join(reversed(word))) for word in ("abc", "ba", "cab", "a", "bca", "acb", "cb", "ac")]
    run = clearhead.train(pairs, tmp_path / "run", dev=pairs[:2], steps=1, settings=settings)
    model: Any = run.recipe.model
    assert model.cross.position.kind == expected
