"""``clearhead run`` and ``score`` with torch: have lines answered, show how far that is, write the answers."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from clearhead.cli.names import model_named
from clearhead.cli.scoring import examples_to_score, reading_settings
from clearhead.cli.warned import Warnings
from clearhead.data import format_of, shown
from clearhead.files import sha256_of
from clearhead.machine import cores
from clearhead.models import use_cores
from clearhead.predictor import (
    AnswerFormat,
    Journal,
    ReadAs,
    answer_lines,
    count_lines,
    input_identity,
    lines_to_answer,
    require_files,
)
from clearhead.recipe import DecodingSpec, weights_of

WINDOW = 4096
"""Examples that are scored at a time."""


@dataclass(frozen=True)
class AnswerFile:
    """Where answers go: to a file that appears when it is whole, or else to standard output."""

    file: Path | None = None
    resume: bool = False
    force: bool = False


def run_model(
    model: str,
    files: Sequence[Path],
    settings: Sequence[str],
    layout: AnswerFormat,
    *,
    read_as: ReadAs,
    output: AnswerFile,
    threads: int | None,
) -> None:
    """Answer every line of the files, or of standard input."""
    require_files(files)
    predictor = model_named(model)
    spec = predictor.decoding(*settings)
    lines = lines_to_answer(files, read_as, format_of(predictor.model.spec).question)
    journal = None
    if output.file is not None:
        identity = _identity(model, files, spec, layout, read_as)
        journal = Journal(output.file, identity, resume=output.resume, force=output.force)
        lines = journal.left(lines)
    first = 0 if journal is None else journal.start
    try:
        with journal or nullcontext(), _screen(files, first, to_file=journal is not None) as screen:
            for part in answer_lines(predictor, spec, layout, lines, workers=threads or cores(), first=first):
                if journal is not None:
                    journal.write([answered.rows for answered in part])
                elif part:
                    print(*(row for answered in part for row in answered.rows), sep="\n", flush=True)
                screen.advance(len(part))
                for answered in part:
                    for kind, message in answered.warnings:
                        screen.warn(kind, message)
            if journal is not None:
                journal.finish()
    except KeyboardInterrupt:
        if journal is not None:
            done = f"{journal.done:,} lines are answered, in {journal.partial}"
            print(f"stopped: {done}; the same command with --resume answers the rest", file=sys.stderr)
        raise


def _identity(
    model: str, files: Sequence[Path], spec: DecodingSpec, layout: AnswerFormat, read_as: ReadAs
) -> Mapping[str, Any]:
    """What a file of answers depends on."""
    decoding = {f"decoding.{name}": value for name, value in spec.model_dump(mode="json").items()}
    del decoding["decoding.batch_tokens"]  # a resumed command may need less memory
    shape = {f"--{name.removeprefix('as_').replace('_', '-')}": value for name, value in asdict(layout).items()}
    path, foreign = weights_of(model)
    weights = sorted(path.glob("*.safetensors")) if foreign else [path]
    parts = {"the model": " ".join(sha256_of(file) for file in weights)}
    return parts | decoding | shape | {"--from": read_as} | input_identity(files)


class Screen(Warnings):
    """Standard error: warnings, and if somebody sees it a bar."""

    def __init__(self, bar: Progress | None, total: int | None, done: int) -> None:
        super().__init__()
        self._bar = bar
        self._task = None if bar is None else bar.add_task("lines", total=total, completed=done)

    def advance(self, lines: int) -> None:
        """So many more lines are answered."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, lines)

    def say(self, message: str) -> None:
        """One line for people, above the bar."""
        if self._bar is None:
            super().say(message)
        else:
            self._bar.console.print(message, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _screen(files: Sequence[Path], done: int, *, to_file: bool) -> Iterator[Screen]:
    """A bar over the lines of files, if there is somebody to see it and the answers go elsewhere."""
    console = Console(stderr=True)
    if not console.is_terminal or not (to_file or (files and not sys.stdout.isatty())):
        screen = Screen(None, None, done)
        yield screen
        screen.conclude()
        return
    columns = (TextColumn("lines"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # the answers are no part of the display: left to itself, it catches what is printed and sends it to its console
    with Progress(*columns, console=console, redirect_stdout=False) as bar:
        screen = Screen(bar, count_lines(files), done)
        yield screen
        screen.conclude()


def score_examples(path: str, where: str | list[str], settings: Sequence[str], *, as_json: bool) -> None:
    """Print the log-probability of each example."""
    reading, others = reading_settings(settings)
    predictor = model_named(path, *others)
    columns = format_of(predictor.model.spec).columns
    examples, _ = examples_to_score(predictor, where, reading)
    use_cores()
    warnings = Warnings()
    for start in range(0, len(examples), WINDOW):
        part = examples[start : start + WINDOW]
        for example, line in zip(part, predictor.forced(part), strict=True):
            if line.cut:
                words = "is longer than decoding.max_source allows; only its beginning was read"
                warnings.warn("cut", f"{shown(where)}, line {example.line}: {words}")
            if as_json:
                table = {name: getattr(example, name) for name in columns}
                table |= {"log_probability": line.log_probability, "tokens": line.log_probabilities}
                print(json.dumps(table, ensure_ascii=False))
            else:
                print(f"{line.log_probability:.6f}")
    warnings.conclude()
