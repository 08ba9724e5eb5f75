"""``clearhead.study_heads``: how important every head of a model is on a corpus, and what it does."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import DataError, Problem, RecipeError, did_you_mean
from clearhead.events import Event, Listener
from clearhead.verbs.evaluate import read_for
from clearhead.verbs.inputs import Data, temporary_files
from clearhead.verbs.naming import Changes
from clearhead.verbs.reporting import listener_of
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.evaluation import HeadStudy
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run

_STEPS = 1000
"""Steps of the bar that a study reports."""


def study_heads(
    model: "str | Path | Run | Predictor",
    data: Data,
    *,
    columns: Sequence[str] | None = None,
    metric: str | None = None,
    bootstrap: int = 1000,
    resume: str | Path | None = None,
    device: str | None = None,
    report: Listener | bool | None = None,
    settings: Changes = None,
) -> "HeadStudy":
    """Study all heads of a model over a corpus: importance with 95 % intervals, role, overlap.

        study = clearhead.study_heads("runs/demo", "dev.tsv")
        print(study)
        study["cross.2.4"].role, study["cross.2.4"].importance.value

    Every head is switched off in turn; its importance is the change of the teacher-forced loss per token. The gradient
    ∂loss/∂gate is its linear form.

    Args:
        model: A model, a run, or the name of one.
        data: Examples such as the model was trained on, as for ``evaluate``.
        columns: Which columns are meant, for tables, dicts and files that have several.
        metric: A metric whose change is measured too, as ``line_error``: the corpus is then answered once for every
            head, which takes much longer.
        bootstrap: Samples of lines that the intervals come from; 0 for none.
        resume: A file that keeps what is done: an interrupted study continues there.
        device: Where the model computes, as for ``clearhead.load``; without it a loaded model stays where it is.
        report: Called with an ``Event`` now and then; True prints lines to standard error.
        settings: Settings of ``[decoding]``, and ``data.bad_lines``.
    """
    listener = listener_of(report)
    if metric is not None:
        _require_metric(metric)
    with temporary_files({"data": data}, columns=columns) as files:
        where = files["data"]
        if where is None:
            raise DataError("name what to study the heads on: a file, two parallel files, or examples")
        predictor, found = read_for(model, where, columns, settings, listener, device=device)
        from clearhead.models import use_cores

        with undisturbed():
            use_cores()
            return study_examples(
                predictor, found.examples, metric=metric, bootstrap=bootstrap, resume=resume, listener=listener
            )


def study_examples(
    predictor: "Predictor",
    examples: Sequence[Any],
    *,
    metric: str | None = None,
    bootstrap: int = 1000,
    resume: str | Path | None = None,
    listener: Listener,
) -> "HeadStudy":
    """The same for a model and examples that are loaded."""
    from clearhead.evaluation import study_heads as study

    listener(Event("start", steps=len(examples)))
    result = study(
        predictor,
        examples,
        metric=metric,
        bootstrap=bootstrap,
        journal=None if resume is None else Path(resume),
        progress=_Shares(listener, len(examples)),
    )
    listener(Event("end", step=len(examples), steps=len(examples)))
    return result


class _Shares:
    """Turns shares of the work into events of lines, at most a few hundred."""

    def __init__(self, listener: Listener, lines: int) -> None:
        self._listener, self._lines, self._last, self._start = listener, lines, -1, time.monotonic()

    def __call__(self, share: float) -> None:
        """Report a share, from 0 to 1."""
        if int(share * _STEPS) == self._last:
            return
        self._last = int(share * _STEPS)
        spent = time.monotonic() - self._start
        left = spent * (1 - share) / share if share else None
        done = round(share * self._lines)
        self._listener(Event("lines", step=done, steps=self._lines, seconds=spent, seconds_left=left))


def _require_metric(metric: str) -> None:
    from clearhead.recipe import metric_kinds

    known = list(metric_kinds())
    if metric not in known:
        raise RecipeError([Problem("", metric, f"no such metric{did_you_mean(metric, known)} ({', '.join(known)})")])
