"""Lines that are no examples: where they stand, what is wrong with them, and how many there are."""

from collections import Counter
from dataclasses import dataclass

from clearhead.errors import DataError


@dataclass(frozen=True)
class BadLine:
    """A line that is no example."""

    file: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.problem}"


class Skipped:
    """The lines that were left out, and why: all are counted, the first ones kept to be shown."""

    def __init__(self, shown: int = 10) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[BadLine] = []
        self._shown = shown

    def add(self, bad: BadLine) -> None:
        """Count one more."""
        self.counts[bad.problem] += 1
        if len(self.first) < self._shown:
            self.first.append(bad)

    def add_all(self, others: "Skipped") -> None:
        """Count those of another file too."""
        self.counts += others.counts
        self.first = (self.first + others.first)[: self._shown]

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
        raise DataError("\n".join([*lines, "fix these lines, or leave them out with data.bad_lines=skip"]))
