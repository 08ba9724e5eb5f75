"""What a study of all heads of a model over a corpus gives."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.drawing.html import facts, fragment, table
from clearhead.errors import DataError
from clearhead.evaluation.heads_page import heads_page
from clearhead.evaluation.metrics import Metric
from clearhead.files import write_whole

FORMAT = 1


@dataclass(frozen=True)
class StudiedHead:
    """One head, and what was found about it.

    Args:
        name: ``STACK.LAYER.HEAD``.
        importance: the change of the loss when the head is switched off, in nats per predicted token: above 0 if the
            model is worse without it.
        gradient: ∂loss/∂gate of the head, in nats per token, where the gate multiplies its output and is 1: −gradient
            is what ``importance`` would be if the loss were linear in the gate.
        role: what it attends to, as ``previous``; None if its weights are not over tokens.
        score: how much it does so, between 0 and 1.
        scores: the score of every role.
        metric: the change of the metric when it is switched off, if one was asked for.
    """

    name: str
    importance: Metric
    gradient: Metric
    role: str | None = None
    score: float | None = None
    scores: Mapping[str, float] = field(default_factory=dict)
    metric: Metric | None = None

    @property
    def attention(self) -> str:
        """``STACK.LAYER``."""
        return self.name.rpartition(".")[0]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        stack, layer, head = self.name.split(".")
        changed = {} if self.metric is None else {"metric": _numbers(self.metric)}
        return {
            "name": self.name,
            "stack": stack,
            "layer": int(layer),
            "head": int(head),
            "role": self.role,
            "score": self.score,
            "importance": self.importance.value,
            "low": self.importance.low,
            "high": self.importance.high,
            "gradient": _numbers(self.gradient),
            "scores": dict(self.scores),
        } | changed


@dataclass(frozen=True, repr=False)
class HeadStudy:
    """All heads of a model over a corpus: how important each is, what it does, and how much heads overlap.

        study = clearhead.study_heads("runs/demo", "dev.tsv")
        print(study)
        study["cross.2.4"].importance.value, study["cross.2.4"].role
        study.least(8)

    Args:
        heads: every head, in the order of the model.
        lines: how many lines were read.
        tokens: how many tokens were predicted in them.
        loss: the loss of the whole model, in nats per token.
        overlap: for every stack the names of its heads and a matrix of their mean overlaps: 1 for heads with the same
            weights, 0 for heads that never attend to the same token.
        metric: the name of the metric whose change was measured, if one was asked for.
        value: the metric of the whole model.
    """

    heads: tuple[StudiedHead, ...]
    lines: int
    tokens: int
    loss: Metric
    overlap: Mapping[str, tuple[Sequence[str], Sequence[Sequence[float]]]]
    metric: str | None = None
    value: Metric | None = None

    def __getitem__(self, name: str) -> StudiedHead:
        for head in self.heads:
            if head.name == name:
                return head
        raise KeyError(f"no head {name!r}: a head is STACK.LAYER.HEAD, as {self.heads[0].name}")

    def __len__(self) -> int:
        return len(self.heads)

    def ranked(self) -> list[StudiedHead]:
        """The heads, the most important first."""
        return sorted(self.heads, key=lambda head: -head.importance.value)

    def least(self, count: int) -> list[StudiedHead]:
        """The least important heads, the least important first; every attention keeps at least one."""
        left = dict.fromkeys((head.attention for head in self.heads), 0)
        for head in self.heads:
            left[head.attention] += 1
        most = len(self.heads) - len(left)
        if not 0 < count <= most:
            attentions = f"{len(self.heads)} heads in {len(left)} attentions, each of which keeps at least one"
            raise DataError(f"{count} heads cannot be removed: there are {attentions}, so that at most {most} can go")
        found: list[StudiedHead] = []
        for head in reversed(self.ranked()):
            if len(found) < count and left[head.attention] > 1:
                left[head.attention] -= 1
                found.append(head)
        return found

    def alike(self, count: int = 5) -> list[tuple[float, str, str]]:
        """The pairs of heads that overlap most: how much, and their names."""
        pairs = [
            (values[one][other], names[one], names[other])
            for names, values in self.overlap.values()
            for one in range(len(names))
            for other in range(one)
        ]
        return sorted(pairs, reverse=True)[:count]

    def as_dict(self) -> dict[str, Any]:
        """For JSON, and for the page: ``heads`` has what ``look`` has of a head, and more."""
        measured = {} if self.metric is None else {"metric": self.metric, "value": _numbers(self.value)}
        return {
            "format": FORMAT,
            "lines": self.lines,
            "tokens": self.tokens,
            "loss": _numbers(self.loss),
            "heads": [head.as_dict() for head in self.heads],
            "overlap": {
                stack: {"heads": list(names), "values": [list(row) for row in values]}
                for stack, (names, values) in self.overlap.items()
            },
        } | measured

    def save(self, path: str | Path) -> None:
        """Write everything as JSON, or a page if the name ends in ``.html``; whole or not at all."""
        if Path(path).suffix == ".html":
            names, rows = self.rows()
            text = heads_page(
                self.as_dict(), title=self._title(), table=table(names, rows, numbers=range(2, len(names)))
            )
        else:
            text = json.dumps(self.as_dict(), ensure_ascii=False) + "\n"
        write_whole(Path(path), text.encode())

    def rows(self) -> tuple[list[str], list[list[str]]]:
        """Column names and cells as text, the most important head first, for a terminal or a page."""
        changed = [] if self.metric is None else [f"{self.metric} without it"]
        names = ["head", "role", "score", "loss without it", "95 % interval", "−gradient", *changed]
        return names, [self._row(head) for head in self.ranked()]

    def _row(self, head: StudiedHead) -> list[str]:
        importance = head.importance
        interval = "" if importance.low is None else f"[{importance.low:+.4f}, {importance.high:+.4f}]"
        cells = [
            head.name,
            head.role or "–",
            "–" if head.score is None else f"{head.score:.2f}",
            f"{importance.value:+.4f}",
            interval,
            f"{-head.gradient.value:+.4f}",
        ]
        return [*cells, *([] if head.metric is None else [f"{head.metric.value:+.2f}"])]

    def __str__(self) -> str:
        names, rows = self.rows()
        widths = [max(len(row[column]) for row in [names, *rows]) for column in range(len(names))]
        lines = [
            "  ".join(
                cell.ljust(width) if column < 2 else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in [names, *rows]
        ]
        return "\n".join([self._title(), *lines, *self._notes()])

    def __repr__(self) -> str:
        best = self.ranked()[0]
        return f"HeadStudy({len(self.heads)} heads on {self.lines:,} lines; the most important is {best.name})"

    def _title(self) -> str:
        return f"{len(self.heads)} heads on {self.lines:,} lines: loss {self.loss.value:.4f} nats per token"

    def _notes(self) -> list[str]:
        if not (pairs := self.alike(3)):
            return []
        return ["most alike: " + ", ".join(f"{one} and {other} ({share:.2f})" for share, one, other in pairs)]

    def _repr_html_(self) -> str:
        names, rows = self.rows()
        shown = {"heads": len(self.heads), "lines": f"{self.lines:,}", "loss": f"{self.loss.value:.4f}"}
        notes = "".join(f"<p>{note}</p>" for note in self._notes())
        return fragment(facts(shown) + table(names, rows, numbers=range(2, len(names))) + notes)


def _numbers(metric: Metric | None) -> dict[str, float | None] | None:
    return None if metric is None else {"value": metric.value, "low": metric.low, "high": metric.high}
