"""One process at a time in a folder, and nobody is kept out by the dead."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from clearhead.errors import ClearheadError
from clearhead.locks import NAME, held

_HOLD = """
import sys, time
from pathlib import Path
from clearhead.locks import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def owner(tmp_path: Path) -> "subprocess.Popen[str]":
    process = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_and_a_dead_owner_is_not_waited_for(
    tmp_path: Path, owner: "subprocess.Popen[str]"
) -> None:
    """The message names who it is; after SIGKILL the lock is taken over, though its file is still there."""
    run = tmp_path / "run"
    with pytest.raises(ClearheadError, match=rf"is in use by process {owner.pid} on .* since") as caught:
        held(run).__enter__()
    assert caught.value.exit_code == 1
    owner.send_signal(signal.SIGKILL)
    owner.communicate()
    assert (run / NAME).is_file()
    with held(run):
        assert json.loads((run / NAME).read_text())["pid"] == os.getpid()
    assert not (run / NAME).exists()


def test_whoever_holds_a_folder_may_ask_again_but_not_in_another_thread(tmp_path: Path) -> None:
    refused = []

    def other() -> None:
        try:
            held(tmp_path).__enter__()
        except ClearheadError as error:
            refused.append(str(error))

    with held(tmp_path), held(tmp_path):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(refused) == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kept", [False, True])
def test_folders_that_were_made_for_nothing_are_gone(tmp_path: Path, kept: bool) -> None:
    run = tmp_path / "runs" / "mine"
    with suppress(ZeroDivisionError), held(run):
        if kept:
            (run / "file").touch()
        raise ZeroDivisionError
    assert (tmp_path / "runs").exists() == kept
    assert not (run / NAME).exists()
