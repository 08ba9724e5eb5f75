"""``clearhead.answer_shards``: many files of lines in, as many files of answers out, worked through file by file."""

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clearhead.errors import Interrupted, Problem, RecipeError
from clearhead.events import Event, Listener
from clearhead.locks import held
from clearhead.verbs.answer import (
    ChosenEngine,
    Files,
    answers_identity,
    asked_model,
    files_of,
    worker_count,
)
from clearhead.verbs.naming import Changes
from clearhead.verbs.reporting import listener_of
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.predictor import Answered, Predictor, ReadAs, Shard, ShardAnswers
    from clearhead.verbs.run import Run

    Written = tuple[Shard, list[Answered], bool]

ATTEMPTS = 3
"""How often a file is begun whose workers are killed."""


def answer_shards(
    model: "str | Path | Run | Predictor",
    files: Files,
    folder: str | Path = "answers",
    *,
    on: Literal["local", "ray"] = "local",
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
    """Answer each file of lines into a file of the same name in ``folder``; returns how many lines are answered there.

        clearhead.answer_shards("runs/mine", "in/*.jsonl", "out", workers="all")

    Each file of answers is what ``answer_file`` would write for its input. It appears when it is complete; a worker
    that is killed costs time, and no line.

    Args:
        files: Files of lines, or patterns for their names, ``"in/*.jsonl"``.
        folder: Where the answers go; it is made if it is not there.
        on: Where the work is done: by processes of this machine, or on a Ray cluster, whose machines all see the files
            and the model under the same names. A cluster that is running is found by ``RAY_ADDRESS``.
        resume: Keep the files that an earlier call with the same model and settings has finished.
        force: Replace files that are there.
        workers: Processes side by side, ``"all"`` for as many as there are cores here, or in the cluster.
        report: Called with an ``Event`` for the lines that are done, for each warning, and for a worker that is lost.

    The others are those of ``answer_lines``.
    """
    listener = listener_of(report)
    names, folder = files_of(files), Path(folder)
    if on == "ray" and device not in (None, "auto", "cpu"):
        raise RecipeError([Problem("", f"device {device}", "actors of Ray compute on CPUs: leave it out")])
    predictor, spec = asked_model(model, names, n_best, settings, ChosenEngine(engine, int8, device, listener))

    from clearhead.predictor import AnswerFormat, AnsweringWork, ShardFolder, input_identity, shard_answers, shards_of

    form = AnswerFormat(n_best, scores, as_json)
    depends = answers_identity(model, predictor, form, read_as)
    work = AnsweringWork(predictor, spec, form)

    def identity(shard: "Shard") -> dict[str, object]:
        return depends | input_identity([shard.source])

    def answers(files: Sequence[Path]) -> "Iterator[ShardAnswers]":
        if on == "local":
            return shard_answers(work, files, read_as, workers=worker_count(workers, predictor))
        from clearhead.verbs.on_ray import RemoteModel, answers_on_ray

        remote = RemoteModel.of(model, depends["the model"], form, engine=engine, int8=int8, settings=settings)
        return answers_on_ray(remote, files, read_as, work.question, workers=workers)

    shards = shards_of(names, folder)
    with held(folder), undisturbed():
        output = ShardFolder(shards, resume=resume, force=force)
        known = {shard: output.finished(shard, identity(shard)) for shard in shards} if resume else {}
        left = [shard for shard in shards if known.get(shard) is None]
        progress = _Progress(listener, shards, left, sum(lines or 0 for lines in known.values()))
        with _stopping(progress):
            _work(left, progress, lambda some: output.write(answers([shard.source for shard in some]), some, identity))
        listener(Event("end", step=progress.lines, steps=progress.total))
    return progress.lines


class _Progress:
    """What is done so far, and who is told."""

    def __init__(self, listener: Listener, shards: "Sequence[Shard]", left: "Sequence[Shard]", lines: int) -> None:
        from clearhead.predictor import count_lines

        self._listener, self.shards = listener, len(shards)
        self.finished, self.lines = len(shards) - len(left), lines
        """Shards, and lines of them, whose answers have their name."""
        counted = count_lines([shard.source for shard in left]) if left else 0
        self.total = None if counted is None else lines + counted
        kept = f"{self.finished:,} of {self.shards:,} files are answered already" if self.finished else ""
        listener(Event("start", kept, step=lines, steps=self.total))

    def show(self, unfinished: int) -> None:
        self._listener(Event("lines", step=self.lines + unfinished, steps=self.total))

    def warn(self, category: str, message: str) -> None:
        self._listener(Event("warning", message, category=category))


def _work(left: "list[Shard]", progress: _Progress, begin: "Callable[[list[Shard]], Iterator[Written]]") -> None:
    """Work through the shards that are left; if a worker is killed, begin again with the one that it broke."""
    from clearhead.predictor import WorkerKilled

    lost: Counter[Shard] = Counter()
    while left:
        try:
            lines = 0
            # after a kill, the first one alone: only so it is known which file kills its workers
            for shard, answered, finished in begin(left[:1] if lost[left[0]] else left[:]):
                lines += len(answered)
                if finished:
                    left.remove(shard)
                    progress.finished, progress.lines, lines = progress.finished + 1, progress.lines + lines, 0
                progress.show(lines)
                for line in answered:
                    for category, message in line.warnings:
                        progress.warn(category, message)
        except WorkerKilled as error:
            lost[left[0]] += 1
            if lost[left[0]] == ATTEMPTS:
                raise WorkerKilled(f"{left[0].source}: {error}") from None
            progress.warn("killed", f"{left[0].source}: begun again, as {error}")


@contextmanager
def _stopping(progress: _Progress) -> Iterator[None]:
    """Ctrl-C says what is done, and how to continue."""
    try:
        yield
    except KeyboardInterrupt:
        done = f"{progress.finished:,} of {progress.shards:,} files are answered"
        message = f"stopped: {done}; the same command with --resume answers the rest"
        raise Interrupted(signal.SIGINT, message) from None
