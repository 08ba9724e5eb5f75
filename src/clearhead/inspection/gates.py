"""Head gates: each head's output is multiplied by a number before W_O. 1 leaves the head as it is, 0 switches it off.

    concat(g_1 head_1 … g_h head_h) W_O

A head is named ``STACK.LAYER.HEAD``, as ``cross.2.5``: the stack is ``encoder``, ``decoder`` or ``cross`` (the
decoder's attention to the encoder); layers and heads count from 1. Axial attention has heads along rows, then as many
along columns, and they are numbered in this order.

Gates are hooks before W_O, which is where every path of attention (explicit, fused, in blocks) ends and every step of
decoding passes through.

Shapes: b lines, t tiles of a line (1 unless attention works in tiles), n queries, h heads, e features of a value.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention import Heads
from clearhead.blocks import Stack
from clearhead.errors import ClearheadError, Problem, RecipeError, did_you_mean

StackName = Literal["encoder", "decoder", "cross"]
Gates = Mapping[str, Float[Tensor, "..."]]
"""A gate for every head of an attention, (h,), or for every line and head, (b, h), by the name of the attention."""


@dataclass(frozen=True)
class HeadedAttention:
    """One attention of a model with the modules that hold its heads."""

    stack: StackName
    layer: int
    """The layer of the stack, from 1."""
    module: nn.Module
    """The attention, of any kind."""
    parts: tuple[Heads, ...]
    """The modules with projections, in the order of their heads: one, or for axial attention rows and columns."""

    @property
    def name(self) -> str:
        """``STACK.LAYER``."""
        return f"{self.stack}.{self.layer}"

    @property
    def heads(self) -> int:
        """The number of heads, h."""
        return sum(part.heads for part in self.parts)

    @property
    def head_names(self) -> list[str]:
        """``STACK.LAYER.HEAD`` of every head."""
        return [f"{self.name}.{head}" for head in range(1, self.heads + 1)]


def headed_attentions(model: nn.Module) -> list[HeadedAttention]:
    """All attentions of a model that have heads: the encoder's, the decoder's, then cross-attention, layer by layer.

    An attention that is registered by another package has heads here if it contains a ``clearhead.attention.Heads``.
    """
    found = []
    places: tuple[tuple[StackName, str, str], ...] = (
        ("encoder", "encoder", "attention"),
        ("decoder", "decoder", "attention"),
        ("cross", "decoder", "cross"),
    )
    for name, stack_name, attribute in places:
        stack = getattr(model, stack_name, None)
        for number, layer in enumerate(stack.layers if isinstance(stack, Stack) else (), start=1):
            attention = getattr(layer, attribute, None)
            parts = () if attention is None else tuple(part for part in attention.modules() if isinstance(part, Heads))
            if attention is not None and parts:
                found.append(HeadedAttention(name, number, attention, parts))
    return found


def head_names(model: nn.Module) -> list[str]:
    """The names of all heads of a model."""
    return [head for attention in headed_attentions(model) for head in attention.head_names]


@contextmanager
def heads_off(model: nn.Module, names: Iterable[str]) -> Iterator[None]:
    """Switch these heads off inside the ``with`` block: the model computes as if their rows of W_O were 0.

    Args:
        model: the model.
        names: the heads, each ``STACK.LAYER.HEAD`` (``cross.2.5``).
    """
    names = list(names)
    attentions = known_heads(model, names)
    gates = {
        attention.name: torch.tensor([0.0 if head in names else 1.0 for head in attention.head_names])
        for attention in attentions
        if not set(names).isdisjoint(attention.head_names)
    }
    with head_gates(model, gates):
        yield


@contextmanager
def head_gates(model: nn.Module, gates: Gates) -> Iterator[None]:
    """Multiply the output of every head by its gate inside the ``with`` block; gradients flow into the gates.

    Args:
        model: the model.
        gates: by the name of the attention (``cross.2``) a tensor of shape (h,), or of shape (b, h) to give every line
            of the batch gates of its own. Attentions without gates stay as they are.
    """
    attentions = {attention.name: attention for attention in _with_heads(model)}
    for name, gate in gates.items():
        if name not in attentions:
            message = f"the model has no such attention with heads, only {', '.join(attentions)}"
            raise RecipeError([Problem("", name, message + did_you_mean(name, list(attentions)))])
        heads = attentions[name].heads
        if gate.dim() not in (1, 2) or gate.shape[-1] != heads:
            raise ValueError(f"{name} has {heads} heads: gates of shape {tuple(gate.shape)} are not (h,) or (b, h)")
    with ExitStack() as stack:
        for name, gate in gates.items():
            first = 0
            for part in attentions[name].parts:
                share = gate[..., first : first + part.heads]
                hook = part.output.register_forward_pre_hook(_before_output(share))
                stack.callback(hook.remove)
                first += part.heads
        yield


def known_heads(model: nn.Module, names: Iterable[str]) -> list[HeadedAttention]:
    """The attentions of a model that has all these heads; others, or a model without heads, are refused."""
    attentions = _with_heads(model)
    known = [head for attention in attentions for head in attention.head_names]
    problems = [Problem("", name, _no_such_head(name, attentions, known)) for name in names if name not in known]
    if problems:
        raise RecipeError(problems)
    return attentions


def _before_output(gates: Float[Tensor, "*b h"]) -> Callable[[nn.Module, tuple[Tensor, ...]], tuple[Tensor]]:
    def multiply(_output: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor]:
        (joined,) = inputs  # (b·t, n, h·e)
        heads = joined.view(*joined.shape[:-1], gates.shape[-1], -1)  # (b·t, n, h, e)
        gate = gates.to(heads)
        if gate.dim() == 2:
            gate = gate.repeat_interleave(len(heads) // len(gate), dim=0)[:, None]  # (b·t, 1, h)
        return ((heads * gate.unsqueeze(-1)).flatten(2),)

    return multiply


def _with_heads(model: nn.Module) -> list[HeadedAttention]:
    """The attentions with heads; a model without any is refused."""
    attentions = headed_attentions(model)
    if attentions:
        return attentions
    stacks = [part for part in (getattr(model, name, None) for name in ("encoder", "decoder")) if part is not None]
    kinds = sorted({type(part).__name__ for part in stacks})
    raise ClearheadError(
        f"this model has no heads ({' and '.join(kinds) or type(model).__name__}): "
        "its attention, if any, is a single alignment, so there is no head to switch off or to compare"
    )


def _no_such_head(name: str, attentions: list[HeadedAttention], known: list[str]) -> str:
    ranges = []
    for stack in dict.fromkeys(attention.stack for attention in attentions):
        own = [attention for attention in attentions if attention.stack == stack]
        ranges.append(f"{own[0].head_names[0]} … {own[-1].head_names[-1]}")
    return f"no such head: a head is STACK.LAYER.HEAD, here {', '.join(ranges)}{did_you_mean(name, known)}"
