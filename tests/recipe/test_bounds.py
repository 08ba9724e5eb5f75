"""Every number of a recipe has bounds that the recipe states, and nothing that is typed makes reading it fail badly."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from clearhead.errors import RecipeError
from clearhead.recipe import Recipe, Spec, kinds, read_recipe, recipe_from, recipe_table, recipe_toml, slots
from clearhead.recipe.describing import describe_field
from clearhead.recipe.sources import settings_of_text
from clearhead.recipe.spec import spec_type
from tests.thorough import THOROUGH


def tables() -> Iterator[tuple[str, type[Spec]]]:
    """Every table that a recipe can have: the sections, every registered kind, and all that stand inside of them."""
    waiting: list[type[Spec]] = [Recipe, *(kind.spec for slot in slots() for kind in kinds(slot).values())]
    seen: set[type[Spec]] = set()
    while waiting:
        spec = waiting.pop()
        if spec in seen or not spec.__module__.startswith("clearhead."):
            continue
        seen.add(spec)
        waiting += [inner for field in spec.model_fields.values() if (inner := spec_type(field)) is not None]
        yield spec.__name__, spec


def numbers(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The options of a JSON schema that are numbers, inside of lists too."""
    for option in schema.get("anyOf", [schema]):
        if option.get("type") in ("integer", "number"):
            yield option
        elif option.get("type") == "array":
            yield from numbers(option["items"])


def test_every_number_has_both_bounds() -> None:
    """By introspection, so that a new setting without bounds fails here."""
    checked = 0
    for name, spec in tables():
        for field, info in spec.model_fields.items():
            if spec_type(info) is not None:
                continue
            schema = TypeAdapter[Any](info.annotation or Any).json_schema()
            schema |= {
                rule: getattr(at, rule)
                for at in info.metadata
                for rule in ("ge", "gt", "le", "lt")
                if hasattr(at, rule)
            }
            for option in numbers(schema):
                checked += 1
                assert option.keys() & {"minimum", "exclusiveMinimum", "ge", "gt"}, f"{name}.{field} has no lower bound"
                assert option.keys() & {"maximum", "exclusiveMaximum", "le", "lt"}, f"{name}.{field} has no upper bound"
    assert checked > 90


def test_lists_end_somewhere() -> None:
    for name, spec in tables():
        for field, info in spec.model_fields.items():
            if spec_type(info) is None:
                schema = TypeAdapter[Any](info.annotation or Any).json_schema()
                ends = any(getattr(at, "max_length", None) is not None for at in info.metadata)
                for option in schema.get("anyOf", [schema]):
                    assert option.get("type") != "array" or ends or "maxItems" in option, f"{name}.{field}"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("decoding.max_ratio=1e308", "must be a number > 0 and ≤ 1000"),
        ("decoding.min_length=1000000000000", "must be a whole number ≥ 0 and ≤ 1000000"),
        ("decoding.beam_size=100000", "must be a whole number ≥ 1 and ≤ 1000"),
        ("decoding.banned=[1000000000]", "must be a list of a whole number ≥ 0 and < 100000000"),
        ("training.steps=10000000000000000000", "must be a whole number ≥ 1 and ≤ 1000000000"),
        ("training.threads=1000000000000", "must be a whole number ≥ 1 and ≤ 1024"),
        ("data.source.size=1000000000", "must be a whole number ≥ 8 and ≤ 1000000"),
        ("model.classes=1000000000", "must be a whole number ≥ 2 and ≤ 1000000"),
    ],
)
def test_absurd_numbers_are_refused_with_the_bound(override: str, message: str) -> None:
    extra = ["model.family=classifier"] if "classes" in override else []
    with pytest.raises(RecipeError) as caught:
        read_recipe(None, *extra, override)
    assert message in str(caught.value)


NASTY = [
    *("", "0", "-1", "1", "3", "1e308", "-1e308", "1e-308", "nan", "inf", "-inf", "10" * 30, "1" + "0" * 5000),
    *("0x" + "f" * 5000, "true", "none", '""', '"\\u0000"', "\0", "[]", "[1]", "[[[[[[[[[[1]]]]]]]]]]", "{}", "{a=1}"),
    *("[" * 2000, "{a=" * 2000, "1979-05-27T07:32:00Z", "'''\n'''", "\ud800", "x" * 10_000, '["a", 1, {}]', "1\nb=2"),
    *(
        "multihead",
        "rope",
        '["x", "x"]',
        "{kind='disentangled', kind='x'}",
        "{kind=7}",
        "{kind=[1]}",
        "[{kind='rope'}]",
    ),
    *("9" * 18, "9223372036854775808", "18446744073709551616", "0.5", "1e3", "-0.0", "1_000_000"),
]


def paths() -> list[str]:
    """Every setting of a complete recipe of each family, and every table."""
    found: dict[str, None] = {}

    def walk(table: dict[str, Any], prefix: str) -> None:
        for name, value in table.items():
            found[f"{prefix}{name}"] = None
            if isinstance(value, dict):
                walk(value, f"{prefix}{name}.")

    for family in kinds("family"):
        walk(recipe_table(read_recipe(None, f"model.family={family}")), "")
    shared = ["layers", "width", "heads", "attention", "attention.kind", "position", "position.kind", "norm", "dropout"]
    unset = [
        "training.steps",
        "training.minutes",
        "training.threads",
        "data.train",
        "data.source.size",
        "decoding.top_k",
    ]
    return [*found, *(f"model.{name}" for name in shared), *unset]


SHARE = 1 if THOROUGH else 3
"""Each field gets one nasty value in this many, and the next field the next ones; `make prove` tries all."""


@pytest.mark.drawn
@pytest.mark.parametrize("path", sorted({path.split(".")[0] for path in paths()}))
def test_nasty_values_are_refused_or_mean_something(path: str) -> None:
    """Every field × nasty values: a RecipeError or a valid recipe, nothing else."""
    for number, setting in enumerate(one for one in paths() if one.split(".")[0] == path):
        for value in NASTY[number % SHARE :: SHARE]:
            try:
                recipe = read_recipe(None, f"{setting}={value}")
            except RecipeError as error:
                assert len(str(error)) < 5000, (setting, value[:40])
            else:
                assert recipe_from(recipe_table(recipe)) == recipe


BOMBS: dict[str, Any] = {
    "many dots": ".".join(["a"] * 100_000) + " = 1",
    "many dotted tables": "\n".join(f"[{'.'.join(['b'] * 40)}.x{number}]\nc=1" for number in range(2000)),
    "deep lists": "a = " + "[" * 3000 + "]" * 3000,
    "deep tables": "a = " + "{b=" * 500 + "1" + "}" * 500,
    "many settings": "\n".join(f"a{number} = 1" for number in range(20_000)),
    "a long number": "[model]\nlayers = 1" + "0" * 5000,
    "a long hexadecimal number": "[model]\nlayers = 0x" + "f" * 8000,
    "a long name": f"{'n' * 100_000} = 1",
    "null bytes": "[model]\nlayers\0 = 1",
    "a preset that is a list": "preset = [1]",
    "a preset that is a table": "preset.name = 1",
    "a preset of nonsense": f"preset = '{'x' * 10_000}'",
    "a large text": "# " + "x" * 2_000_000,
    "dates": "[training]\nsteps = 1979-05-27",
    "lists of tables": "[[model]]\nlayers = 1",
    "a section that is a number": "model = 7",
    "a section that is null text": 'model = "\\u0000"',
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_bombs_of_toml_are_refused_at_once(bomb: str, tmp_path: Path) -> None:
    file = tmp_path / "bomb.toml"
    file.write_text(BOMBS[bomb], encoding="utf-8")
    with pytest.raises(RecipeError) as caught:
        read_recipe(file)
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 12_000


@pytest.mark.parametrize(
    "table",
    [
        *(
            {1: 2},
            {"model": {1: 2}},
            {"model": {None: 2}},
            {"model": [1]},
            {"model": None},
            {"data": {"train": [[[]]]}},
        ),
        *({"model": {"family": ["lm"]}}, {"model": {"encoder": [1]}}, {"model": {"attention": [1]}}, {"x" * 9999: 1}),
        *({"model": {"layers": 10**5000}}, {"model": {"layers": float("nan")}}, {"model": {"layers": b"3"}}),
        *({"model": {"encoder": {"attention": {"kind": {"a": 1}}}}}, {"model": {"layers": object()}}, {"": {"": 1}}),
    ],
)
def test_mappings_that_are_no_recipes(table: Any) -> None:
    with pytest.raises(RecipeError):
        recipe_from(table)


def test_a_recipe_nested_a_thousand_deep() -> None:
    nested: dict[str, Any] = {}
    inner = nested
    for _ in range(1000):
        inner["model"] = inner = {}
    inner["x"] = 1
    with pytest.raises(RecipeError, match="names have up to 8 parts"):
        recipe_from(nested)
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(RecipeError, match="lists inside of lists"):
        recipe_from({"decoding": {"banned": deep}})


def test_overrides_without_end() -> None:
    for words in (["model" + ".a" * 10_000 + "=1"], [f"model.a{number}=1" for number in range(10_000)]):
        with pytest.raises(RecipeError):
            read_recipe(None, *words)


def test_bounds_are_shown_where_settings_are_documented() -> None:
    from clearhead.recipe import DecodingSpec, TrainingSpec

    assert describe_field(DecodingSpec, "beam_size") == "a whole number ≥ 1 and ≤ 1000"
    assert describe_field(TrainingSpec, "clip") == "a number > 0 and ≤ 1e+09"


def test_a_complete_recipe_is_within_all_limits() -> None:
    text = recipe_toml(read_recipe("transformer-big"))
    assert settings_of_text(text, "recipe")
    assert len(text) < 10_000
