"""The command line in odd surroundings: closed streams, strange locales, no home, no folder, little memory."""

import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

import pytest

from clearhead.cli import BUG, main
from tests.cli.forked import forked

CLEARHEAD = f"{sys.executable} -m clearhead"


def shell(command: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """A command as bash runs it."""
    return subprocess.run(
        ["bash", "-c", command], capture_output=True, check=False, env=os.environ | environment, timeout=120
    )


def test_closed_standard_output_is_a_failure_not_a_success_without_results() -> None:
    done = shell(f"{CLEARHEAD} presets >&-")
    assert (done.returncode, done.stderr) == (1, b"output: Bad file descriptor\n")


def test_closed_standard_input_is_empty_input() -> None:
    done = shell(f"{CLEARHEAD} train - -o /nonexistent/run <&-")
    assert done.returncode == 3
    assert done.stderr == b"standard input: is empty\n"


def test_closed_standard_error_loses_no_results() -> None:
    assert shell(f"{CLEARHEAD} presets 2>&-").stdout == forked("presets", env=os.environ).stdout


@pytest.mark.parametrize(
    ("locale", "surrounding"),
    [
        ("C", {"HOME": "/nonexistent", "COLUMNS": "20"}),
        ("POSIX", {"HOME": "", "COLUMNS": "0"}),
        ("en_US.ISO-8859-1", {"TERM": "x"}),
        ("nonsense", {}),
    ],
)
def test_odd_surroundings_change_nothing(locale: str, surrounding: dict[str, str]) -> None:
    """Also, results in files are UTF-8. Wrong variant: in the locale's own encoding × would be a question mark."""
    environment = {"LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", **surrounding}
    command = [sys.executable, "-m", "clearhead", "presets"]
    done = subprocess.run(command, capture_output=True, check=False, env=os.environ | environment)
    assert (done.returncode, done.stderr) == (0, b"")
    assert "224 × 224" in done.stdout.decode("utf-8")
    assert b"transformer-base" in done.stdout


def test_a_folder_that_is_gone_is_no_traceback(tmp_path: Path) -> None:
    done = shell(f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir ../gone && {CLEARHEAD} cost tiny")
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("kilobytes", [400_000, 700_000])
def test_too_little_memory_is_one_message(kilobytes: int) -> None:
    """Not even torch can be loaded: by itself it aborts the process."""
    done = shell(f"ulimit -v {kilobytes}; {CLEARHEAD} show tiny")
    assert done.returncode == 4
    assert done.stderr.startswith(b"loading torch takes about 800.0 MiB of address space, and ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyError("inner"), 1, f"{BUG}: KeyError: 'inner'\nplease report it"),
        (MemoryError(), 4, "there is not enough memory"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 4, "there is not enough memory"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_nobody_should_see_is_a_message_too(
    capsys: pytest.CaptureFixture[str], error: BaseException, code: int, words: str
) -> None:
    with patch("clearhead.cli.app.app", side_effect=error), pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == code
    assert words in capsys.readouterr().err
