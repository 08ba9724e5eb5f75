"""Run folders that were damaged or edited between two commands."""

import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.attack.case import Case
from tools.attack.kinds.damage import PLACES, copied, damage_file
from tools.attack.victims import STEPS, Victim

FITTING = frozenset({0, 2, 3})
"""Rebuilt or not needed; a recipe that was changed; data that are damaged."""
COMMANDS = {
    "resume": ("train", "-o", "run", "--resume"),
    "resume as before": ("train", "{data}", "-o", "run", "--resume", "--max-steps", str(STEPS)),
    "train": ("train", "{data}", "-o", "run", "--max-steps", str(STEPS)),
    "eval": ("eval", "run", "--split", "dev"),
    "run": ("run", "run", "lines.txt"),
    "score": ("score", "run", "{data}"),
    "show": ("show", "run"),
}


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield every file of a run × every damage × every command, without end."""
    while True:
        victim = chance.choice(victims)
        files = sorted(path.relative_to(victim.home) for path in victim.run.rglob("*") if path.is_file())
        file = chance.choice(files)
        how = chance.choice((*PLACES, "edited") if file.suffix in (".toml", ".json", ".jsonl") else PLACES)
        command = chance.choice(("resume", "resume", "resume", *COMMANDS))
        yield _case(victim, file, how, command, chance.randrange(2**32))


def _case(victim: Victim, file: Path, how: str, command: str, seed: int) -> Case:
    def prepare(folder: Path) -> None:
        copied(victim.home, folder)
        chance = random.Random(seed)
        if how == "edited":
            path = folder / file
            path.write_text(_edited(path.read_text(encoding="utf-8"), chance), encoding="utf-8")
        else:
            damage_file(folder / file, how, chance)

    resumes = command.startswith("resume")
    # without --resume a folder that has a run is refused
    allowed = frozenset({1, 2, 3}) if command == "train" else FITTING
    if victim.family == "encoder" and command == "score":
        allowed |= {1}  # an encoder gives lines no probability
    return Case(
        "run folder",
        f"{victim.family}: {file} {how} (seed {seed}), then {command}",
        [word.format(data=victim.data) for word in COMMANDS[command]],
        allowed,
        prepare,
        victim.weights_differ if resumes else lambda folder: None,
    )


def _edited(text: str, chance: random.Random) -> str:
    """Change a number, a word or a line of a text."""
    numbers = list(re.finditer(r"\d+", text))
    choice = chance.randrange(3)
    if choice == 0 and numbers:
        found = chance.choice(numbers)
        return text[: found.start()] + str(chance.choice([0, 1, 7, 99, 10**9])) + text[found.end() :]
    lines = text.splitlines(keepends=True)
    if not lines:
        return text
    place = chance.randrange(len(lines))
    if choice == 1:
        return "".join(lines[:place] + lines[place + 1 :])
    return "".join([*lines[:place], lines[place].replace("=", "= 1 ").replace('"', ""), *lines[place + 1 :]])
