"""Command lines: every option of every command with unexpected values."""

import random
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from tools.attack.case import Case
from tools.attack.kinds.damage import copy_of
from tools.attack.kinds.serve import taken_port
from tools.attack.victims import Victim

RIGHT = frozenset({0, 1, 2, 3, 4})
VALUES = (
    *("", "-", "--", "-1", "0", "1", "2", "1e9", "99999999999999999999", "nan", "x", "run", "data.tsv", "lines.txt"),
    *("nowhere", "out.svg", "out.html", "out.txt", "/nonexistent/x", ".", "/", "é", "a" * 5000, "n", "L4.8", "tiny"),
    *("model.layers=1", "decoding.beam_size=1", "=", "a=b", "--json", "run/best.safetensors", "run/recipe.toml"),
)
SLOW = ("lecture", "train")
"""Commands that may run for minutes if their arguments happen to be valid."""


@cache
def _commands() -> dict[str, list[str]]:
    import typer

    from clearhead.cli.app import app

    group: Any = typer.main.get_command(app)
    return {
        name: [
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("-")
        ]
        for name, command in group.commands.items()
    }


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield random combinations of commands, options and words, without end."""
    while True:
        victim = chance.choice(victims)
        command = chance.choice([*_commands(), "", "trian", "--version"])
        words = [command] * bool(command)
        for _ in range(chance.choice([0, 1, 2, 3, 6])):
            if chance.random() < 0.5 and _commands().get(command):
                words.append(chance.choice(_commands()[command]))
            words.append(chance.choice(VALUES))
        if command in SLOW:
            words += ["--max-steps", "1"] if command == "train" else ["L1.9"]
        elif command == "serve":
            words += ["--port", taken_port()]  # or else it may serve for ever
        words = [word for word in words if not word.startswith("--install-completion")]
        yield Case("command line", " ".join(words)[:400], words, RIGHT, copy_of(victim.home), input=b"abc\n")
