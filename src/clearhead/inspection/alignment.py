"""Word alignments from attention, as Pharaoh lines (``0-0 1-2``), and their error against gold (AER).

Token y_i of an answer is the *output* of step i and the *input* of step i + 1. A head may attend to its source word at
either step, and usually does at the second (Garg et al. 2019; Kobayashi et al. 2020): ``shift`` says which row is
read. ``choose`` takes the head and the shift that fit best on pairs with gold alignments.

Shapes: m inputs of the decoder, n source tokens.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from clearhead.errors import DataError

Link = tuple[int, int]
"""A source token and an answer token, both from 0."""
Shift = Literal[0, 1]


@dataclass(frozen=True)
class Gold:
    """A reference alignment: sure links, and links that are possible (all sure ones among them)."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True)
class Choice:
    """The head and the shift with the lowest error."""

    head: str
    shift: Shift
    error: float
    """AER on the pairs that it was chosen on, from 0 to 1."""


def links(
    matrix: Float[Tensor, "m n"],
    *,
    shift: Shift,
    sources: Sequence[int],
    answers: Sequence[int],
) -> list[Link]:
    """The strongest source token of every answer token.

    Args:
        matrix: a row for every step of the decoder, a column for every source token.
        shift: 0 reads y_i at the step that puts it out, 1 at the next one, which reads it.
        sources: the source tokens that are words; others are never linked.
        answers: the answer tokens that are words.
    """
    if not sources:
        return []
    found = []
    for answer in answers:
        if answer + shift < len(matrix):
            row = matrix[answer + shift, list(sources)]
            found.append((sources[int(row.argmax())], answer))
    return found


def pharaoh(found: Iterable[Link]) -> str:
    """``0-0 1-2``: source and answer numbers of every link.

    >>> pharaoh([(1, 2), (0, 0)])
    '0-0 1-2'
    """
    return " ".join(f"{source}-{answer}" for source, answer in sorted(set(found)))


def read_pharaoh(line: str, where: str = "alignment") -> Gold:
    """Read ``0-0 1-2 2?3``; a link with ``?`` or ``p`` instead of ``-`` is possible, but not sure."""
    sure, possible = set(), set()
    for word in line.split():
        match = re.fullmatch(r"(\d+)([-?p])(\d+)", word)
        if match is None:
            raise DataError(f"{where}: {word!r} is no link: write SOURCE-ANSWER, both from 0, as 0-0 1-2")
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return Gold(frozenset(sure), frozenset(possible))


def error_rate(found: Sequence[Iterable[Link]], gold: Sequence[Gold]) -> float:
    """AER = 1 − (|A ∩ S| + |A ∩ P|)/(|A| + |S|) over all lines, for links A, sure S and possible P (Och and Ney 2003).

    >>> error_rate([[(0, 0), (1, 1)]], [read_pharaoh("0-0 1?1 2-2")])
    0.25
    """
    if len(found) != len(gold):
        raise DataError(f"{len(found):,} alignments, but {len(gold):,} lines of gold: give one for each")
    hits = total = 0
    for line, truth in zip(found, gold, strict=True):
        chosen = set(line)
        hits += len(chosen & truth.sure) + len(chosen & truth.possible)
        total += len(chosen) + len(truth.sure)
    return 1.0 - hits / total if total else 0.0


def choose(candidates: Mapping[tuple[str, Shift], Sequence[Iterable[Link]]], gold: Sequence[Gold]) -> Choice:
    """The head and the shift whose links have the lowest error; choose on dev, report on test."""
    errors = {key: error_rate(found, gold) for key, found in candidates.items()}
    if not errors:
        raise DataError("there is no head to choose from")
    head, shift = min(errors, key=lambda key: errors[key])
    return Choice(head, shift, errors[head, shift])
