"""Texts in blocks, worked on by several processes at once; what comes of them keeps its order."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Generic, Protocol, TypeVar

from clearhead.workers import WorkerPool

Columns = Sequence[Sequence[str]]
"""Of some examples the texts of each column."""
Progress = Callable[[str, int, int | None], None]
"""Is told which stage of long work is how far, and how far it goes, if that is known."""


class Sized(Protocol):
    """A block as it is kept."""

    def __len__(self) -> int: ...


K = TypeVar("K", bound=Sized)
R = TypeVar("R")


def unwatched(stage: str, done: int, total: int | None) -> None:
    """Nobody is told."""
    del stage, done, total


class TextBlocks(Generic[K]):
    """The columns of many examples, block by block and as often as wanted.

    Args:
        kept: the blocks as they are kept.
        columns: the texts of such a block.
        workers: the processes that may work on them.
        progress: is told how many examples are done.
        total: of how many.
    """

    def __init__(
        self,
        kept: Callable[[], Iterator[K]],
        columns: Callable[[K], Columns],
        *,
        workers: int = 1,
        progress: Progress = unwatched,
        total: int | None = None,
    ) -> None:
        self._kept, self._columns, self._workers = kept, columns, workers
        self._progress, self._total = progress, total

    def __iter__(self) -> Iterator[Columns]:
        return map(self._columns, self._kept())

    def results(self, work: Callable[[Columns], R]) -> Iterator[R]:
        """What ``work`` makes of the columns of each block; blocks are unpacked where they are worked on."""

        def worked(block: K) -> tuple[int, R]:
            return len(block), work(self._columns(block))

        done = 0
        with WorkerPool(worked, self._workers, computes=False) as pool:
            for size, result in pool.results(self._kept()):
                yield result
                done += size
                self._progress("encoding", done, self._total)


def results_of(blocks: Iterable[Columns], work: Callable[[Columns], R]) -> Iterator[R]:
    """What ``work`` makes of each block: side by side, if they can be worked on so."""
    return blocks.results(work) if isinstance(blocks, TextBlocks) else map(work, blocks)
