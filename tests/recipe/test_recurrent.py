"""Recipes of recurrent parts: kinds of encoder and decoder, what is shared, what is forgotten, what is refused."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import RecipeError
from clearhead.recipe import read_recipe, recipe_from, recipe_table, recipe_toml

BOTH = "model.family=recurrent"


def model(source: Any, *overrides: str) -> Any:
    recipe = read_recipe(source, *overrides)
    assert recipe_from(recipe_table(recipe)) == recipe
    return recipe.model


def problems(*overrides: str, source: Any = None) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read_recipe(source, *overrides)
    return [str(problem) for problem in caught.value.problems]


def test_the_family_and_the_kinds() -> None:
    """The family says what the parts are unless they say it themselves; either part may be of either kind."""
    assert [model(None).encoder.kind, model(None).decoder.kind] == ["transformer", "transformer"]
    read = model(None, BOTH)
    assert [read.encoder.kind, read.decoder.kind, read.decoder.attention.kind] == ["recurrent", "recurrent", "luong"]
    assert model(None, "model.decoder.kind=recurrent").encoder.kind == "transformer"
    assert model(None, BOTH, "model.encoder.kind=transformer").decoder.kind == "recurrent"


def test_shared_settings_reach_the_parts_that_take_them() -> None:
    read = model(None, "model.decoder.kind=recurrent", "model.heads=2", "model.cell=lstm", "model.layers=5")
    assert read.encoder.attention.heads == 2
    assert (read.encoder.layers, read.decoder.layers, read.decoder.cell) == (5, 5, "lstm")
    # a kind goes where it is one
    read = model(None, "model.decoder.kind=recurrent", 'model.attention={kind="bahdanau", size=5, heads=2}')
    assert (read.encoder.attention.heads, read.decoder.attention.size) == (2, 5)
    read = model(None, BOTH, "model.attention.kind=bahdanau", "model.bidirectional=false", "model.state=100")
    assert read.decoder.attention.kind == "bahdanau"
    assert (read.encoder.bidirectional, read.encoder.out_width, read.decoder.state) == (False, 100, 100)


def test_another_kind_forgets_what_it_does_not_know(tmp_path: Path) -> None:
    """From a preset, from a resolved recipe with every setting in it, and back again."""
    read = model("tiny", BOTH)
    assert (read.encoder.width, read.decoder.layers) == (128, 4)
    assert (
        model("t5-small", "model.decoder.kind=recurrent", "model.decoder.dropout.activation=0").cross
        == model(None).cross
    )
    resolved = tmp_path / "resolved.toml"
    resolved.write_text(recipe_toml(read_recipe("small", "model.heads=8")))
    assert model(resolved, BOTH).decoder.attention.kind == "luong"
    mixed = model(resolved, "model.decoder.kind=recurrent")
    assert (mixed.encoder.attention.heads, mixed.decoder.attention.kind) == (8, "luong")
    resolved.write_text(recipe_toml(read_recipe("rnn-bahdanau")))
    assert "[model.cross" not in resolved.read_text()
    assert model(resolved, "model.family=seq2seq").encoder.kind == "transformer"
    assert model(resolved, "model.decoder.kind=recurrent").decoder.attention.kind == "bahdanau"
    assert model(resolved, "model.decoder.attention.kind=luong").decoder.attention.score == "general"
    # a file may speak of a kind that the command line then chooses
    resolved.write_text('[model]\ncell = "lstm"\n')
    assert model(resolved, BOTH).decoder.cell == "lstm"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            [BOTH, "model.heads=4"],
            "model.heads: no part of this model takes it (encoder: recurrent, decoder: recurrent)",
        ),
        (["model.cell=gru"], "model.cell: no part of this model takes it (encoder: transformer, decoder: transformer)"),
        (
            [BOTH, "model.cross.heads=2"],
            "model.cross: a recurrent decoder looks at the encoder by settings of its own: use model.decoder",
        ),
        ([BOTH, "model.decoder.attention.kind=lung"], "no such alignment; did you mean luong?"),
        (
            ["model.decoder.kind=recurent"],
            "no such decoder; did you mean recurrent? (there are: transformer, convolutional, recurrent)",
        ),
        ([BOTH, "model.cell=rnn"], 'model.cell = "rnn": must be gru or lstm or elman'),
        (
            [BOTH, "model.attention.score=dot"],
            "a dot product needs a state (192) as wide as the encoder's vectors (384)",
        ),
        ([BOTH, "model.attention.heads=2"], "model.attention.heads: no such setting (there are: kind, score, choice"),
        (
            [BOTH, "model.attention.kind=none", "model.decoder.start=zero"],
            "is all that the decoder knows of the source",
        ),
        ([BOTH, "model.embedding.norm=true"], "a recurrent stack has no norm"),
        ([BOTH, "model.dropout.activation=0.1"], "a recurrent stack has no feed-forward net: leave it at 0"),
        ([BOTH, "model.dropout.attention=0.1"], "a recurrent encoder has no attention"),
        (
            ["model.family=lm", "model.decoder.kind=recurrent"],
            "there is no encoder to look at: use attention.kind = none",
        ),
        (
            ["model.encoder.kind=recurrent", "model.cross.attention.projections=false"],
            "without projections the memory (384) must be as wide as the queries (192)",
        ),
    ],
)
def test_what_cannot_work_is_refused(overrides: list[str], message: str) -> None:
    found = problems(*overrides)
    assert message in found[0], found


@pytest.mark.parametrize(
    "overrides",
    [
        [BOTH, "model.attention.score=dot", "model.encoder.bidirectional=false"],
        [BOTH, "model.attention.score=dot", "model.decoder.state=384"],
        [BOTH, "model.decoder.dropout.attention=0.1"],
        [BOTH, "model.decoder.kind=transformer", "model.cross.heads=2"],
        ["model.family=lm", "model.decoder.kind=recurrent", "model.decoder.attention.kind=none"],
        ["model.family=classifier", "model.encoder.kind=recurrent"],
    ],
)
def test_what_can_work_is_not_refused(overrides: list[str]) -> None:
    assert list(read_recipe(None, *overrides).refusals()) == []
