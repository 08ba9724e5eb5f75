"""What this process may use of the machine: cores and memory, as its user, its container and its limits allow.

Everything that starts threads or worker processes asks ``cores()``; everything that is about to take a lot of memory
asks ``require_memory()`` first. Nothing here imports torch.
"""

import math
import os
from collections.abc import Iterator
from pathlib import Path

from clearhead.errors import DoesNotFit

_CGROUPS = Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
"""Version 1 of cgroups writes a number near 2⁶³ where there is no limit."""


def cores() -> int:
    """Threads that this process should run at once: the fewest that any limit allows, at least 1.

    The limits are the CPU affinity (``taskset``), the CPU quota of the container (cgroups 1 and 2), and
    ``OMP_NUM_THREADS``.
    """
    limits = [float(_affinity()), *_quotas()]
    if (asked := _omp_threads()) is not None:
        limits.append(float(asked))
    return max(1, math.ceil(min(limits)))


def free_memory() -> int | None:
    """Bytes that this process can still take: of the machine, of its container, of ``ulimit -v``; None if unknown."""
    known = [found for found in (_machine_memory(), *_container_memory(), address_space()) if found is not None]
    return max(0, min(known)) if known else None


def require_memory(needed: float, what: str, way_out: str) -> None:
    """Refuse what does not fit before it is taken; ``way_out`` says what to change."""
    free = free_memory()
    if free is not None and needed > free:
        raise DoesNotFit(f"{what} needs about {shown_bytes(needed)}, and {shown_bytes(free)} are free: {way_out}")


def shown_bytes(count: float) -> str:
    """A number of bytes for a message.

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
    """The first number of ``OMP_NUM_THREADS``, which may name one for each level of nesting; None if it is none."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdigit() and int(first) > 0 else None


def _quotas() -> Iterator[float]:
    """Cores that each enclosing cgroup grants: quota over period."""
    for folder in _groups("cpu"):
        words = _read(folder / "cpu.max").split()
        if len(words) == 2:
            quota, period = _number(words[0]), _number(words[1])
        else:
            quota, period = (_number(_read(folder / f"cpu.cfs_{name}_us")) for name in ("quota", "period"))
        if quota is not None and period is not None and quota > 0 and period > 0:
            yield quota / period


def _container_memory() -> Iterator[int]:
    """Bytes left to each enclosing cgroup; pages that only cache files can be given back."""
    for folder in _groups("memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            most, taken = _number(_read(folder / limit)), _number(_read(folder / used))
            if most is not None and taken is not None and most < _UNLIMITED:
                yield most - taken + (_field(folder / "memory.stat", cache) or 0)


def _groups(controller: str) -> Iterator[Path]:
    """The folders of the cgroup that this process is in, and of those around it, for versions 2 and 1."""
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
    return int(text) if text.lstrip("-").isdigit() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""
