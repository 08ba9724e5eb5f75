"""Devices and threads."""

import os

import torch

from clearhead.errors import DeviceError, did_you_mean
from clearhead.machine import cores

DEVICES = ("auto", "cpu", "cuda", "mps")


def use_cores() -> None:
    """Let torch use as many threads as this process may; torch's own default ignores quotas and affinity."""
    torch.set_num_threads(cores())


def pick_device(name: str = "auto") -> torch.device:
    """The device of this name; ``auto`` takes the first available one of cuda, mps and cpu.

    Of the processes that torchrun starts on a machine, each takes a GPU of its own, by LOCAL_RANK.
    """
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        name = next(device for device, found in available.items() if found)
    kind = name.partition(":")[0]
    if kind not in available:
        raise DeviceError(f"no device {name!r}{did_you_mean(name, DEVICES)} ({', '.join(DEVICES)})")
    if not available[kind]:
        others = ", ".join(device for device, found in available.items() if found)
        raise DeviceError(f"{kind} is not available on this machine (available: {others})")
    rank = os.environ.get("LOCAL_RANK", "")
    return torch.device(f"cuda:{rank}" if name == "cuda" and rank.isdecimal() else name)
