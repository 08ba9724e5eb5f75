"""The next batch, made by a thread while the device computes the present one."""

from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Made = TypeVar("Made")


class Prefetcher(Generic[Made]):
    """Makes one thing ahead of time, in a thread; whoever needs it says which one, and gets that and no other.

    Where a run is does not depend on it: what was made for a place that the run does not come to is thrown away, and
    what was not made is made when it is needed. So a checkpoint holds the place of the batches that were used.

    Args:
        active: whether there is a thread at all. Default: True.
    """

    def __init__(self, *, active: bool = True) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="next batch") if active else None
        self._place: Hashable = None
        self._ahead: Future[Made] | None = None

    def expect(self, place: Hashable, make: Callable[[], Made]) -> None:
        """Begin to make what will be needed at a place."""
        if self._thread is not None:
            self._place, self._ahead = place, self._thread.submit(make)

    def take(self, place: Hashable, make: Callable[[], Made]) -> Made:
        """What belongs to a place: made ahead, or now. An error of the thread is raised here."""
        ahead, self._ahead = self._ahead, None
        return ahead.result() if ahead is not None and self._place == place else make()

    def close(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
            self._thread = self._ahead = None
