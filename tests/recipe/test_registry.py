"""Every kind that a recipe can name has a module that can be built, and says in one line what it is."""

import inspect

import pytest

from clearhead.recipe import Spec, kinds, slots
from clearhead.recipe.registry import Kind

EVERY_KIND = [(slot, name, kind) for slot in slots() for name, kind in kinds(slot).items()]


@pytest.mark.parametrize(("slot", "name", "kind"), EVERY_KIND, ids=lambda part: part if isinstance(part, str) else "")
def test_every_kind_is_whole(slot: str, name: str, kind: Kind) -> None:
    assert hasattr(kind.load(), "from_spec")
    assert kind.spec.__doc__
    assert kind.spec().model_dump()[kind.spec.tag] == name
    assert kind.spec.slot == slot


@pytest.mark.parametrize(("slot", "name", "kind"), EVERY_KIND, ids=lambda part: part if isinstance(part, str) else "")
def test_every_setting_is_documented(slot: str, name: str, kind: Kind) -> None:
    """One line of documentation a field, also for the tables inside."""

    def undocumented(spec: type[Spec]) -> list[str]:
        missing = [field for field, info in spec.model_fields.items() if not info.description and field != spec_tag]
        for info in spec.model_fields.values():
            if isinstance(info.annotation, type) and issubclass(info.annotation, Spec):
                missing += undocumented(info.annotation)
        return missing

    spec_tag = kind.spec.tag
    assert [field for field in undocumented(kind.spec) if field != "kind"] == []


def defaults_in_python(module: type) -> dict[str, object]:
    """The defaults of a constructor, and of those that it hands its settings on to."""
    found: dict[str, object] = {}
    for base in module.__mro__:
        if "__init__" in vars(base) and base.__module__.startswith("clearhead."):
            for name, parameter in inspect.signature(base).parameters.items():
                found.setdefault(name, parameter.default)
    return {name: value for name, value in found.items() if value is not inspect.Parameter.empty}


def disagreements(spec: type[Spec], defaults: dict[str, object]) -> list[str]:
    """Settings whose default in a recipe is another one than in Python."""
    fields = {name: info.get_default(call_default_factory=True) for name, info in spec.model_fields.items()}
    # a recipe's dropout is a table of rates, of which each module gets its own
    shared = [name for name in defaults if name in fields and name != "dropout"]
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in defaults.items()}
    return [name for name in shared if plain[name] != fields[name]]


@pytest.mark.parametrize(("slot", "name", "kind"), EVERY_KIND, ids=lambda part: part if isinstance(part, str) else "")
def test_defaults_are_the_same_in_recipes_and_in_python(slot: str, name: str, kind: Kind) -> None:
    defaults = defaults_in_python(kind.load())
    assert disagreements(kind.spec, defaults) == []
    if "bias" in defaults and "bias" in kind.spec.model_fields:  # the wrong variant is noticed
        assert disagreements(kind.spec, defaults | {"bias": not defaults["bias"]}) == ["bias"]
