"""What positions cost: tables that are added, biases and rotations that act inside attention."""

from dataclasses import dataclass, field
from typing import Protocol

from sympy import Expr

from clearhead.costing.forms.sketch import INDEX, Ledger, Sketch
from clearhead.recipe import Learned, NoPosition, Rotary, Sinusoidal, T5Buckets


class Scheme(Protocol):
    """What a relative position scheme does inside attention."""

    def rotate(self, heads: Sketch) -> Sketch:
        """Queries, or keys, changed by where they stand."""
        ...

    def bias(self) -> Sketch | None:
        """A term added to the scores, made once for all layers."""
        ...


@dataclass(frozen=True)
class Acting:
    """Where a relative scheme acts."""

    heads: Expr
    queries: Expr
    keys: Expr
    part: str


def none(spec: NoPosition, x: Sketch) -> Sketch:
    """Nothing is added."""
    del spec
    return x


def sinusoidal(spec: Sinusoidal, x: Sketch) -> Sketch:
    """A row of a table that is no parameter."""
    del spec
    return x.add(x.ledger.constant(*x.shape[-2:]))


def learned(spec: Learned, x: Sketch) -> Sketch:
    """A row of a table that is one; its row numbers are kept."""
    length, width = x.shape[-2:]
    ledger = x.ledger
    ledger.parameter(ledger.letters("P", spec.size + spec.offset, "pos"), width, kind="table")
    ledger.save(ledger.constant(length, size=INDEX).storage)
    return x.add(ledger.constant(length, width))


@dataclass
class T5:
    """A learned bias per head and bucket, looked up once for all layers of a stack."""

    ledger: Ledger
    where: Acting
    _bias: Sketch | None = field(default=None)

    def rotate(self, heads: Sketch) -> Sketch:
        """Queries and keys stay as they are."""
        return heads

    def bias(self) -> Sketch:
        """table[bucket(j − i)]; the buckets are kept."""
        if self._bias is None:
            self.ledger.save(self.ledger.constant(self.where.queries, self.where.keys, size=INDEX).storage)
            self._bias = self.ledger.input(self.where.heads, self.where.queries, self.where.keys)
        return self._bias


def t5(spec: T5Buckets, ledger: Ledger, where: Acting) -> T5:
    """One table of buckets × heads for a stack."""
    ledger.parameter(ledger.letters("b", spec.buckets, where.part), where.heads, kind="table")
    scheme = T5(ledger, where)
    scheme.bias()
    return scheme


@dataclass(frozen=True)
class Rope:
    """Pairs of features turned by an angle: four products and two sums a pair."""

    ledger: Ledger

    def rotate(self, heads: Sketch) -> Sketch:
        """(x₁ cos − x₂ sin, x₁ sin + x₂ cos); sines and cosines are kept."""
        *batch, length, size = heads.shape
        half = heads.view(*batch, length, size / 2)
        cos, sin = self.ledger.constant(length, size / 2), self.ledger.constant(length, size / 2)
        first = half.multiply(cos).add(half.multiply(sin))
        second = half.multiply(sin).add(half.multiply(cos))
        return first.beside(second, *batch, length, size)

    def bias(self) -> None:
        """Nothing is added to the scores."""


def rope(spec: Rotary, ledger: Ledger, where: Acting) -> Rope:
    """No parameters."""
    del spec, where
    return Rope(ledger)
