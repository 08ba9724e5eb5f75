"""A module's graph, traced by ``torch.export`` with open lengths, and what its nodes cost.

Each node knows the submodule that it belongs to and its shape as an expression in our letters, so that sums over nodes
are formulas again: a closed form minus such a sum must be 0.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from sympy import Expr, Symbol
from torch import Tensor, fx, nn

from clearhead.costing.forms.letters import later
from clearhead.costing.tracing.operators import MAKING, ZERO, Call, OperatorCost, operator_cost

Letters = Sequence[Symbol | None]


@dataclass(frozen=True)
class Node:
    """One operator of a traced graph."""

    name: str
    owner: str
    """The submodule that it belongs to: ``encoder.layers.0.attention``."""
    cost: OperatorCost
    ready: Expr
    """When its result is ready, sums as trees …"""
    ready_serial: Expr
    """… and with dot products one term after the other."""


@dataclass(frozen=True)
class Traced:
    """A traced graph."""

    nodes: tuple[Node, ...]
    span: Expr
    """The longest path through the graph."""
    serial_span: Expr

    def _sum(self, what: str, owner: str) -> Expr:
        inside = (node for node in self.nodes if not owner or node.owner == owner or node.owner.startswith(f"{owner}."))
        return sympy.expand(sum((getattr(node.cost, what) for node in inside), ZERO))

    def total(self, what: str) -> Expr:
        """The whole graph's ``macs``, ``operations``, ``span`` or ``serial_span``."""
        return getattr(self, what) if what.endswith("span") else self._sum(what, "")

    def macs(self, owner: str = "") -> Expr:
        """Multiply-accumulates of a submodule, or of everything."""
        return self._sum("macs", owner)

    def operations(self, owner: str = "") -> Expr:
        """What is no matrix product."""
        return self._sum("operations", owner)


class _Calling(nn.Module):
    """A module that takes tensors alone, as torch.export wants it: the function says how to call the module inside."""

    def __init__(self, inner: nn.Module, call: Callable[..., Tensor]) -> None:
        super().__init__()
        self.inner, self._call = inner, call

    def forward(self, *tensors: Tensor) -> Tensor:
        return self._call(self.inner, *tensors)


def trace(
    module: nn.Module,
    tensors: Sequence[Tensor],
    letters: Sequence[Letters],
    *,
    call: Callable[..., Tensor] | None = None,
    longest: int = 4096,
) -> Traced:
    """Trace a module on these tensors; ``letters`` names the open dimensions of each, None for fixed ones.

    ``call(module, *tensors)`` says how to call it, if not with the tensors alone. An open dimension may be anything
    from 2 up to ``longest``. The module is traced as it is: attention whose ``path`` is ``explicit`` shows its parts.
    """
    dims: dict[Symbol, Any] = {}
    shapes: list[dict[int, Any]] = []
    for named in letters:
        shapes.append({})
        for position, symbol in enumerate(named):
            if symbol is not None:
                dims.setdefault(symbol, torch.export.Dim(f"{symbol.name}_", min=2, max=longest))
                shapes[-1][position] = dims[symbol]
    wrapped = _Calling(module, call or (lambda inner, *given: inner(*given)))
    program = torch.export.export(wrapped, tuple(tensors), dynamic_shapes=(tuple(shapes),))
    inputs = set(program.graph_signature.user_inputs)
    learned = set(program.graph_signature.inputs_to_parameters)
    given = [node for node in program.graph.nodes if node.op == "placeholder" and node.name in inputs]
    names: dict[Symbol, Symbol] = {}
    for node, named in zip(given, letters, strict=True):
        for size, symbol in zip(node.meta["val"].shape, named, strict=False):
            if symbol is not None:
                names[size.node.expr] = symbol
    return _walk(program.graph, {*inputs, *learned}, names)


def _walk(graph: fx.Graph, live: set[str], names: dict[Symbol, Symbol]) -> Traced:
    """Every node's cost; what does not depend on inputs or parameters (positions, masks) is free."""
    times: dict[str, tuple[Expr, Expr]] = dict.fromkeys(live, (ZERO, ZERO))
    nodes: list[Node] = []
    result = (ZERO, ZERO)
    for node in graph.nodes:
        ready = [times[argument.name] for argument in node.all_input_nodes if argument.name in times]
        value = node.meta.get("val")
        if node.op == "output":
            result = _latest(ready)
        if node.op != "call_function" or not ready or not _holds_tensors(value) or _name(node) in MAKING:
            continue
        tree, serial = _latest(ready)
        if _is_floating(value) or _name(node) == "argmax":
            cost = operator_cost(_call(node, names))
            tree, serial = tree + cost.span, serial + cost.serial_span
            nodes.append(Node(_name(node), _owner(node), cost, tree, serial))
        times[node.name] = tree, serial
    return Traced(tuple(nodes), *result)


def _latest(times: Sequence[tuple[Expr, Expr]]) -> tuple[Expr, Expr]:
    tree, serial = times[0]
    for other in times[1:]:
        tree, serial = later(tree, other[0]), later(serial, other[1])
    return tree, serial


def _holds_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, list | tuple) and any(map(_holds_tensors, value)))


def _is_floating(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return any(_is_floating(part) for part in value)
    return isinstance(value, Tensor) and value.is_floating_point()


def _name(node: fx.Node) -> str:
    packet = getattr(node.target, "overloadpacket", None)
    return str(packet).rpartition(".")[2] if packet is not None else str(getattr(node.target, "__name__", node.target))


def _shape(tensor: Tensor, names: dict[Symbol, Symbol]) -> tuple[Expr, ...]:
    return tuple(
        size.node.expr.xreplace(names) if isinstance(size, torch.SymInt) else sympy.Integer(size)
        for size in tensor.shape
    )


def _call(node: fx.Node, names: dict[Symbol, Symbol]) -> Call:
    def seen(argument: Any) -> Any:
        value = argument.meta.get("val") if isinstance(argument, fx.Node) else argument
        return _shape(value, names) if isinstance(value, Tensor) else value

    output = node.meta["val"]
    output = output[0] if isinstance(output, list | tuple) else output
    return Call(_name(node), [seen(argument) for argument in node.args], _shape(output, names), dict(node.kwargs))


def _owner(node: fx.Node) -> str:
    """The innermost submodule, without the wrapper around all."""
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    path = str(stack[-1][0]) if stack else ""
    return path.removeprefix("inner").removeprefix(".")
