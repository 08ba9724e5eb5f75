"""What a setting brings along: defaults follow the paper of a mechanism, and are said."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.costing import cost, require_training_memory, training_bytes
from clearhead.errors import DoesNotFit, RecipeError
from clearhead.recipe import differences, notes_of, preset_names, read_recipe, recipe_from, recipe_table, recipe_toml


def kinds_of(*words: str) -> dict[str, str]:
    model: Any = read_recipe(*words).model
    parts = {name: getattr(model, name) for name in ("encoder", "decoder", "cross") if hasattr(model, name)}
    found = {f"{name}": part.attention.kind for name, part in parts.items()}
    return found | {f"{name} position": part.position.kind for name, part in parts.items() if name != "cross"}


def test_disentangled_attention_is_self_attention_without_other_positions() -> None:
    """He et al. 2021: the stacks' own attention, which knows distances; cross-attention only by its own name."""
    assert kinds_of("tiny", "model.attention.kind=disentangled") == {
        **{"encoder": "disentangled", "decoder": "disentangled", "cross": "multihead"},
        **{"encoder position": "none", "decoder position": "none"},
    }
    across = kinds_of("tiny", "model.attention.kind=disentangled", "model.cross.attention.kind=disentangled")
    assert across["cross"] == "disentangled"
    said = kinds_of("tiny", "model.attention.kind=disentangled", "model.position.kind=sinusoidal")
    assert said["encoder position"] == said["decoder position"] == "sinusoidal"
    one = kinds_of("tiny", "model.encoder.attention.kind=disentangled")
    assert (one["encoder position"], one["decoder position"]) == ("none", "sinusoidal")


def test_positions_across_have_a_name_of_their_own() -> None:
    """``model.position`` means the stacks; what the decoder knows of the source is ``model.cross.position``."""
    stacks: Any = read_recipe("tiny", "model.position.kind=rope").model
    assert (stacks.encoder.position.kind, stacks.cross.position.kind) == ("rope", "none")
    across: Any = read_recipe("tiny", "model.cross.position.kind=rope").model
    assert (across.encoder.position.kind, across.cross.position.kind) == ("sinusoidal", "rope")


def test_it_costs_about_what_its_rivals_cost() -> None:
    """It also changed cross-attention, where nobody had asked for it."""
    sizes = ["model.layers=3", "model.vocabulary.source=60", "model.vocabulary.target=60"]
    ours = cost(read_recipe(None, *sizes, "model.attention.kind=disentangled")).parameters.at()
    rope = cost(read_recipe(None, *sizes, "model.position.kind=rope")).parameters.at()
    everywhere = cost(
        read_recipe(None, *sizes, "model.attention.kind=disentangled", "model.cross.attention.kind=disentangled")
    ).parameters.at()
    assert ours / rope < 1.2
    assert everywhere / rope > 1.25


def test_settings_of_the_kind_reach_the_parts_that_have_it() -> None:
    model: Any = read_recipe("tiny", "model.attention={kind='disentangled', span=9, heads=2, choice='hard'}").model
    assert model.encoder.attention.span == model.decoder.attention.span == 9
    assert (model.cross.attention.heads, model.cross.attention.choice) == (2, "hard")
    with pytest.raises(RecipeError, match=r"model\.attention\.spam: no such setting"):
        read_recipe("tiny", "model.attention={kind='disentangled', spam=9}")


def test_a_preset_speaks_of_its_own_attention(tmp_path: Path) -> None:
    """transformer-base says sinusoidal; who changes the attention has not asked for that, who writes a file has."""
    assert kinds_of("transformer-base", "model.attention.kind=disentangled")["encoder position"] == "none"
    file = tmp_path / "mine.toml"
    file.write_text('preset = "tiny"\n[model]\nposition.kind = "learned"\n')
    assert kinds_of(str(file), "model.attention.kind=disentangled")["encoder position"] == "learned"


def test_linformer_is_for_encoders() -> None:
    """Wang et al. 2020; in a decoder it would see the future, and a model of nothing else is refused."""
    found = kinds_of("tiny", "model.attention.kind=linformer")
    assert (found["encoder"], found["decoder"], found["cross"]) == ("linformer", "multihead", "multihead")
    with pytest.raises(RecipeError, match="would see the future in a decoder"):
        read_recipe("gpt2", "model.attention.kind=linformer")


OLD = {
    "model": {
        "family": "seq2seq",
        "encoder": {"attention": {"kind": "disentangled"}, "position": {"kind": "sinusoidal"}},
        "decoder": {"attention": {"kind": "disentangled"}, "position": {"kind": "sinusoidal"}},
        "cross": {"attention": {"kind": "disentangled", "heads": 2}},
    }
}


def test_complete_recipes_mean_what_they_always_meant() -> None:
    """Model files and run folders name every kind and every position."""
    model: Any = recipe_from(OLD).model
    assert (model.cross.attention.kind, model.encoder.position.kind) == ("disentangled", "sinusoidal")
    for name in preset_names():
        recipe = read_recipe(name)
        assert recipe_from(recipe_table(recipe)) == recipe
    changed = read_recipe("tiny", "model.attention.kind=disentangled")
    assert recipe_from(recipe_table(changed)) == changed


def test_notes_say_what_follows() -> None:
    assert notes_of(read_recipe("tiny", "model.attention.kind=disentangled")) == [
        "encoder and decoder: disentangled attention knows distances itself, so position.kind = none",
        "attention is not the same everywhere: encoder and decoder: disentangled; cross-attention: multihead",
    ]
    both = notes_of(read_recipe("tiny", "model.attention.kind=disentangled", "model.position.kind=learned"))
    assert "and learned positions are added as well" in both[0]
    for name in ("tiny", "gpt2", "rnn-luong", "vit-b16"):
        assert notes_of(read_recipe(name)) == []


def test_two_passes_that_are_the_same_are_named() -> None:
    """``training.agreement`` (R-Drop) needs dropout somewhere, however little."""
    off = ["model.dropout.residual=0", "model.dropout.embedding=0"]
    for table in ([], ["model.encoder.ngrams.reach=1"], ["model.encoder.ngrams.dropout=0.1"]):  # follows, or is none
        (note,) = notes_of(read_recipe("tiny", "training.agreement=5", *off, *table))
        assert "without dropout they are the same" in note
    for settings in (
        off,
        ["training.agreement=5"],
        [*off, "training.agreement=5", "model.encoder.dropout.attention=0.1"],
        [*off, "training.agreement=5", "model.encoder.ngrams.reach=1", "model.encoder.ngrams.dropout=0.1"],
    ):
        assert notes_of(read_recipe("tiny", *settings)) == []


def test_differences_are_named_once(tmp_path: Path) -> None:
    first, second = read_recipe("tiny"), read_recipe("tiny", "model.layers=3", "model.encoder.width=64")
    assert [tuple(one) for one in differences(first, second)] == [
        ("model.encoder.width", 128, 64),
        ("model.{encoder,decoder}.layers", 4, 3),
    ]
    assert differences(first, first) == []
    file = tmp_path / "same.toml"
    file.write_text(recipe_toml(first))
    assert differences(read_recipe(file), first) == []


def test_training_that_cannot_fit_is_refused_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five copies of the weights, and what one batch keeps, which grows with the batch."""
    recipe = read_recipe("tiny")
    few, many = training_bytes(recipe), training_bytes(read_recipe("tiny", "training.batch_tokens=51200"))
    assert few > 5 * 4 * cost(recipe).parameters.at()
    assert many > 10 * (few - 20 * cost(recipe).parameters.at())
    require_training_memory(recipe)
    monkeypatch.setattr("clearhead.machine.free_memory", lambda: 200 << 20)
    require_training_memory(recipe, length=20)
    with pytest.raises(DoesNotFit, match=r"training this model needs about .* but only 200\.0 MiB are free") as caught:
        require_training_memory(read_recipe("tiny", "training.batch_tokens=51200"))
    assert caught.value.exit_code == 4
