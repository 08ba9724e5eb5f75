"""clearhead's own endpoints over a room without models: shapes, mistakes with their places, faults, streams."""

import asyncio
import json
import sys
from typing import Any, get_args

import httpx
import pytest
from starlette.types import Message

from clearhead.inspection.showing import KINDS
from clearhead.serving import endpoints, wire
from clearhead.serving.app import ENDPOINTS, make_app
from clearhead.serving.faults import Busy, Fault, Refused, TooLate, WorkerLost
from clearhead.serving.settings import ServeSettings
from tests.serving.client import connected, error_of
from tests.serving.fake import FakeRoom
from tests.serving.test_guard import answered, posted

HEAD = {"Content-Type": "application/json"}


def posted_to(path: str, body: Any, room: FakeRoom | None = None, **settings: Any) -> httpx.Response:
    async def sent() -> httpx.Response:
        async with connected(make_app(room or FakeRoom(), ServeSettings(**settings))) as client:
            if isinstance(body, bytes):
                return await client.post(path, content=body, headers=HEAD)
            return await client.post(path, json=body)

    return asyncio.run(sent())


def got(path: str, room: FakeRoom | None = None, **settings: Any) -> httpx.Response:
    async def sent() -> httpx.Response:
        async with connected(make_app(room or FakeRoom(), ServeSettings(**settings))) as client:
            return await client.get(path)

    return asyncio.run(sent())


def events_of(reply: httpx.Response) -> list[Any]:
    assert reply.headers["content-type"] == "text/event-stream; charset=utf-8"
    parts = reply.text.split("\n\n")
    assert parts.pop() == ""
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def test_lines_are_answered_in_order() -> None:
    reply = posted_to("/api/run", {"lines": ["ab", "", "ü€😀"]})
    assert reply.json() == {"model": "shout", "answers": ["AB", "", "Ü€😀"]}
    assert posted_to("/api/run", {"lines": []}).json()["answers"] == []


def test_several_answers_have_results() -> None:
    room = FakeRoom()
    reply = posted_to("/api/run", {"lines": ["ab"], "n_best": 2, "model": "de-en", "settings": {"beam_size": 4}}, room)
    (result,) = reply.json()["results"]
    assert [answer["text"] for answer in result["answers"]] == ["AB", "AB!"]
    assert result["answers"][0]["score"] is None  # NaN is not JSON
    assert result["warnings"] == []
    assert room.calls == [("answer", {"lines": ["ab"], "settings": {"beam_size": 4}, "n_best": 2})]
    assert "results" in posted_to("/api/run", {"lines": ["ab"], "details": True}).json()
    assert "results" not in posted_to("/api/run", {"lines": ["ab"]}).json()


@pytest.mark.parametrize(
    ("body", "where", "words"),
    [
        ({"lines": ["a", "b", "c", 4]}, "lines.3", "lines.3 must be text"),
        ({"lines": "ab"}, "lines", "lines must be a list"),
        ({}, "lines", "lines is missing"),
        ({"line": ["ab"], "lines": []}, "line", "line is unknown; did you mean lines?"),
        ({"lines": [], "n_best": 1.5}, "n_best", "n_best must be a whole number"),
        ({"lines": [], "n_best": "2"}, "n_best", "n_best must be a whole number"),
        ({"lines": [], "n_best": True}, "n_best", "n_best must be a whole number"),
        ({"lines": [], "n_best": 0}, "n_best", "n_best must be at least 1"),
        ({"lines": [], "stream": 1}, "stream", "stream must be true or false"),
        ({"lines": [], "settings": []}, "settings", "settings must be an object"),
        (
            {"lines": [], "settings": {"beam_size": {}}},
            "settings.beam_size",
            "settings.beam_size must be a finite number",
        ),
        ({"lines": ["a"], "settings": {"beam_sise": 4}}, "settings.beam_sise", "did you mean beam_size?"),
        ([], "", "the body must be an object"),
        (None, "", "the body must be an object"),
        ({"lines": ["a", "b"], "stream": True}, "stream", "one line"),
        ({"lines": ["a"], "stream": True, "n_best": 2}, "n_best", "one answer"),
        ({"lines": ["a"], "stream": True, "first": 7}, "first", "no part of a file"),
        ({"lines": ["a"], "first": -1}, "first", "first must be at least 0"),
    ],
)
def test_a_wrong_field_is_named_with_its_place(body: Any, where: str, words: str) -> None:
    reply = posted_to("/api/run", json.dumps(body).encode())
    assert reply.status_code == 422
    error = error_of(reply)
    assert error.get("where", "") == where
    assert words in error["message"]


def test_all_mistakes_are_told_at_once_but_of_a_list_only_the_first() -> None:
    """A list with a mistake in each item would take seconds and a gigabyte to report."""
    words = error_of(posted_to("/api/run", {"lines": [1] * 50, "n_best": 0}))["message"]
    assert words == "lines.0 must be text; n_best must be at least 1"
    words = error_of(posted_to("/api/run", {f"key{number}": 0 for number in range(9)}))["message"]
    assert words.endswith("; and 5 more")
    words = error_of(posted_to("/api/score", {"rows": [[1, 2], [3, 4]]}))["message"]
    assert words == "rows.0.0 must be text"


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/api/run", {"lines": [0] * 2_001}, "lines"),
        ("/api/score", {"rows": [0] * 2_001}, "rows"),
        ("/v1/completions", {"prompt": [0] * 2_001}, "prompt"),
        ("/translate", {"q": [0] * 2_001}, "q"),
        ("/api/run", {"lines": [], "settings": {str(key): {} for key in range(51)}}, "settings"),
        ("/v1/completions", {"stream_options": {str(key): {} for key in range(51)}}, "stream_options"),
        ("/api/run", {str(key): 0 for key in range(51)}, ""),
    ],
)
def test_what_is_too_much_is_refused_before_its_items_are_looked_at(path: str, body: Any, where: str) -> None:
    with pytest.raises(Refused, match=r"too many|51 fields") as caught:
        wire.checked(next(one.takes for one in ENDPOINTS if one.path == path and one.takes), body, 2_000)
    assert caught.value.where == where
    assert posted_to(path, body).status_code == 422


def test_a_list_among_the_settings_is_short() -> None:
    words = error_of(posted_to("/api/run", {"lines": [], "settings": {"banned": [1] * 100_001}}))["message"]
    assert words == "settings.banned may have at most 100,000 items"


def test_a_request_that_waits_does_not_hold_its_body(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what was checked is kept: neither the bytes nor the parsed value."""
    kept: list[Any] = []
    counts: list[int] = []

    class Curious(FakeRoom):
        async def answer(self, *arguments: Any, **named: Any) -> Any:
            counts.extend(sys.getrefcount(one) for one in kept)
            return await super().answer(*arguments, **named)

    def read(body: bytes) -> Any:
        value = wire.read_json(body)
        kept.extend((body, value))
        return value

    parts = [b'{"lines": ["ab"', b"]}"]

    async def receive() -> Message:
        if not parts:
            await asyncio.Event().wait()
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    monkeypatch.setattr(endpoints, "read_json", read)
    app = make_app(Curious(), ServeSettings())
    start, _ = asyncio.run(answered(app, {"headers": posted(chunked=True)}, receive))
    assert start["status"] == 200
    assert counts == [3, 3]  # our list, the loop's variable and the argument of getrefcount


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"lines": ["a",\n "b" 3]}', "line 2 column 6"),
        (b"", "line 1 column 0"),
        (b'{"lines": ["\xff"]}', "line 1 column 13"),
        (b'{"lines": ["\\ud800"]}', "line 1 column"),
        (b'{"lines": [NaN]}', "line 1 column 12"),
        (b'{"lines": [Infinity]}', "line 1 column"),
        (b"[" * 100_000, "recursion limit"),
        (b'{"lines":' * 50_000, "recursion limit"),
        (b'{"n_best": 1' + b"0" * 5_000 + b"}", "number out of range"),
        (b"\xef\xbb\xbf{}", "line 1 column 1"),
        (b"{}{}", "trailing characters"),
        ('{"lines": []}'.encode("utf-16"), "line 1 column 1"),
    ],
)
def test_what_is_not_json_is_400_with_the_place(body: bytes, words: str) -> None:
    reply = posted_to("/api/run", body)
    assert (reply.status_code, error_of(reply)["code"]) == (400, "bad_body")
    assert words in error_of(reply)["message"]


@pytest.mark.parametrize("value", [b"1e999", b"-1e999", b"1" + b"0" * 400])
def test_numbers_without_bounds_are_refused_or_passed_on_whole(value: bytes) -> None:
    """1e999 is read as infinity, which no setting may be; a long integer is a number for the recipe to refuse."""
    room = FakeRoom()
    reply = posted_to("/api/run", b'{"lines": ["a"], "settings": {"top_p": ' + value + b"}}", room)
    if b"e" in value:
        assert (reply.status_code, error_of(reply)["where"]) == (422, "settings.top_p")
    else:
        assert room.calls[0][1]["settings"] == {"top_p": 10**400}


def test_too_many_or_too_long_lines_are_told_before_any_work() -> None:
    limits = ServeSettings(lines_per_request=5, characters_per_line=10)

    def sent(path: str, body: Any, room: FakeRoom) -> httpx.Response:
        return posted_to(path, body, room, lines_per_request=5, characters_per_line=10)

    for path, body, where in (
        ("/api/run", {"lines": ["a"] * 6}, "lines"),
        ("/api/run", {"lines": ["a", "b" * 11]}, "lines.1"),
        ("/api/run", {"lines": ["b" * 11], "stream": True}, "lines.0"),
        ("/api/score", {"rows": [["a", "b"]] * 6}, "rows"),
        ("/api/score", {"rows": [["a", "b" * 11]]}, "rows.0.1"),
        ("/api/score", {"rows": [["a"]]}, "rows.0"),
        ("/api/look", {"line": "b" * 11}, "line"),
        ("/api/look", {"line": "a", "target": "b" * 11}, "target"),
        ("/translate", {"q": ["a"] * 6, "target": "shout"}, None),
        ("/v1/completions", {"model": "writer", "prompt": ["a"] * 6}, None),
        ("/v1/completions", {"model": "writer", "prompt": "b" * 11}, None),
    ):
        room = FakeRoom(limits)
        reply = sent(path, body, room)
        assert reply.status_code == 422, path
        assert room.calls == []
        if where is not None:
            assert error_of(reply)["where"] == where
    fine = sent("/api/run", {"lines": ["a" * 10] * 5}, FakeRoom(limits))
    assert fine.status_code == 200


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        (Busy("20,000 lines wait", 1.2), 503, "busy"),
        (TooLate("not ready"), 504, "too_late"),
        (WorkerLost("the worker ended"), 503, "worker_lost"),
        (Refused("settings.top_p", "settings.top_p: no"), 422, "refused"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_faults_have_their_status(fault: Fault, status: int, code: str, stream: bool) -> None:
    """Also before a stream begins: its status is not sent before its first piece is there."""
    room = FakeRoom()
    room.fault = fault
    reply = posted_to("/api/run", {"lines": ["a"], "stream": stream}, room)
    assert (reply.status_code, error_of(reply)["code"]) == (status, code)
    assert reply.headers.get("retry-after") == ("2" if code == "busy" else None)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/run", {"lines": ["a"], "model": "nobody"}),
        ("/api/run", {"lines": ["a"], "model": "nobody", "stream": True}),
        ("/api/score", {"rows": [], "model": "nobody"}),
        ("/api/look", {"line": "a", "model": "nobody"}),
    ],
)
def test_an_unknown_model_is_404(path: str, body: Any) -> None:
    assert error_of(posted_to(path, body))["code"] == "unknown_model"
    assert posted_to(path, body).status_code == 404


def test_a_stream_is_a_line_of_events() -> None:
    events = events_of(posted_to("/api/run", {"lines": ["ab"], "stream": True}))
    assert events[:2] == [{"text": "A"}, {"text": "B"}]
    assert events[2]["done"]["answers"][0]["text"] == "AB"
    assert len(events) == 3


def test_a_fault_in_a_stream_is_its_last_event() -> None:
    class Breaking(FakeRoom):
        async def stream(self, *arguments: Any, **named: Any) -> Any:
            yield {"text": "A"}
            raise WorkerLost("the worker ended")

    events = events_of(posted_to("/api/run", {"lines": ["ab"], "stream": True}, Breaking()))
    assert events == [{"text": "A"}, {"error": {"message": "the worker ended", "code": "worker_lost"}}]


def test_rows_are_scored() -> None:
    reply = posted_to("/api/score", {"rows": [["ab", "c"], ["", ""]]}).json()
    assert reply["model"] == "shout"
    assert [set(row) for row in reply["scores"]] == [
        {"log_probability", "tokens", "token_log_probabilities", "warnings"}
    ] * 2


def test_a_look_passes_everything_on() -> None:
    room = FakeRoom()
    body = {"line": "ab", "target": "c", "at": 1, "against": "d", "without": ["cross.0.1"], "n_best": 2}
    assert posted_to("/api/look", body, room).json()["text"] == "ab"
    (_, call) = room.calls[0]
    assert {key: call[key] for key in body} == body
    assert call["heads"] is False
    assert call["show"] is None


def test_a_look_has_what_python_can_show() -> None:
    assert get_args(wire.Shown) == KINDS
    room = FakeRoom()
    posted_to("/api/look", {"line": "ab", "show": ["inputs"]}, room)
    assert room.calls[0][1]["show"] == ["inputs"]
    error = error_of(posted_to("/api/look", {"line": "ab", "show": ["inputs", "magic"]}))
    assert error["where"] == "show.1"
    assert "show.1 must be 'attention'" in error["message"]


def test_models_and_what_is_known_of_one() -> None:
    models = got("/api/models").json()["models"]
    assert [model["name"] for model in models] == ["shout", "de-en", "writer"]
    assert set(models[0]) >= {"family", "fingerprint", "parameters", "reads", "streams", "ready", "columns"}
    assert got("/api/models/writer").json()["name"] == "writer"
    assert got("/api/models/nobody").status_code == 404


def test_what_is_known_of_a_model_has_a_deadline() -> None:
    class Slow(FakeRoom):
        async def about(self, model: str | None) -> Any:
            await asyncio.Event().wait()

    assert got("/api/models/writer", Slow(), deadline_seconds=0.01).status_code == 504


def test_health() -> None:
    assert got("/v2/health/live").json() == {"live": True}
    assert got("/v2/health/ready").json() == {"ready": True}
    assert got("/v2/models/shout/ready").json() == {"name": "shout", "ready": True}
    assert got("/v2/models/nobody/ready").status_code == 404


def test_a_room_that_is_not_ready_is_503() -> None:
    from dataclasses import replace

    from tests.serving.fake import facts

    class Loading(FakeRoom):
        def state(self) -> Any:
            return replace(super().state(), ready=False)

    room = Loading(models=[facts("slow", ready=False)])
    assert got("/v2/health/ready", room).status_code == 503
    assert got("/v2/models/slow/ready", room).status_code == 503
    assert got("/v2/health/live", room).status_code == 200


@pytest.mark.parametrize(("path", "status"), [("/nowhere", 404), ("/api/run/", 404), ("//api/run", 404), ("/api", 404)])
def test_what_is_not_there_is_404(path: str, status: int) -> None:
    reply = got(path)
    assert (reply.status_code, error_of(reply)["code"]) == (status, "not_found")


def test_a_wrong_method_is_405() -> None:
    reply = got("/api/run")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd",
        "../app.py",
        "%2e%2e/%2e%2e/pyproject.toml",
        "....//x",
        "..\\x",
        "%00",
        "a%0d%0ab",
        "/etc/passwd",
        ".",
    ],
)
@pytest.mark.parametrize("folder", ["/", "/assets/", "/api/models/", "/pages/"])
def test_tricks_with_paths_reach_no_file(name: str, folder: str) -> None:
    """The page is one document in memory; no route reads a file that a path names."""
    reply = got(f"{folder}{name}")
    if reply.status_code == 200:  # the client has made it a path of ours, as /.
        assert reply.text.startswith(("<!doctype html>", '{"models"'))
    else:
        assert reply.status_code == 404
        assert set(error_of(reply)) == {"message", "code"}


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_work(stream: bool) -> None:
    """Also while nothing has been sent yet."""

    async def scene() -> tuple[int, list[Message]]:
        room = FakeRoom()
        room.hold = asyncio.Event()
        body = json.dumps({"lines": ["ab"], "stream": stream}).encode()
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> Message:
            if messages:
                return messages.pop(0)
            await room.entered.wait()
            return {"type": "http.disconnect"}

        found = await answered(make_app(room, ServeSettings()), {"headers": posted(), "client": None}, receive)
        await asyncio.wait_for(room.left.wait(), 30)
        return room.waiting + 1 - room.cancelled, found

    assert asyncio.run(scene()) == (0, [])


def test_a_client_that_leaves_within_a_stream_ends_it() -> None:
    """It leaves while something is being sent to it, so that the stream must be closed for it."""

    class Endless(FakeRoom):
        kept: Any = None  # a stream that nobody keeps would be closed without us

        def stream(self, *arguments: Any, **named: Any) -> Any:
            self.kept = self._pieces()
            return self.kept

        async def _pieces(self) -> Any:
            try:
                while True:
                    yield {"text": "A"}
            finally:
                self.left.set()

    async def scene() -> int:
        room = Endless()
        body = json.dumps({"lines": ["ab"], "stream": True}).encode()
        messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]
        sent = 0
        enough = asyncio.Event()

        async def receive() -> Message:
            if messages:
                return messages.pop(0)
            await enough.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            nonlocal sent
            sent += 1
            if sent == 20:
                enough.set()
                await asyncio.Event().wait()

        scope = {"type": "http", "method": "POST", "path": "/api/run", "query_string": b"", "headers": posted()}
        async with asyncio.timeout(30):
            await make_app(room, ServeSettings())(scope, receive, send)
            await room.left.wait()
        return sent

    assert asyncio.run(scene()) == 20


def test_a_bug_is_500_without_a_word_of_the_request(capsys: pytest.CaptureFixture[str]) -> None:
    class Broken(FakeRoom):
        async def answer(self, *arguments: Any, **named: Any) -> Any:
            raise ValueError("secret line")

    reply = posted_to("/api/run", {"lines": ["secret line"]}, Broken())
    assert (reply.status_code, error_of(reply)["code"]) == (500, "bug")
    log = capsys.readouterr().err
    assert "this is a bug in clearhead: ValueError at test_api.py:" in log
    assert "secret" not in log + reply.text
    assert "Traceback" not in log


@pytest.mark.parametrize("path", ["/api/models%0A", "/api/models%0a%0a", "/api/models/", "/%0A"])
def test_a_path_is_a_route_only_as_a_whole(path: str) -> None:
    assert got(path).status_code == 404
