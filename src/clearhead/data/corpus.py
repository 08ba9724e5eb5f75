"""Train, dev and test: explicit files, or a stable split. Training examples are never all in memory."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from clearhead.data.examples import Example
from clearhead.data.formats import Format, Skipped, Where, shown
from clearhead.data.inputs import open_input
from clearhead.data.tasks import task_examples
from clearhead.errors import DataError
from clearhead.recipe import TASKS, DataSpec

LARGEST_SHARE, MOST_EXAMPLES = 0.05, 2000
"""What is set aside for dev, and for test, if the recipe does not say."""
MOST_LABELS = 100
"""Different values that a column of labels may have, to be noticed."""
E = TypeVar("E", bound=Example)


@dataclass(frozen=True)
class Corpus(Generic[E]):
    """The three parts, and what was left out on the way."""

    spec: DataSpec
    format: Format[E]
    dev: list[E]
    test: list[E]
    skipped: Skipped
    train_size: int
    _shares: tuple[float, float]
    notes: tuple[str, ...] = ()
    """What was decided about the files that their owner should know: a header, columns by name, likely labels."""

    def train(self) -> Iterator[E]:
        """The training examples, read from their file again each time."""
        count = 0
        for example in _all_examples(self.spec, self.format, Skipped()):
            if _part(example.key, *self._shares) == "train":
                count += 1
                yield example
        if count != self.train_size:
            raise DataError(
                f"{shown(self.spec.train or '')}: has changed while it was read "
                f"(first {self.train_size:,} {self.format.name} to train on, then {count:,}): "
                "start again when it is whole"
            )

    def fingerprint(self) -> str:
        """Changes whenever a file behind the corpus changes."""
        asked = (self.spec.task, self.spec.stress, self._shares, *(self.spec.columns or ()))
        digest = hashlib.sha256(repr(asked).encode())
        for where in (self.spec.train, self.spec.dev, self.spec.test):
            for name in [where] if isinstance(where, str) else where or []:
                with open_input(name) as stream:
                    for block in iter(partial(stream.read, 1 << 20), b""):
                        digest.update(block)
        return digest.hexdigest()


def read_corpus(spec: DataSpec, format: Format[E]) -> Corpus[E]:
    """Read what ``[data]`` names: dev and test into memory, training examples only to check and count them."""
    if spec.task == "none" and spec.train is None:
        raise DataError(f"nothing to train on: name a file of {format.name}, a task, or data.train in the recipe")
    format = format.selecting(spec.columns)
    skipped, few = Skipped(), _FewValues(format)
    total = sum(1 for _ in few.watching(_all_examples(spec, format, skipped)))
    if spec.train is not None:
        format.refuse_strange(spec.train, total, skipped, spec.bad_lines)
    shares = _shares(spec, total)
    parts: dict[str, list[E]] = {"dev": [], "test": []}
    if any(shares):
        for example in _all_examples(spec, format, Skipped()):
            if (part := _part(example.key, *shares)) != "train":
                parts[part].append(example)
    train_size = total - len(parts["dev"]) - len(parts["test"])
    for part, where in (("dev", spec.dev), ("test", spec.test)):
        if where is not None:
            parts[part], left_out = format.read(where, spec.bad_lines)
            skipped.add_all(left_out)
    hint = few.hint(spec.train, total)
    if train_size <= 0 or not parts["dev"]:
        reason = f"{total} {format.name} are too few to set some aside for dev: give more, or a file for data.dev"
        raise DataError("\n".join([reason, *hint]))
    notes = [note for where in (spec.train, spec.dev, spec.test) for note in format.notes(where)]
    return Corpus(spec, format, parts["dev"], parts["test"], skipped, train_size, shares, (*notes, *hint))


class _FewValues:
    """Watches the sides of pairs for one that has only a few values: it may be a label."""

    def __init__(self, format: Format[Any]) -> None:
        self._format = format
        self._seen: dict[str, set[str]] = {side: set() for side in format.columns} if format.parallel else {}
        self._full: set[str] = set()

    def watching(self, examples: Iterator[E]) -> Iterator[E]:
        """The same examples."""
        for example in examples:
            for side, values in self._seen.items():
                if side not in self._full:
                    values.add(getattr(example, side))
                    if len(values) > MOST_LABELS:
                        self._full.add(side)
            yield example

    def hint(self, where: Where | None, total: int) -> list[str]:
        """What to type if a column of a file holds labels."""
        if not isinstance(where, str) or total < 20:
            return []
        hints = []
        for number, (side, values) in enumerate(self._seen.items()):
            if side not in self._full and len(values) * 10 <= total:
                some = ", ".join(sorted(values)[:3])
                order = f" --columns {self._reversed(where)}" if number else ""
                hints.append(
                    f"{shown(where)}: the {total:,} pairs have only {len(values)} different {side}s ({some[:60]} …): "
                    f"if these are labels, add model.family=classifier{order}"
                )
        return hints

    def _reversed(self, file: str) -> str:
        """Both columns, the second one first, as a command names them."""
        layout = self._format.layout(file)
        named = layout.header or layout.kind == "jsonl"
        return ",".join(reversed(layout.fields if named else [str(place + 1) for place in layout.places]))


def _all_examples(spec: DataSpec, format: Format[E], skipped: Skipped) -> Iterator[E]:
    if spec.task != "none":
        examples: Any = task_examples(spec)
        yield from examples
    elif spec.train is not None:
        yield from format.good(spec.train, skipped)


def _shares(spec: DataSpec, total: int) -> tuple[float, float]:
    """Which part of the training file goes to dev and to test."""
    usual = min(LARGEST_SHARE, MOST_EXAMPLES / total) if total else 0.0
    usual_dev, usual_test = (spec.task != "none" and TASKS[spec.task].shares) or (usual, usual)
    dev = 0.0 if spec.dev is not None else usual_dev if spec.dev_share is None else spec.dev_share
    # whoever brings a dev file and no test file keeps the test elsewhere
    brought = spec.test is not None or (spec.dev is not None and spec.test_share is None)
    return dev, 0.0 if brought else usual_test if spec.test_share is None else spec.test_share


def _part(key: str, dev: float, test: float) -> str:
    """Decided by the key alone: examples that share it stay together, and stay where they are as data grow."""
    if not dev and not test:
        return "train"
    digest = hashlib.blake2b(key.encode("utf-8"), digest_size=8).digest()
    place = int.from_bytes(digest, "big") / 2**64  # in [0, 1)
    return "dev" if place < dev else "test" if place < dev + test else "train"
