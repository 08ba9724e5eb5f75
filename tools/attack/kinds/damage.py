"""Damage to the bytes of a file, and unexpected values."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def damaged(content: bytes, how: str, chance: random.Random) -> bytes:
    """Damage these bytes."""
    place = chance.randrange(len(content)) if content else 0
    if how == "emptied":
        return b""
    if how == "halved":
        return content[: len(content) // 2]
    if how == "cut":
        return content[:place]
    if how == "one byte more":
        return content + bytes([chance.randrange(256)])
    if how == "one bit flipped" and content:
        return content[:place] + bytes([content[place] ^ (1 << chance.randrange(8))]) + content[place + 1 :]
    if how == "zeros":
        return bytes(len(content))
    if how == "a hole":
        return content[:place] + bytes(min(64, len(content) - place)) + content[place + 64 :]
    if how == "garbage":
        return chance.randbytes(max(16, len(content)))
    if how == "twice":
        return content + content
    return content


BYTES = (
    *("emptied", "halved", "cut", "one byte more", "one bit flipped", "one bit flipped", "one bit flipped"),
    *("zeros", "a hole", "garbage", "twice"),
)
PLACES = (*BYTES, "removed", "a folder instead", "a dead link instead")


def damage_file(path: Path, how: str, chance: random.Random) -> None:
    """Damage a file in place."""
    if how in BYTES:
        path.write_bytes(damaged(path.read_bytes(), how, chance))
        return
    path.unlink()
    if how == "a folder instead":
        path.mkdir()
    elif how == "a dead link instead":
        path.symlink_to("nowhere")


def copy_of(home: Path) -> Callable[[Path], None]:
    """Copies a victim's folder as the folder of a case."""
    return lambda folder: copied(home, folder)


def copied(home: Path, folder: Path) -> None:
    """Copy a victim's folder as the folder of a case."""
    shutil.copytree(home, folder, dirs_exist_ok=True)


NASTY: tuple[Any, ...] = (
    *(0, -1, 1, 2, 3, 10**5, 10**9, 10**12, 10**19, 10**30, -(2**63), 2**63, 2**64),
    *(0.0, -0.5, 0.5, 1.0, 1e-300, 1e308, -1e308, 5e-324, float("inf"), float("-inf"), float("nan")),
    *("", " ", "none", "auto", "nan", "1", "\x00", "\n", "é" * 1000, "💥", "../..", "/dev/null", "a" * 100_000),
    *([], [[]], [0], [10**9], ["x"], [None], [1, "a"], [0.9, 2], {}, {"kind": "x"}, {"": 1}, True, False, None),
)
"""Values that a reader of settings may meet."""


def nested(depth: int) -> Any:
    """A table in a table in a table."""
    value: Any = 1
    for _ in range(depth):
        value = {"x": value}
    return value
