"""Processes that train together, forked from the test: torch is there already, which takes longer to load."""

import json
import multiprocessing
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.fsdp  # here, not in every process

from clearhead.training import ProcessGroup, Trainer


def together(size: int, work: Callable[..., Any], *arguments: Any) -> None:
    """Let ``size`` processes call ``work(group, *arguments)``, and require that none fails."""
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("fork")
        members = [
            context.Process(target=_member, args=(rank, size, Path(folder) / "meeting", work, arguments))
            for rank in range(size)
        ]
        for member in members:
            member.start()
        for member in members:
            member.join()
        assert [member.exitcode for member in members] == [0] * size


def _member(rank: int, size: int, meeting: Path, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
    work(ProcessGroup(rank, size), *arguments)
    dist.barrier()
    dist.destroy_process_group()


def next_losses(trainer: Trainer, steps: int) -> list[float]:
    """The losses of the next steps, summed over all tokens."""
    found, before = [], trainer.progress.loss_sum
    for _ in range(steps):
        trainer._step()
        found.append(trainer.progress.loss_sum - before)
        before = trainer.progress.loss_sum
    return found


def keep(group: ProcessGroup, path: Path, value: Any) -> None:
    """Let the leader write a value for the test to read."""
    if group.leads:
        path.write_text(json.dumps(value), encoding="utf-8")


def kept(path: Path) -> Any:
    """What ``keep`` wrote."""
    return json.loads(path.read_text(encoding="utf-8"))
