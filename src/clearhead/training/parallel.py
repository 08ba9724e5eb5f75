"""Data parallelism by torch: every process computes the gradients of its share of a batch, torch brings them together.

With ``ddp`` each process holds the whole model, and gradients are averaged in buckets while the backward pass goes on.
With ``fsdp`` each holds a part of every matrix: a layer's weights are gathered when the layer is computed, forward and
backward, and each process gets its part of the layer's gradients. Both average over processes; the trainer multiplies
by their number and divides by the tokens of all of them, as a process with the joint batch would.
"""

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from clearhead.blocks import Stack
from clearhead.errors import ClearheadError, PartnerError
from clearhead.models import Model
from clearhead.recipe import TrainingSpec
from clearhead.training.compiling import compiled
from clearhead.training.hardware import gpu_memory, loss_of
from clearhead.training.objectives import Objective
from clearhead.training.process_group import ProcessGroup, partners
from clearhead.training.shards import own_part

if TYPE_CHECKING:
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy

Kind = Literal["alone", "ddp", "fsdp"]
BYTES_OF_A_PARAMETER = 20
"""Weights, gradients, two numbers of AdamW and the average, in float32."""


def kind_of(parallel: Literal["auto", "ddp", "fsdp"], group: ProcessGroup, parameters: int, memory: int | None) -> Kind:
    """How processes share the work: as it is said, and ``auto`` takes FSDP for what would fill half of a GPU.

    Args:
        parallel: the recipe's ``training.parallel``.
        group: the processes that train together.
        parameters: the model's parameters that are trained.
        memory: bytes of a process's GPU; None if it computes on the CPU.
    """
    if group.size == 1:
        return "alone"
    if parallel != "auto":
        return parallel
    return "fsdp" if memory is not None and BYTES_OF_A_PARAMETER * parameters > memory / 2 else "ddp"


def shared_kind(
    model: Model, parallel: Literal["auto", "ddp", "fsdp"], group: ProcessGroup, device: torch.device
) -> Kind:
    """How processes share the work of training this model; all do as the leader, whose GPU may be another."""
    trained = sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)
    memory = gpu_memory(device) if is_divisible(model) else None  # what cannot be divided is held as a whole
    return group.common(kind_of(parallel, group, trained, memory))


def place_of(kind: Kind, device: torch.device) -> torch.device:
    """Where a model is put before it is shared: with FSDP its layers go to the device one by one, in parts."""
    return torch.device("cpu") if kind == "fsdp" else device


def is_divisible(model: nn.Module) -> bool:
    """Whether FSDP can divide a model layer by layer: no weight belongs to two layers."""
    held = [id(weight) for layer in _layers(model) for weight in layer.parameters()]
    return len(held) == len(set(held))


def _layers(model: nn.Module) -> list[nn.Module]:
    return [layer for stack in model.modules() if isinstance(stack, Stack) for layer in stack.layers]


class Learner(nn.Module):
    """A model whose forward pass is the loss, so that torch's hooks see it whatever of the model an objective calls.

    Args:
        model: the model.
        objective: how it learns.
        spec: the recipe's ``[training]``.
    """

    def __init__(self, model: Model, objective: Objective[Any, Any, Any], spec: TrainingSpec) -> None:
        super().__init__()
        self.model, self.objective, self.spec = model, objective, spec
        self.computing = compiled(model, objective) if spec.compile else model
        """The model, or its compiled form, which has the same weights."""

    def forward(self, batch: Any) -> Tensor:
        """The summed loss of a batch."""
        return loss_of(self.objective, self.computing, batch, self.spec)


def replicated(learner: Learner) -> DistributedDataParallel:
    """The whole model in every process: one all-reduce for each bucket of gradients.

    Searching for unused parameters is also what keeps the buckets as they are: otherwise torch rebuilds them after the
    first step of every session, and a resumed run would add its gradients up in another order. If it finds none, torch
    advises against the search, on standard error of every process: so there is one, without any element.
    """
    learner.register_parameter("unused", nn.Parameter(torch.empty(0, device=next(learner.parameters()).device)))
    tables = [name for name, _ in learner.named_buffers()]  # computed by each process, the same in all
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(  # type: ignore[no-untyped-call]
        learner, tables
    )
    return DistributedDataParallel(learner, find_unused_parameters=True, gradient_as_bucket_view=True)


def sharded(learner: Learner, device: torch.device) -> "FSDPModule":
    """A part of every parameter in each process: one group for each layer, and one for all that is outside of layers.

    For each batch a layer is gathered twice, for the forward and for the backward pass, the rest once; the gradients of
    each group are reduced and scattered once, in float32. On a GPU ``training.precision=bfloat16`` also gathers layers
    in bfloat16; the rest, which computes the loss, in float32.
    """
    from torch.distributed.device_mesh import init_device_mesh  # takes a second, which others need not wait
    from torch.distributed.fsdp import FSDPModule, fully_shard

    if not hasattr(FSDPModule, "set_reduce_scatter_unused_params"):
        raise ClearheadError(f"training.parallel=fsdp needs torch 2.13, this is {torch.__version__}: use ddp")
    if learner.spec.compile:  # chosen by auto
        raise PartnerError("training.parallel=fsdp: not with training.compile: use ddp, or leave training.compile out")
    if not is_divisible(learner):
        raise PartnerError("training.parallel=fsdp: layers that share weights cannot be divided: use ddp")
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    for layer in _layers(learner):
        fully_shard(layer, mesh=mesh, reshard_after_forward=True, mp_policy=_policy(learner.spec, device))
    whole: FSDPModule = fully_shard(learner, mesh=mesh, reshard_after_forward=False)
    whole.set_reduce_scatter_unused_params(True)
    return whole


def _policy(spec: TrainingSpec, device: torch.device) -> "MixedPrecisionPolicy":
    """Types of a layer's weights while it computes, and of its gradients on their way; autocast converts the inputs.

    Autocast of a CPU leaves norms as they are, and they refuse gains of another type than their input.
    """
    from torch.distributed.fsdp import MixedPrecisionPolicy

    if spec.precision != "bfloat16" or device.type == "cpu":
        return MixedPrecisionPolicy()
    return MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32, cast_forward_inputs=False)


class GradientSource:
    """Computes gradients, in one process or together with the others.

    Args:
        kind: how processes share the work.
        learner: the model and its loss.
        group: the processes that train together.
        device: where this one computes.
    """

    def __init__(self, kind: Kind, learner: Learner, group: ProcessGroup, device: torch.device) -> None:
        self.kind, self.group = kind, group
        self.learner: Any = learner
        if kind != "alone" and device.type == "cuda":
            torch.cuda.set_device(device)  # NCCL's, and that of the parts
        with partners(computing=True):
            if kind == "ddp":
                self.learner = replicated(learner)
            elif kind == "fsdp":
                self.learner = sharded(learner, device)
        self.parameters = [parameter for parameter in learner.parameters() if parameter.requires_grad]

    @property
    def divisor(self) -> int:
        """What torch divides the sum of all processes' gradients by."""
        return 1 if self.kind == "alone" else self.group.size

    def add(self, batch: Any, counts: bool, *, last: bool) -> Tensor:
        """Add the gradients of a batch to those that are there, and return its loss.

        Args:
            batch: this process's share.
            counts: whether it counts; if not, its gradients are zero.
            last: whether it is the last batch of the step. DDP brings gradients together only then; FSDP with every
                batch, as gradients of whole matrices would take the memory that it is used to save.
        """
        waits = self.kind == "ddp" and not last
        with partners(computing=True), self.learner.no_sync() if waits else nullcontext():
            loss: Tensor = counts * self.learner(batch)
            torch.autograd.backward(loss)
        return loss.detach()

    def close(self) -> None:
        """Let go of DDP's reducer, which must not outlive the process group.

        A reducer that holds the group last ends it while it has Python's lock; a thread of gloo that needs the lock to
        give back a tensor then waits for it, and both wait for ever.
        """
        if self.kind == "ddp":
            self.learner.reducer = self.learner.logger = None

    def gradients(self) -> list[Tensor]:
        """What this process holds of the gradients, of parameters that have one."""
        return [own_part(parameter.grad) for parameter in self.parameters if parameter.grad is not None]

    def norm(self, gradients: list[Tensor]) -> float:
        """The norm of all gradients together, those parts included that other processes hold."""
        norm = float(torch.nn.utils.get_total_norm(gradients))
        return self.group.sum_of(norm**2)[0] ** 0.5 if self.kind == "fsdp" else norm
