"""Messages survive any cut of the bytes; what is none ends the connection, not the process."""

import random
import struct
from typing import Any

import pytest

from clearhead.serving.messages import LARGEST, BrokenMessage, Frames, framed
from clearhead.serving.workers import WorkerProcess

MESSAGES: list[dict[str, Any]] = [
    {"do": "answer", "lines": ["é", "𝄞", "\n", ""]},
    {},
    {"a": [1.5, None, True]},
    {"x": "y" * 5000},
]


def test_messages_arrive_however_the_bytes_are_cut() -> None:
    data = b"".join(framed(message) for message in MESSAGES)
    for seed in range(50):
        rng, frames, rest = random.Random(seed), Frames(), data
        found: list[dict[str, Any]] = []
        while rest:
            size = rng.choice((1, 2, 3, 100, 10_000))
            found += frames.feed(rest[:size])
            rest = rest[size:]
        assert found == MESSAGES


def test_numbers_are_the_same_afterwards() -> None:
    (found,) = Frames().feed(framed({"x": [0.1 + 0.2, 1e-300, -2.0060493329462985]}))
    assert found["x"] == [0.1 + 0.2, 1e-300, -2.0060493329462985]
    with pytest.raises(ValueError, match="JSON"):
        framed({"x": float("nan")})


@pytest.mark.parametrize(
    "data", [struct.pack("!I", LARGEST + 1), struct.pack("!I", 3) + b"abc", struct.pack("!I", 2) + b"[]"]
)
def test_nonsense_is_refused_before_memory_is_taken_for_it(data: bytes) -> None:
    with pytest.raises(BrokenMessage):
        list(Frames().feed(data))


def test_a_worker_that_talks_nonsense_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = []
    worker = WorkerProcess(lambda *_: None)
    monkeypatch.setattr(worker, "kill", lambda: killed.append(True))
    monkeypatch.setattr(WorkerProcess, "pid", 7)
    worker.data_received(b"\xff\xff\xff\xff")
    assert killed
