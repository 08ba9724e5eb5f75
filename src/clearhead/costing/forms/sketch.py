"""Tensors that are known by their shapes alone: what a mechanism does, written once, is its cost.

A formula runs a mechanism on sketches as its module runs on tensors. Every operation enters in a ledger its
multiply-accumulates, its other operations, what autograd keeps for the backward pass, and when its result is ready.
The sums are the closed forms; tests hold them against the graphs that torch traces.

Conventions
    work     one multiply-accumulate for each product inside a matrix product; any other arithmetic on a number,
             whatever its name (+, ×, exp, tanh, GELU), is one operation. Moving, masking and looking up is free,
             and so is what depends on positions alone (masks, buckets, angles): it is prepared once.
    span     the longest chain of operations with as many processors as could be used: a sum of k terms takes
             ⌈log₂ k⌉; in the serial reading a dot product of k terms takes k, other sums stay trees.
    space    bytes; numbers are float32, indices int64, masks one byte. With bfloat16 they have the types that torch's
             autocast gives them on a CPU: a product takes and makes bfloat16, for which what is float32 is copied, each
             time it enters a product (a weight once); anything else keeps the type of its input, or the wider of two.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Literal

from sympy import Add, Expr, Integer, Mul, expand_mul

from clearhead.costing.forms.letters import Letters, W, later, lg, pieces
from clearhead.costing.forms.tuned import TunedParts
from clearhead.recipe import Address, Precision, address_of

Path = Literal["explicit", "fused"]
Map = Callable[["Sketch"], "Sketch"]
ZERO, ONE = Integer(0), Integer(1)
FLOAT, HALF, INDEX, MASK = 4, 2, 8, 1
"""Bytes of a float32, a bfloat16, an int64, a bool."""


def product(*factors: Expr | int) -> Expr:
    """Π of these."""
    return Mul(*factors)


@dataclass(eq=False)
class Storage:
    """A piece of memory; views of a tensor share it."""

    size: Expr
    """Bytes."""
    number: int = field(default_factory=count(1).__next__)
    """Older storages have smaller numbers; 0 for what all layers share."""


@dataclass(frozen=True)
class Time:
    """When a result is ready: with sums as trees, and with dot products one term after the other."""

    tree: Expr = ZERO
    serial: Expr = ZERO

    def after(self, tree: Expr | int, serial: Expr | int | None = None) -> "Time":
        """So many operations later."""
        return Time(self.tree + tree, self.serial + (tree if serial is None else serial))

    def join(self, other: "Time") -> "Time":
        """When both are ready."""
        return Time(later(self.tree, other.tree), later(self.serial, other.serial))

    def since(self, other: "Time") -> "Time":
        """The time between."""
        return Time(self.tree - other.tree, self.serial - other.serial)

    def plus(self, span: "Time", times: Expr) -> "Time":
        """So many times this span later; kept a flat sum, so that times can be compared term by term."""
        return Time(self.tree + expand_mul(times * span.tree), self.serial + expand_mul(times * span.serial))


COUNTED = (
    "matrices",  # parameters in matrices: maps and scores
    "vectors",  # parameters in vectors: biases, gains, shifts
    "tables",  # parameters in embedding tables
    "trained",  # parameters that are trained, adapters among them …
    "trained_tensors",  # … their tensors …
    "trained_hidden",  # … those in two-dimensional matrices that are no tables, which Muon moves …
    "trained_hidden_tensors",  # … and the number of these matrices
    "shards",  # parameters on one of W devices, if each is cut along its first dimension …
    "trained_shards",  # … those that are trained …
    "trained_hidden_shards",  # … and those that Muon moves
    "adapters",  # parameters of adapters, which a merged model does not have
    "macs",  # multiply-accumulates of the forward pass, as computed: masked pairs too
    "visible",  # the same without the pairs that a causal mask hides
    "backward",  # multiply-accumulates of the backward pass
    "operations",  # what is no matrix product
    "saved",  # bytes that autograd keeps …
    "copies",  # … those among them in bfloat16 copies of weights
    "cache",  # bytes of keys and values kept between steps
    "sequential",  # operations along the sequence that wait for each other
)
"""What a ledger counts."""


@dataclass
class LedgerBlock:
    """What one block of a model costs by itself; its parts are apart."""

    name: str
    times: Expr = ONE
    """How often it stands there: L for equal layers."""
    parts: list["LedgerBlock"] = field(default_factory=list)
    entries: dict[str, list[Expr]] = field(default_factory=lambda: {what: [] for what in COUNTED})
    """Terms of each sum."""
    span: Time = field(default_factory=Time)
    path: Expr | None = None
    """The longest way between two positions; None if positions do not meet here."""

    def total(self, what: str) -> Expr:
        """The sum with all parts, as a flat sum of terms."""
        inside = (
            part.total(what) if part.times == 1 else expand_mul(part.times * part.total(what)) for part in self.parts
        )
        return Add(*self.entries[what], *inside)

    def alike(self, other: "LedgerBlock") -> bool:
        """Whether two blocks cost the same; only the first of equal layers may have to wait, for the memory."""
        same = self.name == other.name and self.entries == other.entries and self.path == other.path
        return same and all(part.alike(twin) for part, twin in zip(self.parts, other.parts, strict=True))


class Ledger:
    """Records what a run does, block by block."""

    def __init__(
        self,
        *,
        letters: Letters | None = None,
        path: Path = "explicit",
        name: str = "model",
        once: bool = False,
        tuned: TunedParts | None = None,
        recompute: bool = False,
        precision: Precision = "float32",
    ) -> None:
        self.letters = letters or Letters()
        self.path, self.once = path, once
        self.tuned = tuned or TunedParts()
        self.recompute = recompute
        """Whether the backward pass computes each layer again, so that only its input is kept."""
        self.precision = precision
        """What matrix products are computed in."""
        self.root = LedgerBlock(name)
        self._open = [self.root]
        self._saved: set[Storage] = set()
        self._left_out: frozenset[str] = frozenset()
        self._layers: tuple[int, Storage, LedgerBlock] | None = None
        """While layers run: the first storage of their own, their input, and the block around them."""

    @property
    def here(self) -> LedgerBlock:
        """The block that is written to."""
        return self._open[-1]

    @contextmanager
    def block(self, name: str) -> Iterator[LedgerBlock]:
        """Write into a part of this name."""
        part = LedgerBlock(name)
        self.here.parts.append(part)
        with self.inside(part):
            yield part

    @contextmanager
    def inside(self, part: LedgerBlock) -> Iterator[None]:
        """Write into this block."""
        self._open.append(part)
        try:
            yield
        finally:
            self._open.pop()

    @contextmanager
    def without(self, *what: Literal["parameters", "saved"]) -> Iterator[None]:
        """Leave out parameters, or what autograd keeps: for weights that stand in one place and are used in another."""
        before, self._left_out = self._left_out, self._left_out | set(what)
        try:
            yield
        finally:
            self._left_out = before

    @contextmanager
    def in_float32(self) -> Iterator[None]:
        """Products in float32, where torch computes without autocast."""
        before, self.precision = self.precision, "float32"
        try:
            yield
        finally:
            self.precision = before

    def repeat(self, name: str, times: int, letter: Expr, layer: Map, x: "Sketch", *, uneven: bool = False) -> "Sketch":
        """Equal layers: the first one and the second one are run, all others are as the second.

        With ``once`` they are known to be equal, and one is enough, unless the first is ``uneven``: it waits for more.
        What they share and autograd keeps (the memory, a bias) belongs to the block around them.
        """
        parts = self.here.parts
        self._layers = Storage(ZERO).number, x.storage, self.here
        y = self.measured(name, layer, x)
        parts[-1].times = letter
        if self.once and not uneven:
            y = replace(y, time=y.time.plus(parts[-1].span, letter - 1))
        elif times > 1:
            self._layers = Storage(ZERO).number, y.storage, self.here
            z = self.measured(name, layer, y)
            first, second = parts[-2:]
            y = replace(z, time=y.time.plus(second.span, letter - 1))
            second.times = letter
            if first.alike(second):
                del parts[-2]
            else:
                first.name, first.times, second.times = f"{name}.0", ONE, letter - 1
        self._layers = None
        return y

    def computed_again(self, layer: Map, memory: "Sketch | None" = None) -> Map:
        """A layer that keeps its input, and the memory, alone, if the backward pass computes it again."""
        if not self.recompute:
            return layer

        def one(x: "Sketch") -> "Sketch":
            for given in (x, memory):
                if given is not None:
                    self.save(given.storage)
            with self.without("saved"):
                return layer(x)

        return one

    def measured(self, name: str, part: Map, x: "Sketch") -> "Sketch":
        """Run a part and note how long it takes."""
        with self.block(name) as block:
            y = part(x)
            block.span = y.time.since(x.time)
        return y

    def count(self, what: str, amount: Expr) -> None:
        """Add to a sum of the block that is written to."""
        self.here.entries[what].append(amount)

    def mixes(self, *, sequential: Expr = ONE, path: Expr = ONE) -> None:
        """Positions meet in this block, in so many sequential steps, and at most so many layers apart (L4.6)."""
        self.count("sequential", sequential)
        self.here.path = path

    def save(self, storage: Storage, *, copy: bool = False) -> None:
        """Autograd keeps this, once however many operations need it; ``copy`` if it is one of a weight."""
        if storage in self._saved or "saved" in self._left_out:
            return
        self._saved.add(storage)
        block = self.here
        if self._layers is not None:
            own, given, around = self._layers
            block = around if storage.number < own and storage is not given else block
        for what in ("saved", "copies")[: 1 + copy]:
            block.entries[what].append(storage.size)

    def address(self, name: str) -> Address:
        """Where something of this name stands: the names of the blocks around it, layers counted from 1, and its own.

        Of equal layers, which cost the same and are trained alike, the first.
        """
        blocks = ".".join("layers.0" if block.name == "layers" else block.name for block in self._open[1:])
        return address_of(f"{blocks}.{name}".strip("."))

    def parameter(
        self,
        *shape: Expr | int,
        kind: Literal["matrix", "vector", "table"] = "matrix",
        name: str = "weight",
        also: Iterable[str] = (),
    ) -> None:
        """Learned numbers, by the name that they have in their module; ``also`` are other names of them, if tied.

        The shape is that of the parameter: its first dimension is what devices share among them.
        """
        if "parameters" in self._left_out:
            return
        size, shard = product(*shape), product(pieces(shape[0], W), *shape[1:])
        self.count({"matrix": "matrices", "vector": "vectors", "table": "tables"}[kind], size)
        self.count("shards", shard)
        if self.tuned.trains(self.address(name), *map(address_of, also)):
            self._trains(size, shard, hidden=kind == "matrix" and len(shape) == 2)

    def _trains(self, size: Expr, shard: Expr, *, hidden: bool) -> None:
        for what, amount in (("", size), ("_tensors", ONE), ("_shards", shard)):
            self.count(f"trained{what}", amount)
            if hidden:
                self.count(f"trained_hidden{what}", amount)

    def linear(self, inputs: Expr, features: Expr, *, bias: bool = True, name: str = "") -> Storage | None:
        """The parameters of a linear map, and of its adapter if it has one; returns ``copy`` of its matrix."""
        before = f"{name}." if name else ""
        self.parameter(features, inputs, name=f"{before}weight")
        if bias:
            self.parameter(features, kind="vector", name=f"{before}bias")
        rank = self.tuned.rank(self.address(name))
        if rank and "parameters" not in self._left_out:
            for rows, columns in ((rank, inputs), (features, rank)):
                self.count("adapters", rows * columns)
                self._trains(rows * columns, pieces(rows, W) * columns, hidden=True)
        return self.copy(inputs, features)

    def copy(self, *shape: Expr, part: bool = False) -> Storage | None:
        """The bfloat16 copy of a weight, which autocast makes once for all products with it.

        None without autocast, or if the weight stands elsewhere, and is copied there. ``part`` if it is a slice of a
        weight, or a transpose, which autocast does not remember: it is copied for each product.
        """
        if self.precision == "float32" or ("parameters" in self._left_out and not part):
            return None
        return Storage(product(*shape, HALF))

    def input(self, *shape: Expr | int, time: Time | None = None, size: int = FLOAT) -> "Sketch":
        """A tensor from outside."""
        sizes = tuple(Integer(part) if isinstance(part, int) else part for part in shape)
        return Sketch(self, sizes, Storage(product(*shape, size)), time or Time(), itemsize=size)

    def constant(self, *shape: Expr | int, size: int = FLOAT) -> "Sketch":
        """What depends on positions alone: ready at once, without a gradient."""
        return replace(self.input(*shape, size=size), grad=False, data=False)


@dataclass(frozen=True, eq=False)
class Sketch:
    """A tensor known by its shape, and by when it is ready."""

    ledger: Ledger
    shape: tuple[Expr, ...]
    storage: Storage
    time: Time
    packed: bool = True
    """Lies in memory as a matrix product reads it; else a product makes a copy, and keeps that."""
    grad: bool = True
    """Has a gradient."""
    data: bool = True
    """Depends on what the model reads, not on positions alone."""
    itemsize: int = FLOAT
    """Bytes of an entry."""

    # -- views ---------------------------------------------------------------------------------------------------

    @property
    def numel(self) -> Expr:
        """Number of entries."""
        return product(*self.shape)

    def split_heads(self, heads: Expr) -> "Sketch":
        """(b, n, h·d) seen as (b, h, n, d)."""
        *batch, length, joined = self.shape
        return replace(self, shape=(*batch, heads, length, joined / heads), packed=False)

    def join_heads(self) -> "Sketch":
        """(b, h, n, d) as (b, n, h·d): a copy, unless it lies in memory like that."""
        *batch, heads, length, size = self.shape
        shape = (*batch, length, heads * size)
        return self._new(shape, self.time) if self.packed else replace(self, shape=shape, packed=True)

    def transpose(self) -> "Sketch":
        """The last two dimensions swapped."""
        *batch, rows, columns = self.shape
        return replace(self, shape=(*batch, columns, rows))

    def view(self, *shape: Expr, packed: bool | None = None) -> "Sketch":
        """The same memory with another shape, or a part of it."""
        return replace(self, shape=shape, packed=self.packed if packed is None else packed)

    def copy(self) -> "Sketch":
        """The same numbers in memory of their own."""
        return self._new(self.shape, self.time)

    def typed(self, itemsize: int) -> "Sketch":
        """With entries of so many bytes: a copy, unless they have them."""
        if itemsize == self.itemsize:
            return self
        return replace(self, storage=Storage(product(*self.shape, itemsize)), itemsize=itemsize)

    def detach(self) -> "Sketch":
        """Without a gradient."""
        return replace(self, grad=False)

    # -- products ------------------------------------------------------------------------------------------------

    def factor(self) -> "Sketch":
        """As a matrix product takes it: with bfloat16, a copy of what is float32, which is another one each time."""
        return self if self.ledger.precision == "float32" else self.typed(HALF)

    def linear(
        self,
        features: Expr,
        *,
        bias: bool = True,
        known: bool = False,
        name: str = "",
        copied: Storage | None = None,
    ) -> "Sketch":
        """xWᵀ + b for every token; ``known`` if the parameters are counted elsewhere.

        ``name`` is that of the map in the module around it, if it is not the block itself. ``copied`` is the
        ``Ledger.copy`` of a matrix that is known.
        """
        ledger, inner = self.ledger, self.shape[-1]
        rows = product(*self.shape[:-1])
        if not known:
            copied = ledger.linear(inner, features, bias=bias, name=name)
        if bias:
            ledger.count("operations", rows * features)
        self._multiplied(rows * inner * features)
        if self.grad:
            ledger.count("backward", rows * inner * features)  # for the gradient of x; the matrix's own is counted
            if copied is not None:
                ledger.save(copied, copy=True)
        factor = self.factor()
        ledger.save((factor if factor.packed else factor.copy()).storage)
        time = self.time.after(1 + lg(inner) + int(bias), inner + int(bias))
        return factor._new((*self.shape[:-1], features), time, grad=True)

    def matmul(self, other: "Sketch", *, visible: Expr | int = 1, keeps: bool = True) -> "Sketch":
        """A product of matrices for every batch and head; ``visible`` is the share of it that a mask leaves."""
        *batch, rows, inner = self.shape
        columns = other.shape[-1]
        macs = product(*batch, rows, inner, columns)
        self._multiplied(macs, visible)
        self.ledger.count("backward", macs * (int(self.grad) + int(other.grad) - 1))
        first, second = self.factor(), other.factor()
        for mine, yours in ((first, second), (second, first)):
            if yours.grad and keeps:  # with heads torch joins batch and heads, for which it copies what lies apart
                self.ledger.save((mine if mine.packed or len(mine.shape) < 4 else mine.copy()).storage)
        time = self.time.join(other.time).after(1 + lg(inner), inner)
        return first._new((*batch, rows, columns), time, grad=self.grad or other.grad)

    def _multiplied(self, macs: Expr, visible: Expr | int = 1) -> None:
        self.ledger.count("macs", macs)
        self.ledger.count("visible", macs * visible)
        self.ledger.count("backward", macs)

    # -- everything else -----------------------------------------------------------------------------------------

    def _new(self, shape: tuple[Expr, ...], time: Time, *, grad: bool | None = None) -> "Sketch":
        grad = self.grad if grad is None else grad
        storage = Storage(product(*shape, self.itemsize))
        return Sketch(self.ledger, shape, storage, time, grad=grad, data=self.data, itemsize=self.itemsize)

    def _wider(self, other: "Sketch") -> "Sketch":
        """With the type that both have together."""
        return self.typed(max(self.itemsize, other.itemsize))

    def _with(self, other: "Sketch", shape: tuple[Expr, ...] | None) -> "Sketch":
        shape, data = shape or self.shape, self.data or other.data
        if data:
            self.ledger.count("operations", product(*shape))
        time = self.time.join(other.time).after(int(data))
        return replace(self._wider(other)._new(shape, time, grad=self.grad or other.grad), data=data)

    def kernel(
        self,
        operations: Expr,
        span: Expr | int,
        *,
        shape: tuple[Expr, ...] | None = None,
        keeps: Iterable[Storage] = (),
    ) -> "Sketch":
        """One operator of torch, whose operations, span and kept memory are stated."""
        self.ledger.count("operations", operations)
        for storage in keeps:
            self.ledger.save(storage)
        return self._new(shape or self.shape, self.time.after(span))

    def beside(self, other: "Sketch", *shape: Expr) -> "Sketch":
        """Two tensors joined, in memory of their own."""
        return self._wider(other)._new(shape, self.time.join(other.time))

    def add(self, other: "Sketch", shape: tuple[Expr, ...] | None = None) -> "Sketch":
        """A sum, or a difference; ``shape`` if it is broadcast."""
        return self._with(other, shape)

    def multiply(self, other: "Sketch", shape: tuple[Expr, ...] | None = None) -> "Sketch":
        """An entrywise product, which keeps what the gradient of the other factor needs."""
        for mine, yours in ((self, other), (other, self)):
            if yours.grad:
                self.ledger.save(mine.storage)
        return self._with(other, shape)

    def divide(self, other: "Sketch") -> "Sketch":
        """An entrywise quotient."""
        self.ledger.save(other.storage)
        if other.grad:
            self.ledger.save(self.storage)
        return self._with(other, None)

    def gain(self, *shape: Expr) -> "Sketch":
        """Times a learned vector."""
        self.ledger.parameter(*shape, kind="vector", name="gain")
        self.ledger.save(self.storage)
        return self.scale(learned=True)

    def shift(self, *shape: Expr) -> "Sketch":
        """Plus a learned vector."""
        self.ledger.parameter(*shape, kind="vector", name="shift")
        return self.scale(learned=True)

    def scale(self, *, learned: bool = False) -> "Sketch":
        """Times, or plus, a number; what is ``learned`` is float32, and so is the result."""
        return (self.typed(FLOAT) if learned else self).kernel(self.numel, 1)

    def gathered(self, index: Storage, *shape: Expr) -> "Sketch":
        """Entries that an index names: free, but both are kept."""
        self.ledger.save(self.storage)
        self.ledger.save(index)
        return self._new(shape, self.time)

    def apply(self, *, keeps: Literal["input", "output", "nothing"]) -> "Sketch":
        """A function of each entry; says what its gradient is computed from."""
        result = self.scale()
        if keeps != "nothing":
            self.ledger.save((self if keeps == "input" else result).storage)
        return result

    def masked(self, mask: Storage) -> "Sketch":
        """Some entries replaced by a number: free, but the mask is kept for the gradient."""
        if self.grad:
            self.ledger.save(mask)
        return self._new(self.shape, self.time)

    def sum(self, *shape: Expr, mean: bool = False) -> "Sketch":
        """Sums, or means, of so many terms that this shape is left."""
        left = product(*shape)
        operations = self.numel if mean else self.numel - left
        return self.kernel(operations, lg(self.numel / left) + int(mean), shape=shape)

    def softmax(self, *, keeps: bool = True) -> "Sketch":
        """e^(x − max) / Σ: 5M − 2 operations a row, with two sums in sequence (L3.3)."""
        keys = self.shape[-1]
        result = self.kernel(self.numel / keys * (5 * keys - 2), 2 * lg(keys) + 3)
        if keeps:
            self.ledger.save(result.storage)
        return result

    def best(self) -> "Sketch":
        """1 where a row is largest, 0 elsewhere: M − 1 comparisons."""
        keys = self.shape[-1]
        return self.kernel(self.numel / keys * (keys - 1), lg(keys)).detach()
