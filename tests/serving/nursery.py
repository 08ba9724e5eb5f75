"""Processes of a server without a cold start, which takes longer than most of what tests ask of them.

They are forked from one process that has imported torch once. It forks a keeper for each, which is its parent, tells
its number, waits for it and tells how it ended; so it can be stopped and killed like any other process. What starts
differently is proved by the tests that start the command or a front of their own.
"""

import asyncio
import gc
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tools.attack.runner import import_everything

_NUMBER = struct.Struct("<i")


class Child:
    """What ``asyncio.subprocess.Process`` is, as far as the front uses it."""

    def __init__(self, connection: socket.socket, output: int | None) -> None:
        self.pid: int = _received(connection)
        self.returncode: int | None = None
        self._connection, self._output = connection, output
        self._ended = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self._hear)

    def _hear(self) -> None:
        self._loop.remove_reader(self._connection)
        self.returncode = _received(self._connection)
        self._connection.close()
        self._ended.set()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    async def wait(self) -> int:
        await self._ended.wait()
        assert self.returncode is not None
        return self.returncode

    async def communicate(self) -> tuple[bytes, None]:
        assert self._output is not None
        with os.fdopen(self._output, "rb") as stream:
            said = await asyncio.to_thread(stream.read)
        await self.wait()
        return said, None

    def __del__(self) -> None:
        self._connection.close()  # a loop may end before its processes do


class Nursery:
    """Starts processes.

    Args:
        folder: where its socket may be.
    """

    def __init__(self, folder: Path) -> None:
        import_everything()
        import clearhead.serving.about
        import clearhead.serving.worker  # noqa: F401

        self._address = str(folder / "nursery")
        self._alive, lifeline = socket.socketpair()
        with socket.socket(socket.AF_UNIX) as listener, lifeline:
            listener.bind(self._address)
            listener.listen()
            if os.fork() == 0:
                _fork_on_demand(listener.fileno(), lifeline.fileno())

    async def start_module(
        self, name: str, *words: str, pass_fds: Sequence[int] = (), stdout: int | None = None
    ) -> Child:
        """What ``clearhead.serving.processes.start_module`` does."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self._address)
        output, written = os.pipe() if stdout is not None else (None, os.dup(1))
        with Path(os.devnull).open("rb") as nothing:
            order = {"argv": [name, *words], "places": [0, 1, 2, *pass_fds], "environment": dict(os.environ)}
            text = json.dumps(order).encode()
            socket.send_fds(connection, [struct.pack("<q", len(text))], [nothing.fileno(), written, 2, *pass_fds])
            connection.sendall(text)
        os.close(written)
        return Child(connection, output)

    def close(self) -> None:
        """End the process; those that it started end with their fronts."""
        self._alive.close()


def _received(connection: socket.socket) -> int:
    connection.setblocking(True)
    found: int = _NUMBER.unpack(connection.recv(_NUMBER.size, socket.MSG_WAITALL))[0]
    return found


def _fork_on_demand(listening: int, lifeline: int) -> None:
    """In a process of its own: fork a keeper for each order, until whoever orders is gone. Never returns."""
    try:
        gc.freeze()  # otherwise a collection would look at, and copy, all that the parent has made
        os.setsid()
        for number in range(3, 4096):
            if number not in (listening, lifeline):
                with suppress(OSError):
                    os.close(number)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for keepers
        listener = socket.socket(fileno=listening)
        while True:
            if lifeline in select.select([listening, lifeline], [], [])[0]:
                break
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                os.close(lifeline)
                _keep(connection)
            connection.close()
    finally:
        os._exit(0)


def _keep(connection: socket.socket) -> None:
    """In the keeper: fork the process, tell its number, wait for it, tell how it ended. Never returns."""
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        head, descriptors, _, _ = socket.recv_fds(connection, 8, 64)
        (size,) = struct.unpack("<q", head)
        order = json.loads(connection.recv(size, socket.MSG_WAITALL))
        pid = os.fork()
        if pid == 0:
            connection.close()
            _become(order, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        connection.sendall(_NUMBER.pack(pid))
        _, status = os.waitpid(pid, 0)
        connection.sendall(_NUMBER.pack(os.waitstatus_to_exitcode(status)))
    finally:
        os._exit(0)


def _become(order: dict[str, Any], descriptors: list[int]) -> None:
    """In the process: what ``python -m`` does. Never returns."""
    code: object = 70
    try:
        # first out of the way, then in place: the numbers may be each other's
        kept = [os.dup(os.dup2(descriptor, 3000 + number)) for number, descriptor in enumerate(descriptors)]
        for place, descriptor in zip(order["places"], kept, strict=True):
            os.dup2(descriptor, place)
        beyond = [*sorted(place for place in order["places"] if place > 2), 4096]
        for first, last in zip([2, *beyond], beyond, strict=False):
            os.closerange(first + 1, last)
        os.environ.clear()
        os.environ.update(order["environment"] | {"OMP_NUM_THREADS": "1"})
        sys.stdin, sys.stdout, sys.stderr = (
            open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
            for number, mode in ((0, "r"), (1, "w"), (2, "w"))
        )
        name, *words = order["argv"]
        sys.argv = [name, *words]
        sys.modules.pop(name, None)  # it is run as a program
        runpy.run_module(name, run_name="__main__")
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))
