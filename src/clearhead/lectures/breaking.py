"""Breaks the product on purpose and asks which claims notice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.lectures.breaks import BREAKS, Break
from clearhead.lectures.claim import Claim
from clearhead.lectures.outcome import Outcome, demonstrate
from clearhead.lectures.registry import claims, find_claims


@dataclass(frozen=True)
class BreakReport:
    """What the claims said while the product was broken."""

    broken: Break
    outcomes: tuple[Outcome, ...]

    @property
    def noticed(self) -> tuple[str, ...]:
        """The claims that were not reproduced."""
        return tuple(outcome.claim.id for outcome in self.outcomes if not outcome.reproduced)

    def __str__(self) -> str:
        names = ", ".join(self.noticed) or "none of them"
        return f"{self.broken.name}: noticed by {len(self.noticed)} of {len(self.outcomes)} claims: {names}"


def breaks() -> tuple[Break, ...]:
    """The catalogue of mutations that ``break_product`` knows."""
    return BREAKS


def break_product(
    name: str, ids: Sequence[str] = (), *, report: Callable[[Outcome], None] | None = None
) -> BreakReport:
    """Run claims while a part of the product is broken: ``clearhead.break_product("scale-by-d").noticed``.

    Args:
        name: a name of the catalogue; see ``clearhead.breaks()``.
        ids: the claims to run, as ``find_claims`` takes them. Default: all.
        report: called with each outcome as it is done.

    The product is whole again afterwards.
    """
    one = _find(name)
    chosen = find_claims(list(ids)) or claims()
    _import_demonstrations(chosen)
    from clearhead.lectures.demonstrations.broken import broken

    outcomes = []
    with broken(one.target, one.wrong):
        for claim in chosen:
            outcomes.append(outcome := demonstrate(claim))
            if report is not None:
                report(outcome)
    return BreakReport(one, tuple(outcomes))


def _find(name: str) -> Break:
    names = {one.name: one for one in BREAKS}
    if name not in names:
        near = did_you_mean(name, list(names))
        raise RecipeError([Problem("", name, f"no such break{near} (clearhead lecture --break list)")])
    return names[name]


def _import_demonstrations(chosen: Sequence[Claim]) -> None:
    """A module that is imported while something is broken would keep the broken part."""
    for claim in chosen:
        import_module(f"clearhead.lectures.demonstrations.{claim.demonstration.partition(':')[0]}")
