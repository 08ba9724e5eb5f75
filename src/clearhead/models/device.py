"""Devices and threads."""

import os
import re

import torch

from clearhead.constants import DEVICE_NAMES
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
    kind, _, number = name.partition(":")
    if not re.fullmatch(DEVICE_NAMES, name):
        names = [*DEVICES[:-1], "cuda:1", DEVICES[-1]]
        raise DeviceError(f"no device {name!r}{did_you_mean(name, DEVICES)} ({', '.join(names)})")
    if not available[kind]:
        others = ", ".join(device for device, found in available.items() if found)
        raise DeviceError(f"{kind} is not available on this machine (available: {others})")
    if number and int(number) >= torch.cuda.device_count():
        raise DeviceError(f"there is no {name}: this machine has {torch.cuda.device_count()} GPUs, counted from cuda:0")
    rank = os.environ.get("LOCAL_RANK", "")
    if name != "cuda" or not rank.isdecimal():
        return torch.device(name)
    if int(rank) >= torch.cuda.device_count():
        raise DeviceError(
            f"this machine has {torch.cuda.device_count()} GPUs, and process {rank} would have none of its own: use "
            f"--nproc-per-node {torch.cuda.device_count()}"
        )
    return torch.device(f"cuda:{rank}")


def computes_bfloat16() -> bool:
    """Whether this CPU multiplies bfloat16 by itself: others convert every number."""
    supported: bool = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    return supported
