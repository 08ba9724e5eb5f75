"""The processes that a server starts."""

import asyncio
from pathlib import Path

import pytest

from clearhead.serving.about import AboutDesk
from clearhead.serving.catalogue import Version
from clearhead.serving.faults import Fault
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
