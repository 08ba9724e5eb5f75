"""Starts worker processes, watches them, and starts them again when they die."""

import asyncio
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError, DeviceError, ModelFileError
from clearhead.serving import processes
from clearhead.serving.messages import BrokenMessage, Frames, Message, framed, kind_and_place

if TYPE_CHECKING:
    from clearhead.serving.batching import LineBatch

log = logging.getLogger("clearhead.serve")
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 30.0
"""Seconds before a process that died is started again: they double while it keeps dying."""
STEADY = 20.0
"""Seconds after which a process counts as one that works."""
ENDING = 1.0
"""Seconds that a process has to end by itself."""


class WorkerProcess(asyncio.Protocol):
    """One worker process and the connection to it.

    Args:
        heard: called with this worker and each message that is no reply to ``load``.
    """

    def __init__(self, heard: "Callable[[WorkerProcess, dict[str, Any]], None]") -> None:
        self._heard, self._frames = heard, Frames()
        self._transport: asyncio.Transport | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._loading: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._broken = False
        self.gone = asyncio.Event()
        """Set when the connection is closed, after everything that the worker sent was heard."""
        self.models: set[int] = set()
        """The versions of models that it has."""
        self.batches: dict[int, LineBatch] = {}
        """What it works on, the batch that it has begun first."""
        self.begun = 0.0
        """When it began the first of them."""
        self.streams = 0
        """Streams that it writes."""

    @classmethod
    async def start(cls, heard: "Callable[[WorkerProcess, dict[str, Any]], None]") -> "WorkerProcess":
        """Start a process; it has no models yet."""
        here, there = socket.socketpair()
        worker = cls(heard)
        with there:
            try:
                worker._process = await processes.start_module(
                    "clearhead.serving.worker", str(there.fileno()), pass_fds=[there.fileno()]
                )
            except BaseException:
                here.close()
                raise
        here.setblocking(False)
        try:
            await asyncio.get_running_loop().create_unix_connection(lambda: worker, sock=here)
        except BaseException:
            here.close()
            worker.kill()
            await worker.end()
            raise
        return worker

    @property
    def pid(self) -> int:
        """The number of the process."""
        assert self._process is not None
        return self._process.pid

    # ---- asyncio's side ----

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Hear what is complete; a worker that talks nonsense is ended, and nothing more is heard of it."""
        if self._broken:
            return
        try:
            for message in self._frames.feed(data):
                number = message.get("loaded", message.get("unloaded"))
                if number is None:
                    self._heard(self, message)
                elif (waiting := self._loading.pop(number, None)) is not None and not waiting.done():
                    waiting.set_result(message)
        except BrokenMessage as error:
            log.error("worker %d: %s", self.pid, error)
            self._break()
        except Exception as error:
            log.error("worker %d: a message that makes no sense: %s", self.pid, kind_and_place(error))
            self._break()

    def _break(self) -> None:
        """End a worker that cannot be understood; its work is given to others when it is gone."""
        self._broken = True
        self.kill()

    def connection_lost(self, exc: Exception | None) -> None:
        """The process has ended, or is about to."""
        del exc
        for waiting in self._loading.values():
            if not waiting.done():
                waiting.set_exception(ConnectionError("the worker ended"))
        self._loading.clear()
        self.gone.set()

    # ---- the room's side ----

    def send(self, message: Message) -> None:
        """Send a message; one to a worker that is gone is lost, as its work is."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(framed(message))

    async def load(
        self,
        number: int,
        path: str,
        shown: str,
        *,
        foreign: bool,
        engine: str = "native",
        int8: bool = False,
        device: str = "cpu",
    ) -> dict[str, Any]:
        """Load a version of a model; returns its facts, or raises why it cannot be loaded.

        ``ModelFileError`` says that the file is to blame, ``DeviceError`` that there is no such device,
        ``ConnectionError`` that the worker is gone.
        """
        if self.gone.is_set():
            raise ConnectionError("the worker ended")
        waiting = self._loading[number] = asyncio.get_running_loop().create_future()
        place = {"path": path, "shown": shown, "foreign": foreign, "engine": engine, "int8": int8, "device": device}
        self.send({"do": "load", "model": number, **place})
        reply: dict[str, Any] = await waiting
        if "unloaded" in reply:
            kind = ModelFileError if reply["refused"] else DeviceError if "device" in reply else ClearheadError
            raise kind(reply["message"])
        self.models.add(number)
        return reply

    def drop(self, number: int) -> None:
        """Forget a version of a model."""
        if number in self.models:
            self.models.discard(number)
            self.send({"do": "drop", "model": number})

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()

    async def end(self, seconds: float = ENDING) -> None:
        """Close the connection, upon which the process ends, and wait for that; kill it if it takes too long."""
        if self._transport is not None:
            self._transport.close()
        if self._process is not None:
            try:
                await asyncio.wait_for(self._process.wait(), seconds)
            except TimeoutError:
                self.kill()
                await self._process.wait()


class WorkerSet:
    """A number of workers that are kept alive.

    Args:
        size: how many.
        heard: called with a worker and each message of it.
        prepare: loads the models into a new worker; if it raises, that counts as a death of the worker.
        ready: called when a worker can take work.
        lost: called with a worker that was ready and is gone.
    """

    def __init__(
        self,
        size: int,
        *,
        heard: Callable[[WorkerProcess, dict[str, Any]], None],
        prepare: Callable[[WorkerProcess], Awaitable[None]],
        ready: Callable[[], None],
        lost: Callable[[WorkerProcess], None],
    ) -> None:
        self.size, self._heard, self._prepare, self._ready, self._lost = size, heard, prepare, ready, lost
        self.workers: list[WorkerProcess] = []
        """Those that are ready."""
        self.restarts = 0
        self._starting: set[WorkerProcess] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Start all of them, and wait until they are ready; what one of them cannot load is raised."""
        first = [asyncio.get_running_loop().create_future() for _ in range(self.size)]
        self._tasks = [asyncio.create_task(self._keep(future)) for future in first]
        try:
            await asyncio.gather(*first)
        except BaseException:
            await self.stop()
            raise

    async def _keep(self, first: "asyncio.Future[None]") -> None:
        """Keep one worker alive; ``first`` learns how its first start went."""
        pause = FIRST_PAUSE
        while True:
            begun = time.monotonic()
            try:
                await self._one(first)
            except ClearheadError as error:
                if not first.done():
                    first.set_exception(error)
                    return
                log.error("a worker could not start: %s", error)
            except (OSError, ConnectionError) as error:
                if not first.done():
                    first.set_exception(ClearheadError(f"a worker could not start: {error}"))
                    return
                log.error("a worker could not start: %s", error)
            pause = FIRST_PAUSE if time.monotonic() - begun > STEADY else min(2 * pause, LONGEST_PAUSE)
            self.restarts += 1
            await asyncio.sleep(pause)

    async def _one(self, first: "asyncio.Future[None]") -> None:
        """The life of one process."""
        worker = await WorkerProcess.start(self._heard)
        self._starting.add(worker)
        try:
            await self._prepare(worker)
            self._starting.discard(worker)
            self.workers.append(worker)
            if not first.done():
                first.set_result(None)
            self._ready()
            await worker.gone.wait()
            log.warning("worker %d ended", worker.pid)
        finally:
            self._starting.discard(worker)
            if worker in self.workers:
                self.workers.remove(worker)
                self._lost(worker)
            await worker.end()

    async def stop(self) -> None:
        """End all of them."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []


def has_model(workers: Sequence[WorkerProcess], number: int) -> bool:
    """Whether one of these workers has a version of a model."""
    return any(number in worker.models for worker in workers)
