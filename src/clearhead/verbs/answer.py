"""``clearhead.answer_lines`` and ``clearhead.answer_file``: many lines in, as many answers out, in the same order."""

import hashlib
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clearhead.errors import Interrupted, Problem, RecipeError
from clearhead.events import Event, Listener
from clearhead.files import matching, sha256_of
from clearhead.machine import cores
from clearhead.recipe import DecodingSpec, require_data, weights_of
from clearhead.verbs.naming import Changes, model_named, split
from clearhead.verbs.reporting import listener_of
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.predictor import Answered, AnswerFormat, Predictor, ReadAs
    from clearhead.verbs.run import Run

Files = str | Path | Sequence[str | Path]
"""One file of lines or several; ``-`` is standard input, and so is no file at all."""


class AnswerStream:
    """The answers to many lines, as ``clearhead.answer_lines`` gives them: iterate over it, once.

    Each item is the list of lines that were answered since the last one, in order: a line's ``number``, its ``rows``
    (one, or one for each of the n best) and its ``warnings``.

    Args:
        batches: these lists.
        total: how many lines there are; None if that is not known before they are read.
    """

    def __init__(self, batches: "Iterator[list[Answered]]", total: int | None) -> None:
        self._batches, self.total = batches, total

    def __iter__(self) -> "Iterator[list[Answered]]":
        return self._batches


def answer_lines(
    model: "str | Path | Run | Predictor",
    files: Files = (),
    *,
    n_best: int = 1,
    scores: bool = False,
    as_json: bool = False,
    read_as: "ReadAs" = "auto",
    workers: int | Literal["all"] = 1,
    engine: str | None = None,
    int8: bool = False,
    device: str | None = None,
    report: Listener | bool | None = None,
    settings: Changes = None,
) -> AnswerStream:
    """Answer every line of files, or of standard input.

    Args:
        model: A model, a run, or the name of one.
        files: Files of lines (also .gz and .jsonl), or a pattern for their names, ``"in/*.txt"``.
        n_best: Answers to each line.
        scores: Whether log p of each answer follows it, after a tab.
        as_json: Whether each line becomes a JSON object; the fields of a JSONL line stay.
        read_as: What the lines are: ``text``, ``jsonl`` with a field "source", or ``auto`` by the name of the file.
        workers: Processes side by side, ``"all"`` for as many as there are cores. They are forked: ask for more than
            one only before torch has worked on several threads in this process. A GPU is used by this process alone.
        engine: What answers: ``native``, ``ctranslate2`` or ``onnxruntime``.
        int8: For ``ctranslate2``: weights in eight bits.
        device: Where the model computes, as for ``clearhead.load``; without it a loaded model stays where it is.
        report: Called with an ``Event`` if the model is converted for an engine.
        settings: Settings of ``[decoding]``.
    """
    names = files_of(files)
    chosen = ChosenEngine(engine, int8, device, listener_of(report))
    predictor, spec = asked_model(model, names, n_best, settings, chosen)

    from clearhead.data import format_of
    from clearhead.predictor import AnswerFormat, count_lines, lines_to_answer
    from clearhead.predictor import answer_lines as batches_of

    form = AnswerFormat(n_best, scores, as_json)
    lines = lines_to_answer(names, read_as, format_of(predictor.model.spec).question)

    def batches() -> "Iterator[list[Answered]]":
        with undisturbed():
            yield from batches_of(predictor, spec, form, lines, workers=worker_count(workers, predictor))

    return AnswerStream(batches(), count_lines(names))


def answer_file(
    model: "str | Path | Run | Predictor",
    files: Files = (),
    output: str | Path = "answers.txt",
    *,
    resume: bool = False,
    force: bool = False,
    n_best: int = 1,
    scores: bool = False,
    as_json: bool = False,
    read_as: "ReadAs" = "auto",
    workers: int | Literal["all"] = 1,
    engine: str | None = None,
    int8: bool = False,
    device: str | None = None,
    report: Listener | bool | None = None,
    settings: Changes = None,
) -> int:
    """Answer every line into a file that appears when it is complete; returns how many lines it answers.

    Args:
        output: The file of answers. Until all are there they stand in ``output.partial``.
        resume: Continue a file that was interrupted, by the same call.
        force: Replace the file if it exists.
        report: Called with an ``Event`` for the lines that are done, and for each warning.

    The others are those of ``answer_lines``.
    """
    listener = listener_of(report)
    names = files_of(files)
    predictor, spec = asked_model(model, names, n_best, settings, ChosenEngine(engine, int8, device, listener))

    from clearhead.data import format_of
    from clearhead.predictor import AnswerFormat, Journal, count_lines, input_identity, lines_to_answer
    from clearhead.predictor import answer_lines as batches_of

    form = AnswerFormat(n_best, scores, as_json)
    identity = answers_identity(model, predictor, form, read_as) | input_identity(names)
    lines = lines_to_answer(names, read_as, format_of(predictor.model.spec).question)
    with Journal(Path(output), identity, resume=resume, force=force) as journal, undisturbed(), _stopping(journal):
        done, total = journal.start, count_lines(names)
        listener(Event("start", step=done, steps=total))
        left = journal.left(lines)
        for part in batches_of(predictor, spec, form, left, workers=worker_count(workers, predictor), first=done):
            journal.write([answered.rows for answered in part])
            done += len(part)
            listener(Event("lines", step=done, steps=total))
            for answered in part:
                for category, message in answered.warnings:
                    listener(Event("warning", message, category=category))
        journal.finish()
        listener(Event("end", step=done, steps=total))
    return done


def worker_count(workers: int | Literal["all"], predictor: "Predictor") -> int:
    """How many processes answer: only this one if the model is on a GPU, as what it holds there survives no fork."""
    from clearhead.models import device_of

    if device_of(predictor.model).type != "cpu":
        return 1
    return cores() if workers == "all" else workers


def files_of(files: Files) -> list[Path]:
    """The names one by one; a pattern stands for all files that it names."""
    names = [files] if isinstance(files, str | Path) else files
    return [file for name in names for file in matching(name) or [Path(name)]]


def engine_of(predictor: "Predictor") -> str:
    """The name of what answers, by an engine that was asked for here or when the model was loaded."""
    from clearhead.predictor import TextWriter

    return predictor.engine.described if isinstance(predictor, TextWriter) else "native"


@dataclass(frozen=True)
class ChosenEngine:
    """The engine that answers, where, and who is told about a conversion."""

    engine: str | None
    int8: bool
    device: str | None
    listener: Listener


def asked_model(
    model: "str | Path | Run | Predictor",
    names: Sequence[Path],
    n_best: int,
    settings: Changes,
    chosen: ChosenEngine,
) -> "tuple[Predictor, DecodingSpec]":
    """The model and its way of decoding; what is wrong with the names is reported before anything is loaded."""
    if sum(str(name) == "-" for name in names) > 1:
        raise RecipeError([Problem("", "- and -", "standard input holds one file only")])
    if isinstance(model, str | Path):
        weights_of(model)
    for name in names:
        require_data(name)
    table, words = split(settings)
    stated = [*table, *(word.partition("=")[0].strip() for word in words)]
    predictor = model_named(model, words or table, **vars(chosen))
    if n_best > predictor.recipe.decoding.beam_size and "decoding.beam_size" not in stated:
        predictor = predictor.answering(beam_size=max(4, n_best))
    return predictor, predictor.recipe.decoding


def answers_identity(
    model: "str | Path | Run | Predictor", predictor: "Predictor", form: "AnswerFormat", read_as: "ReadAs"
) -> dict[str, Any]:
    """What answers depend on, their input apart."""
    spec = predictor.recipe.decoding
    decoding = {f"decoding.{name}": value for name, value in spec.model_dump(mode="json").items()}
    del decoding["decoding.batch_tokens"]  # a resumed command may need less memory
    shape = {f"--{name.removeprefix('as_').replace('_', '-')}": value for name, value in asdict(form).items()}
    identity = {"the model": weights_checksum(model)} | decoding | shape | {"--from": read_as}
    return identity if (engine := engine_of(predictor)) == "native" else identity | {"--engine": engine}


def weights_checksum(model: "str | Path | Run | Predictor") -> str:
    """A checksum of the weights, wherever they stand."""
    from clearhead.verbs.run import Run

    if not isinstance(model, str | Path) and not isinstance(model, Run):
        from clearhead.models import add_tensors, stored_tensors

        digest = hashlib.sha256()
        add_tensors(digest, stored_tensors(model_named(model).model))
        return digest.hexdigest()
    path, foreign = weights_of(model if isinstance(model, str | Path) else model.folder)
    files = sorted(path.glob("*.safetensors")) if foreign else [path]
    return " ".join(sha256_of(file) for file in files)


@contextmanager
def _stopping(journal: Any) -> Iterator[None]:
    """Ctrl-C says what is done, and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        done = f"{journal.done:,} lines are answered, in {journal.partial}"
        message = f"stopped: {done}; the same command with --resume answers the rest"
        raise Interrupted(signal.SIGINT, message) from None
