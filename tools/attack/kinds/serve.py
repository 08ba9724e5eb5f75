"""Servers that cannot start: bad options, names, models, tokens and ports.

Every case ends by itself: its port is taken by this process, or its model cannot be loaded.
"""

import random
import socket
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path

from tools.attack.case import Case
from tools.attack.kinds.damage import copied, damage_file
from tools.attack.victims import Victim

WRONG = frozenset({1, 2, 3, 4})
MODELS: tuple[tuple[str, ...], ...] = (
    *(("run",), ("run",), ("g2p=run",), ("a=run", "b=run")),
    *((), ("none",), ("",), ("=run",), ("a=",), ("a b=run",), ("é=run",), ("a" * 300 + "=run",), ("a=run", "a=run")),
    *(("run", "run"), ("lines.txt",), (".",), ("/",), ("run/recipe.toml",), ("run", "none"), ("--", "-x")),
)
OPTIONS: dict[str, tuple[str, ...]] = {
    "--host": ("", "0.0.0.0", "::", "::1", "localhost", "256.1.1.1", "nowhere.invalid", "a" * 300, "é", "1", "a b"),
    "--port": ("-1", "65536", "1e3", "x", "", "22", "0"),
    "--workers": ("0", "-1", "257", "1.5", "x", "1"),
    "--token-file": ("none", "lines.txt", "empty", "token", ".", "/dev/zero", "run/best.safetensors", ""),
    "--allow-host": ("", "*", "a b", "é", "http://x", "x:99999"),
    "--watch": ("0", "-1", "nan", "inf", "x"),
    "--max-lines": ("0", "-1", "x", "99999999999999999999"),
    "--max-characters": ("0", "1e9"),
    "--max-waiting": ("0", "1"),
    "--deadline": ("0", "-1", "nan", "inf", "1e-9", "x"),
}
DAMAGES = ("emptied", "halved", "garbage", "zeros", "removed", "a folder instead", "a dead link instead")
UNLOADABLE = ("none", "lines.txt", ".", "run/recipe.toml", *DAMAGES)
"""Models that are refused when they are loaded, whatever the port."""


@cache
def _taken() -> socket.socket:
    """A socket with a port of its own on all addresses; nobody can connect to it, as it does not listen."""
    if not socket.has_dualstack_ipv6():
        plain = socket.socket()
        plain.bind(("", 0))
        return plain
    both = socket.socket(socket.AF_INET6)
    both.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    both.bind(("::", 0))
    return both


def taken_port() -> str:
    """A port that no command can have, as long as this process runs."""
    return str(_taken().getsockname()[1])


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield options × models on a port that is taken, and models that cannot be loaded on a free one, without end."""
    while True:
        victim = chance.choice(victims)
        if chance.random() < 0.15:
            how = chance.choice(UNLOADABLE)
            words = ["serve", "run" if how in DAMAGES else how, "--port", "0", "--workers", "1"]
            yield _case(victim, words, how, how if how in DAMAGES else None)
            continue
        words = ["serve", *chance.choice(MODELS)]
        for name in chance.sample(sorted(OPTIONS), chance.choice([0, 1, 1, 2, 3])):
            words += [name, chance.choice(OPTIONS[name])]
        yield _case(victim, [*words, "--port", taken_port()], "", None)


def _case(victim: Victim, words: list[str], what: str, damage: str | None) -> Case:
    name = f"{victim.family}: {' '.join(words)} {what}"[:400]
    environment = {"CLEARHEAD_TOKEN": "sesame-sesame-sesame"} if "--host" in words else {}
    return Case("serve", name, words, WRONG, partial(_prepare, victim.home, damage), environment=environment, input=b"")


def _prepare(home: Path, damage: str | None, folder: Path) -> None:
    copied(home, folder)
    (folder / "empty").touch()
    (folder / "token").write_text("sesame-sesame-sesame\n")
    if damage is not None:
        damage_file(folder / "run" / "best.safetensors", damage, random.Random(0))
