"""Imports foreign weights; each must have a place in our model."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import UnsupportedModel
from clearhead.models import Model, stored_tensors


def unchanged(tensor: Tensor) -> Tensor:
    """Return the tensor unchanged."""
    return tensor


@dataclass(frozen=True)
class Take:
    """The source of one of our tensors."""

    name: str
    change: Callable[[Tensor], Tensor] = unchanged


@dataclass(frozen=True)
class Plan:
    """How a foreign model is imported."""

    model: dict[str, Any]
    """The ``[model]`` table of its recipe."""
    names: dict[str, Take]
    """Our tensors by name, and their sources."""
    left_behind: tuple[str, ...] = ()
    """Patterns of weights that our model does not use: heads of other tasks, tables that are computed."""
    copies: Mapping[str, str] = field(default_factory=dict)
    """Weights that are stored twice, and the originals that they must equal."""


class ForeignWeights:
    """Tensors by name; differing prefixes of heads and bodies are unified."""

    def __init__(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        self.tensors = dict(tensors)
        self.folder = folder

    def drop_prefix(self, prefix: str) -> None:
        """Remove a prefix that depends on which class saved the model."""
        self.rename(rf"^{re.escape(prefix)}", "")

    def rename(self, pattern: str, replacement: str) -> None:
        """Replace a pattern in every name."""
        self.tensors = {re.sub(pattern, replacement, name): tensor for name, tensor in self.tensors.items()}

    def __contains__(self, name: str) -> bool:
        return name in self.tensors


def pairs(ours: str, theirs: str, parts: Mapping[str, str], *, bias: bool = True) -> dict[str, Take]:
    """The weights, and biases if there are any, of one layer's linear maps and norms: our names and theirs."""
    names = {}
    for mine, foreign in parts.items():
        weight, shift = ("gain", "shift") if mine.endswith(("norm", "after")) else ("weight", "bias")
        names[f"{ours}{mine}.{weight}"] = Take(f"{theirs}{foreign}.weight")
        if bias:
            names[f"{ours}{mine}.{shift}"] = Take(f"{theirs}{foreign}.bias")
    return names


def fill(model: Model, weights: ForeignWeights, plan: Plan) -> list[str]:
    """Copy every tensor to its place in float32; a missing, misshapen or unknown one is an error.

    Returns the names of those that are not imported: heads of other tasks, tables that are computed.
    """
    theirs = weights.tensors
    ours = stored_tensors(model)
    with torch.no_grad():
        for name, tensor in ours.items():
            take = plan.names[name]
            if take.name not in theirs:
                raise UnsupportedModel(f"{weights.folder}: has no weight {take.name}")
            if not theirs[take.name].is_floating_point():
                kind = str(theirs[take.name].dtype).removeprefix("torch.")
                raise UnsupportedModel(f"{weights.folder}: {take.name} holds numbers of type {kind}, not floats")
            value = take.change(theirs[take.name]).float()
            if not value.isfinite().all():
                raise UnsupportedModel(f"{weights.folder}: {take.name} has numbers that are not finite as float32")
            if value.shape != tensor.shape:
                raise UnsupportedModel(
                    f"{weights.folder}: {take.name} has shape {tuple(value.shape)}; "
                    f"its configuration says {tuple(tensor.shape)}"
                )
            tensor.copy_(value)
    for copy, original in plan.copies.items():
        if copy in theirs and not (original in theirs and torch.equal(theirs[copy], theirs[original])):
            raise UnsupportedModel(f"{weights.folder}: {copy} should be tied to {original}, but differs")
    used = {plan.names[name].name for name in ours} | plan.copies.keys()
    left_behind = [name for name in theirs if name not in used and _matches(name, plan.left_behind)]
    unused = [name for name in theirs if name not in used and name not in left_behind]
    if unused:
        raise UnsupportedModel(
            f"{weights.folder}: clearhead has no place for {len(unused)} weights: {', '.join(sorted(unused)[:5])}"
        )
    return sorted(left_behind)


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)
