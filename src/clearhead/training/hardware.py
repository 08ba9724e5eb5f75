"""Where and how exactly a run computes: device, precision, and what is computed twice to save memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from clearhead.blocks import Stack
from clearhead.models import Model, computes_bfloat16, device_of, pick_device
from clearhead.positions import right_padded
from clearhead.recipe import TrainingSpec
from clearhead.training.objectives import Objective


def placed(model: Model, spec: TrainingSpec, device: torch.device | None = None) -> Model:
    """The model on the device of the run, or this one, its stacks told what to keep for the backward pass."""
    for part in model.modules():
        if isinstance(part, Stack):
            part.recompute = spec.recompute
    return model.to(device or pick_device(spec.device))


def loss_of(objective: Objective[Any, Any, Any], model: Any, batch: Any, spec: TrainingSpec) -> Tensor:
    """The summed loss of a batch, computed on the model's device in the precision of the run.

    With bfloat16, products are computed in it (torch's autocast); weights, optimizer and loss stay in float32.
    """
    device = device_of(model)
    there = batch.to(device)
    # all batches of training are padded on the right
    with torch.autocast(device.type, torch.bfloat16, enabled=spec.precision == "bfloat16"), right_padded():
        return objective.loss(model, there)


def prefetches(spec: TrainingSpec, device: torch.device) -> bool:
    """Whether a thread makes the next batch: on a GPU, unless the recipe says otherwise.

    On a CPU a thread helps only where a core is idle, and making a batch is a small part of a step.
    """
    return device.type != "cpu" if spec.prefetch is None else spec.prefetch


@contextmanager
def fast_products(spec: TrainingSpec) -> Iterator[None]:
    """While inside, float32 products of a GPU may be computed in TF32, if the recipe says so."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if spec.tf32 else before)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def notes_on(spec: TrainingSpec, device: torch.device) -> Iterator[str]:
    """What a user should know about the device of the run."""
    if device.type != "cpu":
        name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
        yield f"training on {name}"
    elif spec.precision == "bfloat16" and not computes_bfloat16():
        yield "this CPU has no arithmetic for bfloat16: training.precision=float32 is faster here"


def gpu_memory(device: torch.device) -> int | None:
    """Bytes of a GPU; None for other devices."""
    return torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else None


def random_states(device: torch.device) -> dict[str, Tensor]:
    """The states of the generators that weights and dropout are drawn from."""
    states = {"random": torch.random.get_rng_state()}
    return states | ({"random_cuda": torch.cuda.get_rng_state(device)} if device.type == "cuda" else {})


def set_random_states(states: Mapping[str, Tensor], device: torch.device) -> None:
    """Put back what ``random_states`` returned; a run that changes its device begins there with a new state."""
    torch.random.set_rng_state(states["random"])
    if device.type == "cuda" and "random_cuda" in states:
        torch.cuda.set_rng_state(states["random_cuda"], device)
