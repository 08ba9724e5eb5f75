"""Where a model runs."""

import torch

from clearhead.errors import DeviceError, did_you_mean
from clearhead.machine import cores

DEVICES = ("auto", "cpu", "cuda", "mps")


def use_cores() -> None:
    """Let torch run as many threads as this process may: its own default sees neither quotas nor affinity."""
    torch.set_num_threads(cores())


def pick_device(name: str = "auto") -> torch.device:
    """The device of this name; ``auto`` takes the first of cuda, mps and cpu that is there."""
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(device for device, there in available.items() if there))
    kind = name.partition(":")[0]
    if kind not in available:
        raise DeviceError(f"no device {name!r}{did_you_mean(name, DEVICES)} ({', '.join(DEVICES)})")
    if not available[kind]:
        there = ", ".join(device for device, here in available.items() if here)
        raise DeviceError(f"{kind} is not available on this machine (available: {there})")
    return torch.device(name)
