"""The fuzzer of the server: a couple of hundred requests, and that it sees what it should see."""

from typing import Any

import pytest
from tools.fuzz_serve import SECONDS, Unsound, fuzz

from tests.serving.fake import FakeRoom

COUNT = 200


def test_no_request_ends_badly() -> None:
    report = fuzz(FakeRoom, count=COUNT, start=3)
    assert report.count == COUNT
    statuses = {status for _, status in report.statuses}
    assert {200, 400, 404, 422} <= statuses
    assert "no 500, no traceback, no hang" in report.lines()[0]


def test_a_bug_is_found() -> None:
    """A room that fails on a line with a certain character, as a tokenizer might."""

    class Fragile(FakeRoom):
        async def answer(self, model: Any, lines: Any, **named: Any) -> Any:
            for line in lines:
                line.encode("ascii")
            return await super().answer(model, lines, **named)

    with pytest.raises(Unsound, match="status 500"):
        fuzz(Fragile, count=10 * COUNT, start=1)  # ends with the first one that it finds


def test_a_hang_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    import asyncio

    import tools.fuzz_serve as tool

    class Hanging(FakeRoom):
        async def answer(self, *arguments: Any, **named: Any) -> Any:
            await asyncio.Event().wait()

    assert SECONDS >= 30
    monkeypatch.setattr(tool, "SECONDS", 0.02)
    with pytest.raises((TimeoutError, BaseExceptionGroup)):
        fuzz(Hanging, count=COUNT, start=1)
