"""A run: what ``clearhead.train`` returns, and what any run folder holds."""

import json
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from clearhead.drawing import curve, curve_svg
from clearhead.drawing.html import fragment
from clearhead.errors import DataError, ModelFileError
from clearhead.recipe import Recipe, metric_rises, named, read_recipe

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clearhead.evaluation import Scores
    from clearhead.predictor import Predictor


class AnsweredQuestion(NamedTuple):
    """A test question with the model's answer."""

    question: str
    answer: str
    right: list[str]
    """The answers that count as right."""


class Run:
    """A training run, seen through its folder: recipe, history, best model, scores.

        run = clearhead.Run("runs/demo")
        run.model("cabbage")
        run.scores["test"]["line_error"].value

    Args:
        folder: A run folder, as ``clearhead train -o`` or ``clearhead.train(output=…)`` wrote it.
        model: Its best model, if it is loaded already.

    Everything is read from the folder when it is asked for, so that a run can be watched while another process trains
    it; only the model is kept once it is loaded.
    """

    def __init__(self, folder: str | Path, model: "Predictor | None" = None) -> None:
        self.folder = Path(folder)
        if model is not None:
            vars(self)["model"] = model  # the cached property
        if not self.folder.is_dir() or named(self.folder) != "run":
            raise DataError(f"{folder}: is no run folder: it has no recipe.toml")

    @property
    def recipe(self) -> Recipe:
        """The recipe with everything resolved: vocabulary, number of steps, dropout."""
        return read_recipe(self.folder / "recipe.toml")

    @property
    def origin(self) -> dict[str, str]:
        """``name`` and ``fingerprint`` of the model that the run was tuned from; empty if it started from scratch."""
        file = self.folder / "run.json"
        try:
            return dict(json.loads(file.read_bytes()).get("start") or {})
        except (OSError, ValueError, AttributeError):
            return {}

    @property
    def history(self) -> list[dict[str, Any]]:
        """Rows of ``metrics.jsonl``: ``kind`` is train (loss, rate) or dev (``dev_`` and the name of each metric)."""
        return _rows(self.folder / "metrics.jsonl")

    @cached_property
    def model(self) -> "Predictor":
        """The best model so far, ready to answer."""
        from clearhead.predictor import load

        if not (self.folder / "best.safetensors").exists():
            raise ModelFileError(f"{self.folder}: has no best model yet: it is chosen at the first evaluation")
        return load(self.folder)

    @property
    def scores(self) -> "Mapping[str, Scores]":
        """Scores of the best model on ``dev`` and ``test``, which a run has when it has ended; empty before."""
        from clearhead.evaluation import kept_scores

        return kept_scores(self.folder)

    @property
    def steps(self) -> int:
        """Steps that were logged so far."""
        return max((int(row["step"]) for row in self.history), default=0)

    @property
    def planned_steps(self) -> int:
        """Steps that the run is to have; a budget in minutes corrects them while it goes on."""
        corrected = [int(row["steps"]) for row in _rows(self.folder / "clock.jsonl") if "steps" in row]
        return max(self.steps, corrected[-1] if corrected else self.recipe.training.steps or 0)

    @property
    def metric(self) -> str:
        """What the best model is chosen by."""
        chosen = self.recipe.training.metric
        if chosen != "auto":
            return str(chosen)
        dev = [row for row in self.history if row.get("kind") == "dev"]
        names = [name.removeprefix("dev_") for name in (dev[-1] if dev else {}) if name.startswith("dev_")]
        return names[0] if names else "loss"

    @property
    def best(self) -> dict[str, Any] | None:
        """The evaluation on dev with the best score, None before the first one."""
        key = f"dev_{self.metric}"
        rows = [row for row in self.history if row.get("kind") == "dev" and key in row]
        sign = 1 if metric_rises(self.metric) else -1
        return max(rows, key=lambda row: (sign * row[key], -row.get("dev_loss", 0.0)), default=None)

    def examples(self, count: int = 6) -> list[AnsweredQuestion]:
        """Some test questions, evenly spread, with the best model's answers; none for what has no right answers."""
        from clearhead.data import format_of, read_corpus
        from clearhead.evaluation import judge_of
        from clearhead.training import objective_of

        recipe = self.recipe
        corpus = objective_of(recipe).admitted(read_corpus(recipe.data, format_of(recipe.model)))
        questions, right = judge_of(self.model).questions(corpus.test)
        chosen = range(0, len(questions), max(1, len(questions) // count))[:count]
        answers = self.model.generate([questions[index] for index in chosen]) if chosen else []
        return [
            AnsweredQuestion(questions[index], text, right[index]) for index, text in zip(chosen, answers, strict=True)
        ]

    def curve(self) -> str:
        """The training loss and the dev metric over the steps, as SVG."""
        rising = metric_rises(self.metric)
        return curve_svg(self.history, metric=self.metric, rising=rising, steps=self.planned_steps)

    def __repr__(self) -> str:
        best = self.best
        found = "no evaluation yet" if best is None else f"dev {self.metric} {best[f'dev_{self.metric}']:.2f}"
        return f"Run({str(self.folder)!r}: {self.steps:,} of {self.planned_steps:,} steps, {found})"

    def _repr_html_(self) -> str:
        metric = self.metric
        drawn = curve(self.history, metric=metric, rising=metric_rises(metric), steps=self.planned_steps)
        scored = (f"<h4>{part}</h4>{scores._repr_html_()}" for part, scores in self.scores.items())
        return "".join([fragment(f"<p>{escape(repr(self))}</p>"), drawn, *scored])


def _rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a file that another process may be writing."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    rows = []
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:  # the last line, while it is being written
            continue
    return rows
