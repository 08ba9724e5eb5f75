"""Pairs of source and target: from TSV, JSONL, or two parallel files. Nothing is dropped silently."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Literal

from clearhead.data.lines import read_lines
from clearhead.errors import DataError

Where = str | Sequence[str]
"""One file of pairs, or two parallel files."""


@dataclass(frozen=True)
class Pair:
    """One example."""

    source: str
    target: str
    line: int
    """Where it stands in its file, counted from 1."""


@dataclass(frozen=True)
class BadLine:
    """A line that is no pair."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.problem}"


class Skipped:
    """The lines that were left out, and why: counted all, the first ones kept to be shown."""

    def __init__(self, shown: int = 10) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[BadLine] = []
        self._shown = shown

    def add(self, bad: BadLine) -> None:
        """Count one more."""
        self.counts[bad.problem] += 1
        if len(self.first) < self._shown:
            self.first.append(bad)

    def __len__(self) -> int:
        return self.counts.total()

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} × {problem}" for problem, count in self.counts.most_common())
        return f"{len(self):,} lines left out ({reasons}); the first is {self.first[0]}" if self.first else ""

    def refuse(self) -> None:
        """Raise an error that names the lines, if there are any."""
        if not self.first:
            return
        lines = [str(bad) for bad in self.first]
        if len(self) > len(lines):
            lines.append(f"… and {len(self) - len(lines):,} more")
        raise DataError("\n".join([*lines, "mend these lines, or leave them out with data.bad_lines=skip"]))


def scan_pairs(where: Where) -> Iterator[Pair | BadLine]:
    """Everything that stands in the files, line by line: pairs, and lines that are none."""
    if not isinstance(where, str):
        source, target = where
        yield from _scan_parallel(source, target)
    elif Path(where.removesuffix(".gz")).suffix in (".jsonl", ".json"):
        yield from _scan_jsonl(where)
    else:
        yield from _scan_tsv(where)


def read_pairs(where: Where, bad_lines: Literal["refuse", "skip"] = "refuse") -> tuple[list[Pair], Skipped]:
    """All pairs in memory. Bad lines are refused with their numbers, or left out and counted."""
    skipped = Skipped()
    pairs = list(good_pairs(where, skipped))
    if bad_lines == "refuse":
        skipped.refuse()
    if not pairs:
        raise DataError(f"{shown(where)}: no pairs inside")
    return pairs, skipped


def good_pairs(where: Where, skipped: Skipped) -> Iterator[Pair]:
    """The pairs one by one; lines that are none go to ``skipped``."""
    for item in scan_pairs(where):
        if isinstance(item, Pair):
            yield item
        else:
            skipped.add(item)


def shown(where: Where) -> str:
    """The files, as a message names them."""
    return where if isinstance(where, str) else " and ".join(where)


def _pair(file: str, line: int, source: str, target: str) -> Pair | BadLine:
    for side, text in (("source", source), ("target", target)):
        if not text.strip():
            return BadLine(file, line, f"empty {side}")
    return Pair(source.strip(), target.strip(), line)


def _scan_tsv(file: str) -> Iterator[Pair | BadLine]:
    for number, text in enumerate(read_lines(file), start=1):
        columns = text.split("\t")
        if not text.strip():
            yield BadLine(file, number, "empty line")
        elif len(columns) != 2:
            yield BadLine(file, number, f"{len(columns)} columns between tabs instead of 2")
        else:
            yield _pair(file, number, *columns)


def _scan_jsonl(file: str) -> Iterator[Pair | BadLine]:
    for number, text in enumerate(read_lines(file), start=1):
        try:
            table = json.loads(text)
        except (ValueError, RecursionError):
            yield BadLine(file, number, "not JSON")
            continue
        source, target = (table.get("source"), table.get("target")) if isinstance(table, dict) else (None, None)
        if not isinstance(source, str) or not isinstance(target, str):
            yield BadLine(file, number, 'no texts "source" and "target"')
        elif any("\ud800" <= character <= "\udfff" for character in source + target):
            yield BadLine(file, number, "an unpaired surrogate, which is no text")
        else:
            yield _pair(file, number, source, target)


def _scan_parallel(source: str, target: str) -> Iterator[Pair | BadLine]:
    counts = [0, 0]
    for number, (left, right) in enumerate(zip_longest(read_lines(source), read_lines(target)), start=1):
        counts[0] += left is not None
        counts[1] += right is not None
        if left is not None and right is not None:
            file = target if left.strip() and not right.strip() else source
            yield _pair(file, number, left, right)
    if counts[0] != counts[1]:
        raise DataError(
            f"{source} has {counts[0]:,} lines, {target} has {counts[1]:,}: parallel files must have as many lines"
        )
