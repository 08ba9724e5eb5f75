"""Every kind that a recipe can name has a module that can be built, and says in one line what it is."""

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
