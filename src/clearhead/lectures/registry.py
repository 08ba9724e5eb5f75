"""All claims, in the order of the notes. Nothing here imports torch."""

import re
from collections.abc import Sequence

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.lectures import l0, l1, l2, l3, l4
from clearhead.lectures.claim import LECTURES, Claim

_CLAIMS = {
    claim.id: claim
    for part in (l0, l1, l2, l3, l4)
    for claim in sorted(part.CLAIMS, key=lambda claim: claim.place.line)  # claims of one line: as listed
}


def claims() -> tuple[Claim, ...]:
    """Every claim of the lectures, in the order of the notes."""
    return tuple(_CLAIMS.values())


def find_claims(words: Sequence[str]) -> tuple[Claim, ...]:
    """The claims that these words name or describe.

    ``L4.8`` is one claim and ``L4`` stands for a whole lecture. Other words are searched for in titles, statements,
    formulas and headings; a claim must have all of them: ``["L4", "softmax"]`` finds the softmax in lecture 4.
    """
    named: dict[str, Claim] = {}
    sought, problems = [], []
    for word in words:
        name = word.upper()
        if name in LECTURES:
            named |= {claim.id: claim for claim in claims() if claim.lecture == name}
        elif name in _CLAIMS:
            named[name] = _CLAIMS[name]
        elif _is_name(word):
            near = did_you_mean(name, [*_CLAIMS, *LECTURES])
            problems.append(Problem("", word, f"no such claim{near} (clearhead lecture lists them)"))
        else:
            sought += word.split()
    if problems:
        raise RecipeError(problems)
    return _search(sought, tuple(named.values()) or claims()) if sought else tuple(named.values())


def _is_name(word: str) -> bool:
    """Whether a word is written like the name of a claim or of a lecture, L4.8 or L4; others are searched for."""
    return bool(re.fullmatch(r"[Ll]\d[\d.]*", word))


def _search(sought: Sequence[str], among: Sequence[Claim]) -> tuple[Claim, ...]:
    """The claims that have every word."""
    hits = {word: [claim for claim in among if word.casefold() in claim.searchable] for word in sought}
    found = tuple(claim for claim in among if all(claim in matches for matches in hits.values()))
    if found:
        return found
    known = sorted({word for claim in claims() for word in re.findall(r"[^\W\d_][\w-]{2,}", claim.searchable)})
    problems = []
    for word, matches in hits.items():
        if matches:
            listed = ", ".join(claim.id for claim in matches[:6]) + (", …" if len(matches) > 6 else "")
            problems.append(Problem("", word, f"found in {listed}, but no claim has all of these words"))
        else:
            near = did_you_mean(word, known)
            problems.append(Problem("", word, f"no claim has this word{near} (clearhead lecture lists all claims)"))
    raise RecipeError(problems)
