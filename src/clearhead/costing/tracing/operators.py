"""What torch's operators cost: multiply-accumulates, other operations, span. Stated once, for graphs and for calls.

Sizes may be numbers or sympy expressions. An operator that is not listed is an error, so that nothing is missed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
from sympy import Expr, Integer

from clearhead.costing.forms.letters import lg
from clearhead.errors import ClearheadError

Shape = Sequence[Expr]
ZERO, ONE = Integer(0), Integer(1)


@dataclass(frozen=True)
class OperatorCost:
    """What one call costs."""

    macs: Expr = ZERO
    operations: Expr = ZERO
    span: Expr = ZERO
    """With sums as trees."""
    serial: Expr | None = None
    """With dot products one term after the other; None if there is no dot product."""

    @property
    def serial_span(self) -> Expr:
        """The span where dot products are serial."""
        return self.span if self.serial is None else self.serial


@dataclass(frozen=True)
class Call:
    """A call of an operator, by the shapes of its tensors."""

    name: str
    inputs: Sequence[Any]
    """A shape for each tensor, the value itself for anything else."""
    output: Shape
    keywords: dict[str, Any]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAKING = _names("zeros ones zeros_like ones_like full full_like empty empty_like new_empty new_zeros new_ones arange")
"""Tensors out of nothing: only the shape of what they are given matters."""

FREE = MAKING | _names(
    """
    view _unsafe_view _reshape_alias as_strided reshape flatten transpose t numpy_T permute movedim unsqueeze squeeze
    expand expand_as select slice split split_with_sizes unsafe_split chunk unbind narrow getitem alias detach unfold
    flip roll clone contiguous copy to _to_copy type_as lift_fresh lift_fresh_copy cat stack pad constant_pad_nd repeat
    repeat_interleave meshgrid embedding index index_select gather scatter index_put fill zero scalar_tensor tril triu
    masked_fill where bitwise_not bitwise_and logical_not logical_and eq ne lt le gt ge nonzero dropout native_dropout
    sym_size _assert_scalar _assert_tensor_metadata
    """
)
"""Moving, choosing, masking, making: no arithmetic."""

EACH = _names(
    """
    add sub rsub mul div pow square sqrt rsqrt reciprocal neg exp log sin cos abs clamp maximum minimum tanh sigmoid
    relu gelu silu
    """
)
"""One operation for each entry of the result."""


def numel(shape: Shape) -> Expr:
    """Number of entries."""
    return sympy.Mul(*shape)


def operator_cost(call: Call) -> OperatorCost:
    """What this call costs; in place or not makes no difference."""
    name = call.name.removesuffix("_")
    if name in FREE:
        return OperatorCost()
    if name in EACH:
        # x·1 and x/1 are no operation
        idle = name in ("mul", "div") and len(call.inputs) > 1 and _is_one(call.inputs[1])
        return OperatorCost() if idle else OperatorCost(operations=numel(call.output), span=ONE)
    if name not in _COSTS:
        raise ClearheadError(f"no cost is stated for torch's operator {call.name!r}")
    return _COSTS[name](call)


def _is_one(value: Any) -> bool:
    return isinstance(value, int | float) and value == 1


def _product(inner: Expr, output: Shape, *, bias: bool = False) -> OperatorCost:
    extra = Integer(int(bias))
    results = numel(output)
    return OperatorCost(results * inner, results * extra, 1 + lg(inner) + extra, inner + extra)


def _linear(call: Call) -> OperatorCost:
    bias = len(call.inputs) > 2 and call.inputs[2] is not None
    return _product(call.inputs[0][-1], call.output, bias=bias)


def _matmul(call: Call) -> OperatorCost:
    return _product(call.inputs[0][-1], call.output)


def _addmm(call: Call) -> OperatorCost:
    return _product(call.inputs[1][-1], call.output, bias=True)


def _convolution(call: Call) -> OperatorCost:
    weight = call.inputs[1]  # out, in, kernel …
    bias = len(call.inputs) > 2 and call.inputs[2] is not None
    return _product(numel(weight[1:]), call.output, bias=bias)


def _softmax(call: Call) -> OperatorCost:
    shape, dim = call.inputs[0], call.inputs[1]
    keys = shape[dim]
    return OperatorCost(operations=numel(shape) / keys * (5 * keys - 2), span=2 * lg(keys) + 3)


def _layer_norm(call: Call) -> OperatorCost:
    shape = call.inputs[0]
    affine = Integer(sum(part is not None for part in call.inputs[2:4]))
    width = shape[-1]
    return OperatorCost(operations=numel(shape[:-1]) * ((5 + affine) * width + 2), span=2 * lg(width) + 7 + affine)


def _rms_norm(call: Call) -> OperatorCost:
    shape = call.inputs[0]
    affine = Integer(len(call.inputs) > 2 and call.inputs[2] is not None)
    width = shape[-1]
    return OperatorCost(operations=numel(shape[:-1]) * ((3 + affine) * width + 2), span=lg(width) + 5 + affine)


def _sum(call: Call) -> OperatorCost:
    terms = numel(call.inputs[0]) / numel(call.output)
    return OperatorCost(operations=numel(call.inputs[0]) - numel(call.output), span=lg(terms))


def _mean(call: Call) -> OperatorCost:
    terms = numel(call.inputs[0]) / numel(call.output)
    return OperatorCost(operations=numel(call.inputs[0]), span=lg(terms) + 1)


def _lerp(call: Call) -> OperatorCost:
    """a + w·(b − a)."""
    return OperatorCost(operations=3 * numel(call.output), span=Integer(3))


def _argmax(call: Call) -> OperatorCost:
    dim = call.inputs[1] if len(call.inputs) > 1 else -1
    keys = call.inputs[0][dim[0] if isinstance(dim, list | tuple) else dim]
    rows = numel(call.inputs[0]) / keys
    return OperatorCost(operations=rows * (keys - 1), span=lg(keys))


def _scatter_add(call: Call) -> OperatorCost:
    """Entries added up by place: all of a row may fall on one."""
    entries = call.inputs[3]
    return OperatorCost(operations=numel(entries), span=lg(entries[-1]))


def _attention(call: Call) -> OperatorCost:
    """Scores, scale, perhaps a mask or bias, softmax, values: as if it were explicit."""
    query, keys = call.inputs[:2]
    scores = (*query[:-1], keys[-2])
    parts = [
        _product(query[-1], scores),
        OperatorCost(operations=numel(scores), span=ONE),
        _softmax(Call("softmax", (scores, -1), scores, {})),
        _product(keys[-2], call.output),
    ]
    return OperatorCost(
        macs=sum((part.macs for part in parts), ZERO),
        operations=sum((part.operations for part in parts), ZERO),
        span=sum((part.span for part in parts), ZERO),
        serial=sum((part.serial_span for part in parts), ZERO),
    )


_COSTS: dict[str, Callable[[Call], OperatorCost]] = {
    "linear": _linear,
    "matmul": _matmul,
    "mm": _matmul,
    "bmm": _matmul,
    "mv": _matmul,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "conv1d": _convolution,
    "conv2d": _convolution,
    "convolution": _convolution,
    "softmax": _softmax,
    "_softmax": _softmax,
    "_safe_softmax": _softmax,
    "layer_norm": _layer_norm,
    "native_layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "sum": _sum,
    "mean": _mean,
    "argmax": _argmax,
    "lerp": _lerp,
    "scatter_add": _scatter_add,
    "amax": _argmax,
    "scaled_dot_product_attention": _attention,
    "_scaled_dot_product_flash_attention_for_cpu": _attention,
}
