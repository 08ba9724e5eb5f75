"""The lane of looks: a process of its own, started by the first look, which makes one after the other."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from clearhead.serving.catalogue import Version
from clearhead.serving.faults import Busy, Fault, Refused, TooLate, WorkerLost
from clearhead.serving.workers import WorkerProcess


class LookLane:
    """Makes looks, one at a time.

    Args:
        most: how many may wait.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._turn = asyncio.Lock()
        self._worker: WorkerProcess | None = None
        self._answer: asyncio.Future[dict[str, Any]] | None = None
        self._number = 0
        self.waiting = 0
        """Looks that are asked for and not made yet."""
        self._seconds = 1.0
        """How long a look takes, roughly."""

    async def look(self, version: Version, message: Mapping[str, Any], seconds: float) -> str:
        """The document of a look, as JSON."""
        if self.waiting > self._most:
            raise Busy(f"{self.waiting} looks are waiting", max(1.0, self.waiting * self._seconds))
        self.waiting += 1
        try:
            async with asyncio.timeout(seconds):
                async with self._turn:
                    return await self._made(version, message)
        except TimeoutError:
            if not self._turn.locked():  # it was this one that took too long, not its wait
                self._kill()
            raise TooLate(f"the look was not ready within {seconds:g} seconds") from None
        finally:
            self.waiting -= 1

    async def _made(self, version: Version, message: Mapping[str, Any]) -> str:
        begun = asyncio.get_running_loop().time()
        for left in (1, 0):
            try:
                reply = await self._asked(version, message)
                break
            except ConnectionError:
                if not left:
                    raise WorkerLost("the process that looked ended twice over this line") from None
        else:  # pragma: no cover  the loop breaks or raises
            raise AssertionError
        self._seconds = 0.8 * self._seconds + 0.2 * (asyncio.get_running_loop().time() - begun)
        if "refused" in reply:
            raise Refused(reply["refused"]["where"], reply["refused"]["message"])
        if "failed" in reply:
            raise Fault(f"the look failed: {reply['failed']}")
        return str(reply["document"])

    async def _asked(self, version: Version, message: Mapping[str, Any]) -> dict[str, Any]:
        worker = await self._with(version)
        self._number = number = self._number + 1
        self._answer = asyncio.get_running_loop().create_future()
        worker.send({**message, "id": number, "model": version.number})
        try:
            return await self._until_gone(worker, self._answer)
        except asyncio.CancelledError:  # the client has left, or it is too late
            worker.send({"do": "leave", "id": number})
            raise

    async def _until_gone(self, worker: WorkerProcess, answer: "asyncio.Future[dict[str, Any]]") -> dict[str, Any]:
        gone = asyncio.ensure_future(worker.gone.wait())
        both: set[asyncio.Future[Any]] = {answer, gone}
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
        if answer.done():
            return answer.result()
        raise ConnectionError("the worker ended")

    async def _with(self, version: Version) -> WorkerProcess:
        """The process, with this model in it and no other version of it."""
        if self._worker is None or self._worker.gone.is_set():
            await self._end()
            self._worker = await WorkerProcess.start(self._heard)
        worker = self._worker
        if version.number not in worker.models:
            reply = await worker.load(version.number, version.source, str(version.path), foreign=version.foreign)
            if reply["facts"]["fingerprint"] != version.fingerprint:
                worker.drop(version.number)
                raise WorkerLost(f"{version.name}: its file was changed in place; a reload takes the new one")
        return worker

    def drop(self, version: Version) -> None:
        """Forget a version that answers no more."""
        if self._worker is not None:
            self._worker.drop(version.number)

    def _heard(self, worker: WorkerProcess, message: dict[str, Any]) -> None:
        waited_for = worker is self._worker and message.get("id") == self._number
        if waited_for and self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def _kill(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    async def _end(self) -> None:
        if self._worker is not None:
            with suppress(OSError):
                await self._worker.end()
            self._worker = None

    async def stop(self) -> None:
        """End the process."""
        await self._end()
