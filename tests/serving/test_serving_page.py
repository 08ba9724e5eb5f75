"""docs/serving.md: its commands run against a server with real models, its Python runs, its files name real options."""

import configparser
import io
import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from clearhead.serving import connections, guard, openai
from clearhead.serving.room import Room
from clearhead.serving.settings import ServeSettings
from tests.cli.typed import typed
from tests.serving.live import PATIENCE, Live, live

PAGE = (Path(__file__).parent.parent.parent / "docs" / "serving.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def console() -> list[tuple[str, str]]:
    """Every command with what the page says that it prints."""
    parts = re.split(r"^\$ ", "".join(blocks("console")), flags=re.MULTILINE)[1:]
    found = []
    for part in parts:
        command, _, output = part.replace("\\\n", " ").partition("\n")
        found.append((command, output))
    return found


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[Live]:
    served = {"g2p": models["pairs"], "writer": models["lm"]}
    with live(lambda settings: Room(served, settings), workers=1) as found:
        yield found


def differences(told: Any, seen: Any, where: str = "") -> list[str]:
    """Where what was seen has not the shape that is told: fields may be left out on the page, not made up."""
    if isinstance(told, dict) and isinstance(seen, dict):
        missing = [f"{where}.{key} is not there" for key in told if key not in seen]
        return missing + [
            found for key in told if key in seen for found in differences(told[key], seen[key], f"{where}.{key}")
        ]
    if isinstance(told, list) and isinstance(seen, list):
        return [] if not told or not seen else differences(told[0], seen[0], f"{where}[0]")
    kinds = [float if isinstance(one, int | float) and not isinstance(one, bool) else type(one) for one in (told, seen)]
    return [] if kinds[0] is kinds[1] else [f"{where} is {type(seen).__name__}, not {type(told).__name__}"]


@pytest.mark.parametrize(("command", "output"), console(), ids=[command[:60] for command, _ in console()])
def test_curl_gets_what_the_page_says(command: str, output: str, server: Live) -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    words = shlex.split(command.replace("localhost:8000", f"127.0.0.1:{server.port}"))
    assert words[0] == "curl"
    seen = subprocess.run(words, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    if output.startswith("data: "):
        events = [json.loads(line.removeprefix("data: ")) for line in seen.splitlines() if line]
        for line in output.splitlines():
            told = json.loads(line.removeprefix("data: "))
            assert any(not differences(told, event) for event in events), line
    else:
        assert differences(json.loads(output), json.loads(seen)) == []


def test_a_field_that_is_not_there_is_noticed() -> None:
    assert differences({"a": [{"b": 1}]}, {"a": [{"b": 2.5, "c": 3}]}) == []
    assert differences({"a": [{"b": 1}]}, {"a": [{"c": 3}]}) == [".a[0].b is not there"]
    assert differences({"a": "x"}, {"a": 3}) == [".a is int, not str"]


@pytest.mark.filterwarnings("ignore::clearhead.predictor.UnknownCharacters")
@pytest.mark.parametrize("code", blocks("python"), ids=lambda code: code.split("\n")[0])
def test_the_python_runs(code: str, server: Live) -> None:
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(code.replace("127.0.0.1:8000", f"127.0.0.1:{server.port}"), "serving.md", "exec"), {})
    assert printed.getvalue().strip()


def test_the_options_of_the_files_exist() -> None:
    options = set(re.findall(r"--[a-z-]+", typed("serve", "--help").stdout))
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read_string(blocks("ini")[0])
    (container,) = blocks("dockerfile")
    entry = " ".join(json.loads(re.search(r"^ENTRYPOINT (.*)$", container, re.MULTILINE)[1]))  # type: ignore[index]
    for command in (unit["Service"]["ExecStart"], entry):
        assert set(re.findall(r"--[a-z-]+", command)) <= options
    shell = re.findall(r"^(?:clearhead serve .*)$", PAGE, re.MULTILINE)
    assert len(shell) >= 3
    assert {option for line in shell for option in re.findall(r"--[a-z-]+", line.partition("#")[0])} <= options


def test_the_limits_are_those_of_the_code() -> None:
    settings = ServeSettings()
    rows = dict(re.findall(r"^\| ([^|]*?) \| ([^|]*?) \|", PAGE, re.MULTILINE))
    assert rows["lines, or rows, of a request"] == f"{settings.lines_per_request:,}"
    assert rows["characters of a line"] == f"{settings.characters_per_line:,}"
    assert rows["body of a request"] == f"{settings.body_bytes >> 20} MiB"
    assert rows["answers to a line, width of a beam"] == f"{settings.n_best}" == f"{settings.beam_size}"
    assert rows["tokens of an answer that a request asks for"] == f"{settings.answer_tokens:,}"
    assert rows["prompts of `/v1/completions`"] == f"{openai.PROMPTS}"
    assert rows["lines that wait"] == f"{settings.waiting_lines:,}"
    assert rows["characters of requests that are not answered yet"] == f"{settings.waiting_characters:,}"
    assert rows["streams at a time"] == f"{settings.open_streams}"
    assert rows["looks that wait; one is made at a time"] == f"{settings.waiting_looks}"
    assert rows["connections"] == f"{connections.CONNECTIONS:,}"
    assert rows["time for an answer, waiting included"] == f"{settings.deadline_seconds:g} s"
    assert (
        rows["time for the head of a request"] == f"{connections.HEAD_SECONDS:g} s, {connections.HEAD_BYTES >> 10} KiB"
    )
    assert (
        rows["time for the body of a request"] == f"{settings.body_seconds:g} s, {guard.SILENT_SECONDS:g} s of silence"
    )
    assert rows["time in which a client reads nothing of its answer"] == f"{connections.READ_SECONDS:g} s"
    assert f"at most {settings.grace_seconds:g} seconds" in PAGE
