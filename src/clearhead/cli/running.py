"""``clearhead run`` with torch: reads lines, has them answered by a crew, and writes the answers in order."""

import json
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from clearhead.cli.scoring import read_examples
from clearhead.data import arriving_lines, decoded, format_of, is_json, read_lines
from clearhead.errors import DataError
from clearhead.predictor import Answer, Crew, Predictor, load
from clearhead.recipe import Decoding

WINDOW, CHUNK = 4096, 256
"""Lines that are sorted by length together, and lines that a worker answers at a time."""
WARNINGS = 10
"""Warnings that are shown; the others are counted."""


@dataclass(frozen=True)
class Wish:
    """What is read and written, and how."""

    n_best: int = 1
    scores: bool = False
    as_json: bool = False
    read_as: Literal["auto", "text", "jsonl"] = "auto"


@dataclass(frozen=True)
class Line:
    """One line to answer."""

    number: int
    """Over all files, from 0."""
    where: str
    source: str
    fields: dict[str, Any] | None = None
    """The other fields of a JSONL line."""


def run_model(path: Path, files: Sequence[Path], settings: Sequence[str], wish: Wish, threads: int | None) -> None:
    """Answer every line of the files, or of standard input."""
    for file in files:
        if not file.is_file():
            raise DataError(f"{file}: no such file")
    predictor = load(path)
    spec = predictor.decoding(*settings)
    work = _Work(predictor, spec, wish)
    workers = threads or os.cpu_count() or 1
    warnings = 0
    with Crew(work, workers) as crew, _progress(files) as advance:
        ready: dict[int, tuple[list[str], str | None]] = {}
        next_number = 0
        for chunk in crew.results(_jobs(_lines(files, wish, work.question))):
            ready |= chunk
            while next_number in ready:
                output, warning = ready.pop(next_number)
                print(*output, sep="\n")
                if warning is not None:
                    warnings += 1
                    if warnings <= WARNINGS:
                        print(warning, file=sys.stderr)
                next_number += 1
            sys.stdout.flush()
            advance(next_number)
    if warnings > WARNINGS:
        print(f"… and {warnings - WARNINGS:,} more warnings of this kind", file=sys.stderr)


class _Work:
    """What a worker does with a chunk of lines: (lines to print, warning) by number."""

    def __init__(self, predictor: Predictor, spec: Decoding, wish: Wish) -> None:
        self.predictor, self.spec, self.wish = predictor, spec, wish
        self.question = format_of(predictor.model.spec).question

    def __call__(self, lines: list[Line]) -> dict[int, tuple[list[str], str | None]]:
        full = [line for line in lines if line.source.strip()]
        found = self.predictor.answers(
            [line.source.strip() for line in full],
            self.spec,
            n_best=self.wish.n_best,
            scored=self.wish.scores or self.wish.as_json,
            numbers=[line.number for line in full],
        )
        answers = {line.number: answers for line, answers in zip(full, found, strict=True)}
        nothing = [Answer("", 0.0, 0.0, finished=True, tokens=[])]
        return {line.number: self._shown(line, answers.get(line.number, nothing)) for line in lines}

    def _shown(self, line: Line, answers: list[Answer]) -> tuple[list[str], str | None]:
        warning = None
        if answers[0].cut:
            warning = f"{line.where}: is longer than decoding.max_source allows; only its beginning was read"
        if self.wish.as_json:
            return [json.dumps(self._table(line, answers), ensure_ascii=False)], warning
        texts = [" ".join(answer.text.splitlines()) for answer in answers]
        if self.wish.n_best > 1:
            rows = zip(texts, answers, strict=True)
            return [f"{line.number} ||| {text} ||| {answer.score:.6f}" for text, answer in rows], warning
        if self.wish.scores:
            return [f"{texts[0]}\t{answers[0].log_probability:.6f}"], warning
        return texts, warning

    def _table(self, line: Line, answers: list[Answer]) -> dict[str, Any]:
        table = {self.question: line.source} | (line.fields or {}) | self.predictor.table(answers[0])
        if self.wish.n_best > 1:
            keys = ("text", "log_probability", "score", "finished")
            table["answers"] = [{key: getattr(answer, key) for key in keys} for answer in answers]
        return table


def _lines(files: Sequence[Path], wish: Wish, question: str) -> Iterator[Line | None]:
    """The lines of all files, or of standard input as they arrive, with None where one would have to wait."""
    number = 0
    for file in files:
        field = question if wish.read_as == "jsonl" or (wish.read_as == "auto" and is_json(file)) else None
        for count, text in enumerate(read_lines(file), start=1):
            yield _line(text, number, f"{file}, line {count}", field)
            number += 1
    if not files:
        for raw in arriving_lines(sys.stdin.fileno(), "standard input"):
            if raw is None:
                yield None
                continue
            text = decoded(raw, "standard input", number + 1)
            field = question if wish.read_as == "jsonl" else None
            yield _line(text, number, f"standard input, line {number + 1}", field)
            number += 1


def _line(text: str, number: int, where: str, field: str | None) -> Line:
    """A line as it is, or the field of that name of the JSON object that it holds."""
    if field is None:
        return Line(number, where, text)
    try:
        table = json.loads(text)
    except (ValueError, RecursionError):
        raise DataError(f"{where}: not JSON") from None
    source = table.pop(field, None) if isinstance(table, dict) else None
    if not isinstance(source, str):
        raise DataError(f'{where}: no text "{field}"')
    if any("\ud800" <= character <= "\udfff" for character in source):
        raise DataError(f"{where}: an unpaired surrogate, which is no text")
    return Line(number, where, source, table)


def _jobs(lines: Iterable[Line | None]) -> Iterator[list[Line] | None]:
    """Chunks of lines of a length; what has arrived is passed on before waiting for more."""
    window: list[Line] = []
    for line in lines:
        if line is not None:
            window.append(line)
        if line is None or len(window) == WINDOW:
            yield from _chunks(window)
            window = []
        if line is None:
            yield None
    yield from _chunks(window)


def _chunks(window: list[Line]) -> Iterator[list[Line]]:
    ordered = sorted(window, key=lambda line: len(line.source))
    for start in range(0, len(ordered), CHUNK):
        yield ordered[start : start + CHUNK]


@contextmanager
def _progress(files: Sequence[Path]) -> Iterator[Any]:
    """A bar over the lines of files, if there is somebody to see it and the answers go elsewhere."""
    console = Console(stderr=True)
    if not files or not console.is_terminal or sys.stdout.isatty():
        yield lambda _: None
        return
    total = sum(1 for file in files for _ in read_lines(file))
    columns = (TextColumn("lines"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("lines", total=total)
        yield lambda done: bar.update(task, completed=done)


def score_examples(path: Path, where: str | list[str], settings: Sequence[str], *, as_json: bool) -> None:
    """Print the log-probability of each example."""
    predictor = load(path, *settings)
    columns = format_of(predictor.model.spec).columns
    examples = read_examples(predictor, where)
    torch.set_num_threads(os.cpu_count() or 1)
    for start in range(0, len(examples), WINDOW):
        part = examples[start : start + WINDOW]
        for example, line in zip(part, predictor.forced(part), strict=True):
            if as_json:
                table = {name: getattr(example, name) for name in columns}
                table |= {"log_probability": line.log_probability, "tokens": line.log_probabilities}
                print(json.dumps(table, ensure_ascii=False))
            else:
                print(f"{line.log_probability:.6f}")
