"""How models of each kind are judged: one judge for what pairs, texts and labels ask of a model."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data import Labelled, Pair, Text
from clearhead.evaluation.metrics import NAMES, macro_f1, score, with_interval
from clearhead.evaluation.scores import Scores
from clearhead.predictor import Filler, ForcedLine, Labeller, Predictor
from clearhead.recipe import METRICS


class Judge(ABC):
    """Scores a predictor on examples such as its model learns from."""

    def usual_metric(self, predictor: Predictor) -> str:
        """What the best model is chosen by unless the recipe says otherwise."""
        return METRICS[predictor.model.spec.learns][0]

    @abstractmethod
    def scores(self, predictor: Any, examples: Sequence[Any], bootstrap: int, names: Collection[str]) -> Scores:
        """All metrics; of those that cost time only the named ones."""

    @abstractmethod
    def loss(self, scores: Scores) -> float:
        """The mean −log p of what should have been said."""

    def dev_names(self, predictor: Predictor) -> Collection[str]:
        """The metrics that are looked at while training."""
        return METRICS[predictor.model.spec.learns]

    def questions(self, examples: Sequence[Any]) -> tuple[list[str], list[list[str]]]:
        """Texts that have right answers, and these answers; nothing if there are none."""
        del examples
        return [], []


class PairJudge(Judge):
    """Answers to sources against their references, and the likelihood of the references."""

    def usual_metric(self, predictor: Predictor) -> str:
        """Whole lines count where symbols do; for sentences BLEU."""
        return "line_error" if predictor.target.kind in ("symbols", "characters") else "bleu"

    def dev_names(self, predictor: Predictor) -> Collection[str]:
        """Errors, or the metrics of translation."""
        return ("line_error", "symbol_error") if self.usual_metric(predictor) == "line_error" else ("bleu", "chrf")

    def scores(self, predictor: Predictor, examples: Sequence[Pair], bootstrap: int, names: Collection[str]) -> Scores:
        """Every source is answered once and compared with all its references; then the likelihood of every pair."""
        sources, references = group(examples)
        answers = [best.text for best, *_ in predictor.answers(sources, scored=False)]
        lines = predictor.forced(examples)
        spaced = predictor.target.kind == "symbols"
        metrics = score(answers, references, spaced=spaced, bootstrap=bootstrap, names=names)
        values = {"token_accuracy": token_accuracy(lines), "perplexity": perplexity(lines)}
        return Scores({"sources": len(sources), "references": len(examples)}, metrics, values)

    def loss(self, scores: Scores) -> float:
        """Of a target token, with the true ones before it fed in (L0.1)."""
        return math.log(scores.values["perplexity"])

    def questions(self, examples: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
        """Sources and their references."""
        return group(examples)


class TokenJudge(Judge):
    """The likelihood of tokens: all of a line, its end among them (lm), or the hidden ones (encoder)."""

    def __init__(self, counted: str) -> None:
        self.counted = counted

    def scores(self, predictor: Predictor, examples: Sequence[Text], bootstrap: int, names: Collection[str]) -> Scores:
        """Perplexity by token, and the share of tokens that are the most probable ones."""
        del names
        lines = predictor.hidden(examples) if isinstance(predictor, Filler) else predictor.forced(examples)
        tokens = sum(len(line.log_probabilities) for line in lines)

        def over(value: Callable[[Sequence[ForcedLine]], float]) -> Callable[[NDArray[np.int64]], float]:
            return lambda rows: value([lines[row] for row in rows])

        return Scores(
            {"lines": len(examples), self.counted: tokens},
            {
                "perplexity": with_interval(over(perplexity), len(lines), bootstrap),
                "token_accuracy": with_interval(over(token_accuracy), len(lines), bootstrap),
            },
        )

    def loss(self, scores: Scores) -> float:
        """Of a token."""
        return math.log(scores.metrics["perplexity"].value)


class LabelJudge(Judge):
    """Labels against the right ones."""

    def __init__(self, counted: str) -> None:
        self.counted = counted

    def scores(
        self, predictor: Labeller, examples: Sequence[Labelled], bootstrap: int, names: Collection[str]
    ) -> Scores:
        """Accuracy, and the mean F1 of the classes."""
        del names
        log_p = np.array(predictor.log_probabilities([example.text for example in examples])[0])  # (examples, classes)
        truth, guess = np.array(predictor.numbers(examples)), log_p.argmax(1)
        right = truth == guess
        return Scores(
            {self.counted: len(examples), "classes": len(predictor.labels)},
            {
                "accuracy": with_interval(lambda rows: 100 * float(right[rows].mean()), len(truth), bootstrap),
                "macro_f1": with_interval(lambda rows: macro_f1(truth[rows], guess[rows]), len(truth), bootstrap),
            },
            {"loss": float(-log_p[np.arange(len(truth)), truth].mean())},
        )

    def loss(self, scores: Scores) -> float:
        """Of a label."""
        return scores.values["loss"]

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
    "pairs": PairJudge(),
    "texts": TokenJudge("tokens"),
    "gaps": TokenJudge("hidden_tokens"),
    "labels": LabelJudge("texts"),
    "pictures": PictureJudge("pictures"),
}


def judge_of(predictor: Predictor) -> Judge:
    """Who judges a model of this family."""
    return _JUDGES[predictor.model.spec.learns]


def evaluate(
    predictor: Predictor, examples: Sequence[Any], *, bootstrap: int = 1000, names: Collection[str] = NAMES
) -> Scores:
    """Score a model on examples such as it learns from."""
    return judge_of(predictor).scores(predictor, examples, bootstrap, names)


def dev_scores(predictor: Predictor, examples: Sequence[Any], *, metric: str) -> dict[str, float]:
    """What is looked at while training: the same answers and metrics as ``evaluate``, ``metric`` among them."""
    judge = judge_of(predictor)
    scores = evaluate(predictor, examples, bootstrap=0, names={*judge.dev_names(predictor), metric})
    return {name: found.value for name, found in scores.metrics.items()} | {"loss": judge.loss(scores)}


def group(pairs: Sequence[Pair]) -> tuple[list[str], list[list[str]]]:
    """Each source once, with all its references, in order of appearance."""
    known: dict[str, list[str]] = {}
    for pair in pairs:
        known.setdefault(pair.source, []).append(pair.target)
    return list(known), list(known.values())


def token_accuracy(lines: Sequence[ForcedLine]) -> float:
    """Share of tokens that are the most probable ones, given the true tokens before them, in percent."""
    return 100 * sum(line.right for line in lines) / sum(len(line.log_probabilities) for line in lines)


def perplexity(lines: Sequence[ForcedLine]) -> float:
    """e to the mean −log p of a token."""
    total = -sum(line.log_probability for line in lines)
    return math.exp(min(total / sum(len(line.log_probabilities) for line in lines), 700))
