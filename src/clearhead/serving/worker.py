"""A worker process: holds models, answers batches one after the other, and between them writes open streams on.

Started as ``python -m clearhead.serving.worker FD``, with the number of a socket that it inherits; ends when that is
closed. It works on one thread, a little below the priority of the front, and logs nothing of what it is asked.
"""

import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from clearhead.errors import ClearheadError, DeviceError
from clearhead.models import pick_device
from clearhead.predictor import Predictor, leave_with, one_thread
from clearhead.serving.loading import described, loaded, on_engine_of
from clearhead.serving.messages import BrokenMessage, Frames, Message, framed, kind_and_place
from clearhead.serving.work import Reply, Stream, answer, look, refusal, score, trace

NICER = 5
"""How much lower the priority of a worker is than that of the front, which must stay quick."""
_AT_ONCE = 1 << 20
"""Bytes read from the socket at once."""
_WORK: dict[str, Callable[[Predictor, Message], Reply]] = {
    "answer": answer,
    "score": score,
    "trace": trace,
    "look": look,
}


class Worker:
    """Does what arrives on a connection, in order; streams go on between two batches, one token each.

    Args:
        connection: the socket to the front.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection, self._frames = connection, Frames()
        self._models: dict[int, Predictor] = {}
        self._streams: dict[int, Stream] = {}
        self._todo: deque[Message] = deque()

    def run(self) -> None:
        """Work until the front closes the connection."""
        while self._receive(wait=not self._todo and not self._streams):
            if self._todo:
                self._do(self._todo.popleft())
            if self._streams:
                self._write_on()

    def _receive(self, *, wait: bool) -> bool:
        """Take in what has arrived; False if the front is gone."""
        while wait or select.select([self._connection], [], [], 0)[0]:
            data = self._connection.recv(_AT_ONCE)
            if not data:
                return False
            for message in self._frames.feed(data):
                wait = False
                if message["do"] == "leave":
                    self._leave(message["id"])
                else:
                    self._todo.append(message)
        return True

    def _leave(self, number: int) -> None:
        """Nobody waits for something any more: it is not begun, or not written on."""
        self._streams.pop(number, None)
        self._todo = deque(message for message in self._todo if message.get("id") != number)

    def _send(self, message: Message) -> None:
        self._connection.sendall(framed(message))

    def _do(self, message: Message) -> None:
        what = message["do"]
        if what == "load":
            self._send(self._load(message))
        elif what == "drop":
            self._models.pop(message["model"], None)
        elif what == "stream":
            if refused := _tried(lambda: self._open(message)):
                self._send({"id": message["id"], **refused})
        else:
            reply = _tried(lambda: _WORK[what](self._models[message["model"]], message))
            self._send({"id": message["id"], **reply})

    def _load(self, message: Message) -> Reply:
        try:
            device = pick_device(message["device"])
        except DeviceError as error:
            return {"unloaded": message["model"], "refused": False, "device": True, "message": str(error)}

        def load() -> Reply:
            found = loaded(Path(message["path"]), message["shown"], foreign=message["foreign"])
            found.predictor.model.to(device)
            found = on_engine_of(found, message["shown"], message["engine"], int8=message["int8"])
            self._models[message["model"]] = found.predictor
            return {"loaded": message["model"], **described(found)}

        reply = _tried(load)
        if "loaded" in reply:
            return reply
        if "refused" in reply:
            return {"unloaded": message["model"], "refused": True, "message": reply["refused"]["message"]}
        return {"unloaded": message["model"], "refused": False, "message": reply["failed"]}

    def _open(self, message: Message) -> Reply:
        self._streams[message["id"]] = Stream(self._models[message["model"]], message)
        return {}

    def _write_on(self) -> None:
        """Write one token of each open stream; what they say goes out as one message."""
        pieces: list[list[object]] = []
        ended: list[Reply] = []
        for number, stream in self._streams.items():
            reply = _tried(stream.advance)
            if "piece" not in reply:
                ended.append({"id": number, **reply})
            elif reply["piece"]:
                pieces.append([number, reply["piece"]])
        if pieces:
            self._send({"pieces": pieces})
        for message in ended:
            del self._streams[message["id"]]
            self._send(message)


def _tried(work: Callable[[], Reply]) -> Reply:
    """The result of some work, or why there is none."""
    try:
        return work()
    except ClearheadError as error:
        return refusal(error)
    except Exception as error:
        return {"failed": kind_and_place(error)}


def main(descriptor: int) -> None:
    """Work on an inherited socket until it is closed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the front decides
    os.nice(NICER)
    one_thread()
    threading.Thread(target=leave_with, args=(os.getppid(),), daemon=True).start()
    with socket.socket(fileno=descriptor) as connection, suppress(BrokenMessage, ConnectionError):
        Worker(connection).run()


if __name__ == "__main__":
    main(int(sys.argv[1]))
