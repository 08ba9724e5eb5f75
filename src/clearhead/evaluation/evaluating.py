"""Measuring: the metrics of the table, computed from what a model did with examples."""

from collections.abc import Collection, Sequence
from typing import Any, Literal

from clearhead.errors import DataError, Problem, RecipeError, did_you_mean
from clearhead.evaluation.comparing import References
from clearhead.evaluation.judges import WorkOut, here, judge_of
from clearhead.evaluation.metrics import Metric, with_intervals
from clearhead.evaluation.results import PairResults, Results
from clearhead.evaluation.scores import Scores
from clearhead.predictor import Predictor
from clearhead.recipe import Material, metric_kinds, metrics_for

Names = Literal["all", "main"] | Collection[str]
"""Which metrics: all that apply, those that matter most for the data, or these."""


def evaluate(predictor: Predictor, examples: Sequence[Any], *, names: Names = "all", bootstrap: int = 1000) -> Scores:
    """Score a model on examples such as it learns from.

    Args:
        predictor: The model, as ``clearhead.load`` gives it.
        examples: What ``read_examples`` gives, at least one.
        names: The metrics to measure: ``all`` that apply, the ``main`` ones, which matter most for the data, or a list.
        bootstrap: Samples that the 95 % intervals come from; 0 for none.
    """
    if not examples:
        raise DataError("there are no examples to score the model on")
    judge = judge_of(predictor)
    material = judge.material(predictor)
    main = metrics_for(material, "dev", "main") if names in ("all", "main") else _chosen(names, material)
    rest = tuple(name for name in metrics_for(material) if name not in main)
    results = judge.results(predictor, examples)
    metrics = measure(results, (*main, *rest) if names == "all" else main, bootstrap)
    return Scores(metrics, results.counts, main, rest, results.lines())


def dev_scores(
    predictor: Predictor, examples: Sequence[Any], *, metric: str, work_out: WorkOut = here
) -> dict[str, float]:
    """What is measured while training: the same answers and metrics as ``evaluate``, ``metric`` and loss among them.

    With ``work_out`` of several processes, each answers a part of the examples, and all get the scores of all.
    """
    judge = judge_of(predictor)
    material, results = judge.material(predictor), judge.results(predictor, examples, work_out)
    wanted = {*metrics_for(material, "dev"), metric}
    names = [name for name in metrics_for(material) if name in wanted and name != "loss"]
    return {name: found.value for name, found in measure(results, [*names, "loss"], 0).items()}


def score(
    answers: Sequence[str],
    references: References,
    *,
    spaced: bool,
    names: Collection[str] = ("line_error", "symbol_error", "bleu", "chrf", "ter"),
    bootstrap: int = 1000,
) -> Scores:
    """Score answers that are there already, such as `clearhead run` wrote, against all references of each source.

    Args:
        answers: One for each source.
        references: For each source, all its references.
        spaced: Whether symbols stand between spaces; otherwise they are characters.
        names: The metrics to measure, of those that need no model.
        bootstrap: Samples that the 95 % intervals come from; 0 for none.
    """
    results = PairResults([""] * len(answers), references, lambda: answers, None, spaced=spaced)
    return Scores(measure(results, names, bootstrap), results.counts, tuple(names), (), results.lines())


def measure(results: Results, names: Collection[str], bootstrap: int) -> dict[str, Metric]:
    """The named metrics of some results."""
    kinds = metric_kinds()
    statistics = {name: kinds[name].load()(results) for name in names}
    sure = {name: statistic for name, statistic in statistics.items() if kinds[name].interval}
    found = with_intervals(sure, results.size, bootstrap)
    found |= with_intervals({name: statistics[name] for name in statistics if name not in sure}, results.size, 0)
    return {name: found[name] for name in names}


def _chosen(names: Collection[str], material: Material) -> tuple[str, ...]:
    """The named metrics in the table's order; a name that does not judge this material is an error."""
    if isinstance(names, str):
        raise TypeError(f"names is a list of metrics, [{names!r}], not one name")
    known = metrics_for(material)
    strange = [name for name in names if name not in known]
    if strange:
        judges = f"{material} are judged by {', '.join(known)}"
        raise RecipeError([Problem("", name, f"{judges}{did_you_mean(name, known)}") for name in strange])
    return tuple(name for name in known if name in names)
