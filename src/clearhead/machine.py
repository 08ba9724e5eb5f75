"""How many cores and how much memory this process may use, given its affinity, container and limits.

Whatever starts threads or worker processes calls ``cores()``; whatever is about to allocate much memory calls
``require_memory()`` first. Nothing here imports torch.
"""

import ctypes
import math
import os
import sys
from collections.abc import Iterator
from importlib.abc import MetaPathFinder
from pathlib import Path

from clearhead.errors import ClearheadError, DoesNotFit

_CGROUPS = Path("/sys/fs/cgroup")
TORCH_TAKES = 800 << 20
"""Address space that importing torch takes."""
_UNLIMITED = 1 << 60
"""cgroups 1 reports a number near 2⁶³ where there is no limit."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Names of glibc's settings, in its malloc.h."""
KEPT_FREE, FROM_HEAP = 256 << 20, 32 << 20
"""Bytes that are kept when they are freed, and the largest block that comes from them: a larger one is given back."""


def cores() -> int:
    """The number of threads that this process should run: the smallest of all limits, but at least 1.

    The limits are the CPU affinity (``taskset``), the CPU quota of the container (cgroups 1 and 2), and
    ``OMP_NUM_THREADS``.
    """
    limits = [float(_affinity()), *_quotas()]
    if (asked := _omp_threads()) is not None:
        limits.append(float(asked))
    return max(1, math.ceil(min(limits)))


def processes(variable: str = "WORLD_SIZE") -> int:
    """The number of processes that torchrun says it has started: all of them, or those on this machine."""
    said = os.environ.get(variable, "1")
    if (number := _number(said)) is None or number < 1:
        raise ClearheadError(f"{variable} is {said!r}, not a number of processes: start with torchrun, or unset it")
    return number


def keep_freed_memory() -> None:
    """Let this process use freed memory again, rather than give it back and have the next tensor's pages made anew.

    Tensors of some megabytes come and go with every layer. Of other C libraries than glibc nothing is asked, and a user
    who sets ``MALLOC_…`` has decided.
    """
    if any(name.startswith("MALLOC_") for name in os.environ) or "malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    if hasattr(library, "gnu_get_libc_version"):
        library.mallopt(_TRIM_THRESHOLD, KEPT_FREE)
        library.mallopt(_MMAP_THRESHOLD, FROM_HEAP)


def free_memory() -> int | None:
    """Bytes that this process can still allocate, by machine, container and ``ulimit -v``; None if unknown."""
    known = [found for found in (_machine_memory(), *_container_memory(), address_space()) if found is not None]
    return max(0, min(known)) if known else None


def cpu_flags() -> frozenset[str] | None:
    """What the CPU says that it can do, such as ``avx512_bf16``, as Linux lists it; None elsewhere."""
    lines = _read(Path("/proc/cpuinfo")).splitlines()
    lists = [
        line.partition(":")[2].split() for line in lines if line.partition(":")[0].strip() in ("flags", "Features")
    ]
    return frozenset(lists[0]) if lists else None


def may_have_gpu() -> bool:
    """Whether Linux shows the driver of a GPU that torch may use; it may still find none."""
    return any(Path(driver).exists() for driver in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg"))


def require_memory(needed: float, what: str, way_out: str) -> None:
    """Raise ``DoesNotFit`` if ``needed`` bytes are not free.

    Args:
        needed: bytes about to be allocated.
        what: what needs them, for the message.
        way_out: what to change, for the message.
    """
    free = free_memory()
    if free is not None and needed > free:
        raise DoesNotFit(f"{what} needs about {shown_bytes(needed)}, but only {shown_bytes(free)} are free: {way_out}")


def shown_bytes(count: float) -> str:
    """Format a number of bytes for a message.

    >>> shown_bytes(3 * 2**30)
    '3.0 GiB'
    """
    for unit, size in (("GiB", 2**30), ("MiB", 2**20)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 2**10:,.1f} KiB"


def _affinity() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _omp_threads() -> int | None:
    """The first number of ``OMP_NUM_THREADS``, which may list one per nesting level; None if it is not a number."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) > 0 else None


def _quotas() -> Iterator[float]:
    """The CPU limit of each enclosing cgroup: quota / period."""
    for folder in _groups("cpu"):
        words = _read(folder / "cpu.max").split()
        if len(words) == 2:
            quota, period = _number(words[0]), _number(words[1])
        else:
            quota, period = (_number(_read(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        if quota is not None and period is not None and quota > 0 and period > 0:
            yield quota / period


def _container_memory() -> Iterator[int]:
    """Bytes left in each enclosing cgroup; inactive file cache counts as free."""
    for folder in _groups("memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most, taken = _number(_read(folder / limit)), _number(_read(folder / used))
            if most is not None and taken is not None and most < _UNLIMITED:
                yield most - taken + (_field(folder / "memory.stat", cache) or 0)


def _groups(controller: str) -> Iterator[Path]:
    """The folders of this process's cgroup and of its parents, for cgroups 2 and 1."""
    for line in _read(Path("/proc/self/cgroup")).splitlines():
        _, names, place = [*line.split(":", 2), "", ""][:3]
        if names and controller not in names.split(","):
            continue
        root = _CGROUPS / names if names else _CGROUPS
        inside = Path(place.lstrip("/"))
        # a container often sees its own group as the root, whatever the path says
        for folder in dict.fromkeys([root / inside, *(root / outer for outer in inside.parents), root]):
            if folder.is_dir():
                yield folder


def _machine_memory() -> int | None:
    kibibytes = _field(Path("/proc/meminfo"), "MemAvailable:")
    return None if kibibytes is None else kibibytes * 1024


def address_space() -> int | None:
    """Bytes left under ``ulimit -v``; None if there is no such limit."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    most = resource.getrlimit(resource.RLIMIT_AS)[0]
    words = _read(Path("/proc/self/statm")).split()
    if most == resource.RLIM_INFINITY or not words:
        return None
    return most - int(words[0]) * os.sysconf("SC_PAGE_SIZE")


def _field(path: Path, name: str) -> int | None:
    for line in _read(path).splitlines():
        words = line.split()
        if len(words) >= 2 and words[0] == name:
            return _number(words[1])
    return None


def _number(text: str) -> int | None:
    text = text.strip()
    return int(text) if text.isascii() and text.lstrip("-").isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def refuse_torch_without_room() -> None:
    """Under a tight ``ulimit -v`` importing torch would abort the process: make it an error like any other."""
    left = address_space()
    if left is None or left >= TORCH_TAKES:
        return
    message = (
        f"loading torch takes about {shown_bytes(TORCH_TAKES)} of address space, and {shown_bytes(left)} "
        "are free: raise the limit (ulimit -v)"
    )

    class NoTorch(MetaPathFinder):
        def find_spec(self, name: str, *_: object) -> None:
            if name == "torch":
                raise DoesNotFit(message)

    sys.meta_path.insert(0, NoTorch())
