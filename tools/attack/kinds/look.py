"""Looking inside with unexpected texts, places, heads and files."""

import random
from collections.abc import Iterator, Sequence

from tools.attack.case import Case
from tools.attack.kinds.damage import copy_of
from tools.attack.victims import Victim

RIGHT = frozenset({0, 1, 2, 3, 4})
TEXTS = (
    "",
    " ",
    "a",
    "\t",
    "abc",
    "é\u200d\U0001f600",
    "<mask>",
    "</s>",
    "a=b",
    "-",
    "ab" * 4000,
    "1 2 3",
    "\\x00",
    "<script>",
)
OPTIONS: dict[str, tuple[str, ...]] = {
    "--at": ("0", "1", "-1", "99", "-99", "x", "1e9", ""),
    "--against": ("a", "", "</s>", "nothing", "é"),
    "--show": ("parts", "inputs", "lens,norms", "nroms", "", ",", "occlusion,attention"),
    "--without": (
        "cross.1.1",
        "encoder.1.1",
        "decoder.1.2",
        "cross.9.9",
        "cross",
        "1.1",
        "",
        "cross.0.0",
        "cross.-1.1",
    ),
    "--target": ("", "A", "a b c", "A" * 3000, "yes"),
    "-o": ("look.html", "look.svg", "look.npz", "look.json", "look.pdf", "none/look.html", ".", "look", "/dev/full"),
    "--shift": ("0", "2", "x"),
    "--gold": ("lines.txt", "none", "run"),
}
FLAGS = ("--json", "--align", "--heads")


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield texts × options, without end; files in place of texts where these are meant."""
    while True:
        victim = chance.choice(victims)
        words = ["look", "run", chance.choice(TEXTS)]
        if chance.random() < 0.25:
            words = ["look", "run", chance.choice([victim.data, "lines.txt", "none.tsv"]), chance.choice(FLAGS)]
        for name in chance.sample(sorted(OPTIONS), chance.choice([0, 1, 1, 2, 3])):
            words += [name, chance.choice(OPTIONS[name])]
        if chance.random() < 0.2:
            words.append(chance.choice(FLAGS))
        yield Case(
            "look", f"{victim.family}: {' '.join(words)}"[:400], words, RIGHT, copy_of(victim.home), input=b"a\n"
        )
