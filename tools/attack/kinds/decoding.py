"""Absurd decoding settings."""

import random
from collections.abc import Iterator, Sequence

from clearhead.recipe import DecodingSpec
from tools.attack.case import Case
from tools.attack.kinds.damage import NASTY, copy_of
from tools.attack.victims import Victim

RIGHT = frozenset({0, 2, 4})


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield every setting × every bad value × every command that decodes, without end."""
    names = list(DecodingSpec.model_fields)
    while True:
        victim = chance.choice(victims)
        settings = [
            f"decoding.{chance.choice(names)}={chance.choice(NASTY)}" for _ in range(chance.choice([1, 1, 2, 4]))
        ]
        settings = [setting.replace("\x00", "\\0").replace("True", "true") for setting in settings]
        if victim.family in ("pairs", "lm") and chance.random() < 0.3:
            settings.append("decoding.sample=true")
        command = chance.choice(["run", "run", "eval", "score"])
        words = [command, "run", "lines.txt" if command == "run" else victim.data, *settings]
        if command == "run" and chance.random() < 0.3:
            words += chance.choice(
                [["--n-best", "0"], ["--n-best", "3"], ["--n-best", "1000000"], ["--threads", "1000000000000"]]
            )
        allowed = RIGHT | ({1} if victim.family == "encoder" and command == "score" else set())
        yield Case("decoding", f"{victim.family}: {' '.join(words)}"[:400], words, allowed, copy_of(victim.home))
