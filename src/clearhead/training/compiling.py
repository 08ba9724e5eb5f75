"""``training.compile``: the model's forward and backward pass as a graph that torch has compiled.

What is compiled is the way from token ids to states, or to a classifier's logits. Choosing the tokens that count, and
the loss, stay outside: their number is another one in each batch, and a graph would be made for each. So there is one
graph for batches of any size, and torch makes another only where a side of a batch is 1 (one line, or one token).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import ClearheadError
from clearhead.models import ClassifierModel, Model, device_of
from clearhead.positions import SinusoidalPosition
from clearhead.training.objectives import Objective

BACKEND = "inductor"
"""What makes programs of graphs: torch's own."""
GRAPHS = 8
"""Graphs of one model, at most: lines, source tokens and target tokens of a batch may each be one or many."""
AROUND = 8
"""Special tokens of a line, at most, which data.max_length does not count."""


def compiled(model: Model, objective: Objective[Any, Any, Any]) -> Any:
    """The model for its objective's ``loss``, compiled when the first batch comes."""
    if BACKEND == "inductor" and device_of(model).type == "cpu":
        _require_compiler()
    return CompiledModel(model, objective.recipe.data.max_length + AROUND)


class CompiledModel:
    """A model as its objective calls it: ``states``, or the call itself, is a compiled graph; the weights are its own.

    Args:
        model: the model.
        longest: tokens of the longest line: tables of positions are made for it, as no graph can.
    """

    def __init__(self, model: Model, longest: int) -> None:
        self.model = model
        parts: list[Any] = list(model.modules())
        self._bounds: list[int] = [part.most_tokens for part in parts if hasattr(part, "most_tokens")]
        for part in parts:
            if isinstance(part, SinusoidalPosition):
                part.reach(longest)
        self._plain = model.forward if isinstance(model, ClassifierModel) else getattr(model, "states")  # noqa: B009
        self._graph = torch.compile(self._plain, backend=BACKEND, dynamic=True, fullgraph=True)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def states(self, *inputs: Tensor) -> Tensor:
        """The vectors before the logits."""
        return self(*inputs)

    def __call__(self, *inputs: Tensor) -> Tensor:
        """What the graph computes: states, or a classifier's logits."""
        longest = max(part.shape[1] if part.dim() == 2 else 0 for part in inputs)  # images are all of one size
        if longest > min(self._bounds, default=longest):
            found: Tensor = self._plain(*inputs)  # looks whether it is only padding that is past the end of a table
            return found
        with _any_sizes():
            found = self._graph(*inputs)
        return found  # noqa: RET504 - typed above


@contextmanager
def _any_sizes() -> Iterator[None]:
    """Sides that are equal by chance in the first batch need not be so in others, and the bound is ours."""
    from torch._dynamo import config  # takes seconds, which others need not wait
    from torch.fx.experimental import _config as shapes

    with shapes.patch(use_duck_shape=False), config.patch(recompile_limit=GRAPHS):  # type: ignore[attr-defined]
        yield


def _require_compiler() -> None:
    """Refuse before the first step what torch would refuse in many words at it."""
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        raise ClearheadError(
            "training.compile needs a C++ compiler on a CPU, and there is none: install g++ or clang++, name one in "
            "CXX, or leave training.compile out"
        ) from None
