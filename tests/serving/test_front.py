"""The front of a room, with workers that are made up: each test says what they answer, and when."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ModelFileError
from clearhead.recipe import read_recipe, recipe_table
from clearhead.serving.faults import Busy, WorkerLost
from clearhead.serving.messages import Message, framed
from clearhead.serving.room import Room
from clearhead.serving.settings import ServeSettings
from clearhead.serving.workers import WorkerProcess

FACTS = {"family": "seq2seq", "streams": True, "fingerprint": "1", "columns": ["source", "target"]}


class MadeUp(WorkerProcess):
    """A worker without a process: what it is sent is kept, and what it says is made up."""

    def __init__(self, heard: Callable[[WorkerProcess, dict[str, Any]], None]) -> None:
        super().__init__(heard)
        self.sent: list[Message] = []
        self.killed = False
        self.refuses = False
        """Whether it finds the file of every model damaged."""
        self.loads = 0

    @property
    def pid(self) -> int:
        return 0

    def send(self, message: Message) -> None:
        self.sent.append(message)

    async def load(self, number: int, path: str, shown: str, *, foreign: bool, **how: Any) -> dict[str, Any]:
        del how
        self.loads += 1
        if self.refuses:
            raise ModelFileError(f"{shown}: is damaged")
        self.models.add(number)
        recipe = recipe_table(read_recipe(None, "data.train=x.tsv"))
        return {"facts": FACTS | {"fingerprint": Path(path).read_text()}, "recipe": recipe}

    def kill(self) -> None:
        self.killed = True

    def say(self, message: Message) -> None:
        self.data_received(framed(message))

    def asked(self, what: str) -> list[Message]:
        """The messages of one kind that it was sent."""
        return [message for message in self.sent if message["do"] == what]


def made_up(folder: Path, *, workers: int = 1, models: int = 1, **settings: Any) -> tuple[Room, list[MadeUp]]:
    """A room of models called m0, m1 …, which all workers have."""
    file = folder / "m.safetensors"
    file.write_bytes(b"")
    room = Room({f"m{number}": file for number in range(models)}, ServeSettings(workers=1, **settings))
    for version in room._catalogue.versions():
        version.facts, version._recipe = FACTS, read_recipe(None, "data.train=x.tsv")
    found = [MadeUp(room._heard) for _ in range(workers)]
    for worker in found:
        worker.models = {version.number for version in room._catalogue.versions()}
    room._workers.workers += found
    return room, found


def answers(message: Message) -> Message:
    """What a worker says to a batch that was asked without details."""
    lines = message["lines"]
    return {"id": message["id"], "answers": [[line] for line in lines], "warnings": [], "written": 1, "ratio": 1.0}


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


async def texts(found: Awaitable[Any]) -> list[str]:
    return [line.text for line in await found]


def test_the_end_of_a_stream_is_not_taken_for_that_of_a_batch(tmp_path: Path) -> None:
    """Whichever of them was asked first, all that a worker has at a time have different numbers."""

    async def check() -> None:
        room, (worker,) = made_up(tmp_path)
        streams = [room.stream("m0", "a", settings={"beam_size": 1}) for _ in range(50)]
        first = [asyncio.ensure_future(anext(stream)) for stream in streams]
        batches = []
        for _ in range(50):
            batches.append(asyncio.create_task(texts(room.answer("m0", ["abc"], details=False))))
            await until(lambda: len(worker.batches) == 1)
            message = worker.asked("answer")[-1]
            assert message["id"] not in room._streams
            worker.say(answers(message))
        for message in worker.asked("stream"):
            worker.say({"id": message["id"], "done": {"text": "", "ids": []}, "rest": "", "warnings": []})
        assert all("done" in item for item in await asyncio.gather(*first))
        assert await asyncio.gather(*batches) == [["abc"]] * 50
        for stream in streams:
            await stream.aclose()
        assert not worker.killed

    asyncio.run(check())


@pytest.mark.parametrize("nonsense", [{}, {"answers": [], "warnings": [], "written": 0, "ratio": 1.0}, {"refused": 1}])
def test_a_worker_that_talks_nonsense_is_ended_and_its_work_done_by_another(tmp_path: Path, nonsense: Message) -> None:
    async def check() -> None:
        room, (worker, other) = made_up(tmp_path, workers=2)
        asked = asyncio.create_task(texts(room.answer("m0", ["abc", "de"], details=False)))
        await until(lambda: bool(worker.batches))
        worker.say({"id": worker.asked("answer")[0]["id"], **nonsense})
        assert worker.killed
        worker.say(answers(worker.asked("answer")[0]))  # nobody listens to it any more
        assert worker.batches
        room._workers.workers.remove(worker)
        room._lost(worker)
        await until(lambda: bool(other.batches))
        other.say(answers(other.asked("answer")[0]))
        assert await asked == ["abc", "de"]
        assert room.state().working_lines == room.state().waiting_lines == 0

    asyncio.run(check())


def test_a_newer_model_is_tried_again_unless_its_file_was_refused(tmp_path: Path) -> None:
    async def check() -> None:
        room, (worker,) = made_up(tmp_path)
        (tmp_path / "m.safetensors").write_text("newer")
        room._workers.workers.clear()
        assert await room.reload() == {"m0": "kept: no worker is there to load it"}
        room._workers.workers.append(worker)
        worker.refuses = True
        for _ in range(2):
            assert (await room.reload())["m0"].endswith("is damaged")
        assert worker.loads == 1  # a file that was refused is not read again and again
        (tmp_path / "m.safetensors").write_text("newest")
        worker.refuses = False
        assert await room.reload() == {"m0": "taken"}
        assert room.state().troubles == {}

    asyncio.run(check())


def test_a_model_that_no_worker_has_is_not_waited_for(tmp_path: Path) -> None:
    """Without any worker a request waits for one; the other model is answered as ever."""

    async def check() -> None:
        room, (worker,) = made_up(tmp_path, models=2, deadline_seconds=5)
        worker.models.discard(room._catalogue["m0"].current.number)
        room._workers.workers.clear()
        asked = [asyncio.create_task(texts(room.answer(f"m{number}", ["abc"], details=False))) for number in (0, 0, 1)]
        stream = room.stream("m0", "abc", settings={"beam_size": 1})
        piece = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert room.state().waiting_lines == 3
        room._workers.workers.append(worker)
        room._wake()
        await until(lambda: bool(worker.batches))
        worker.say(answers(worker.asked("answer")[0]))
        *lost, found = await asyncio.gather(*asked, return_exceptions=True)
        assert found == ["abc"]
        assert all(isinstance(one, WorkerLost) for one in lost)
        with pytest.raises(WorkerLost):
            await piece
        with pytest.raises(WorkerLost):
            await room.answer("m0", ["abc"])
        assert room.state().waiting_lines == 0

    asyncio.run(check())


def test_a_look_whose_client_left_is_left(tmp_path: Path) -> None:
    async def check() -> None:
        room, (worker,) = made_up(tmp_path)
        room._looks._worker = lane = MadeUp(room._looks._heard)
        lane.models = worker.models
        looks = [asyncio.create_task(room.look_as_json("m0", "abc")) for _ in range(2)]
        await until(lambda: len(lane.asked("look")) == 1)
        looks[0].cancel()
        await until(lambda: len(lane.asked("look")) == 2)
        left, made = lane.asked("look")
        assert [message["id"] for message in lane.asked("leave")] == [left["id"]]
        lane.say({"id": left["id"], "document": '"another"'})
        lane.say({"id": made["id"], "document": '"mine"'})
        assert await looks[1] == '"mine"'
        assert len(lane.asked("leave")) == 1

    asyncio.run(check())


def test_long_lines_and_long_settings_fill_the_room_too(tmp_path: Path) -> None:
    """Few lines may be many characters; those that workers have are counted, as they are kept until the end."""

    async def check() -> None:
        room, (worker,) = made_up(tmp_path, waiting_characters=1000, deadline_seconds=5)
        asked = [asyncio.create_task(texts(room.answer("m0", ["a" * 400], details=False))) for _ in range(3)]
        await until(lambda: bool(worker.batches))
        with pytest.raises(Busy, match="characters"):
            await asked[2]
        with pytest.raises(Busy, match="characters"):
            await room.answer("m0", ["a"], settings={"banned": list(range(300))})
        while worker.batches:
            worker.say(answers(worker.asked("answer")[-1]))
            await asyncio.sleep(0)
        assert await asyncio.gather(*asked[:2]) == [["a" * 400]] * 2
        large = asyncio.create_task(texts(room.answer("m0", ["a" * 2000], details=False)))
        await until(lambda: bool(worker.batches))  # an empty room takes any request
        large.cancel()
        await asyncio.wait([large])
        assert room._characters == 0

    asyncio.run(check())


def test_only_short_settings_are_remembered(tmp_path: Path) -> None:
    async def check() -> None:
        room, _ = made_up(tmp_path)
        version = room._catalogue["m0"].current
        for _ in range(2):
            assert room._judged(version, {"beam_size": 3}).beam_size == 3
            assert len(room._judged(version, {"banned": list(range(1000))}).banned) == 1000
        assert list(version._specs) == ['{"beam_size": 3}']

    asyncio.run(check())


@pytest.mark.parametrize("awaited", [False, True])
def test_a_worker_that_begins_what_was_left_before_is_freed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, awaited: bool
) -> None:
    """The client of the second batch leaves while the first one, for which somebody waits or not, is worked on."""
    monkeypatch.setattr("clearhead.serving.room.ABANDONED", 0.05)

    async def check() -> None:
        room, (worker,) = made_up(tmp_path)
        first = asyncio.create_task(texts(room.answer("m0", ["abc"], details=False)))
        await until(lambda: len(worker.batches) == 1)
        second = asyncio.create_task(room.answer("m0", ["abc"] * 256, details=False))
        await until(lambda: len(worker.batches) == 2)
        for task in (second,) if awaited else (first, second):
            task.cancel()
            await asyncio.wait([task])
        if awaited:
            await asyncio.sleep(0.1)  # the time that was agreed on when the client left passes
            assert not worker.killed
        worker.say(answers(worker.asked("answer")[0]))
        await until(lambda: worker.killed)

    asyncio.run(check())


def test_lines_of_a_file_that_is_sent_in_parts_keep_their_numbers(tmp_path: Path) -> None:
    """Also where parts of two files are answered together: what is sampled depends on a line's number."""

    async def check() -> None:
        room, (worker,) = made_up(tmp_path)
        parts = [("ab", 0), ("c", 64), ("d", 0)]
        asked = [
            asyncio.create_task(texts(room.answer("m0", list(lines), first=first, details=False)))
            for lines, first in parts
        ]
        await until(lambda: len(worker.batches) == 1)
        (message,) = worker.asked("answer")
        assert sorted(zip(message["lines"], message["numbers"], strict=True)) == [
            ("a", 0),
            ("b", 1),
            ("c", 64),
            ("d", 0),
        ]
        worker.say(answers(message))
        assert await asyncio.gather(*asked) == [["a", "b"], ["c"], ["d"]]

    asyncio.run(check())
