"""Tensors of which each process holds some rows (FSDP): what it holds, the whole, and back.

Rows are shared as ``torch.chunk`` does: equal numbers, rounded up, and the last processes may have fewer or none.
Tensors that are not shared are returned as they are.
"""

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeGuard

import torch
from torch import Tensor, nn

from clearhead.models import Model

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_shared(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether other processes hold other rows of this tensor; not by its type, which takes a second to import."""
    return hasattr(tensor, "full_tensor")


def own_part(tensor: Tensor) -> Tensor:
    """The rows that this process holds, not copied."""
    return tensor.to_local() if is_shared(tensor) else tensor


def whole(tensor: Tensor) -> Tensor:
    """All rows; every process must ask for them."""
    return tensor.full_tensor() if is_shared(tensor) else tensor


def own_rows(values: Tensor, like: Tensor) -> Tensor:
    """Those of all rows that this process holds of ``like``."""
    if not is_shared(like):
        return values
    mesh = like.device_mesh
    each = -(-len(values) // mesh.size())
    return values[each * mesh.get_local_rank() : each * (mesh.get_local_rank() + 1)]


def shared_like(values: Tensor, like: Tensor) -> Tensor:
    """Values that every process has as a whole, shared out as ``like`` is."""
    if not is_shared(like):
        return values
    from torch.distributed.tensor import DTensor

    part = own_rows(values, like).to(like.device).clone()
    return DTensor.from_local(
        part, like.device_mesh, like.placements, run_check=False, shape=values.shape, stride=values.stride()
    )


def frame_of(model: Model) -> Model:
    """A copy of a model without the values of its parameters; its buffers are shared with the model."""
    empty: dict[int, object] = {
        id(parameter): nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=False)
        for parameter in model.parameters()
    }
    return copy.deepcopy(model, empty | {id(buffer): buffer for buffer in model.buffers()})


def framed(frame: Model, weights: Mapping[str, Tensor]) -> Model:
    """The model of a frame with these weights, which are not copied and never change by gradients."""
    filled: dict[int, object] = {
        id(parameter): nn.Parameter(weights[name].detach(), requires_grad=False)
        for name, parameter in frame.named_parameters()
    }
    return copy.deepcopy(frame, filled | {id(buffer): buffer for buffer in frame.buffers()})
