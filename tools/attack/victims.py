"""Healthy files to damage: data, and a small run of every family, killed after two thirds of its steps."""

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from safetensors.numpy import load_file

from tools.attack.case import Case
from tools.attack.runner import run_all

SMALL = (
    *("model.width=16", "model.layers=1", "model.heads=2", "training.save_every=4", "training.evaluate_every=4"),
    "decoding.max_length=12",  # what has not learnt when to stop is stopped
)
ROWS = 80
"""Lines of data: few, as dev is answered by a model that has not learnt when to stop."""
STEPS, STANDS_AT = 12, 8


@dataclass(frozen=True)
class Victim:
    """A run folder, the data that it was trained on, and lines to answer."""

    family: str
    home: Path
    """Holds ``run``, ``data.*`` and ``lines.txt``; paths in the run are relative to it."""
    data: str
    """The name of the data file."""

    @property
    def run(self) -> Path:
        """The run folder."""
        return self.home / "run"

    @property
    def model(self) -> Path:
        """The best model of the run."""
        return self.run / "best.safetensors"

    def weights_differ(self, folder: Path) -> str | None:
        """Compare the weights of a resumed run with those of one that was never killed."""
        name = f"step-{STEPS:09}.safetensors"
        if not (folder / "run" / "last" / name).is_file():
            return "succeeded without training to the end"
        then, now = load_file(self.home / name), load_file(folder / "run" / "last" / name)
        differ = [key for key in then if key.startswith("model.") and then[key].tobytes() != now[key].tobytes()]
        return f"other weights than the undisturbed run: {differ[0]}" if differ else None


def make_victims(folder: Path, *families: str) -> list[Victim]:
    """Train one small run for each family."""
    chosen = families or tuple(_DATA)
    return [_make(folder / family, family) for family in chosen]


def _make(home: Path, family: str) -> Victim:
    home.mkdir(parents=True)
    name, rows, lines, settings = _DATA[family](random.Random(1))
    (home / name).write_text("\n".join(rows) + "\n", encoding="utf-8")
    (home / "lines.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    _succeed(home, "train", name, "-o", "run", "--max-steps", str(STEPS), *SMALL, *settings)
    # a run that is killed leaves its checkpoints; the last one serves to compare with
    name_of_end = f"step-{STEPS:09}.safetensors"
    (home / "run" / "last" / name_of_end).rename(home / name_of_end)
    return Victim(family, home, name)


def _succeed(home: Path, *arguments: str) -> None:
    """Run a command that must leave a run, in a copy of ``home``, and keep the run."""

    def prepare(folder: Path) -> None:
        shutil.copytree(home, folder, dirs_exist_ok=True)

    def keep(folder: Path) -> None:
        shutil.copytree(folder / "run", home / "run")

    case = Case("victim", home.name, arguments, frozenset({0}), prepare, keep)
    for _, result, found in run_all([case], jobs=1, scratch=home.parent / "scratch"):
        if found is not None:
            raise RuntimeError(f"{found}: clearhead {' '.join(arguments)}\n{result.stderr}")


Rows = tuple[str, list[str], list[str], tuple[str, ...]]


def _words(chance: random.Random, count: int, letters: str = "abcdef") -> list[str]:
    return ["".join(chance.choices(letters, k=chance.randint(2, 6))) for _ in range(count)]


def _pairs(chance: random.Random) -> Rows:
    words = _words(chance, ROWS)
    return "data.tsv", [f"{word}\t{' '.join(reversed(word.upper()))}" for word in words], words[:5], ()


def _text(chance: random.Random) -> Rows:
    rows = [" ".join(_words(chance, chance.randint(2, 5))) for _ in range(ROWS)]
    return "data.txt", rows, rows[:5], ()


def _gaps(chance: random.Random) -> Rows:
    name, rows, _, _ = _text(chance)
    return name, rows, ["abc <mask>", "no gap"], ("model.family=encoder",)


def _labels(chance: random.Random) -> Rows:
    rows = [f"{'yes' if 'a' in word else 'no'}\t{word}" for word in _words(chance, ROWS)]
    return "data.tsv", rows, _words(chance, 5), ("model.family=classifier",)


def _pictures(chance: random.Random) -> Rows:
    rows = []
    for _ in range(ROWS):
        pixels = [chance.randint(0, 9) for _ in range(16)]
        rows.append(f"{'bright' if sum(pixels) > 70 else 'dark'}\t{' '.join(map(str, pixels))}")
    patches = "model.patches={height=4, width=4, channels=1, size=2}"
    return "data.tsv", rows, [row.split("\t")[1] for row in rows[:3]], ("model.family=classifier", patches)


_DATA: dict[str, Callable[[random.Random], Rows]] = {
    "pairs": _pairs,
    "lm": _text,
    "encoder": _gaps,
    "classifier": _labels,
    "pictures": _pictures,
}
