"""Data parallelism: each process computes the gradients of its share of every batch, and the gradients are summed.

``torchrun --nproc-per-node 2 -m clearhead train …`` starts the processes. Rank 0 is the leader: it prepares the data,
evaluates on dev and writes files. Only numbers are exchanged between processes.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import ClearheadError
from clearhead.machine import cores, processes

_PATIENCE = timedelta(hours=12)
"""How long the other processes wait for the leader, which alone prepares the data and evaluates on dev."""


@dataclass(frozen=True)
class ProcessGroup:
    """The processes that train together, seen from one of them; a group of one sends nothing.

    Args:
        rank: the number of this process, counted from 0.
        size: the number of processes.
    """

    rank: int = 0
    size: int = 1

    @property
    def leads(self) -> bool:
        """Whether this process is the leader, which prepares data, evaluates, reports and writes."""
        return self.rank == 0

    def share(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
        """This process's rows of a batch, and whether they count towards the loss.

        A process for which no row is left gets one that does not count, so that all its parameters have a gradient.
        """
        mine = rows[self.rank :: self.size]
        return (mine, True) if len(mine) else (rows[:1], False)

    def sum_in_place(self, tensors: Sequence[Tensor]) -> None:
        """Replace each tensor by its sum over all processes, with a single all-reduce."""
        if self.size == 1:
            return
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        with _partners():
            dist.all_reduce(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in tensors])
        torch._foreach_copy_(list(tensors), [part.view_as(into) for part, into in zip(parts, tensors, strict=True)])

    def sum_of(self, *values: float) -> list[float]:
        """The sum of each value over all processes."""
        if self.size == 1:
            return list(values)
        table = torch.tensor(values, dtype=torch.float64)
        with _partners():
            dist.all_reduce(table)
        return table.tolist()

    def maximum(self, value: int) -> int:
        """The highest value of any process."""
        if self.size == 1:
            return value
        held = torch.tensor(value)
        with _partners():
            dist.all_reduce(held, dist.ReduceOp.MAX)
        return int(held)

    def from_leader(self, value: float) -> float:
        """The leader's value; what the other processes pass is ignored."""
        return self.sum_of(value if self.leads else 0.0)[0]

    def gather(self, tensor: Tensor) -> Tensor:
        """The tensors of all processes, stacked by rank."""
        if self.size == 1:
            return tensor[None]
        stacked = [torch.empty_like(tensor) for _ in range(self.size)]
        with _partners():
            dist.all_gather(stacked, tensor)
        return torch.stack(stacked)


SINGLE = ProcessGroup()


@contextmanager
def _partners() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise ClearheadError(
            f"another process failed (see its output above); restart with --resume ({error})"
        ) from None


@contextmanager
def open_process_group() -> Iterator[ProcessGroup]:
    """Join the process group that torchrun started; without torchrun, a group of one."""
    size = processes()
    if size == 1:
        yield SINGLE
        return
    try:
        dist.init_process_group("gloo", timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ClearheadError(
            f"WORLD_SIZE is {size}, but there is no such process group: start with torchrun, or unset it ({error})"
        ) from None
    try:
        yield ProcessGroup(dist.get_rank(), size)
    finally:
        dist.destroy_process_group()


def threads_for_each(given: int | None) -> int:
    """CPU threads of this process: the number given, or this process's share of the cores."""
    return given or max(1, cores() // processes("LOCAL_WORLD_SIZE"))
