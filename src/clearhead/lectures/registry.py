"""All claims, in the order of the lectures. Nothing here imports torch."""

from collections.abc import Sequence

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.lectures import l0, l1, l2, l3, l4
from clearhead.lectures.claim import LECTURES, Claim

_CLAIMS = {claim.id: claim for part in (l0, l1, l2, l3, l4) for claim in part.CLAIMS}


def claims() -> tuple[Claim, ...]:
    """Every claim of the lectures, L0.1 to L4.9."""
    return tuple(_CLAIMS.values())


def find_claims(words: Sequence[str]) -> tuple[Claim, ...]:
    """The claims with these ids; the name of a lecture, ``L4``, stands for all of its claims."""
    found: dict[str, Claim] = {}
    problems = []
    for word in words:
        name = word.upper()
        if name in LECTURES:
            found |= {claim.id: claim for claim in claims() if claim.lecture == name}
        elif name in _CLAIMS:
            found[name] = _CLAIMS[name]
        else:
            near = did_you_mean(name, [*_CLAIMS, *LECTURES])
            problems.append(Problem("", word, f"no such claim{near} (clearhead lecture lists them)"))
    if problems:
        raise RecipeError(problems)
    return tuple(found.values())
