"""Runs a demonstration: seeded, timed, and with its errors caught."""

import math
import time
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from clearhead.drawing import svg
from clearhead.drawing.html import fragment
from clearhead.errors import Problem, RecipeError
from clearhead.files import write_whole
from clearhead.lectures.article import STYLE, article, mark
from clearhead.lectures.claim import Claim
from clearhead.lectures.evidence import Evidence, Value, Wrong, shown
from clearhead.lectures.registry import find_claims


@dataclass(frozen=True)
class Outcome:
    """A claim and the result of its demonstration."""

    claim: Claim
    evidence: Evidence | None
    """None if the demonstration failed."""
    seconds: float
    """How long it took; no verdict depends on it."""
    error: str = ""
    """Why the demonstration failed."""

    @property
    def wrong_variant_rejected(self) -> bool:
        """Whether every wrong variant was rejected."""
        return self.evidence is not None and self.evidence.rejects

    @property
    def reproduced(self) -> bool:
        """Whether every measure agreed and every wrong variant was rejected."""
        return self.evidence is not None and self.evidence.agrees and self.evidence.rejects

    def __repr__(self) -> str:
        done = "reproduced" if self.reproduced else "not reproduced"
        return f"Outcome({self.claim.id} {self.claim.title}: {self.claim.verdict}, {done})"

    def _repr_html_(self) -> str:
        """The claim as on the page of ``clearhead lecture --html``, for a notebook."""
        done = mark(self.reproduced, "reproduced", "not reproduced")
        where = f'<p class="where">{done} · <code>{escape(self.claim.module)}</code></p>'
        return fragment(f"{article(self.claim, self.evidence, self.error)}\n{where}", style=STYLE)

    def __str__(self) -> str:
        """The claim and its evidence, one line each."""
        lines = [f"{self.claim.id} {self.claim.title}: {self.claim.verdict}"]
        if self.claim.printed:
            lines += [f"  as printed: {line}" for line in self.claim.printed_formula.splitlines()]
            lines += [f"  right: {line}" for line in self.claim.formula.splitlines()]
        if self.evidence is None:
            return "\n".join([*lines, f"  the demonstration failed: {self.error}"])
        for measure in self.evidence.measures:
            mark = "agrees" if measure.agrees else "does not agree"
            lines.append(
                f"  {measure.what}: predicted {measure.expectation}, observed {shown(measure.observed)}: {mark}"
            )
        for wrong in self.evidence.wrong:
            seen = f"{wrong.measure.expectation} against {shown(wrong.measure.observed)}"
            kind = "broken" if wrong.broken else "wrong"
            lines.append(
                f"  {kind} on purpose, {wrong.what}: {seen}: {'rejected' if wrong.rejected else 'not rejected'}"
            )
        return "\n".join([*lines, f"  {'reproduced' if self.reproduced else 'not reproduced'}"])

    def save_figures(self, folder: Path) -> None:
        """Write the figures into a folder, as SVG: ``L4.8-1.svg``."""
        folder.mkdir(parents=True, exist_ok=True)
        for number, figure in enumerate(self.evidence.figures if self.evidence else (), start=1):
            write_whole(folder / f"{self.claim.id}-{number}.svg", svg(figure, standalone=True).encode())

    def as_json(self) -> dict[str, Any]:
        """The fields that ``clearhead lecture --json`` prints."""
        measures = () if self.evidence is None else self.evidence.measures
        return {
            "id": self.claim.id,
            "verdict": self.claim.verdict,
            "predicted": {measure.what: _plain(measure.predicted) for measure in measures},
            "observed": {measure.what: _plain(measure.observed) for measure in measures},
            "wrong_variant_rejected": self.wrong_variant_rejected,
            "reproduced": self.reproduced,
            "wrong": [] if self.evidence is None else [_wrong_json(wrong) for wrong in self.evidence.wrong],
            **{name: value for name, value in self.claim.as_json().items() if name not in ("id", "verdict")},
        }


def demonstrate(claim: Claim | str) -> Outcome:
    """Run the demonstration of a claim: ``clearhead.demonstrate("L4.8").evidence``.

    Args:
        claim: the claim or its id.

    The result is the same every time; the global random state is not changed.
    """
    import torch

    from clearhead.models import use_cores

    if isinstance(claim, str):
        claim = _one(claim)
    start = time.perf_counter()
    evidence, error, threads = None, "", torch.get_num_threads()
    use_cores()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(20)
        try:
            evidence = claim.demonstrate()
        except Exception as failure:  # whatever fails, the claim is not reproduced
            error = f"{type(failure).__name__}: {failure}"
    torch.set_num_threads(threads)
    return Outcome(claim, evidence, time.perf_counter() - start, error)


def _one(word: str) -> Claim:
    """The claim with this id; a word that finds several is refused."""
    found = find_claims([word])
    if len(found) != 1:
        listed = ", ".join(claim.id for claim in found)
        raise RecipeError([Problem("", word, f"this is more than one claim, demonstrate them one by one: {listed}")])
    return found[0]


def _wrong_json(wrong: Wrong) -> dict[str, Any]:
    return {
        "what": wrong.what,
        "broken": wrong.broken,
        "predicted": _plain(wrong.measure.predicted),
        "observed": _plain(wrong.measure.observed),
        "rejected": wrong.rejected,
    }


def _plain(value: Value) -> Value:
    """Infinity and NaN as text, as JSON has neither."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
