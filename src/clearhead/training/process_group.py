"""The processes that train together: who has which rows, and the small things that they tell each other.

``torchrun --nproc-per-node 2 -m clearhead train …`` starts them. Rank 0 is the leader: it prepares the data and writes
files; what all work out on dev is the same for all. Gradients are torch's affair (``clearhead.training.parallel``).
Only numbers and JSON are exchanged: nothing is unpickled.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from clearhead.errors import ClearheadError, Diverged, Interrupted, PartnerError
from clearhead.machine import cores, processes
from clearhead.training.meeting import meet

T = TypeVar("T", bound=str)
_PATIENCE = timedelta(hours=12)
"""How long the other processes wait for the leader, which alone prepares the data."""


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
        """Whether this process is the leader, which prepares data, reports and writes."""
        return self.rank == 0

    def share(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], bool]:
        """This process's rows of a batch, and whether they count towards the loss.

        A process for which no row is left gets one that does not count, so that all its parameters have a gradient.
        """
        mine = rows[self.rank :: self.size]
        return (mine, True) if len(mine) else (rows[:1], False)

    def sum_of(self, *values: float) -> list[float]:
        """The sum of each value over all processes."""
        if self.size == 1:
            return list(values)
        table = torch.tensor(values, dtype=torch.float64)
        with partners():
            dist.all_reduce(table)
        return table.tolist()

    def maximum(self, value: int) -> int:
        """The highest value of any process."""
        if self.size == 1:
            return value
        held = torch.tensor(value)
        with partners():
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
        with partners():
            dist.all_gather(stacked, tensor)
        return torch.stack(stacked)

    def common(self, text: T) -> T:
        """The leader's text; what the other processes pass is ignored."""
        found: Any = self.gather_texts(text)[0]
        return found  # type: ignore[no-any-return]

    def gather_texts(self, text: str) -> list[str]:
        """The texts of all processes, by rank; as bytes, as torch would pickle them."""
        if self.size == 1:
            return [text]
        mine = text.encode()
        sizes = [int(size) for size in self.gather(torch.tensor(len(mine)))]
        held = torch.zeros(max(1, *sizes), dtype=torch.uint8)
        held[: len(mine)] = torch.frombuffer(bytearray(mine or b" "), dtype=torch.uint8)[: len(mine)]
        return [bytes(row[:size].numpy()).decode() for row, size in zip(self.gather(held), sizes, strict=True)]

    def work_out(self, work: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
        """The result of each item, in order; each process works out some of them, and all get all.

        Args:
            work: a function from items to as many results, which JSON can express.
            items: the same items in every process.
        """
        if self.size == 1:
            return list(work(items))
        mine = [items[index] for index in range(self.rank, len(items), self.size)]
        shares = [json.loads(text) for text in self.gather_texts(json.dumps(list(work(mine)) if mine else []))]
        return [shares[index % self.size][index // self.size] for index in range(len(items))]


SINGLE = ProcessGroup()


_OF_PARTNERS = ("gloo", "nccl", "connection", "timed out")
"""Words of errors that have to do with other processes."""


@contextmanager
def partners(*, computing: bool = False) -> Iterator[None]:
    """While inside, processes talk to each other: the end of another one is an error to be told.

    Args:
        computing: whether this process also computes, so that an error may be its own. Default: False.
    """
    try:
        yield
    except RuntimeError as error:
        if computing and not any(word in str(error).lower() for word in _OF_PARTNERS):
            raise
        raise PartnerError(f"another process failed (see its output above); restart with --resume ({error})") from None


@contextmanager
def open_process_group() -> Iterator[ProcessGroup]:
    """Join the process group that torchrun started; without torchrun, a group of one."""
    size = processes()
    if size == 1:
        yield SINGLE
        return
    try:
        store, rank, size = meet(_PATIENCE)
        dist.init_process_group(_backend(), store=store, rank=rank, world_size=size, timeout=_PATIENCE)
    except (RuntimeError, ValueError) as error:
        raise ClearheadError(
            f"WORLD_SIZE is {size}, but there is no such process group: start with torchrun, or unset it ({error})"
        ) from None
    try:
        yield ProcessGroup(rank, size)
    except ClearheadError as error:
        if rank and not isinstance(error, PartnerError | Interrupted | Diverged):
            error.process = rank  # the leader does not know of it
        raise
    finally:
        dist.destroy_process_group()


def _backend() -> str:
    """NCCL between GPUs, and gloo for what is on the CPU: gradients there, counts and texts everywhere."""
    return "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"


def threads_for_each(given: int | None) -> int:
    """CPU threads of this process: the number given, or this process's share of the cores."""
    return given or max(1, cores() // processes("LOCAL_WORLD_SIZE"))
