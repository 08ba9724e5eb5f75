"""How models get judged: one judge for each thing that they learn from, which gets the results of its models."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from clearhead.data import Labelled, Pair, Text
from clearhead.evaluation.results import LabelResults, PairResults, Results, TextResults
from clearhead.predictor import Filler, ForcedLine, Labeller, Predictor
from clearhead.recipe import Material, metrics_for

WorkOut = Callable[[Callable[[Sequence[Any]], Sequence[Any]], Sequence[Any]], list[Any]]
"""From a function of items, and items, to their results; several processes may do a part each (``training``)."""


def here(work: Callable[[Sequence[Any]], Sequence[Any]], items: Sequence[Any]) -> list[Any]:
    """All items, in this process."""
    return list(work(items))


class Judge(ABC):
    """Gets results from a predictor on examples such as its model learns from.

    Args:
        material: What models are judged on, which decides the metrics.
        counted: What is counted of it.
    """

    def __init__(self, material: Material, counted: str) -> None:
        self._material, self._counted = material, counted

    def material(self, predictor: Predictor) -> Material:
        """What this model is judged on."""
        del predictor
        return self._material

    @abstractmethod
    def results(self, predictor: Any, examples: Sequence[Any], work_out: WorkOut = here) -> Results:
        """What the model does with the examples; ``work_out`` may let several processes do a part of it each."""

    def questions(self, examples: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
        """Texts that have right answers, and these answers; nothing if there are none."""
        del examples
        return [], []

    def usual_metric(self, predictor: Predictor) -> str:
        """What the best model is chosen by if the recipe says ``auto``."""
        return metrics_for(self.material(predictor), "dev")[0]


class PairJudge(Judge):
    """For pairs: every source is answered once and compared with all its references; and how probable these are."""

    def material(self, predictor: Predictor) -> Material:
        """Symbols and characters, where whole lines count, or sentences."""
        return "symbols" if predictor.target.kind in ("symbols", "characters") else self._material

    def results(self, predictor: Predictor, examples: Sequence[Pair], work_out: WorkOut = here) -> PairResults:
        """Nothing is computed before a metric asks for it."""
        sources, references = group(examples)
        place = {source: number for number, source in enumerate(sources)}
        by_source = sorted(examples, key=lambda pair: place[pair.source])
        return PairResults(
            sources,
            references,
            answer=lambda: work_out(partial(_answers, predictor), list(enumerate(sources))),
            force=lambda: _forced(predictor.forced, by_source, work_out),
            spaced=predictor.target.kind == "symbols",
        )

    def questions(self, examples: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
        """Sources and their references."""
        return group(examples)


class TextJudge(Judge):
    """For lines of text: the likelihood of all tokens of a line, its end among them (lm), or of hidden ones."""

    def results(self, predictor: Predictor, examples: Sequence[Text], work_out: WorkOut = here) -> TextResults:
        """One pass over all lines."""
        lines = _forced(predictor.hidden if isinstance(predictor, Filler) else predictor.forced, examples, work_out)
        return TextResults([example.text for example in examples], lines, self._counted)


class LabelJudge(Judge):
    """For labels: the most probable one beside the right one."""

    def results(self, predictor: Labeller, examples: Sequence[Labelled], work_out: WorkOut = here) -> LabelResults:
        """One pass over all texts."""
        texts, truth = [example.text for example in examples], np.array(predictor.numbers(examples))
        log_p = np.array(work_out(lambda some: predictor.log_probabilities(some)[0], texts))
        return LabelResults(texts, predictor.labels, truth, log_p, self._counted)

    def questions(self, examples: Sequence[Labelled]) -> tuple[list[str], list[list[str]]]:
        """Texts and their labels."""
        return [example.text for example in examples], [[example.label] for example in examples]


class PictureJudge(LabelJudge):
    """The same for images, which are no texts to show."""

    def questions(self, examples: Sequence[Labelled]) -> tuple[list[str], list[list[str]]]:
        """None."""
        del examples
        return [], []


_JUDGES: dict[str, Judge] = {
    "pairs": PairJudge("sentences", "sources"),
    "texts": TextJudge("texts", "tokens"),
    "gaps": TextJudge("gaps", "hidden_tokens"),
    "labels": LabelJudge("labels", "texts"),
    "pictures": PictureJudge("pictures", "pictures"),
}


def _answers(predictor: Predictor, numbered: Sequence[tuple[int, str]]) -> list[str]:
    """The best answers to lines, each with its number, which sampling draws by."""
    numbers, sources = [number for number, _ in numbered], [source for _, source in numbered]
    return [best.text for best, *_ in predictor.answers(sources, scored=False, numbers=numbers)]


def _forced(
    force: Callable[[Sequence[Any]], list[ForcedLine]], examples: Sequence[Any], work_out: WorkOut
) -> list[ForcedLine]:
    """The likelihood of each example."""

    def work(some: Sequence[Any]) -> list[tuple[list[float], int, bool]]:
        return [(line.log_probabilities, line.right, line.cut) for line in force(some)]

    return [ForcedLine(*row) for row in work_out(work, examples)]


def judge_of(predictor: Predictor) -> Judge:
    """Who judges a model of this family."""
    return _JUDGES[predictor.model.spec.learns]


def group(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    """Each source once, with all its references, in order of appearance."""
    known: dict[str, list[str]] = {}
    for pair in pairs:
        known.setdefault(pair.source, []).append(pair.target)
    return list(known), list(known.values())
