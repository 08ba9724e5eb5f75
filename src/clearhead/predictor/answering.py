"""Answers a stream of lines in order, as ``clearhead run`` does."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from clearhead.data import format_of
from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.lines import Line, jobs_of
from clearhead.predictor.unknown import unknown_words
from clearhead.recipe import DecodingSpec
from clearhead.workers import WorkerPool


@dataclass(frozen=True)
class AnswerFormat:
    """The format of answers."""

    n_best: int = 1
    """Answers per line."""
    scores: bool = False
    """Whether log p follows each answer, after a tab."""
    as_json: bool = False
    """Whether each line becomes a JSON object."""


@dataclass(frozen=True)
class Answered:
    """The result for one line."""

    number: int
    rows: list[str]
    """The output rows: one, or one for each of the n best answers."""
    warnings: list[tuple[str, str]]
    """Warnings about the line, as (kind, message)."""


def answer_lines(
    predictor: Predictor,
    spec: DecodingSpec,
    layout: AnswerFormat,
    lines: Iterable[Line | None],
    *,
    workers: int,
    first: int = 0,
) -> Iterator[list[Answered]]:
    """Answer lines with a pool of ``workers`` processes; yield the answers in order, as soon as they are ready.

    ``first`` is the number of the first line.
    """
    with WorkerPool(AnsweringWork(predictor, spec, layout), workers) as pool:
        yield from in_order(pool.results(jobs_of(lines)), first)


def in_order(chunks: Iterable[Sequence[Answered]], first: int = 0) -> Iterator[list[Answered]]:
    """For each chunk, the lines that are next in order, of it and of earlier ones; ``first`` is the first of all."""
    ready: dict[int, Answered] = {}
    for chunk in chunks:
        ready |= {answered.number: answered for answered in chunk}
        following = []
        while first in ready:
            following.append(ready.pop(first))
            first += 1
        yield following


_NOTHING = [Answer("", 0.0, 0.0, finished=True, tokens=[])]
"""The answers to an empty line."""
CUT = "is longer than decoding.max_source allows; only its beginning was read"


def answers_to_lines(
    predictor: Predictor,
    spec: DecodingSpec,
    lines: Sequence[str],
    *,
    numbers: Sequence[int],
    n_best: int = 1,
    scored: bool = False,
) -> list[list[Answer]]:
    """The answers to lines, for ``clearhead run`` and the server alike: spaces around a line do not count.

    An empty line gets an empty answer. ``numbers`` are the lines' own, from which sampling takes its random seed.
    """
    full = [index for index, line in enumerate(lines) if line.strip()]
    found = predictor.answers(
        [lines[index].strip() for index in full],
        spec,
        n_best=n_best,
        scored=scored,
        numbers=[numbers[index] for index in full],
    )
    answers = dict(zip(full, found, strict=True))
    return [answers.get(index, _NOTHING) for index in range(len(lines))]


def warnings_about(predictor: Predictor, best: Answer) -> list[tuple[str, str]]:
    """What to say of a line, as (kind, message): that it was cut, what is unknown, that there is nothing to fill in."""
    warnings = [("cut", CUT)] if best.cut else []
    if best.unknown:
        warnings.append(("unknown", unknown_words(predictor.source, best.unknown)))
    return [*warnings, ("unmasked", words)] if (words := predictor.unmasked(best)) else warnings


class AnsweringWork:
    """The function that each worker applies to a job."""

    def __init__(self, predictor: Predictor, spec: DecodingSpec, layout: AnswerFormat) -> None:
        self.predictor, self.spec, self.layout = predictor, spec, layout
        self.question = format_of(predictor.model.spec).question

    def __call__(self, lines: Sequence[Line]) -> list[Answered]:
        if not lines:
            return []
        found = answers_to_lines(
            self.predictor,
            self.spec,
            [line.source for line in lines],
            numbers=[line.number for line in lines],
            n_best=self.layout.n_best,
            scored=self.layout.scores or self.layout.as_json,
        )
        return [self._answered(line, answers) for line, answers in zip(lines, found, strict=True)]

    def _answered(self, line: Line, answers: list[Answer]) -> Answered:
        warnings = [(kind, f"{line.where}: {words}") for kind, words in warnings_about(self.predictor, answers[0])]
        return Answered(line.number, self._rows(line, answers), warnings)

    def _rows(self, line: Line, answers: list[Answer]) -> list[str]:
        if self.layout.as_json:
            return [json.dumps(self._table(line, answers), ensure_ascii=False)]
        texts = [" ".join(answer.text.splitlines()) for answer in answers]
        if self.layout.n_best > 1:
            rows = zip(texts, answers, strict=True)
            return [f"{line.number} ||| {text} ||| {answer.score:.6f}" for text, answer in rows]
        if self.layout.scores:
            return [f"{texts[0]}\t{answers[0].log_probability:.6f}"]
        return texts

    def _table(self, line: Line, answers: list[Answer]) -> dict[str, Any]:
        table = {self.question: line.source} | (line.fields or {}) | self.predictor.table(answers[0])
        if self.layout.n_best > 1:
            keys = ("text", "log_probability", "score", "finished")
            table["answers"] = [{key: getattr(answer, key) for key in keys} for answer in answers]
        return table
