"""The fingerprint of a corpus: SHA-256 of what was asked for, and of the bytes of every file, one after the other."""

import hashlib
from collections.abc import Mapping
from functools import partial

from clearhead.data.inputs import open_input, shown_input
from clearhead.data.lines import Watch
from clearhead.errors import DataError
from clearhead.recipe import DataSpec

Shares = tuple[float, float]
"""What part of the training examples goes to dev, and to test."""


class Fingerprint:
    """Is shown the bytes of the files while these are read.

    What was asked for comes first, and the shares are part of it: those of a large corpus follow from the number of its
    examples, which is known only at the end. So the hash begins with ``expected`` shares. If others come out, or if
    files were read side by side, the bytes are hashed once more in the right order, and must be those that were read.
    """

    def __init__(self, spec: DataSpec, expected: Shares) -> None:
        self._spec, self._expected = spec, expected
        self._running = self._begun(expected)
        self._read: list[tuple[str, hashlib._Hash]] = []
        """The files in order, and what was seen of each."""
        self._ready: dict[Shares, str] = {}

    def watching(self, file: str) -> Watch:
        """What is shown the bytes of a file; to be asked for each time that a file is read from its beginning."""
        own = hashlib.sha256()
        self._read.append((file, own))

        def watch(piece: memoryview) -> None:
            own.update(piece)
            self._running.update(piece)

        return watch

    @property
    def checksums(self) -> dict[str, str]:
        """SHA-256 of each file by itself, as it was read."""
        return {file: seen.hexdigest() for file, seen in self._read}

    def value(self, shares: Shares) -> str:
        """The fingerprint, now that all files were read and the shares are known."""
        if shares not in self._ready:
            spec = self._spec
            in_order = not any(isinstance(where, list) for where in (spec.train, spec.dev, spec.test, spec.more))
            running = self._running if in_order and shares == self._expected else self._again(shares)
            self._ready[shares] = running.hexdigest()
        return self._ready[shares]

    def _begun(self, shares: Shares) -> "hashlib._Hash":
        spec = self._spec
        asked = (spec.task, spec.stress, shares, *(spec.columns or ()), *(() if spec.more is None else ("more",)))
        return hashlib.sha256(repr(asked).encode())

    def _again(self, shares: Shares) -> "hashlib._Hash":
        """Hash the files once more; they are not parsed."""
        running = self._begun(shares)
        for file, seen in self._read:
            own = hashlib.sha256()
            try:
                with open_input(file) as stream:
                    for piece in iter(partial(stream.read, 1 << 20), b""):
                        own.update(piece)
                        running.update(piece)
            except OSError as error:
                raise DataError(f"{shown_input(file)}: cannot be read: {error.strerror or error}") from None
            if own.digest() != seen.digest():
                raise DataError(f"{shown_input(file)}: has changed while it was read: start again when it is whole")
        return running


class KnownFingerprint:
    """The fingerprint of files that were read before.

    Args:
        of_corpus: that of all of them, with the shares of dev and test.
        checksums: SHA-256 of each file.
    """

    def __init__(self, of_corpus: str, checksums: Mapping[str, str]) -> None:
        self._of_corpus, self.checksums = of_corpus, dict(checksums)

    def value(self, shares: Shares) -> str:
        """The fingerprint; the shares belong to it already."""
        del shares
        return self._of_corpus
