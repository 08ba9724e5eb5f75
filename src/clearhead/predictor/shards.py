"""Many files of lines, the shards, answered into a folder: one file of answers for each, written whole or not at all.

While a shard is worked on, its answers stand in ``.clearhead/NAME.partial`` inside the folder. When all are there,
``.clearhead/NAME.json`` notes what they depend on (input, model, settings) and their checksum; then the file gets its
name. A shard counts as finished only if that note, the present command and the file agree.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from clearhead.data import reads_once
from clearhead.errors import ClearheadError, DataError, Problem, RecipeError
from clearhead.files import appear, sha256_of, write_whole
from clearhead.predictor.answering import Answered, AnsweringWork, in_order
from clearhead.predictor.journal import Identity, changed
from clearhead.predictor.lines import STDIN, Line, ReadAs, jobs_of, lines_to_answer
from clearhead.workers import WorkerPool

_KEPT = ".clearhead"
"""The folder, inside the one of answers, for notes and for what is not complete."""


@dataclass(frozen=True)
class Shard:
    """A file of lines, and where its answers go."""

    source: Path
    output: Path

    @property
    def note(self) -> Path:
        """What its answers depend on."""
        return self._kept("json")

    @property
    def partial(self) -> Path:
        """Its answers, until all are there."""
        return self._kept("partial")

    def _kept(self, end: str) -> Path:
        return self.output.parent / _KEPT / f"{self.output.name}.{end}"


def shards_of(files: Sequence[Path], folder: Path) -> list[Shard]:
    """A shard for each file; its answers have the same name, without .gz. Names that clash are refused."""
    shards = [Shard(file, folder / file.name.removesuffix(".gz")) for file in files]
    if not files or STDIN in files:
        raise RecipeError([Problem("", f"-o {folder}/", "a folder of answers needs files of lines, each with a name")])
    first: dict[str, Path] = {}
    for shard in shards:
        if reads_once(shard.source):
            raise DataError(f"{shard.source}: can be read only once: with a folder of answers, name a file")
        if shard.output.is_dir():
            raise DataError(f"{shard.output}: is a folder, where the answers to {shard.source} would stand")
        other = first.setdefault(shard.output.name, shard.source)
        if other is not shard.source:
            raise DataError(f"{other} and {shard.source}: their answers would both be {shard.output}: rename one")
        if shard.output.exists() and shard.output.samefile(shard.source):
            raise DataError(f"{shard.source}: its answers would replace it: choose another folder for -o")
    return shards


@dataclass(frozen=True)
class ShardJob:
    """Some lines of a shard, to be answered together."""

    shard: int
    """The number of the shard, counted from 0."""
    lines: Sequence[Line]
    total: int | None = None
    """How many lines the shard had, at its end; the job has none of its own then."""


@dataclass(frozen=True)
class ShardAnswers:
    """Answers to lines of a shard."""

    shard: int
    answered: Sequence[Answered]
    total: int | None = None
    """How many lines the shard has, at its end."""


def shard_jobs(file: Path, shard: int, read_as: ReadAs, question: str) -> Iterator[ShardJob]:
    """The lines of one shard, grouped as ``clearhead run`` groups those of a file, and then its end."""
    total = 0
    for lines in jobs_of(lines_to_answer([file], read_as, question)):
        if lines is not None:
            total += len(lines)
            yield ShardJob(shard, lines)
    yield ShardJob(shard, (), total)


def shard_answers(
    work: AnsweringWork, files: Sequence[Path], read_as: ReadAs, *, workers: int
) -> Iterator[ShardAnswers]:
    """Answer files one after the other with a pool of processes, which all work on the lines that are next."""

    def answered(job: ShardJob) -> ShardAnswers:
        return ShardAnswers(job.shard, work(job.lines), job.total)

    def jobs() -> Iterator[ShardJob | None]:
        try:
            for number, file in enumerate(files):
                yield from shard_jobs(file, number, read_as, work.question)
        except ClearheadError:  # a line that cannot be read: what is under way, of files before it, is finished first
            yield None
            raise

    with WorkerPool(answered, workers) as pool:
        yield from pool.results(jobs())


class ShardFolder:
    """The folder of answers: says what is finished, and writes what is not.

    Args:
        shards: all shards of the command.
        resume: keep shards that an earlier command finished.
        force: replace files that are there.
    """

    def __init__(self, shards: Sequence[Shard], *, resume: bool = False, force: bool = False) -> None:
        self._resume = resume
        if force and resume:
            raise RecipeError([Problem("command line", "--force", "starts again, and --resume continues: choose one")])
        there = [shard for shard in shards if shard.output.exists() or shard.note.exists()]
        if there and not (force or resume):
            raise ClearheadError(
                f"{there[0].output}: exists already; add --resume to answer only what is missing, "
                "or --force to answer everything again"
            )
        (shards[0].output.parent / _KEPT).mkdir(parents=True, exist_ok=True)
        if force:
            for shard in there:  # both: what is there afterwards was answered by this command, for --resume to keep
                shard.output.unlink(missing_ok=True)
                shard.note.unlink(missing_ok=True)

    def finished(self, shard: Shard, identity: Identity) -> int | None:
        """How many lines of a finished shard are answered; None if it is to be worked on.

        Answers that another command wrote, or that were changed since, are refused: nothing is replaced silently.
        """
        if not self._resume:
            return None
        note = _note_of(shard)
        if note is None:
            if shard.output.exists():
                raise ClearheadError(
                    f"{shard.output}: nothing is known of this file, so it cannot be told whether it is complete: "
                    "move it away, or start again with --force"
                )
            return None
        if difference := changed(note["identity"], identity):
            raise ClearheadError(
                f"{shard.output}: was written by another command: {difference}; repeat the original command with "
                "--resume, or start again with --force"
            )
        if not shard.output.exists() and shard.partial.is_file() and sha256_of(shard.partial) == note["answers"]:
            appear(shard.partial, shard.output)  # it was stopped just before this
        if not shard.output.exists():
            return None
        if sha256_of(shard.output) != note["answers"]:
            raise DataError(f"{shard.output}: has changed since it was written: move it away, or use --force")
        return int(note["lines"])

    def write(
        self, answers: Iterable[ShardAnswers], shards: Sequence[Shard], identity: Callable[[Shard], Identity]
    ) -> Iterator[tuple[Shard, list[Answered], bool]]:
        """Write answers as they come, shard by shard; yield what was written, and whether its shard is now finished.

        ``identity`` says what the answers of a shard depend on.
        """
        rest = iter(answers)
        for number, shard in enumerate(shards):
            depends, end = identity(shard), _End()
            with _ShardFile(shard) as file:
                for following in in_order(_chunks(rest, number, end)):
                    file.add(following)
                    yield shard, following, False
                file.finish(depends, end.total)
            yield shard, [], True


@dataclass
class _End:
    """How many lines a shard has, as soon as that is known."""

    total: int = -1


def _chunks(answers: Iterator[ShardAnswers], shard: int, end: _End) -> Iterator[Sequence[Answered]]:
    """The chunks of one shard, up to its end."""
    for part in answers:
        if part.shard != shard:
            break
        yield part.answered
        if part.total is not None:
            end.total = part.total
            return
    raise ClearheadError("answers are missing: the stream of them ended, or went on with another file")


class _ShardFile:
    """The answers of one shard, while they are written."""

    def __init__(self, shard: Shard) -> None:
        self._shard, self._lines, self._digest = shard, 0, hashlib.sha256()

    def __enter__(self) -> "_ShardFile":
        self._stream: BinaryIO = self._shard.partial.open("wb")
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()
        with suppress(OSError):
            self._shard.partial.unlink(missing_ok=True)

    def add(self, answered: Sequence[Answered]) -> None:
        content = "".join(f"{row}\n" for line in answered for row in line.rows).encode()
        self._stream.write(content)
        self._digest.update(content)
        self._lines += len(answered)

    def finish(self, identity: Identity, total: int) -> None:
        """Note what was written, then give the file its name: there must be an answer to each of ``total`` lines."""
        self._stream.close()
        if self._lines != total:
            raise ClearheadError(f"{self._shard.source}: has {total:,} lines, but {self._lines:,} answers came")
        note = {"lines": self._lines, "answers": self._digest.hexdigest(), "identity": dict(identity)}
        write_whole(self._shard.note, json.dumps(note, ensure_ascii=False).encode())
        appear(self._shard.partial, self._shard.output)


def _note_of(shard: Shard) -> Mapping[str, Any] | None:
    """What is noted of a shard; None if nothing is, or nothing that can be read."""
    try:
        note = json.loads(shard.note.read_bytes())
        known = isinstance(note["identity"], dict) and isinstance(note["answers"], str) and type(note["lines"]) is int
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return note if known else None
