"""The processes that a server starts."""

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from clearhead.serving.about import AboutDesk
from clearhead.serving.catalogue import Version
from clearhead.serving.faults import Fault
from clearhead.serving.messages import framed
from clearhead.serving.worker import _WORK, Worker
from clearhead.serving.workers import WorkerProcess


@pytest.mark.parametrize("which", ["worker", "about"])
def test_nothing_of_the_working_directory_is_run(which: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file there that is called as a module of Python stays a file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "json.py").write_text("open('executed', 'w').close()\n")
    (tmp_path / "m.safetensors").write_bytes(b"")

    async def check() -> None:
        if which == "worker":
            worker = await WorkerProcess.start(lambda *_: None)
            await worker.end(60)  # it has imported everything before it sees that the connection is closed
        else:
            with pytest.raises(Fault):
                await AboutDesk()._worked_out(Version.of(1, "m", tmp_path / "m.safetensors"))

    asyncio.run(check())
    assert not (tmp_path / "executed").exists()


def test_what_was_left_before_it_was_begun_is_not_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[tuple[str, int]] = []

    def opened(_: Any, message: dict[str, Any]) -> Any:
        done.append((message["do"], message["id"]))
        return {}

    monkeypatch.setitem(_WORK, "look", opened)
    monkeypatch.setattr(Worker, "_open", lambda self, message: opened(self, message))
    here, there = socket.socketpair()
    with here, there:
        asked = [("look", 1), ("look", 2), ("stream", 3), ("stream", 4), ("leave", 2), ("leave", 3), ("leave", 9)]
        here.sendall(b"".join(framed({"do": what, "id": number, "model": 1}) for what, number in asked))
        here.shutdown(socket.SHUT_WR)
        worker = Worker(there)
        worker._models[1] = None  # type: ignore[assignment]
        assert worker._receive(wait=False) is False  # everything has arrived
        while worker._todo:
            worker._do(worker._todo.popleft())
    assert done == [("look", 1), ("stream", 4)]
