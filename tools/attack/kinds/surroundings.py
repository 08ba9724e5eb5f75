"""Odd environments: locales, homes, terminals, little memory, read-only folders, full disks."""

import random
from collections.abc import Iterator, Sequence

from tools.attack.case import Case
from tools.attack.kinds.damage import copy_of
from tools.attack.victims import SMALL, Victim

ENVIRONMENTS: tuple[dict[str, str], ...] = (
    {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    {"LANG": "nonsense"},
    {"HOME": "/nonexistent"},
    {"HOME": ""},
    {"COLUMNS": "20"},
    {"COLUMNS": "1"},
    {"COLUMNS": "x", "LINES": "-1"},
    {"TERM": "dumb", "FORCE_COLOR": "1"},
    {"OMP_NUM_THREADS": "nonsense"},
    {"OMP_NUM_THREADS": "0"},
    {"TMPDIR": "/nonexistent"},
    {"WORLD_SIZE": "2"},
    {"WORLD_SIZE": "x"},
    {"PYTHONWARNINGS": "error"},
    {"PATH": ""},
)
MEMORIES = (None, None, 400 << 20, 1 << 30, 2 << 30)


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield every environment × a few commands, each in a new Python process, without end."""
    while True:
        victim = chance.choice(victims)
        environment = chance.choice(ENVIRONMENTS)
        memory = chance.choice(MEMORIES)
        words = chance.choice(
            [
                ["presets"],
                ["cost", "tiny"],
                ["show", "tiny", "model.layers=1"],
                ["run", "run", "lines.txt"],
                ["run", "run"],
                ["check", victim.data],
                ["train", victim.data, "-o", "other", "--max-steps", "1", *SMALL],
                ["train", "-o", "run", "--resume"],
                ["train", victim.data, "-o", "/proc/run", "--max-steps", "1"],
                ["train", victim.data, "-o", "lines.txt", "--max-steps", "1"],
                ["eval", "run", "--split", "test"],
                ["lecture", "L1.9", "--html", "/dev/full"],
                ["lecture", "L1.9"],
            ]
        )
        name = f"{environment}, memory {memory}: {' '.join(words)}"
        allowed = frozenset({0, 1, 2, 3, 4})
        yield Case(
            "surroundings",
            name,
            words,
            allowed,
            copy_of(victim.home),
            environment=environment,
            memory=memory,
            fresh=True,
            input=b"",
        )
