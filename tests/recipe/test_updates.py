"""A recipe is resolved once: what follows are typed updates, checked like what is read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import RecipeError
from clearhead.recipe import (
    ClassifierSpec,
    DecodingSpec,
    LanguageModelSpec,
    Recipe,
    StackSpec,
    kinds,
    preset_names,
    read_decoding,
    read_recipe,
    reading,
    recipe_from,
    recipe_table,
)
from clearhead.training import preparation
from clearhead.training.preparation import extend, prepare
from clearhead.training.resolving import with_smoothing
from tests.recipe.test_bounds import NASTY
from tests.training.toy import FAMILIES, SMALL, write_pairs


class Count:
    """How often a recipe was resolved from settings."""

    def __init__(self) -> None:
        self.times = 0


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> Count:
    count, resolve = Count(), reading._resolve

    def counted(*arguments: Any) -> Any:
        count.times += 1
        return resolve(*arguments)

    monkeypatch.setattr(reading, "_resolve", counted)
    return count


WRITERS: dict[str, Callable[..., Path]] = {"seq2seq": write_pairs, **FAMILIES}


@pytest.mark.parametrize("budget", ["training.steps=3", "training.epochs=1"])
@pytest.mark.parametrize("family", WRITERS)
def test_preparing_a_run_resolves_its_recipe_once(family: str, budget: str, resolved: Count, tmp_path: Path) -> None:
    """It was five or six times: after each setting that data, family and budget decide."""
    data = WRITERS[family](tmp_path / ("x.txt" if family in ("lm", "encoder") else "x.tsv"), count=60)
    settings = [f'data.train="{data}"', f"model.family={family}", budget, *SMALL, "model.dropout.residual=auto"]
    run = prepare(read_recipe(None, *settings), tmp_path / "run")
    assert resolved.times == 1
    longer = extend(run, 7, 3, 2)
    assert resolved.times == 1
    # nothing is left to decide, and reading the result once more, with every check, changes nothing
    for recipe in (run.recipe, longer.recipe):
        assert recipe_from(recipe_table(recipe)) == recipe
        assert (recipe.training.epochs, recipe.training.minutes) == (None, None)
        assert recipe.training.label_smoothing is not None
        stacks = [part for _, part in recipe.model if isinstance(part, StackSpec)]
        assert {type(part.dropout.residual) for part in stacks} == {float}
        assert {part.dropout.embedding for part in stacks} == {0.1}  # was not auto
    assert longer.recipe == read_recipe(run.recipe, settings={"training": {"steps": 7, "evaluate_every": 2}})


def test_a_round_trip_would_be_counted(resolved: Count, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The wrong variant of the test above: one step of the preparation reads the recipe again."""
    update = with_smoothing
    monkeypatch.setattr(preparation, "with_smoothing", lambda *given: recipe_from(recipe_table(update(*given))))
    data = write_pairs(tmp_path / "x.tsv", count=60)
    prepare(read_recipe(None, f'data.train="{data}"', "training.steps=3", *SMALL), tmp_path / "run")
    assert resolved.times == 2


# ---- updates are checked ----


def words(call: Callable[[], Any]) -> list[str]:
    with pytest.raises(RecipeError) as caught:
        call()
    return [str(problem) for problem in caught.value.problems]


def test_tables_are_replaced_and_checked() -> None:
    recipe = read_recipe("tiny", "training.seed=3")
    training = recipe.training.replaced(steps=5, clip=2)
    assert (training.steps, training.clip, type(training.clip), training.seed) == (5, 2.0, float, 3)
    assert training.model_fields_set == {"seed", "steps", "clip"}
    assert recipe.training.steps is None
    assert words(lambda: recipe.training.replaced(steps=0, sede=3, optimizer={"rate": 1.0})) == [
        "optimizer: must be a table of settings (OptimizerSpec)",
        "sede: no such setting; did you mean seed?",
        "steps = 0: must be a whole number ≥ 1 and ≤ 1000000000",
    ]
    assert words(lambda: recipe.training.replaced(steps="5", seed=True)) == [
        "seed = true: must be a whole number ≥ 0 and < 9223372036854775808",
        'steps = "5": must be a whole number ≥ 1 and ≤ 1000000000',
    ]
    with pytest.raises(RecipeError, match="must be a table of settings"):
        recipe.replaced(model={"family": "lm"})


def test_sections_are_updated_and_what_cannot_work_together_is_refused() -> None:
    recipe = read_recipe("tiny")
    assert recipe.updated() == recipe
    changed = recipe.updated(training=recipe.training.replaced(seed=3), decoding=DecodingSpec(beam_size=2))
    assert changed == read_recipe("tiny", "training.seed=3", "decoding.beam_size=2")
    model = recipe.model.replaced(embedding=recipe.model.embedding.replaced(tie="all"))
    vocabulary = model.replaced(vocabulary=model.vocabulary.replaced(source=9))
    reason = "one matrix for source and target needs one vocabulary, not 9 and 10000 tokens"
    assert words(lambda: recipe.updated(model=vocabulary)) == [f'recipe: model.embedding.tie = "all": {reason}']
    assert words(lambda: recipe.updated(model=LanguageModelSpec(), training=recipe.training.replaced(metric="bleu")))
    twice = recipe.training.replaced(steps=1, minutes=2.0)
    assert words(lambda: recipe.updated(training=twice)) == [
        "recipe: training.minutes = 2.0: one budget is enough, and steps is given too"
    ]
    assert twice.with_steps(4, None).minutes is None


def test_what_slipped_past_validation_is_found_however_deep_it_is() -> None:
    """pydantic's own ``model_copy`` checks nothing."""
    recipe = read_recipe(None, "model.family=classifier")
    assert isinstance(recipe.model, ClassifierSpec)
    encoder = recipe.model.encoder.model_copy(
        update={"dropout": recipe.model.encoder.dropout.model_copy(update={"residual": 7, "x": 1})}
    )
    assert words(lambda: recipe.updated(model=recipe.model.model_copy(update={"encoder": encoder, "classes": 1}))) == [
        "model.encoder.dropout.x: no such setting",
        "model.encoder.dropout.residual = 7: must be a number ≥ 0 and < 1 or auto",
        "model.classes = 1: must be a whole number ≥ 2 and ≤ 1000000",
    ]
    wrong: Any = DecodingSpec()
    assert words(lambda: recipe.updated(training=wrong)) == ["training: must be a table of settings (TrainingSpec)"]


@pytest.mark.parametrize("name", preset_names())
def test_an_update_without_changes_is_the_same_recipe(name: str) -> None:
    recipe = read_recipe(name)
    again = recipe.updated(data=recipe.data, model=recipe.model, training=recipe.training, decoding=recipe.decoding)
    assert again == recipe
    assert recipe_table(again) == recipe_table(recipe)


# ---- decoding ----


def full(recipe: Recipe, *overrides: str, **settings: Any) -> DecodingSpec:
    """The reference: the whole recipe is read again."""
    table = recipe_table(recipe)
    table["decoding"] |= settings
    return recipe_from(table, *overrides, name="settings").decoding


def outcome(read: Callable[..., DecodingSpec], *arguments: Any, **settings: Any) -> DecodingSpec | str:
    try:
        return read(*arguments, **settings)
    except RecipeError as error:
        return str(error)


VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 10**30, 0.5, 1e308, float("nan"), "x", "hard", "auto", "", b"x", object, [], [1]),
    *([-1], ["x"], {"a": 1}, {"kind": "x"}, [[1]], "\ud800", "x" * 5000),
]


@pytest.mark.parametrize(
    "field", ["beam_size", "min_ratio", "max_length", "sample", "banned", "attention", "batch_tokens", "beam"]
)
def test_decoding_says_what_a_whole_recipe_says(field: str) -> None:
    """One field of each type, and one that there is not."""
    recipe = read_recipe(None, "model.family=classifier", "decoding.max_length=50")
    for value in VALUES:
        mine = outcome(read_decoding, recipe, settings={field: value})
        assert mine == outcome(full, recipe, **{field: value}), value
    for value in NASTY[::3]:
        word = f"decoding.{field}={value}"
        mine = outcome(read_decoding, recipe, word, settings={"seed": 4})
        assert mine == outcome(full, recipe, word, seed=4), value
    assert read_decoding(recipe, settings={field: {}}) == recipe.decoding  # an empty table says nothing


def test_decoding_does_not_read_the_recipe_again(resolved: Count) -> None:
    recipe = read_recipe("tiny")
    assert resolved.times == 1
    assert read_decoding(recipe, "decoding.beam_size=2", settings={"banned": (3, 4)}).banned == [3, 4]
    assert words(lambda: read_decoding(recipe, settings={"min_length": 9, "max_length": 3})) == [
        "settings: decoding.min_length = 9: is larger than max_length (3)"
    ]
    assert words(lambda: read_decoding(recipe, "model.layers=3")) == [
        "command line: model.layers=3: of a trained model only decoding.key can be set"
    ]
    assert resolved.times == 1
    assert full(recipe, "decoding.beam_size=2") == read_decoding(recipe, "decoding.beam_size=2")
    assert resolved.times == 2


def test_a_new_dropout_reaches_every_stack() -> None:
    for family in kinds("family"):
        recipe = read_recipe(None, f"model.family={family}", "model.dropout.embedding=0.0")
        for _, part in recipe.model:
            if isinstance(part, StackSpec):
                dropout = part.with_dropout(0.2).dropout
                assert (dropout.residual, dropout.embedding, dropout.attention) == (0.2, 0.0, 0.0)
        assert read_recipe(None, f"model.family={family}").training == recipe.training
