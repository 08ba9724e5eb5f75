"""What share each part of a model has in its parameters and its work: few rows that a reader of the lectures knows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from clearhead.costing.forms.formula import Formula


class CostBlock(Protocol):
    """A block whose shares are asked for."""

    @property
    def name(self) -> str:
        """That of its module."""

    @property
    def times(self) -> Formula:
        """How many such blocks there are."""

    @property
    def parts(self) -> Sequence["CostBlock"]:
        """The blocks inside it."""

    @property
    def parameters(self) -> Formula:
        """Of one such block, with its parts."""

    @property
    def macs(self) -> Formula:
        """Of one such block, with its parts."""


LAYERED = ("attention", "convolution", "cross", "feedforward")
"""Parts of a layer that have a row of their own."""
NORMS = "norms"
SMALL = 0.001
"""Parts with a smaller share than this, in parameters and in work, are one row."""


@dataclass(frozen=True)
class Share:
    """A part of a model, all its layers together; the parameters and the MACs of all shares add up to the model's."""

    name: str
    parameters: Formula
    macs: Formula


def shares_of(cost: CostBlock) -> list[Share]:
    """The parts in the order in which they run; those that cost nothing are left out, norms stand last."""
    rows: dict[str, tuple[Formula, Formula]] = {}
    for name, parameters, macs in _pieces(cost):
        before = rows.get(name)
        rows[name] = (parameters, macs) if before is None else (before[0] + parameters, before[1] + macs)
    norms = rows.pop(NORMS, None)
    ordered = [*rows.items(), *([] if norms is None else [(NORMS, norms)])]
    return [Share(name, *both) for name, both in ordered if both[0] != 0 or both[1] != 0]


def counted_shares(cost: CostBlock, place: Mapping[str, int]) -> list[tuple[str, int, int]]:
    """Name, parameters and MACs of each part at these lengths; those that hardly count are one row, at the end."""
    counted = [(one.name, one.parameters.at(**place), one.macs.at(**place)) for one in shares_of(cost)]
    wholes = cost.parameters.at(**place), cost.macs.at(**place)
    small = [row for row in counted if all(part <= SMALL * whole for part, whole in zip(row[1:], wholes, strict=True))]
    if len(small) < 2:
        return counted
    merged = " and ".join(row[0] for row in small), sum(row[1] for row in small), sum(row[2] for row in small)
    return [*(row for row in counted if row not in small), merged]


def percent(part: int, whole: int) -> str:
    """A share of a whole, with one decimal; nothing of nothing has none."""
    share = 100 * part / whole if whole else 0.0
    return "" if not whole else "< 0.1 %" if 0 < share < 0.05 else f"{share:.1f} %"


Piece = tuple[str, Formula, Formula]


def _pieces(cost: CostBlock) -> Iterator[Piece]:
    if _is_stack(cost):
        yield from _stack(cost)
        return
    if any(part.name in LAYERED for part in cost.parts):
        yield from _layer("", cost, 1)
        return
    for part in cost.parts:
        yield from _stack(part) if _is_stack(part) else [_piece(_words(part.name), part)]
    yield _rest(cost.name, cost)


def _is_stack(cost: CostBlock) -> bool:
    """Whether a block is an encoder or a decoder."""
    return any(part.name == "embedding" for part in cost.parts)


def _stack(stack: CostBlock) -> Iterator[Piece]:
    """An encoder or a decoder: its embedding, what its layers consist of, and what they share."""
    layers = [part for part in stack.parts if part.name.startswith("layers")]
    layered = any(inner.name in LAYERED for layer in layers for inner in layer.parts)
    for part in stack.parts:
        if part.name == "embedding":
            yield _piece("embedding", part)
        elif part.name == "final_norm":
            yield _piece(NORMS, part)
        elif part in layers and layered:
            yield from _layer(stack.name, part, part.times)
        else:
            yield _piece(_words(part.name) if layered else stack.name, part)
    yield _rest(f"{stack.name}, shared by layers" if layered else stack.name, stack)


def _layer(stack: str, layer: CostBlock, times: Formula | int) -> Iterator[Piece]:
    crosses = any(part.name == "cross" for part in layer.parts)
    words = {
        "attention": "self-attention" if crosses else "attention",
        "cross": "cross-attention",
        "feedforward": "feed-forward",
    }
    for part in layer.parts:
        name = f"{stack} {words.get(part.name) or _words(part.name)}".strip()
        yield _piece(NORMS if part.name.startswith("around_") else name, part, times)
    yield _rest(f"{stack} layers".strip(), layer, times)


def _words(name: str) -> str:
    return {"scheme": "positions"}.get(name, name.replace("_", " "))


def _piece(name: str, part: CostBlock, times: Formula | int = 1) -> Piece:
    return name, part.parameters * part.times * times, part.macs * part.times * times


def _rest(name: str, cost: CostBlock, times: Formula | int = 1) -> Piece:
    """What a block costs beside its parts."""
    parameters, macs = cost.parameters, cost.macs
    for part in cost.parts:
        parameters, macs = parameters - part.parameters * part.times, macs - part.macs * part.times
    return name, parameters * times, macs * times
