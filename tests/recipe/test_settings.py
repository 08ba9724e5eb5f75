"""Settings as Python objects, and recipes as sources: the same rules as text, without becoming text."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.errors import RecipeError
from clearhead.recipe import (
    DisentangledSpec,
    LanguageModelSpec,
    Recipe,
    Seq2SeqSpec,
    TrainingSpec,
    TransformerEncoderSpec,
    preset_names,
    read_recipe,
    read_with_origins,
)


def problems(settings: Any, *overrides: str, source: Any = None) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        read_recipe(source, *overrides, settings=settings)
    return [str(problem) for problem in caught.value.problems]


def test_dotted_names_tables_and_both_mean_the_same() -> None:
    typed = read_recipe(None, "model.width=64", "model.layers=2", "model.encoder.heads=2", "training.seed=2")
    for settings in (
        {"model.width": 64, "model.layers": 2, "model.encoder.heads": 2, "training.seed": 2},
        {"model": {"width": 64, "layers": 2, "encoder": {"heads": 2}}, "training": {"seed": 2}},
        {"model.width": 64, "model": {"layers": 2, "encoder.heads": 2}, "training": {"seed": 2}},
    ):
        assert read_recipe(None, settings=settings) == typed
    later: Any = read_recipe(None, settings={"model": {"width": 32}, "model.width": 64}).model
    assert later.encoder.width == 64
    assert read_recipe(None, settings={}) == read_recipe(None, settings={"model": {}}) == Recipe()


def test_values_are_python_objects() -> None:
    """No text in between: a text that looks like a number stays a text, and is refused where a number belongs."""
    recipe = read_recipe(
        None,
        settings={
            "data.train": Path("a") / "b.tsv",
            "data.dev": "5",
            "data.columns": ("source", "target"),
            "training.optimizer.betas": (0.9, np.float32(0.5)),
            "training.seed": np.int64(3),
            "training.minutes": 5,
            "model.norm": {"kind": "rmsnorm", "eps": 1e-3},
            "model.vocabulary.pad": None,
        },
    )
    assert (recipe.data.train, recipe.data.dev, recipe.data.columns) == ("a/b.tsv", "5", ["source", "target"])
    assert (recipe.training.optimizer.betas, recipe.training.seed) == ([0.9, 0.5], 3)
    assert (type(recipe.training.seed), recipe.training.minutes, recipe.model.vocabulary.pad) == (int, 5.0, None)
    assert problems({"model.layers": "5"}) == [
        'settings: model.layers = "5": must be a whole number ≥ 1 and ≤ 10000',
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model.layrs": 2}, "settings: model.layrs: no such setting; did you mean layers?"),
        ({"modle": {"layers": 2}}, "settings: modle.layers: no such setting; did you mean model?"),
        ({"model": {"encoder": {"haeds": 2}}}, "settings: model.encoder.haeds: no such setting; did you mean heads?"),
        ({"width": 64}, "settings: width: no such setting; did you mean model.width?"),
        ({"widht": 64}, "settings: widht: no such setting; did you mean model.width?"),
        ({"beam_size": 2}, "settings: beam_size: no such setting; did you mean decoding.beam_size?"),
        ({"seed": 2}, "settings: seed: no such setting; did you mean training.seed or decoding.seed?"),
        ({"decoder": {"layers": 2}}, "settings: decoder.layers: no such setting; did you mean model.decoder?"),
        ({"zzz": 2}, "settings: zzz: no such setting (there are: data, model, training, decoding)"),
        ({"model": 5}, "settings: model = 5: must be a table of settings: for instance model."),
        ({"model.layers": True}, "settings: model.layers = true: must be a whole number ≥ 1"),
        ({"model.layers": 2.0}, "settings: model.layers = 2.0: must be a whole number ≥ 1"),
        ({"model.layers": None}, "settings: model.layers = None: must be a whole number ≥ 1"),
        ({"model.layers": object}, "must be a whole number ≥ 1"),
        ({"model.dropout.residual": float("nan")}, "must be a number ≥ 0 and < 1"),
        ({"model.attention": "linformer"}, "must be a table of settings: write model.attention.kind=linformer"),
        ({"model.attention.kind": "linfomer"}, "no such attention; did you mean linformer?"),
        ({"model.width": 10, "model.heads": 3}, "settings: model.heads = 3: heads (3) must divide the width (10)"),
        ({"model..width": 3}, "settings: model..width: a setting is named section.key"),
        ({"": 3}, "a setting is named section.key"),
        ({3: 3}, "settings: 3: a setting is named by a text, not by 3"),
        ({".".join("a" * 9): 3}, "names have up to 8 parts"),
        ({"x" * 300: 3}, "names have up to 8 parts"),
        ({"training": TrainingSpec(seed=2)}, "settings: training = "),
    ],
)
def test_what_is_wrong_is_said_as_ever_with_its_origin(settings: Any, message: str) -> None:
    found = problems(settings)
    assert len(found) == 1
    assert message in found[0]


def test_all_mistakes_are_reported_at_once_in_their_order() -> None:
    wrong = {"training": {"seed": -1}, "model.widht": 3, "model.layers": "six", "decoding": {"beam_size": 0}}
    assert [line.split(":")[1].strip() for line in problems(wrong)] == [
        *("training.seed = -1", "model.widht", 'model.layers = "six"', "decoding.beam_size = 0"),
    ]
    found = problems({"model.layers": "six"}, "training.seed=-1")
    assert sorted(line.split(":")[0] for line in found) == ["command line", "settings"]


def test_overrides_win_over_settings_and_settings_over_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('preset = "tiny"\n[model]\nlayers = 7\nheads = 2\n[training]\nsteps = 9\n')
    recipe = read_recipe(file, "model.layers=5", settings={"model.layers": 6, "model.heads": 1, "training.minutes": 3})
    assert isinstance(recipe.model, Seq2SeqSpec)
    assert isinstance(recipe.model.encoder, TransformerEncoderSpec)
    assert (recipe.model.encoder.layers, recipe.model.encoder.attention.heads) == (5, 1)
    assert (recipe.training.steps, recipe.training.minutes) == (None, 3)  # a budget replaces another one
    assert "one budget is enough" in problems({"training.minutes": 3}, "training.epochs=2")[0]
    same = read_recipe(file, settings={"training.minutes": None})  # but nothing does not
    assert (same.training.steps, same.training.minutes) == (9, None)
    assert read_recipe(file, settings={"training.steps": None}).training.steps is None


def test_origins() -> None:
    recipe, given = read_with_origins("tiny", "training.seed=4", settings={"model.layers": 2, "data": {"dev": "d.tsv"}})
    assert recipe.data.dev == "d.tsv"
    assert {key: one.source for key, one in given.items() if not one.source.startswith("preset ")} == {
        ("model", "encoder", "layers"): "settings",
        ("model", "decoder", "layers"): "settings",
        ("data", "dev"): "settings",
        ("training", "seed"): "command line",
    }
    assert given["model", "encoder", "layers"].key == "model.layers"


@pytest.mark.parametrize("name", preset_names())
def test_a_recipe_is_a_source_and_reads_as_itself(name: str) -> None:
    recipe = read_recipe(name, "training.seed=5")
    again, given = read_with_origins(recipe)
    assert again == recipe
    # what was stated is what the preset and the override state, neither less nor the defaults
    assert set(given) == set(read_with_origins(name, "training.seed=5")[1])
    assert ("training", "clip") not in given


def test_a_recipe_made_in_python_keeps_what_it_says() -> None:
    """Read as text, disentangled attention would take its positions away: a recipe object is complete."""
    attention = TransformerEncoderSpec(attention=DisentangledSpec(span=9))
    recipe = Recipe(model=Seq2SeqSpec(encoder=attention), training=TrainingSpec(seed=3))
    again, given = read_with_origins(recipe, settings={"training.clip": 2.0})
    assert again.model == recipe.model
    assert set(given) == {
        *(("model", "encoder", "attention", "kind"), ("model", "encoder", "attention", "span")),
        *(("training", "seed"), ("training", "clip")),
    }
    assert set(read_with_origins(Recipe(model=LanguageModelSpec()))[1]) == {("model", "family")}


def test_a_recipe_is_changed_like_a_file() -> None:
    recipe = read_recipe("tiny", "training.steps=9")
    changed = read_recipe(recipe, settings={"model.family": "lm", "model.layers": 2, "training.minutes": 1})
    assert isinstance(changed.model, LanguageModelSpec)
    assert (changed.model.decoder.layers, changed.training.steps, changed.training.minutes) == (2, None, 1)
    assert recipe == read_recipe("tiny", "training.steps=9")
    positions: Any = read_recipe(Recipe(), settings={"model.attention.kind": "disentangled"}).model
    assert positions.encoder.position.kind == "none"  # nobody had asked for the default
    asked: Any = read_recipe(
        read_recipe(None, "model.position.kind=learned"), "model.attention.kind=disentangled"
    ).model
    assert asked.encoder.position.kind == "learned"
    assert problems({"model.layers": 0}, source=recipe) == [
        "settings: model.layers = 0: must be a whole number ≥ 1 and ≤ 10000"
    ]
    # what does not fit any more is named as part of the recipe that was handed in
    (line,) = problems({"model.heads": 3}, source=recipe)
    assert line.startswith("settings: model.heads = 3: heads (3) must divide the width (128)")


def test_a_trained_recipe_anew_forgets_its_data() -> None:
    labelled = [
        "model.family=classifier",
        'model.labels=["a", "b", "c"]',
        "model.classes=3",
        "model.vocabulary.source=77",
    ]
    trained = read_recipe(None, *labelled, "training.steps=40", "training.evaluate_every=10", "data.train=old.tsv")
    again: Any = read_recipe(trained, settings={"data.train": Path("new.tsv"), "training.minutes": 1}, anew=True)
    assert (again.model.labels, again.model.vocabulary.source, again.data.train) == ([], 32_000, "new.tsv")
    assert (again.training.steps, again.training.evaluate_every) == (None, None)
    kept: Any = read_recipe(trained)
    assert kept.model.labels == ["a", "b", "c"]
    written = read_recipe(None, "model.embedding.tie=all")  # nobody has trained this one
    assert read_recipe(written, anew=True).model.embedding.tie == "all"
