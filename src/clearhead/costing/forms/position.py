"""What positions cost: tables that are added, biases and rotations that act inside attention."""

from dataclasses import dataclass, field, replace

from sympy import Expr

from clearhead.constants import BLOCK
from clearhead.costing.forms.letters import least, lg
from clearhead.costing.forms.sketch import INDEX, Ledger, Sketch, Storage
from clearhead.recipe import AlibiSpec, LearnedSpec, NoPositionSpec, RotarySpec, ShawSpec, SinusoidalSpec, T5BucketsSpec


def distances_within(reach: Expr, queries: Expr, keys: Expr) -> Expr:
    """Distances that have a column of their own, a block beyond the farthest ones included."""
    return least(reach, keys - 1) + least(reach, queries - 1) + 2 * BLOCK + 1


class Scheme:
    """What a relative position scheme does inside attention: each part does nothing unless the scheme overrides it."""

    def inside(self, tile: tuple[Expr, Expr]) -> "Scheme":
        """The scheme inside a tile of so many rows and columns."""
        del tile
        return self

    by_blocks: Expr | None = None
    """Numbers of what is learnt, by distance: where no weights are held, it acts a block of queries at a time."""
    by_distance: Sketch | None = None
    """A bias that is given, by distance: where no weights are held, it need not be spread over all pairs."""
    adds_terms = False
    """Whether something is added to scores or outputs; a scheme that only rotates does not."""
    weighs_positions = False
    """Whether ``value_term`` does something, for which the weights must be formed."""

    def rotate(self, heads: Sketch) -> Sketch:
        """Queries, or keys, changed by where they stand."""
        return heads

    def bias(self) -> Sketch | None:
        """A term added to the scores, from positions alone."""

    def key_term(self, query: Sketch) -> Sketch | None:
        """A term added to q·k, scaled as q·k is."""

    def value_term(self, weights: Sketch) -> Sketch | None:
        """A term added to the heads' outputs."""


@dataclass(frozen=True)
class PositionSetting:
    """Where a relative scheme acts."""

    heads: Expr
    head_size: Expr
    value_size: Expr
    queries: Expr
    keys: Expr
    part: str
    grid: tuple[Expr, Expr] | None = None
    """Rows and columns, if it reads images."""
    forms_scores: bool = False
    """The attention always forms its scores, in windows or because of what it does with them: there are no blocks."""


def none(spec: NoPositionSpec, x: Sketch) -> Sketch:
    """Nothing is added."""
    del spec
    return x


def sinusoidal(spec: SinusoidalSpec, x: Sketch) -> Sketch:
    """A row of a table that is no parameter."""
    del spec
    return x.add(x.ledger.constant(*x.shape[-2:]))


def learned(spec: LearnedSpec, x: Sketch) -> Sketch:
    """A row of a table that is one; its row numbers are kept."""
    length, width = x.shape[-2:]
    ledger = x.ledger
    ledger.parameter(
        ledger.letters("P", spec.size + spec.offset, "pos"), width, kind="table", name="position.table.weight"
    )
    ledger.save(ledger.constant(length, size=INDEX).storage)
    return x.add(ledger.constant(length, width))


@dataclass(frozen=True)
class Bias(Scheme):
    """A bias that is the same for every line, and for all layers of a stack."""

    adds_terms = True
    term: Sketch
    by_blocks: Expr | None = None
    by_distance: Sketch | None = None

    def bias(self) -> Sketch:
        """The term."""
        return self.term


def t5(spec: T5BucketsSpec, ledger: Ledger, where: PositionSetting) -> Scheme:
    """One table of buckets × heads for a stack, looked up for n + m − 1 distances, whose buckets are kept."""
    ledger.parameter(ledger.letters("b", spec.buckets, where.part), where.heads, kind="table", name="table.weight")
    reach = ledger.letters("k", spec.max_distance, where.part)
    within = distances_within(reach, where.queries, where.keys)
    by_blocks = ledger.path == "fused" and not where.forms_scores
    ledger.save(ledger.constant(within if by_blocks else where.queries + where.keys - 1, size=INDEX).storage)
    term = ledger.input(where.heads, where.queries, where.keys)
    return Bias(term, where.heads * within if by_blocks else None)


def alibi(spec: AlibiSpec, ledger: Ledger, where: PositionSetting) -> Scheme:
    """Nothing is learned, and nothing but the sum is computed."""
    del spec
    return Bias(
        ledger.constant(where.heads, where.queries, where.keys),
        by_distance=ledger.constant(where.heads, where.queries + where.keys - 1),
    )


@dataclass(frozen=True)
class ShawScheme(Scheme):
    """Every query meets 2k + 1 vectors, and the weights of each distance meet one: n(2k+1)d each (L2.12)."""

    adds_terms = True
    where: PositionSetting
    keys: bool
    values: bool
    distances: Expr
    by_blocks: Expr | None = None

    @property
    def weighs_positions(self) -> bool:  # type: ignore[override]
        """With vectors for values."""
        return self.values

    def _index(self, ledger: Ledger) -> Storage:
        return ledger.constant(self.where.queries, self.where.keys, size=INDEX).storage

    def key_term(self, query: Sketch) -> Sketch | None:
        """q·a, from which each key takes its own; both are kept, and which it took."""
        if not self.keys:
            return None
        *batch, n, size = query.shape
        copied = query.ledger.copy(self.distances, size, part=True)
        met = query.linear(self.distances, bias=False, known=True, copied=copied)
        return met.gathered(self._index(query.ledger), *batch, n, self.where.keys)

    def value_term(self, weights: Sketch) -> Sketch | None:
        """The weights summed by distance, then mixed."""
        if not self.values:
            return None
        *batch, n, m = weights.shape
        summed = weights.kernel(weights.numel, lg(m), shape=(*batch, n, self.distances))
        weights.ledger.save(self._index(weights.ledger))
        copied = weights.ledger.copy(self.distances, self.where.value_size)
        return summed.linear(self.where.value_size, bias=False, known=True, copied=copied)


def shaw(spec: ShawSpec, ledger: Ledger, where: PositionSetting) -> Scheme:
    """Tables of 2k + 1 vectors, in every layer its own."""
    farthest = ledger.letters("k", spec.farthest, where.part)
    distances = 2 * farthest + 1
    keys, values = spec.relative != "values", spec.relative != "keys"
    tables = {"keys": where.head_size if keys else None, "values": where.value_size if values else None}
    sizes = [size for size in tables.values() if size is not None]
    for name, size in tables.items():
        if size is not None:
            ledger.parameter(distances, size, kind="table", name=f"{name}.weight")
    by_blocks = None
    if ledger.path == "fused" and not where.forms_scores:
        within = distances_within(farthest, where.queries, where.keys)
        ledger.save(ledger.constant(within, size=INDEX).storage)
        by_blocks = within * sum(sizes)
    return ShawScheme(where, keys=keys, values=values, distances=distances, by_blocks=by_blocks)


@dataclass(frozen=True)
class Rope(Scheme):
    """Pairs of features turned by an angle: four products and two sums a pair."""

    ledger: Ledger
    features: Expr | None = None
    """How many features are turned; None for all."""
    made: dict[tuple[Expr, Expr, int], tuple[Sketch, Sketch]] = field(default_factory=dict)
    """Cosines and sines, which all layers share."""

    def rotate(self, heads: Sketch) -> Sketch:
        """(x₁ cos − x₂ sin, x₁ sin + x₂ cos); sines and cosines are kept."""
        if self.features is None:
            return self._turn(heads)
        *batch, length, size = heads.shape
        return self._turn(heads.view(*batch, length, self.features)).beside(heads, *batch, length, size)

    def _turn(self, heads: Sketch) -> Sketch:
        *batch, length, size = heads.shape
        half = heads.view(*batch, length, size / 2)
        cos, sin = self._turns(length, size / 2, heads.itemsize)
        first = half.multiply(cos).add(half.multiply(sin))
        second = half.multiply(sin).add(half.multiply(cos))
        return first.beside(second, *batch, length, size)

    def _turns(self, length: Expr, half: Expr, itemsize: int) -> tuple[Sketch, Sketch]:
        if (length, half, itemsize) not in self.made:
            one = self.ledger.constant(length, half, size=itemsize)
            cos, sin = (replace(one, storage=Storage(one.storage.size, number=0)) for _ in range(2))
            self.made[length, half, itemsize] = cos, sin
        return self.made[length, half, itemsize]


def rope(spec: RotarySpec, ledger: Ledger, where: PositionSetting) -> Scheme:
    """No parameters."""
    return Rope(ledger, ledger.letters("d_r", spec.features, where.part) if spec.features else None)
