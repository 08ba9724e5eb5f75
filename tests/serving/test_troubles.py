"""What a room does when something goes wrong: workers die, files change, clients leave, too much is asked.

A worker is stopped with SIGSTOP where a test needs it to be slow, so that nothing depends on time.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ClearheadError
from clearhead.predictor import load
from clearhead.serving.faults import Busy, TooLate, WorkerLost
from clearhead.serving.room import Room
from clearhead.serving.settings import ServeSettings

LINES = ["abc", "gfe", "", "dab", "ccc"] * 60


@pytest.fixture(scope="module")
def wanted(models: dict[str, Path]) -> list[str]:
    """The right answers to LINES."""
    model = load(models["pairs"])
    return [model(line) if line else "" for line in LINES[:5]] * 60


@asynccontextmanager
async def opened(model: Path, **settings: Any) -> AsyncIterator[Room]:
    room = Room({"m": model}, ServeSettings(**({"workers": 2} | settings)))
    await room.start()
    try:
        yield room
    finally:
        send(room, signal.SIGCONT)
        await room.stop(5)


def kept(runner: asyncio.Runner, model: Path, **settings: Any) -> Iterator[Room]:
    """A room for several tests; none of them leaves a worker stopped."""
    context = opened(model, **settings)
    room = runner.run(context.__aenter__())
    yield room
    runner.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def shared(models: dict[str, Path], runner: asyncio.Runner) -> Iterator[Room]:
    """Two workers, little room to wait."""
    yield from kept(runner, models["pairs"], waiting_lines=1000, open_streams=2, waiting_looks=1)


@pytest.fixture
def room(shared: Room, runner: asyncio.Runner) -> Iterator[Room]:
    """The shared room, with both workers there, going on after the test."""
    runner.run(until(lambda: shared.state().workers_alive == 2))
    yield shared
    send(shared, signal.SIGCONT)


def pids(room: Room) -> list[int]:
    return [worker.pid for worker in room._workers.workers]


def send(room: Room, number: signal.Signals) -> None:
    for pid in pids(room):
        os.kill(pid, number)


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.01)


async def texts(answers: Awaitable[Any]) -> list[str]:
    return [line.text for line in await answers]


def gone(pid: int) -> bool:
    """Whether a process has ended and nobody has to wait for it any more."""
    return not Path(f"/proc/{pid}").exists()


def test_the_work_of_a_killed_worker_is_done_by_another(room: Room, runner: asyncio.Runner, wanted: list[str]) -> None:
    """Both workers have batches; one is killed. All requests are answered, each line once (``Job`` asserts that)."""

    async def check() -> None:
        restarted = room.state().workers_restarted
        send(room, signal.SIGSTOP)
        asked = [asyncio.create_task(texts(room.answer("m", LINES, details=False))) for _ in range(3)]
        stream = room.stream("m", "abc", settings={"beam_size": 1})
        piece = asyncio.create_task(anext(stream))
        await until(lambda: all(worker.batches for worker in room._workers.workers))
        before = pids(room)
        os.kill(before[0], signal.SIGKILL)
        os.kill(before[1], signal.SIGCONT)
        assert await asyncio.gather(*asked) == [wanted] * 3
        assert "text" in await piece
        await stream.aclose()
        await until(lambda: room.state().workers_alive == 2)
        assert room.state().workers_restarted == restarted + 1
        assert room.state().working_lines == room.state().waiting_lines == 0
        assert gone(before[0])
        assert await texts(room.answer("m", LINES)) == wanted

    runner.run(check())


def test_a_request_that_costs_two_workers_is_given_up(room: Room, runner: asyncio.Runner, wanted: list[str]) -> None:
    """Two requests share a batch; its worker dies, and so does the next one, which has one of them: that one fails."""

    async def check() -> None:
        send(room, signal.SIGSTOP)
        asked = [asyncio.create_task(texts(room.answer("m", ["abc"]))) for _ in range(2)]
        await until(lambda: any(worker.batches for worker in room._workers.workers))
        (first,) = [worker for worker in room._workers.workers if worker.batches]
        (other,) = [worker for worker in room._workers.workers if worker is not first]
        assert [len(batch.parts) for batch in first.batches.values()] == [2]
        os.kill(first.pid, signal.SIGKILL)
        await until(lambda: bool(other.batches))
        assert [len(batch.parts) for batch in other.batches.values()] == [1]
        os.kill(other.pid, signal.SIGKILL)
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert isinstance(found[0], WorkerLost)
        assert found[1] == [wanted[0]]

    runner.run(check())


def test_a_stream_goes_on_with_another_worker(room: Room, runner: asyncio.Runner) -> None:
    """The pieces join to the same answer, as nothing in it is left to chance."""
    settings = {"sample": True, "seed": 5, "min_length": 60, "max_length": 60}

    async def check() -> None:
        (whole,) = await room.answer("m", ["abc"], settings=settings)
        stream, pieces = room.stream("m", "abc", settings=settings), []
        async for item in stream:
            pieces.append(item.get("text", ""))
            if len(pieces) == 5:
                (writer,) = [worker for worker in room._workers.workers if worker.streams]
                os.kill(writer.pid, signal.SIGKILL)
        assert "".join(pieces) == whole.text

    runner.run(check())


def test_deadlines_and_clients_that_leave(room: Room, runner: asyncio.Runner, models: dict[str, Path]) -> None:
    async def check() -> None:
        before = Counter(room.state().requests)
        send(room, signal.SIGSTOP)
        working = asyncio.create_task(room.answer("m", ["abc"] * 8))
        await until(lambda: room.state().working_lines == 8)
        leaving = asyncio.create_task(room.answer("m", ["abc"] * 500))
        await until(lambda: room.state().waiting_lines > 0)
        with pytest.raises(TooLate):
            await room.answer("m", ["abc"] * 100, deadline=0.01)
        with pytest.raises(TooLate):
            await anext(room.stream("m", "abc", settings={"beam_size": 1}, deadline=0.01))
        leaving.cancel()
        working.cancel()
        await asyncio.gather(leaving, working, return_exceptions=True)
        assert room.state().waiting_lines == 0  # their places are free
        assert room.state().open_streams == 0
        send(room, signal.SIGCONT)
        assert (await room.answer("m", ["gfe"]))[0].text == load(models["pairs"])("gfe")
        await until(lambda: room.state().working_lines == 0)
        assert Counter(room.state().requests) - before == {"late": 2, "left": 2, "answered": 1}

    runner.run(check())


def test_a_worker_that_works_for_nobody_is_freed(
    room: Room, runner: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("clearhead.serving.room.ABANDONED", 0.05)

    async def check() -> None:
        before = room.state().workers_restarted
        send(room, signal.SIGSTOP)
        with pytest.raises(TooLate):
            await room.answer("m", ["abc"], deadline=0.1)
        (stuck,) = [worker for worker in room._workers.workers if worker.batches]
        await until(lambda: gone(stuck.pid))
        await until(lambda: room.state().workers_restarted == before + 1)

    runner.run(check())


def test_more_than_the_queue_holds_is_turned_away_and_the_rest_answered(
    room: Room, runner: asyncio.Runner, wanted: list[str]
) -> None:
    async def check() -> None:
        send(room, signal.SIGSTOP)
        asked = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(40)]
        await until(lambda: sum(task.done() for task in asked) > 20)
        assert room.state().waiting_lines <= 1000
        send(room, signal.SIGCONT)
        found = await asyncio.gather(*asked, return_exceptions=True)
        busy = [one for one in found if isinstance(one, Busy)]
        assert all(1 <= one.retry_after <= 60 for one in busy)
        assert [one for one in found if not isinstance(one, Busy)] == [wanted] * (40 - len(busy))
        assert 0 < len(busy) < 40
        streams = [room.stream("m", "abc", settings={"beam_size": 1}) for _ in range(3)]
        await anext(streams[0])
        await anext(streams[1])
        with pytest.raises(Busy):
            await anext(streams[2])
        for stream in streams:
            await stream.aclose()

    runner.run(check())


def test_a_small_request_is_not_kept_waiting_by_large_ones(room: Room, runner: asyncio.Runner) -> None:
    async def check() -> None:
        ended: list[str] = []

        async def ask(name: str, lines: list[str]) -> None:
            await room.answer("m", lines)
            ended.append(name)

        send(room, signal.SIGSTOP)
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(ask(f"large {number}", LINES))
            await until(lambda: room.state().waiting_lines > 0)
            group.create_task(ask("small", ["abc"]))
            await asyncio.sleep(0)
            send(room, signal.SIGCONT)
        assert ended[0] == "small"

    runner.run(check())


def test_looks_have_a_lane_of_their_own(room: Room, runner: asyncio.Runner) -> None:
    async def check() -> None:
        assert room._looks._worker is None  # nothing is started before it is needed
        first = await room.look("m", "abc")
        lane = room._looks._worker
        assert lane is not None
        os.kill(lane.pid, signal.SIGSTOP)
        looks = [asyncio.create_task(room.look("m", "abc")) for _ in range(2)]
        await until(lambda: room.state().waiting_looks == 2)
        with pytest.raises(Busy):
            await room.look("m", "abc")
        assert (await room.answer("m", ["abc"]))[0].text  # the others do not wait for it
        looks[1].cancel()
        await asyncio.gather(looks[1], return_exceptions=True)
        with pytest.raises(TooLate):
            await room.look("m", "abc", deadline=0.01)  # while it waits: the look before it is not disturbed
        assert not gone(lane.pid)
        os.kill(lane.pid, signal.SIGKILL)
        assert await looks[0] == first  # by a new process
        lane = room._looks._worker
        assert lane is not None
        os.kill(lane.pid, signal.SIGSTOP)
        with pytest.raises(TooLate):
            await room.look("m", "abc", deadline=0.05)
        await until(lambda: gone(lane.pid))  # a look that takes too long does not keep the others waiting

    runner.run(check())


# ---- newer models ----


@pytest.fixture(scope="module")
def folder(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose model may be changed."""
    folder = tmp_path_factory.mktemp("changing") / "run"
    shutil.copytree(models["pairs"], folder)
    return folder


@pytest.fixture(scope="module")
def serving(folder: Path, runner: asyncio.Runner) -> Iterator[Room]:
    """A room with that model."""
    yield from kept(runner, folder)


@pytest.fixture
def changing(serving: Room, folder: Path, models: dict[str, Path], runner: asyncio.Runner) -> Iterator[Room]:
    """The same; afterwards the first model is there again."""
    runner.run(until(lambda: serving.state().workers_alive == 2))
    yield serving
    replace(folder, models["pairs"])
    runner.run(serving.reload())
    assert serving.facts("m").family == "seq2seq"


def replace(folder: Path, other: Path) -> None:
    """As training does it: written whole, then renamed."""
    shutil.copy(other / "best.safetensors", folder / "new")
    (folder / "new").rename(folder / "best.safetensors")


def test_a_newer_model_is_taken_without_a_dropped_request(
    changing: Room, runner: asyncio.Runner, folder: Path, models: dict[str, Path], wanted: list[str]
) -> None:
    """Requests from before the reload are answered by the old model, later ones by the new one, none fails."""
    room = changing
    newer = load(models["recurrent"])
    other = [newer(line) if line else "" for line in LINES[:5]] * 60
    assert other != wanted

    async def check() -> None:
        old = room.facts("m").fingerprint
        send(room, signal.SIGSTOP)
        before = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(3)]
        await until(lambda: room.state().working_lines > 0)
        replace(folder, models["recurrent"])
        reload = asyncio.create_task(room.reload())
        await asyncio.sleep(0)
        send(room, signal.SIGCONT)
        during = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(3)]
        assert await reload == {"m": "taken"}
        assert await texts(room.answer("m", LINES)) == other
        assert await asyncio.gather(*before) == [wanted] * 3
        assert all(found in (wanted, other) for found in await asyncio.gather(*during))
        assert room.facts("m").fingerprint != old
        assert room.facts("m").family == "recurrent"
        assert not room._catalogue.leaving  # the old one is let go
        assert all(worker.models == {room._catalogue["m"].current.number} for worker in room._workers.workers)
        assert await room.reload() == {"m": "unchanged"}

    runner.run(check())


def test_watching_takes_a_newer_model_by_itself(
    changing: Room, runner: asyncio.Runner, folder: Path, models: dict[str, Path]
) -> None:
    async def check() -> None:
        reloads = changing.state().reloads
        watching = asyncio.create_task(changing._watch(0.02))  # as start() begins it if settings.watch is set
        replace(folder, models["recurrent"])
        await until(lambda: changing.facts("m").family == "recurrent")
        watching.cancel()
        assert changing.state().reloads == reloads + 1

    runner.run(check())


@pytest.mark.parametrize("trouble", ["damaged", "half", "deleted", "foreign"])
def test_a_file_that_cannot_be_used_leaves_the_old_model(
    changing: Room, runner: asyncio.Runner, folder: Path, wanted: list[str], trouble: str
) -> None:
    room, file = changing, folder / "best.safetensors"
    whole = file.read_bytes()

    def change() -> None:
        if trouble == "deleted":
            file.unlink()
        elif trouble == "half":  # in place: a worker that had mapped the file would die of it
            os.truncate(file, len(whole) // 2)
        elif trouble == "damaged":
            file.write_bytes(whole[:-100] + bytes(100))
        else:
            (folder / "new").write_text("something else")
            (folder / "new").rename(file)

    async def check() -> None:
        restarted = room.state().workers_restarted
        change()
        assert (await room.reload())["m"].startswith("kept: ")
        assert "best.safetensors" in room.state().troubles["m"]
        assert room.facts("m").trouble
        assert await texts(room.answer("m", LINES)) == wanted
        if trouble in ("deleted", "half"):  # a worker that starts now: the first finds the open file, the second none
            os.kill(pids(room)[0], signal.SIGKILL)
            await until(lambda: room.state().workers_restarted == restarted + 1)
            if trouble == "deleted":
                await until(lambda: room.state().workers_alive == 2)
            assert await texts(room.answer("m", LINES)) == wanted
        file.write_bytes(whole)
        assert (await room.reload())["m"] == "unchanged"
        assert room.state().troubles == {}
        await until(lambda: room.state().workers_alive == 2)

    runner.run(check())


def test_a_model_that_cannot_be_loaded_is_told_at_the_start(models: dict[str, Path], tmp_path: Path) -> None:
    whole = (models["pairs"] / "best.safetensors").read_bytes()
    (tmp_path / "m.safetensors").write_bytes(whole[:1000])

    async def check() -> None:
        room = Room({"m": tmp_path / "m.safetensors"}, ServeSettings(workers=1))
        with pytest.raises(ClearheadError, match=r"m\.safetensors: is truncated"):
            await room.start()

    asyncio.run(check())
    with pytest.raises(ClearheadError, match="no such model"):
        Room({"m": tmp_path / "nothing"}, ServeSettings())


# ---- the end ----


def test_stopping_finishes_what_is_there_and_leaves_nothing_behind(models: dict[str, Path], wanted: list[str]) -> None:
    async def check() -> None:
        async with opened(models["pairs"]) as room:
            processes = pids(room)
            asked = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(3)]
            stream = room.stream("m", "abcdefg", settings={"beam_size": 1})
            first = await anext(stream)
            stopping = asyncio.create_task(room.stop(60))
            await asyncio.sleep(0)
            with pytest.raises(Busy, match="stopping"):
                await room.answer("m", ["abc"])
            assert not room.state().ready
            rest = [item async for item in stream]
            text = first["text"] + "".join(item.get("text", "") for item in rest)
            assert text == rest[-1]["done"].text
            assert await asyncio.gather(*asked) == [wanted] * 3
            await stopping
            assert all(gone(pid) for pid in processes)
            await room.stop(1)

    asyncio.run(check())


def test_work_that_takes_longer_than_the_grace_is_given_up(models: dict[str, Path]) -> None:
    async def check() -> None:
        async with opened(models["pairs"], workers=1) as room:
            (pid,) = pids(room)
            os.kill(pid, signal.SIGSTOP)
            asked = asyncio.create_task(room.answer("m", ["abc"]))
            await until(lambda: room.state().working_lines == 1)
            await room.stop(0.05)
            with pytest.raises(Busy):
                await asked
            assert gone(pid)

    asyncio.run(check())


def test_workers_end_with_a_front_that_is_killed(models: dict[str, Path]) -> None:
    code = (
        "import asyncio\n"
        "from clearhead.serving.room import Room\n"
        "from clearhead.serving.settings import ServeSettings\n"
        "async def main():\n"
        f"    room = Room({{'m': {str(models['pairs'])!r}}}, ServeSettings(workers=1))\n"
        "    await room.start()\n"
        "    print(*(worker.pid for worker in room._workers.workers), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        workers = [int(word) for word in front.stdout.readline().split()]
        assert len(workers) == 1
        front.kill()
    for pid in workers:
        asyncio.run(until(lambda pid=pid: gone(pid) or _is_zombie(pid)))  # type: ignore[misc]


def _is_zombie(pid: int) -> bool:
    """Whether it has ended, and only its new parent, which may be slow, has not looked."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
