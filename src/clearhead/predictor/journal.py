"""A file of answers that appears only when it is complete, and whose writing can be resumed.

Answers go to ``FILE.partial``. The first line of ``FILE.journal`` identifies input, model and settings; every other
line records how many lines were answered, how many bytes they take, and checksums of both. In the end the partial file
is renamed and the journal removed. A kill at any instant loses at most the answers since the last window of lines.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

from clearhead.errors import ClearheadError, DataError, Problem, RecipeError
from clearhead.files import appear, sha256_of
from clearhead.predictor.lines import STDIN, WINDOW, Line

_EVERY = 0.5
"""Fewest seconds between two records."""
Identity = Mapping[str, Any]
"""Everything that answers depend on, by the name that messages use for it."""


def input_identity(files: Sequence[Path]) -> dict[str, Any]:
    """Checksums of the input files; the content of a pipe is not known in advance."""
    return {
        f"input {number}": sha256_of(file) if file.is_file() else "a pipe"
        for number, file in enumerate(files or [STDIN], start=1)
    }


def changed(then: Identity, now: Identity) -> str:
    """In what two commands differ; nothing if they give the same answers."""
    return "; ".join(
        f"{name} was {then.get(name)!r}, and is now {now.get(name)!r}"
        for name in dict.fromkeys([*then, *now])
        if then.get(name) != now.get(name)
    )


class Journal:
    """Writes the answers of one command to a file.

    with Journal(Path("answers.txt"), identity, resume=True) as journal:
        for line in journal.left(lines):
            journal.write([[…]])
        journal.finish()

    Args:
        path: the file to write.
        identity: everything that the answers depend on.
        resume: continue the partial file of an earlier command.
        force: replace an existing file.
    """

    def __init__(self, path: Path, identity: Identity, *, resume: bool = False, force: bool = False) -> None:
        self.path = path
        self.partial, self._journal = (path.with_name(path.name + end) for end in (".partial", ".journal"))
        self.done = 0
        """Lines whose answers are on the disk."""
        self.start = 0
        """The line to continue with: the first of its window, so that batches are the same as in an uninterrupted run
        and scores agree to the last digit."""
        self._answers, self._questions = hashlib.sha256(), hashlib.sha256()
        self._expected = ""
        self._read: list[bytes] = []
        self._waiting, self._recorded = 0, time.monotonic()
        self._refuse(resume=resume, force=force)
        self._log = self._locked()
        try:
            size = self._reopened(identity) if resume and self.partial.is_file() else 0
            self._stream: BinaryIO = self.partial.open("r+b" if size else "wb")
        except BaseException:
            self._log.close()
            raise
        self.start = self.done - self.done % WINDOW
        self._again = self.done - self.start
        self._stream.seek(size)
        self._stream.truncate()
        if not size:
            self._log.seek(0)
            self._log.truncate()
            self._append({"clearhead answers": 1, "identity": dict(identity)})

    def __enter__(self) -> "Journal":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # a full disk has been reported already
            if kind is not None and not self._stream.closed:
                self._record()
        self._stream.close()
        self._log.close()

    def left(self, lines: Iterable[Line | None]) -> Iterator[Line | None]:
        """Yield the lines that are not answered yet; check that the others are the same as before."""
        begun, number = self.done, 0
        for line in lines:
            if line is not None:
                number += 1
                if number > begun:
                    self._read.append(_mark(line))
                else:
                    self._questions.update(_mark(line))
                if number == begun and self._questions.hexdigest() != self._expected:
                    raise self._other(f"the first {begun:,} lines of the input are not those that were answered")
            if line is None or number > self.start:
                yield line
        if number < begun:
            raise self._other(f"the input has {number:,} lines, but {begun:,} were answered")

    def write(self, answers: Sequence[Sequence[str]]) -> None:
        """Append the rows of the next lines."""
        again = min(self._again, len(answers))
        self._again -= again
        content = "".join(f"{row}\n" for rows in answers[again:] for row in rows).encode()
        self._stream.write(content)
        self._answers.update(content)
        count = len(answers) - again
        for mark in self._read[:count]:
            self._questions.update(mark)
        del self._read[:count]
        self._waiting += count
        if time.monotonic() - self._recorded >= _EVERY:
            self._record()

    def finish(self) -> None:
        """Rename the partial file, now that everything is answered."""
        self._record()
        self._stream.close()
        appear(self.partial, self.path)
        self._journal.unlink(missing_ok=True)

    def _refuse(self, *, resume: bool, force: bool) -> None:
        if not self.path.parent.is_dir():
            raise ClearheadError(f"-o {self.path}: the folder {self.path.parent} does not exist")
        if self.path.is_dir():
            raise ClearheadError(f"-o {self.path}: is a folder; name a file inside it")
        if self.path.exists() and not self.path.is_file():
            raise ClearheadError(f"-o {self.path}: is not a regular file; use `> {self.path}` instead of -o")
        if force and resume:
            raise RecipeError([Problem("command line", "--force", "starts again, and --resume continues: choose one")])
        if force:
            return
        if self.partial.exists() and not resume:
            raise ClearheadError(
                f"{self.partial}: has answers of an earlier command; "
                "add --resume to continue it, or --force to start again"
            )
        if self.path.exists() and not self.partial.exists():
            raise ClearheadError(f"{self.path}: exists already; add --force to replace it")

    def _locked(self) -> BinaryIO:
        """Open the journal and lock it; the system releases the lock when this process ends, however it ends."""
        stream = self._journal.open("a+b")
        try:
            import fcntl
        except ImportError:  # not on Windows
            return stream
        try:
            fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            stream.close()
            raise ClearheadError(f"{self.path}: another process is writing it; wait, or choose another -o") from None
        return stream

    def _reopened(self, identity: Identity) -> int:
        """Return how many bytes of the partial file can be kept; refuse to continue another command's file."""
        self._log.seek(0)
        content = self._log.read()
        self._log.truncate(content.rfind(b"\n") + 1)  # a kill may have cut the last record short
        header, *records = [_table(line) for line in content.split(b"\n")[:-1]] or [None]
        if header is None or not isinstance(header.get("identity"), dict):
            raise self._damaged(self._journal)
        if difference := changed(header["identity"], identity):
            raise self._other(difference)
        last = next((record for record in reversed(records) if record is not None), None)
        if last is None:
            return 0
        try:
            self.done, size, answers, self._expected = (last[name] for name in ("lines", "bytes", "answers", "input"))
        except KeyError:
            raise self._damaged(self._journal) from None
        if type(self.done) is not int or type(size) is not int or self.done < 0 or size < 0:
            raise self._damaged(self._journal)
        with self.partial.open("rb") as stream:
            left = size
            while left and (piece := stream.read(min(left, 1 << 20))):
                self._answers.update(piece)
                left -= len(piece)
        if left or self._answers.hexdigest() != answers:
            raise self._damaged(self.partial)
        return size

    def _other(self, difference: str) -> ClearheadError:
        return ClearheadError(
            f"{self.partial}: cannot be continued by this command: {difference}; "
            "repeat the original command with --resume, or start again with --force"
        )

    def _damaged(self, file: Path) -> DataError:
        return DataError(f"{file}: is damaged and cannot be resumed; start again with --force")

    def _record(self) -> None:
        """Flush everything to the disk and record it in the journal."""
        self._recorded = time.monotonic()
        if not self._waiting:
            return
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self.done += self._waiting
        self._waiting = 0
        digests = {"answers": self._answers.hexdigest(), "input": self._questions.hexdigest()}
        self._append({"lines": self.done, "bytes": self._stream.tell(), **digests})

    def _append(self, table: Mapping[str, Any]) -> None:
        self._log.write(json.dumps(dict(table), ensure_ascii=False).encode() + b"\n")
        self._log.flush()


def _mark(line: Line) -> bytes:
    """The contribution of a line to the checksum of the input."""
    return hashlib.sha256(repr((line.source, line.fields)).encode("utf-8", "surrogatepass")).digest()


def _table(line: bytes) -> dict[str, Any] | None:
    try:
        table = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None
