"""What a room does when something goes wrong: workers die, files change, clients leave, too much is asked.

A worker is stopped with SIGSTOP where a test needs it to be slow, so that nothing depends on time.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import ClearheadError
from clearhead.predictor import load
from clearhead.serving.faults import Busy, TooLate, WorkerLost
from clearhead.serving.room import Room
from clearhead.serving.settings import ServeSettings
from clearhead.serving.workers import WorkerProcess

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
        for worker in room._crew.workers:
            os.kill(worker.pid, signal.SIGCONT)
        await room.stop(5)


def pids(room: Room) -> list[int]:
    return [worker.pid for worker in room._crew.workers]


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


def test_the_work_of_a_killed_worker_is_done_by_another(models: dict[str, Path], wanted: list[str]) -> None:
    """Both workers have batches; one is killed. All requests are answered, each line once (``Job`` asserts that)."""

    async def check() -> None:
        async with opened(models["pairs"]) as room:
            send(room, signal.SIGSTOP)
            asked = [asyncio.create_task(texts(room.answer("m", LINES, details=False))) for _ in range(4)]
            stream = asyncio.create_task(anext(room.stream("m", "abc", settings={"beam_size": 1})))
            await until(lambda: all(worker.batches for worker in room._crew.workers))
            before = pids(room)
            os.kill(before[0], signal.SIGKILL)
            os.kill(before[1], signal.SIGCONT)
            assert await asyncio.gather(*asked) == [wanted] * 4
            assert "text" in await stream
            await until(lambda: room.state().workers_alive == 2)
            assert room.state().workers_restarted == 1
            assert room.state().working_lines == room.state().waiting_lines == 0
            assert gone(before[0])
            assert await texts(room.answer("m", LINES)) == wanted

    asyncio.run(check())


def test_a_request_that_costs_two_workers_is_given_up(models: dict[str, Path], wanted: list[str]) -> None:
    """The batch of one request is with a worker that dies, twice; a request beside it is answered."""

    async def check() -> None:
        async with opened(models["pairs"], workers=1) as room:
            send(room, signal.SIGSTOP)
            asked = [asyncio.create_task(room.answer("m", ["abc"])) for _ in range(2)]
            await until(lambda: any(len(batch.parts) == 2 for w in room._crew.workers for batch in w.batches.values()))
            first = room._crew.workers[0].pid
            os.kill(first, signal.SIGKILL)
            await until(lambda: bool(room._crew.workers) and pids(room) != [first])
            send(room, signal.SIGSTOP)  # it has the first of the two, alone
            os.kill(pids(room)[0], signal.SIGKILL)
            found = await asyncio.gather(*asked, return_exceptions=True)
            lost = [one for one in found if isinstance(one, WorkerLost)]
            assert len(lost) <= 1  # it may have answered before it was stopped
            assert [one[0].text for one in found if isinstance(one, list)] == [wanted[0]] * (2 - len(lost))

    asyncio.run(check())


def test_a_stream_goes_on_with_another_worker(models: dict[str, Path]) -> None:
    """The pieces join to the same answer, as nothing in it is left to chance."""
    settings = {"sample": True, "seed": 5, "min_length": 60, "max_length": 60}

    async def check() -> None:
        async with opened(models["lm"]) as room:
            (whole,) = await room.answer("m", ["a b"], settings=settings)
            stream, pieces = room.stream("m", "a b", settings=settings), []
            async for item in stream:
                pieces.append(item.get("text", ""))
                if len(pieces) == 5:
                    (writer,) = [worker for worker in room._crew.workers if worker.streams]
                    os.kill(writer.pid, signal.SIGKILL)
            assert "".join(pieces) == whole.text

    asyncio.run(check())


def test_deadlines_and_clients_that_leave(models: dict[str, Path]) -> None:
    async def check() -> None:
        async with opened(models["pairs"], workers=1) as room:
            send(room, signal.SIGSTOP)
            working = asyncio.create_task(room.answer("m", ["abc"]))
            await until(lambda: room.state().working_lines == 1)
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
            assert room.state().working_lines == 0
            assert {"late": 2, "left": 2}.items() <= room.state().requests.items()

    asyncio.run(check())


def test_more_than_the_queue_holds_is_turned_away_and_the_rest_answered(
    models: dict[str, Path], wanted: list[str]
) -> None:
    async def check() -> None:
        async with opened(models["pairs"], waiting_lines=1000, open_streams=2) as room:
            send(room, signal.SIGSTOP)
            asked = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(40)]
            await asyncio.sleep(0)
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

    asyncio.run(check())


def test_a_small_request_is_not_kept_waiting_by_large_ones(models: dict[str, Path]) -> None:
    async def check() -> None:
        async with opened(models["pairs"], workers=1) as room:
            ended: list[str] = []

            async def ask(name: str, lines: list[str]) -> None:
                await room.answer("m", lines)
                ended.append(name)

            async with asyncio.TaskGroup() as group:
                for number in range(3):
                    group.create_task(ask(f"large {number}", LINES * 4))
                await until(lambda: room.state().working_lines > 0)
                group.create_task(ask("small", ["abc"]))
            assert ended[0] == "small"

    asyncio.run(check())


def test_looks_have_a_lane_of_their_own(models: dict[str, Path]) -> None:
    async def check() -> None:
        async with opened(models["pairs"], workers=1, waiting_looks=1) as room:
            assert room._looks._worker is None  # nothing is started before it is needed
            await room.look("m", "abc")
            lane = room._looks._worker
            assert lane is not None
            os.kill(lane.pid, signal.SIGSTOP)
            looks = [asyncio.create_task(room.look("m", "abc")) for _ in range(2)]
            await until(lambda: room.state().waiting_looks == 2)
            with pytest.raises(Busy):
                await room.look("m", "abc")
            assert (await room.answer("m", ["abc"]))[0].text  # the others do not wait for it
            os.kill(lane.pid, signal.SIGKILL)
            first, second = await asyncio.gather(*looks)  # made by a new process
            assert first == second
            lane = room._looks._worker
            assert lane is not None
            os.kill(lane.pid, signal.SIGSTOP)
            with pytest.raises(TooLate):
                await room.look("m", "abc", deadline=0.05)
            assert await room.look("m", "abc") == first

    asyncio.run(check())


# ---- newer models ----


@pytest.fixture
def served(models: dict[str, Path], tmp_path: Path) -> Path:
    """A run folder whose model may be changed."""
    shutil.copytree(models["pairs"], tmp_path / "run")
    return tmp_path / "run"


def replace(served: Path, other: Path) -> None:
    """As training does it: written whole, then renamed."""
    shutil.copy(other / "best.safetensors", served / "new")
    (served / "new").rename(served / "best.safetensors")


def test_a_newer_model_is_taken_without_a_dropped_request(
    served: Path, models: dict[str, Path], wanted: list[str]
) -> None:
    """Requests from before the reload are answered by the old model, later ones by the new one, none fails."""
    newer = load(models["recurrent"])
    other = [newer(line) if line else "" for line in LINES[:5]] * 60
    assert other != wanted

    async def check() -> None:
        async with opened(served) as room:
            old = room.facts("m").fingerprint
            send(room, signal.SIGSTOP)
            before = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(5)]
            await until(lambda: room.state().working_lines > 0)
            replace(served, models["recurrent"])
            reload = asyncio.create_task(room.reload())
            await asyncio.sleep(0)
            send(room, signal.SIGCONT)
            during = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(5)]
            assert await reload == {"m": "taken"}
            assert await texts(room.answer("m", LINES)) == other
            assert await asyncio.gather(*before) == [wanted] * 5
            assert all(found in (wanted, other) for found in await asyncio.gather(*during))
            assert room.facts("m").fingerprint != old
            assert room.facts("m").family == "recurrent"
            assert not room._catalogue.leaving  # the old one is let go
            assert all(worker.models == {room._catalogue["m"].current.number} for worker in room._crew.workers)
            assert await room.reload() == {"m": "unchanged"}

    asyncio.run(check())


def test_watching_takes_a_newer_model_by_itself(served: Path, models: dict[str, Path]) -> None:
    async def check() -> None:
        async with opened(served, workers=1, watch=0.02) as room:
            replace(served, models["recurrent"])
            await until(lambda: room.facts("m").family == "recurrent")
            assert room.state().reloads == 1

    asyncio.run(check())


@pytest.mark.parametrize("trouble", ["damaged", "half", "deleted", "foreign"])
def test_a_file_that_cannot_be_used_leaves_the_old_model(
    served: Path, models: dict[str, Path], wanted: list[str], trouble: str
) -> None:
    file = served / "best.safetensors"
    whole = file.read_bytes()

    def change() -> None:
        if trouble == "deleted":
            file.unlink()
        elif trouble == "half":  # in place: a worker that had mapped the file would die of it
            os.truncate(file, len(whole) // 2)
        elif trouble == "damaged":
            file.write_bytes(whole[:-100] + bytes(100))
        else:
            (served / "new").write_text("something else")
            (served / "new").rename(file)

    async def check() -> None:
        async with opened(served) as room:
            change()
            assert (await room.reload())["m"].startswith("kept: ")
            assert "best.safetensors" in room.state().troubles["m"]
            assert room.facts("m").trouble
            assert await texts(room.answer("m", LINES)) == wanted
            os.kill(pids(room)[0], signal.SIGKILL)
            await until(lambda: room.state().workers_restarted == 1)
            assert await texts(room.answer("m", LINES)) == wanted
            if trouble in ("deleted", "foreign"):  # the file that was loaded is still open
                await until(lambda: room.state().workers_alive == 2)
                assert await texts(room.answer("m", LINES)) == wanted
            file.write_bytes(whole)
            assert (await room.reload())["m"] == "unchanged"
            assert room.state().troubles == {}
            await until(lambda: room.state().workers_alive == 2)

    asyncio.run(check())


def test_a_model_that_cannot_be_loaded_is_told_at_the_start(served: Path) -> None:
    os.truncate(served / "best.safetensors", 1000)

    async def check() -> None:
        room = Room({"m": served}, ServeSettings(workers=2))
        with pytest.raises(ClearheadError, match=r"best\.safetensors: is truncated"):
            await room.start()

    asyncio.run(check())
    with pytest.raises(ClearheadError, match="no such model"):
        Room({"m": served / "nothing"}, ServeSettings())


# ---- the end ----


def test_stopping_finishes_what_is_there_and_leaves_nothing_behind(models: dict[str, Path], wanted: list[str]) -> None:
    async def check() -> None:
        async with opened(models["pairs"]) as room:
            await room.look("m", "abc")
            processes = [*pids(room), room._looks._worker.pid]  # type: ignore[union-attr]
            asked = [asyncio.create_task(texts(room.answer("m", LINES))) for _ in range(5)]
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
            assert await asyncio.gather(*asked) == [wanted] * 5
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
        f"    room = Room({{'m': {str(models['pairs'])!r}}}, ServeSettings(workers=2))\n"
        "    await room.start()\n"
        "    print(*(worker.pid for worker in room._crew.workers), flush=True)\n"
        "    await asyncio.Event().wait()\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as front:
        assert front.stdout is not None
        workers = [int(word) for word in front.stdout.readline().split()]
        assert len(workers) == 2
        front.kill()
    for pid in workers:
        asyncio.run(until(lambda pid=pid: gone(pid) or _is_zombie(pid)))  # type: ignore[misc]


def _is_zombie(pid: int) -> bool:
    """Whether it has ended, and only its new parent, which may be slow, has not looked."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


def test_a_worker_that_talks_nonsense_is_replaced(models: dict[str, Path], wanted: list[str]) -> None:
    async def check() -> None:
        async with opened(models["pairs"]) as room:
            worker: WorkerProcess = room._crew.workers[0]
            worker.data_received(b"\xff\xff\xff\xff")
            await until(lambda: room.state().workers_restarted == 1)
            assert await texts(room.answer("m", LINES)) == wanted

    asyncio.run(check())
