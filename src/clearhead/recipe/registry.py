"""The open registry of kinds: what a recipe may name, where its module is, and what it costs.

A *slot* is a place in a recipe that takes one of several kinds (attention, position, feedforward, norm, encoder,
decoder, alignment, and the family of the whole model). A *kind* is a spec, pure data that can refuse what cannot work,
the module that does the work, and the formula of its cost, both named by strings so that reading a recipe never imports
torch.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from clearhead.errors import ClearheadError
from clearhead.recipe.spec import KindSpec


@dataclass(frozen=True)
class Kind:
    """One entry of the registry."""

    spec: type[KindSpec]
    module: str | type
    """The class that does the work, or ``"package.module:Class"``; it has a classmethod ``from_spec``."""
    cost: str | Callable[..., Any] | None = None
    """Its cost as a function of sketches, or ``"package.module:function"``: see CONTRIBUTING.md."""

    def load(self) -> Any:
        """The class that does the work; imports its module, and with it torch, only now."""
        return _loaded(self.module)

    def load_cost(self) -> Any:
        """The formula of its cost; never imports torch."""
        return None if self.cost is None else _loaded(self.cost)


def _loaded(thing: Any) -> Any:
    if not isinstance(thing, str):
        return thing
    package, _, name = thing.partition(":")
    return getattr(import_module(package), name)


_kinds: dict[str, dict[str, Kind]] = {}


def register(spec: type[KindSpec], *, module: str | type, cost: str | Callable[..., Any] | None = None) -> None:
    """Add a kind: from then on recipes can name it, models are built with it, and ``clearhead cost`` knows it.

    ``spec`` is a frozen pydantic model derived from the base of its slot (``AttentionSpec``, ``PositionSpec``,
    ``FeedForwardSpec``, ``NormSpec``, ``EncoderSpec``, ``DecoderSpec``, ``AlignmentSpec``); ``module`` is the class
    that does the work, or ``"package.module:Class"``; ``cost`` is the function that says what it costs, or
    ``"package.module:function"``.
    A name that is taken cannot be taken again, so that no package silently changes another's recipes.
    """
    if not (isinstance(spec, type) and issubclass(spec, KindSpec)):
        raise TypeError(f"a spec derives from AttentionSpec, PositionSpec, FeedForwardSpec or NormSpec, not {spec!r}")
    name = spec.model_fields[spec.tag].default if spec.tag in spec.model_fields else None
    if not isinstance(name, str):
        raise ValueError(f'{spec.__name__} needs a name: {spec.tag}: Literal["…"] = "…"')
    if not (spec.__doc__ or "").strip():
        raise ValueError(f"{spec.__name__} needs a docstring: its first line is shown to users")
    if isinstance(module, str) and not re.fullmatch(r"[\w.]+:\w+", module):
        raise ValueError(f'module reads "package.module:Class", not {module!r}')
    if isinstance(cost, str) and not re.fullmatch(r"[\w.]+:\w+", cost):
        raise ValueError(f'cost reads "package.module:function", not {cost!r}')
    slot = _kinds.setdefault(spec.slot, {})
    if name in slot and slot[name].spec is not spec:
        raise ValueError(f"{spec.slot} {name!r} is registered already, by {slot[name].spec.__module__}")
    slot[name] = Kind(spec, module, cost)


@cache
def load_plugins() -> None:
    """Import the packages that announce kinds of their own, by an entry point of the group ``clearhead.kinds``.

    So recipes on the command line can name them; in Python importing such a package is enough.
    """
    for entry in entry_points(group="clearhead.kinds"):
        entry.load()


def kinds(slot: str) -> dict[str, Kind]:
    """The kinds of one slot by name, in the order of their registration."""
    return dict(_kinds[slot])


def slots() -> tuple[str, ...]:
    """The slots that have kinds."""
    return tuple(_kinds)


def module_of(spec: KindSpec) -> Any:
    """The class that builds this spec; it has ``from_spec``."""
    return _kinds[spec.slot][spec.name()].load()


def cost_of(spec: KindSpec) -> Any:
    """The formula of this spec's cost."""
    formula = _kinds[spec.slot][spec.name()].load_cost()
    if formula is None:
        raise ClearheadError(f"{spec.slot} {spec.name()!r} is registered without a cost: its package must give cost=…")
    return formula
