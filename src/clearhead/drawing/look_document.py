"""What the document of a view (``View.as_dict()``) says about one token: where it comes from, and the reasons."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Document = Mapping[str, Any]


class Weighed(NamedTuple):
    """A token and what it weighs."""

    token: str
    value: float
    place: int


def visible(token: str) -> str:
    """A token without anything that moves the cursor: a space that begins a word is ␣.

    >>> visible(" the\\n")
    '␣the⏎'
    """
    text = re.sub("^ ", "␣", token).replace("\n", "⏎").replace("\t", "⇥")
    return "".join(letter if letter.isprintable() else f"<{ord(letter):X}>" for letter in text) or "∅"


def measure_of(document: Document) -> str:
    """What weights are shown by: norms where there are any, else attention."""
    return "norms" if document.get("norms") else "attention"


def totals(document: Document, stack: str) -> NDArray[Any] | None:
    """(queries, keys): the shares of all heads of a stack, averaged over layers; rows sum to 1 or 0."""
    found = []
    for heads in document.get(measure_of(document), {}).get(stack, []):
        kept = [np.asarray(head, dtype=float) for head in heads or () if head is not None]
        if kept:
            layer = np.sum(kept, axis=0)
            sums = layer.sum(1, keepdims=True)
            found.append(np.divide(layer, sums, out=np.zeros_like(layer), where=sums > 0))
    return np.mean(found, axis=0) if found else None


def row_of(document: Document, at: int) -> int | None:
    """The row of the matrices at which an answer token is predicted; None where nothing predicts it."""
    rows: Sequence[int | None] | None = document.get("rows")
    return at if rows is None else rows[at]


def stack_read(document: Document) -> str:
    """The stack that tells where an answer comes from: cross if there is a source and an answer."""
    stacks = document.get(measure_of(document), {})
    return next((stack for stack in ("cross", "decoder", "encoder") if stack in stacks), "cross")


def keys_of(document: Document, stack: str) -> list[str]:
    """The tokens that a stack attends to."""
    tokens = document.get("inputs_of", {}).get("decoder", []) if stack == "decoder" else document.get("source", [])
    return [visible(token) for token in tokens]


def where_from(document: Document, total: NDArray[Any] | None, at: int, most: int = 3) -> list[Weighed]:
    """The tokens that an answer token takes most from."""
    stack = stack_read(document)
    row = row_of(document, at)
    if total is None or row is None:
        return []
    weights = total.mean(0) if stack == "encoder" and document["family"] == "classifier" else total[row]
    keys = keys_of(document, stack)
    best = np.argsort(-weights, kind="stable")[:most]
    return [Weighed(keys[index], float(weights[index]), int(index)) for index in best if weights[index] > 0]


def part_name(name: str) -> str:
    """A part as it is called elsewhere: head 5 of the cross-attention of layer 2 is cross.2.5.

    >>> part_name("decoder.2.cross.5"), part_name("encoder.1.self.3"), part_name("decoder.1.feedforward")
    ('cross.2.5', 'encoder.1.3', 'feed-forward 1')
    """
    name = re.sub(r"^(?:encoder|decoder)\.(\d+)\.cross\.(\d+)$", r"cross.\1.\2", name)
    name = re.sub(r"^(encoder|decoder)\.(\d+)\.\w+\.(\d+)$", r"\1.\2.\3", name)
    name = re.sub(r"^bias (?:encoder|decoder)\.", "bias ", name)
    return re.sub(r"^(?:encoder|decoder)\.(\d+)\.feedforward$", r"feed-forward \1", name)


def parts_at(document: Document, at: int) -> Mapping[str, Any] | None:
    """The parts of an answer token: against another token if the document has them so, else of its logit."""
    found = [one for one in document.get("parts", []) if one["at"] == at]
    return next((one for one in found if one["against"]), found[0] if found else None)


def reasons(document: Document, at: int, most: int = 3) -> list[Weighed]:
    """The strongest parts of an answer token."""
    one = parts_at(document, at)
    if one is None:
        return []
    parts = enumerate(one["parts"])
    best = sorted(parts, key=lambda part: -abs(part[1]["value"]))[:most]
    return [Weighed(part_name(part["name"]), part["value"], index) for index, part in best]
