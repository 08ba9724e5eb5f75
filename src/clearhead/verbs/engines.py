"""``clearhead.compare_engines``: how the answers of another engine compare with the native ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clearhead.errors import DataError
from clearhead.events import Listener
from clearhead.verbs.evaluate import evaluate
from clearhead.verbs.naming import Changes, model_named, require_native
from clearhead.verbs.naming import split as split_settings

if TYPE_CHECKING:
    from clearhead.evaluation import Names, Scores
    from clearhead.predictor import Predictor, TextWriter
    from clearhead.verbs.inputs import Data
    from clearhead.verbs.run import Run

TIE = 1e-4
"""By how much log p of two answers differs at most if rounding decides between them."""


@dataclass(frozen=True)
class EngineComparison:
    """Scores of the same model with another engine and without, and whether its answers are the native ones.

    Args:
        scores: by the name of the engine: the one that was asked for first, ``native`` last.
        lines: how many lines were answered.
        same: how many answers are the native ones, by engine.
        ties: how many others the model finds as probable as the native answer, up to rounding.
    """

    scores: "dict[str, Scores]"
    lines: int
    same: dict[str, int]
    ties: dict[str, int]

    def table(self) -> dict[str, Any]:
        """For JSON: the scores of the engine, and beside them those of the others."""
        name, *others = self.scores
        answers = {"lines": self.lines, "same": self.same, "ties": self.ties}
        beside = {other: self.scores[other].table()["metrics"] for other in others}
        return self.scores[name].table() | {"engine": name, "beside": beside, "answers": answers}

    def words(self) -> list[str]:
        """One line for each engine: how many of its answers are the native ones."""
        found = []
        for name, same in self.same.items():
            other = self.lines - same - self.ties[name]
            parts = (
                f"{same:,} of {self.lines:,} answers are the native ones, {self.ties[name]:,} ties, {other:,} others"
            )
            found.append(f"{name}: {parts}")
        return found


def compare_engines(
    model: "str | Path | Run | Predictor",
    data: "Data | None" = None,
    *,
    engine: str,
    int8: bool = False,
    device: str | None = None,
    split: Literal["dev", "test"] | None = None,
    columns: Sequence[str] | None = None,
    metrics: "Names" = "main",
    report: Listener | bool | None = None,
    settings: Changes = None,
) -> EngineComparison:
    """Score a model with an engine and without, and count the answers that are the same.

        compared = clearhead.compare_engines("runs/mine", "test.tsv", engine="ctranslate2", int8=True)
        compared.scores["ctranslate2 int8"]["line_error"], compared.scores["native"]["line_error"]

    With ``int8``, the scores of ctranslate2 in float32 are beside them. An answer that differs is a tie if the model
    itself finds both equally probable, up to rounding: at the token where two greedy answers part, or as a whole.

    Args: as for ``evaluate``.
    """
    from clearhead.interop.engines import require_engine

    require_engine(engine, int8=int8)
    require_native(device, engine)
    named = [part for part in (data if isinstance(data, tuple | list) else [data]) if isinstance(part, str | Path)]
    if "-" in map(str, named):
        raise DataError("the data are read once for each engine: name a file instead of standard input")
    names = {f"{engine} int8": True, engine: False} if int8 else {engine: False}
    given: dict[str, Any] = {"split": split, "columns": columns, "metrics": metrics, "settings": settings}
    found: dict[str, Scores] = {}
    for number, (name, eight) in enumerate(names.items()):
        heard = report if number == 0 else None  # each warning once
        found[name] = evaluate(model, data, engine=engine, int8=eight, report=heard, **given)
    found["native"] = evaluate(model, data, engine="native", device=device, **given)
    lines = [line for line in found["native"].lines if line.answer is not None]
    if not lines:
        raise DataError("the model is scored by log p alone, which is always the native one: leave the engine out")
    native = model_named(model, _decoding(settings), engine="native", device=device)
    same, ties = {}, {}
    for name in names:
        parted = [
            (mine.source, mine.answer, other.answer)
            for mine, other in zip(found["native"].lines, found[name].lines, strict=True)
            if mine.answer != other.answer and mine.answer is not None and other.answer is not None
        ]
        same[name] = len(lines) - len(parted)
        ties[name] = sum(_ties(native, parted)) if parted else 0  # type: ignore[arg-type]
    return EngineComparison(found, len(lines), same, ties)


def _decoding(settings: Changes) -> Changes:
    """Those of the settings that are about decoding."""
    table, words = split_settings(settings)
    return {name: value for name, value in table.items() if name.startswith("decoding.")} or [
        word for word in words if word.startswith("decoding.")
    ]


def _ties(predictor: "TextWriter", parted: Sequence[tuple[str, str, str]]) -> list[bool]:
    """For each text with two answers: whether the model finds them equally probable."""
    from clearhead.data import Pair
    from clearhead.decoding import length_penalty

    spec = predictor.recipe.decoding
    rows = [Pair(source, answer, 0) for source, *both in parted for answer in both]
    forced = iter(predictor.forced(rows))
    found = []
    for _ in parted:
        one, other = (next(forced).log_probabilities for _ in range(2))
        if spec.beam_size > 1:
            values = [sum(line) / length_penalty(len(line), spec.length_penalty) for line in (one, other)]
            found.append(math.isclose(*values, rel_tol=0.0, abs_tol=TIE))
        else:
            # up to where they part, both have the same tokens, and so the same log p
            pairs = zip(one, other, strict=False)
            apart = next(((mine, theirs) for mine, theirs in pairs if abs(mine - theirs) > TIE), None)
            found.append(apart is None)
    return found
