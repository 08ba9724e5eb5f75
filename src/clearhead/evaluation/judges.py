"""How models get judged: one judge for each thing that they learn from, which gets the results of its models."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from clearhead.data import Labelled, Pair, Text
from clearhead.evaluation.results import LabelResults, PairResults, Results, TextResults
from clearhead.predictor import Filler, Labeller, Predictor
from clearhead.recipe import Material, metrics_for


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
    def results(self, predictor: Any, examples: Sequence[Any]) -> Results:
        """What the model does with the examples."""

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

    def results(self, predictor: Predictor, examples: Sequence[Pair]) -> PairResults:
        """Nothing is computed before a metric asks for it."""
        sources, references = group(examples)
        place = {source: number for number, source in enumerate(sources)}
        by_source = sorted(examples, key=lambda pair: place[pair.source])
        return PairResults(
            sources,
            references,
            answer=lambda: [best.text for best, *_ in predictor.answers(sources, scored=False)],
            force=lambda: predictor.forced(by_source),
            spaced=predictor.target.kind == "symbols",
        )

    def questions(self, examples: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
        """Sources and their references."""
        return group(examples)


class TextJudge(Judge):
    """For lines of text: the likelihood of all tokens of a line, its end among them (lm), or of hidden ones."""

    def results(self, predictor: Predictor, examples: Sequence[Text]) -> TextResults:
        """One pass over all lines."""
        lines = predictor.hidden(examples) if isinstance(predictor, Filler) else predictor.forced(examples)
        return TextResults([example.text for example in examples], lines, self._counted)


class LabelJudge(Judge):
    """For labels: the most probable one beside the right one."""

    def results(self, predictor: Labeller, examples: Sequence[Labelled]) -> LabelResults:
        """One pass over all texts."""
        texts, truth = [example.text for example in examples], np.array(predictor.numbers(examples))
        log_p = np.array(predictor.log_probabilities(texts)[0])
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


def judge_of(predictor: Predictor) -> Judge:
    """Who judges a model of this family."""
    return _JUDGES[predictor.model.spec.learns]


def group(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    """Each source once, with all its references, in order of appearance."""
    known: dict[str, list[str]] = {}
    for pair in pairs:
        known.setdefault(pair.source, []).append(pair.target)
    return list(known), list(known.values())
