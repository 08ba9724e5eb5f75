"""The formulas of the lectures as functions of bare sizes: numbers in, numbers out; letters in, expressions out.

All of them run the same sketches as the models do, so that nothing is typed in twice.
"""

from dataclasses import dataclass
from typing import TypeAlias

import sympy
from sympy import Expr

from clearhead.costing.forms.letters import pieces
from clearhead.costing.forms.local import window_path
from clearhead.costing.forms.sketch import Ledger, LedgerBlock, Sketch, product
from clearhead.recipe.local import Sides

Size: TypeAlias = int | Expr


def _sizes(*sizes: Size) -> tuple[Expr, ...]:
    return tuple(sympy.sympify(size) for size in sizes)


def matmul_work(rows: Size, inner: Size, columns: Size) -> Expr:
    """Multiplications of (m×n)(n×p): mnp (L0.4, L4.1)."""
    ledger = Ledger()
    ledger.input(*_sizes(rows, inner)).matmul(ledger.input(*_sizes(inner, columns)))
    return ledger.root.total("macs")


def matmul_space(rows: Size, inner: Size, columns: Size) -> Expr:
    """Numbers in the result of (m×n)(n×p): mp (L0.4)."""
    ledger = Ledger()
    return ledger.input(*_sizes(rows, inner)).matmul(ledger.input(*_sizes(inner, columns))).numel


@dataclass(frozen=True)
class AttentionTerms:
    """Attention term by term (L0.5): scores, choice, values."""

    scores: Expr
    choice: Expr
    values: Expr

    @property
    def macs(self) -> Expr:
        """What is a matrix product."""
        return self.scores + self.values

    @property
    def total(self) -> Expr:
        """Everything."""
        return self.scores + self.choice + self.values


def attention_work(N: Size, M: Size, d_q: Size, d_v: Size) -> AttentionTerms:
    """a(QKᵀ/√d_q)V for N queries over M keys (L0.5): NMd_q, then 5M − 2 operations a row, then NMd_v."""
    N, M, d_q, d_v = _sizes(N, M, d_q, d_v)
    ledger = Ledger()
    query, keys, values = ledger.input(N, d_q), ledger.input(M, d_q), ledger.input(M, d_v)
    with ledger.block("scores") as scores:
        product_ = query.matmul(keys.transpose())
    with ledger.block("choice") as choice:
        weights = product_.softmax()
    with ledger.block("values") as mixed:
        weights.matmul(values)
    return AttentionTerms(scores.total("macs"), sympy.expand(choice.total("operations")), mixed.total("macs"))


def attention_space(N: Size, M: Size, d_q: Size, d_v: Size) -> Expr:
    """Numbers that attention makes: the weights and the result, MN + N·d_v (L0.6)."""
    N, M, d_q, d_v = _sizes(N, M, d_q, d_v)
    ledger = Ledger()
    weights = ledger.input(N, d_q).matmul(ledger.input(d_q, M)).softmax()
    return weights.numel + weights.matmul(ledger.input(M, d_v)).numel


@dataclass(frozen=True)
class MultiHeadTerms:
    """Multi-head attention term by term: projections, attention, output (L0.8 for work, L0.9 for space)."""

    projections: Expr
    attention: Expr
    output: Expr

    @property
    def total(self) -> Expr:
        """The sum."""
        return self.projections + self.attention + self.output


def multihead_work(
    N: Size, M: Size, *, h: Size, d_q: Size, d_v: Size, head_q: Size, head_v: Size, d_o: Size
) -> MultiHeadTerms:
    """h(d_q·d̃_q(M+N) + d_v·d̃_v·M) + h(NM·d̃_q + NM·d̃_v) + N·h·d̃_v·d_o (L0.8); no biases, no softmax."""
    blocks, _ = _multihead(N=N, M=M, h=h, d_q=d_q, d_v=d_v, head_q=head_q, head_v=head_v, d_o=d_o)
    return MultiHeadTerms(*(block.total("macs") for block in blocks))


def multihead_space(
    N: Size, M: Size, *, h: Size, d_q: Size, d_v: Size, head_q: Size, head_v: Size, d_o: Size
) -> MultiHeadTerms:
    """h(d̃_q(M+N) + d̃_v·M) + h(MN + N·d̃_v) + N·d_o (L0.9): numbers that each part makes."""
    _, made = _multihead(N=N, M=M, h=h, d_q=d_q, d_v=d_v, head_q=head_q, head_v=head_v, d_o=d_o)
    return MultiHeadTerms(*made)


def _multihead(
    *, N: Size, M: Size, h: Size, d_q: Size, d_v: Size, head_q: Size, head_v: Size, d_o: Size
) -> tuple[list[LedgerBlock], list[Expr]]:
    N, M, h, d_q, d_v, head_q, head_v, d_o = _sizes(N, M, h, d_q, d_v, head_q, head_v, d_o)
    ledger = Ledger()

    def project(rows: Expr, width: Expr, size: Expr) -> Sketch:
        return ledger.input(rows, width).linear(h * size, bias=False).split_heads(h)

    with ledger.block("projections") as projections:
        query, keys, values = project(N, d_q, head_q), project(M, d_q, head_q), project(M, d_v, head_v)
    with ledger.block("attention") as attention:
        weights = query.matmul(keys.transpose()).softmax()
        heads = weights.matmul(values)
    with ledger.block("output") as output:
        result = heads.join_heads().linear(d_o, bias=False)
    made = [query.numel + keys.numel + values.numel, weights.numel + heads.numel, result.numel]
    return [projections, attention, output], made


def span_of_dot(terms: Size, *, serial: bool = False) -> Expr:
    """A dot product: 1 + ⌈log₂ D⌉ with a tree, D one after the other."""
    (size,) = _sizes(terms)
    ledger = Ledger()
    time = ledger.input(1, size).matmul(ledger.input(size, 1)).time
    return time.serial if serial else time.tree


def span_of_softmax(terms: Size) -> Expr:
    """A stable softmax: 2⌈log₂ T⌉ + 3 (L3.3); the maximum is a second tree that the lecture leaves out."""
    ledger = Ledger()
    return ledger.input(*_sizes(terms)).softmax().time.tree


def span_of_scores(T: Size, U: Size, *, serial: bool = False) -> Expr:
    """Problem 1(a) (L3.3): scores over U features, then a softmax over T keys."""
    T, U = _sizes(T, U)
    ledger = Ledger()
    time = ledger.input(T, U).matmul(ledger.input(U, T)).softmax().time
    return time.serial if serial else time.tree


def span_of_attention(T: Size, J: Size, U: Size, *, serial: bool = False) -> Expr:
    """Problem 1(b) (L3.4): the layer of L3.1, 6 + ⌈log₂ J⌉ + ⌈log₂ U⌉ + 3⌈log₂ T⌉; Out is a dot product over T.

    Two dimensions are the same with T = XY (L3.6).
    """
    T, J, U = _sizes(T, J, U)
    ledger = Ledger()
    x = ledger.input(T, J)
    query, keys, values = (x.linear(U, bias=False) for _ in range(3))
    time = query.matmul(keys.transpose()).softmax().matmul(values).time
    return time.serial if serial else time.tree


# -- the layers of Table 1 (L4.6): work, sequential operations, longest path -----------------------------------------


@dataclass(frozen=True)
class LayerCost:
    """A row of Table 1: n tokens of width d."""

    name: str
    macs: Expr
    """Multiply-accumulates, matrices of its own included."""
    mixing: Expr
    """Without the projections: what the table prints."""
    sequential: Expr
    path: Expr


def self_attention_layer(n: Size, d: Size) -> LayerCost:
    """Every token attends to every token: 4nd² + 2n²d, of which the table prints n²d."""
    n, d = _sizes(n, d)
    work = multihead_work(n, n, h=1, d_q=d, d_v=d, head_q=d, head_v=d, d_o=d)
    one = sympy.Integer(1)
    return LayerCost("self-attention", work.total, work.attention, one, one)


def recurrent_layer(n: Size, d: Size, *, gates: int = 1) -> LayerCost:
    """Elman (1 gate), GRU (3), LSTM (4): input and state through a d×d map each, 2·gates·nd², one after the other."""
    n, d = _sizes(n, d)
    name = {1: "recurrent (Elman)", 3: "recurrent (GRU)", 4: "recurrent (LSTM)"}.get(gates, "recurrent")
    macs = 2 * gates * n * d**2
    return LayerCost(name, macs, macs, n, n)


def convolution_layer(n: Size, d: Size, k: Size) -> LayerCost:
    """A kernel of k tokens: k·n·d²; dilated layers join all positions in ⌈log_k n⌉ of them."""
    n, d, k = _sizes(n, d, k)
    path = sympy.ceiling(sympy.log(n, k))
    macs = k * n * d**2
    return LayerCost("convolution", macs, macs, sympy.Integer(1), path)


def restricted_layer(n: Size, d: Size, r: Size, *, sides: Sides = "both") -> LayerCost:
    """Each token attends to a window of r tokens, its own included: 2nrd, of which the table prints rnd.

    Computed in ⌈n/(r − 1)⌉ blocks of r − 1 queries over 2(r − 1) keys (``LocalAttention``), after 4nd² for the
    projections. A layer carries a signal r − 1 tokens far on one side, (r − 1)/2 on both sides, so that of the order of
    n/r layers join all positions.
    """
    n, d, r = _sizes(n, d, r)
    macs = 4 * n * d**2 + 4 * pieces(n, r - 1) * (r - 1) ** 2 * d
    path = window_path(n, r, both=sides == "both")
    return LayerCost("restricted attention", macs, 2 * product(n, r, d), sympy.Integer(1), path)
