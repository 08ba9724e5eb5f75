"""``clearhead serve`` as a command: what it prints, what it refuses, how it stops."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import clearhead
from clearhead.cli import serve
from tests.cli.forked import Forked
from tests.cli.typed import typed
from tests.training.toy import SMALL, write_pairs

PATIENCE = 120.0
"""Seconds after which a test gives up: the machine may be busy."""
TOKEN = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("serve")
    write_pairs(folder / "pairs.tsv")
    trained = typed("train", str(folder / "pairs.tsv"), "-o", str(folder / "run"), "--max-steps", "5", *SMALL)
    assert trained.returncode == 0, trained.stderr
    return folder / "run"


class Served:
    """A server in a process of its own."""

    def __init__(self, *arguments: str, env: dict[str, str] | None = None) -> None:
        given = os.environ | {"CLEARHEAD_TRACEBACK": "1"} | (env or {})
        self.process = Forked(["serve", *arguments, "--port", "0"], stderr=subprocess.PIPE, env=given, text=True)
        self.lines: list[str] = []
        found = None
        assert self.process.stderr is not None
        while found is None:
            line = self.process.stderr.readline()
            assert line, "".join(self.lines)
            self.lines.append(line)
            found = re.match(r"(http://127\.0\.0\.1:\d+/) \(Ctrl-C ends\)", line)
        self.url = found[1]

    def ended(self) -> int:
        """Wait for the end; returns the exit code."""
        _, rest = self.process.communicate(timeout=PATIENCE)
        self.lines.append(rest)
        return int(self.process.returncode)

    def said(self) -> str:
        return "".join(self.lines)


@pytest.fixture(scope="module")
def served(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server with a token from a file and an access log; it ends by Ctrl-C."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(f"{TOKEN}\n")
    files = [f"first={run}", str(run / "best.safetensors")]
    server = Served(*files, "--workers", "1", "--access-log", "--token-file", str(token))
    yield server
    server.process.send_signal(signal.SIGINT)
    assert server.ended() == 0
    rows = [json.loads(line) for line in server.said().splitlines() if line.startswith("{")]
    assert {"time", "method", "route", "status", "seconds", "bytes"} == set(rows[0])
    assert "/api/run" in {row["route"] for row in rows}
    for secret in (TOKEN, "Traceback", *LINES[2:]):
        assert secret not in server.said()


LINES = ["abc", "", "gabbag", "ffgccga"]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def test_help_teaches() -> None:
    words = typed("serve", "--help").stdout
    for part in (
        "clearhead serve runs/demo",
        "curl",
        "--token-file",
        "--watch",
        "/v1/completions",
        "/translate",
        "/metrics",
    ):
        assert part in words


def test_the_page_and_the_api_are_where_it_says(served: Served) -> None:
    with httpx.Client(base_url=served.url, timeout=PATIENCE, headers=HEADERS) as client:
        assert client.get("/").text.startswith("<!doctype html>")
        names = [model["name"] for model in client.get("/api/models").json()["models"]]
        assert names == ["first", "run"]
        assert client.post("/api/run", json={"lines": ["abc"], "model": "run"}).json()["model"] == "run"
        assert client.get("/v2/health/ready").status_code == 200


def test_answers_equal_those_of_run(served: Served, run: Path, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    expected = typed("run", str(run), str(tmp_path / "lines.txt")).stdout.splitlines()
    reply = httpx.post(f"{served.url}api/run", json={"lines": LINES}, timeout=PATIENCE, headers=HEADERS)
    assert reply.json()["answers"] == expected


def test_the_token_of_the_file_is_asked_for(served: Served) -> None:
    assert httpx.get(f"{served.url}api/models", timeout=PATIENCE).status_code == 401
    assert httpx.get(f"{served.url}v2/health/live", timeout=PATIENCE).status_code == 200


def test_the_front_process_has_no_torch() -> None:
    """It must start fast and stay small; and worker processes are started before torch starts threads."""
    code = (
        "import sys, clearhead.cli.app, clearhead.serving.server, clearhead.serving.app, clearhead.serving.running; "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_sigterm_finishes_open_streams_and_ends_with_0(run: Path) -> None:
    """A stream has begun when the signal comes; it is read to its end, and the server then ends by itself.

    Before that, SIGHUP looks for newer models; the token comes from the environment.
    """
    server = Served(str(run), "--workers", "1", env={"CLEARHEAD_TOKEN": TOKEN})
    assert server.process.stderr is not None
    server.process.send_signal(signal.SIGHUP)
    assert server.process.stderr.readline() == "run: unchanged\n"
    settings = {"beam_size": 1, "max_length": 300, "min_length": 300}
    body = {"lines": ["abc"], "stream": True, "settings": settings}
    with httpx.stream("POST", f"{server.url}api/run", json=body, timeout=PATIENCE, headers=HEADERS) as reply:
        lines = reply.iter_lines()
        first = next(lines)
        server.process.send_signal(signal.SIGTERM)
        events = [json.loads(line.removeprefix("data: ")) for line in [first, *lines] if line]
    assert server.ended() == 0
    assert len(events[-1]["done"]["answers"][0]["tokens"]) == 300
    assert "Traceback" not in server.said()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--host", "0.0.0.0"], 2, "a token is needed: --token-file FILE"),
        (["--host", "192.0.2.1"], 2, "a token is needed"),
        (["--token-file", "/nowhere"], 2, "--token-file: /nowhere: No such file"),
        (["--port", "70000"], 2, "--port"),
        (["--workers", "0"], 2, "--workers"),
        (["--deadline", "nan"], 2, "--deadline"),
        (["--watch", "inf"], 2, "watch: is inf, and must be a positive number"),
        (["--token", TOKEN], 2, "No such option"),
    ],
)
def test_what_is_typed_wrong_is_one_message(run: Path, arguments: list[str], code: int, words: str) -> None:
    found = typed("serve", str(run), *arguments)
    assert found.returncode == code
    assert words in " ".join(found.stderr.replace("│", " ").split())
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 20, b"two words of enough length", b"x" * 5_000])
def test_a_wrong_token_file_is_refused(run: Path, content: bytes, tmp_path: Path) -> None:
    (tmp_path / "token").write_bytes(content)
    found = typed("serve", str(run), "--token-file", str(tmp_path / "token"))
    assert found.returncode == 2
    assert "token" in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_an_empty_token_in_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets it wants a token to be asked for, and would serve without one."""
    monkeypatch.setenv(serve.TOKEN, "")
    with pytest.raises(clearhead.RecipeError, match="CLEARHEAD_TOKEN: is set, but empty"):
        serve._token(None)
    monkeypatch.setenv(serve.TOKEN, TOKEN)
    assert serve._token(None) == TOKEN
    monkeypatch.delenv(serve.TOKEN)
    assert serve._token(None) is None


def test_a_port_that_is_taken_is_one_message(run: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = typed("serve", str(run), "--port", str(port))
    assert found.returncode == 1
    words = f"port {port} of 127.0.0.1 cannot be used: Address already in use; choose another with --port\n"
    assert found.stderr == words


@pytest.mark.parametrize(("name", "code"), [("/nowhere", 3), ("tiny", 2)])
def test_a_wrong_model_is_one_message(name: str, code: int) -> None:
    found = typed("serve", name, "--port", "0")
    assert found.returncode == code, found.stderr
    assert name in found.stderr
    assert len(found.stderr.splitlines()) == 1


def test_a_damaged_model_is_one_message(run: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.safetensors"
    damaged.write_bytes((run / "best.safetensors").read_bytes()[:-100])
    found = typed("serve", str(damaged), "--port", "0", "--workers", "1")
    assert found.returncode == 3, found.stderr
    assert "damaged.safetensors" in found.stderr


def test_two_models_of_one_name_are_refused(run: Path) -> None:
    found = typed("serve", f"a={run}", f"a={run}", "--port", "0")
    assert found.returncode == 2
    assert "a" in found.stderr


def test_a_missing_package_is_named_with_its_extra(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package, shown in (("starlette", "starlette"), ("prometheus_client", "prometheus-client")):
        with monkeypatch.context() as patch:
            patch.setitem(sys.modules, package, None)
            found = typed("serve", str(run), "--port", "0")
        assert found.returncode == 1
        assert found.stderr == f'clearhead serve needs the package {shown}: pip install "clearhead[serve]"\n'


def test_an_unknown_setting_is_refused_in_python_too(run: Path) -> None:
    import clearhead

    with pytest.raises(clearhead.RecipeError, match=r"prot: is unknown; did you mean port\?"):
        clearhead.serve(run, prot=80)
    with pytest.raises(clearhead.RecipeError, match="a token is needed"):
        clearhead.serve({"a": run}, host="0.0.0.0")
