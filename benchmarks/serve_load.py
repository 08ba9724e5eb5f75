"""``clearhead serve`` under load, on this machine only: throughput, latencies, overload, memory.

    python -m benchmarks.serve_load RUN --lines words.txt [--count 10000] [--rounds 3] [--requests 100000] [--json FILE]

Throughput: the lines over 32 connections, in requests of many lines, against ``clearhead run`` with as many processes,
in turns; every answer is compared with run's. Both count from the first line, models loaded. As other processes may use
this machine, the processor time of both is printed beside the wall clock: its ratio hardly depends on them.
One client: the time of one line over HTTP and in this process, in turns. Overload: ten times what it can answer.
Drift: resident memory before and after ``--requests`` requests of one line.
"""

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

CONNECTIONS = 32
WARM = 64
"""Requests before anything is measured."""
PATIENCE = 900
"""Seconds that an answer may take; only an overloaded machine needs so many."""
_RUN = """
import sys, time, clearhead
from pathlib import Path
model = clearhead.load(sys.argv[1])
model("a")
begun = time.perf_counter()
rows = [row.rows[0] for batch in clearhead.answer_lines(model, sys.argv[2], workers=int(sys.argv[3])) for row in batch]
seconds = time.perf_counter() - begun
Path(sys.argv[4]).write_text("".join(f"{row}\\n" for row in rows))
print(seconds)
"""
"""``clearhead run`` without its start."""


class Client:
    """One connection that is kept open; just enough of HTTP to cost next to nothing."""

    def __init__(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._port, self._reader, self._writer = port, reader, writer

    @classmethod
    async def to(cls, port: int) -> "Client":
        """A connection to a port of this machine."""
        return cls(port, *await asyncio.open_connection("127.0.0.1", port, limit=1 << 24))

    async def ask(self, path: str, content: Any = None) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of the answer."""
        body = b"" if content is None else json.dumps(content).encode()
        method = "GET" if content is None else "POST"
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\nContent-Type: application/json\r\n"
        self._writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        lines = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)
        }
        return int(lines[0].split()[1]), headers, await self._reader.readexactly(int(headers["content-length"]))

    async def answers(self, lines: Sequence[str]) -> list[str]:
        """The answers to lines."""
        status, _, body = await self.ask("/api/run", {"lines": list(lines)})
        if status != 200:
            raise RuntimeError(f"{status}: {body[:300]!r}")
        found: list[str] = json.loads(body)["answers"]
        return found

    def close(self) -> None:
        """End it."""
        self._writer.close()


class Server:
    """A server process and its workers."""

    def __init__(self, process: "asyncio.subprocess.Process", port: int) -> None:
        self.process, self.port = process, port

    def processes(self) -> list[int]:
        """The front and its workers."""
        found = [self.process.pid]
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.process.pid:
                found.append(int(stat.parent.name))
        return found

    def memory(self) -> float:
        """Resident megabytes of all of them that they do not share."""
        total = 0
        for pid in self.processes():
            rows = dict(line.split(":") for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:])
            total += int(rows["Pss"].split()[0])
        return total / 1024

    def cpu(self) -> float:
        """Processor seconds of all of them."""
        total = 0
        for pid in self.processes():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serving(model: str, workers: int, *options: str) -> AsyncIterator[Server]:
    """A server on a free port."""
    command = ["serve", model, "--port", "0", "--workers", str(workers), "--deadline", str(PATIENCE), *options]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "clearhead", *command), stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    said = b""
    while (found := re.search(rb"http://[^/]*:(\d+)/", said)) is None:
        line = await process.stderr.readline()
        if not line:
            raise RuntimeError(said.decode())
        said += line
    try:
        yield Server(process, int(found[1]))
    finally:
        process.send_signal(signal.SIGTERM)
        await process.wait()


async def clients(server: Server, count: int) -> list[Client]:
    """Open connections."""
    return [await Client.to(server.port) for _ in range(count)]


def child_cpu() -> float:
    """Processor seconds of processes that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def run_once(model: str, file: Path, workers: int) -> tuple[list[str], float, float]:
    """What ``clearhead run`` answers, and its seconds and processor seconds, its start left out of both."""
    output = file.with_suffix(".answers")

    def timed(lines: Path) -> tuple[float, float]:
        before = child_cpu()
        command = [sys.executable, "-c", _RUN, model, str(lines), str(workers), str(output)]
        seconds = float(subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout)
        return seconds, child_cpu() - before

    empty = file.with_suffix(".none")
    empty.write_text("a\n")
    _, start = timed(empty)
    seconds, cpu = timed(file)
    return output.read_text().split("\n")[:-1], seconds, cpu - start


async def throughput(server: Server, model: str, file: Path, workers: int, rounds: int) -> dict[str, Any]:
    """Lines over many connections, against ``run``, in turns."""
    lines = file.read_text().split("\n")[:-1]
    found: dict[str, list[float]] = {"serve": [], "run": [], "serve_cpu": [], "run_cpu": [], "health": []}
    wrong = 0
    for _ in range(rounds):
        connections, prober = await clients(server, CONNECTIONS), await Client.to(server.port)
        parts = [lines[start::CONNECTIONS] for start in range(CONNECTIONS)]
        ended = asyncio.Event()
        probing = asyncio.create_task(probe(prober, ended))
        cpu, begun = server.cpu(), time.perf_counter()
        answers = await asyncio.gather(*(c.answers(part) for c, part in zip(connections, parts, strict=True)))
        found["serve"].append(time.perf_counter() - begun)
        found["serve_cpu"].append(server.cpu() - cpu)
        ended.set()
        found["health"] += await probing
        for connection in (*connections, prober):  # a server closes those that are idle for long
            connection.close()
        wanted, seconds, cpu = await asyncio.to_thread(run_once, model, file, workers)
        found["run"].append(seconds)
        found["run_cpu"].append(cpu)
        got = [""] * len(lines)
        for start, part in enumerate(answers):
            got[start::CONNECTIONS] = [" ".join(text.splitlines()) for text in part]
        wrong += sum(mine != theirs for mine, theirs in zip(got, wanted, strict=True))
    wall = statistics.median(run / serve for run, serve in zip(found["run"], found["serve"], strict=True))
    cpu = statistics.median(run / serve for run, serve in zip(found["run_cpu"], found["serve_cpu"], strict=True))
    return {
        "lines": len(lines),
        "different": wrong,
        "serve_lines_per_second": len(lines) / statistics.median(found["serve"]),
        "run_lines_per_second": len(lines) / statistics.median(found["run"]),
        "ratio": wall,
        "serve_cpu_seconds": statistics.median(found["serve_cpu"]),
        "run_cpu_seconds": statistics.median(found["run_cpu"]),
        "ratio_of_cpu": cpu,
        "health_milliseconds_p50": 1000 * statistics.median(found["health"]),
        "health_milliseconds_p99": 1000 * quantile(found["health"], 0.99),
    }


async def probe(client: Client, ended: asyncio.Event) -> list[float]:
    """The times of health checks until the load ends."""
    found = []
    while not ended.is_set():
        begun = time.perf_counter()
        await client.ask("/v2/health/live")
        found.append(time.perf_counter() - begun)
        await asyncio.sleep(0.01)
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which a share of all lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


async def one_client(server: Server, model: str, lines: Sequence[str]) -> dict[str, Any]:
    """One line at a time, over HTTP and in this process, in turns."""
    from clearhead.predictor import answers_to_lines, load, one_thread

    one_thread()
    predictor = load(model)
    client = await Client.to(server.port)
    http, here = [], []
    for number, line in enumerate(lines):
        begun = time.perf_counter()
        (answer,) = await client.answers([line])
        half = time.perf_counter()
        ((best, *_),) = answers_to_lines(predictor, predictor.recipe.decoding, [line], numbers=[0])
        end = time.perf_counter()
        if best.text != answer:
            raise RuntimeError(f"{line}: {answer} over HTTP, {best.text} here")
        if number >= len(lines) // 10:  # the first ones warm both up
            http.append(half - begun)
            here.append(end - half)
    client.close()
    return {
        "requests": len(http),
        "http_milliseconds_p50": 1000 * statistics.median(http),
        "in_process_milliseconds_p50": 1000 * statistics.median(here),
        "more_milliseconds_p50": 1000 * (statistics.median(http) - statistics.median(here)),
        "more_milliseconds_best": 1000 * (min(http) - min(here)),
    }


async def overload(model: str, lines: Sequence[str], wanted: Sequence[str], workers: int) -> dict[str, Any]:
    """Ten times as many lines a second as it answers: who is turned away is told soon, the others are answered."""
    waiting, size = 1000, 50
    async with serving(model, workers, "--max-waiting", str(waiting)) as server, asyncio.timeout(PATIENCE):
        warm = await Client.to(server.port)
        for _ in range(WARM):
            await warm.answers(lines[:8])
        idle, begun = server.memory(), time.perf_counter()
        await asyncio.gather(*(client.answers(lines[:size]) for client in [warm, *await clients(server, 7)]))
        pause = (time.perf_counter() - begun) / 8 / 10  # between two requests
        connections = await clients(server, 20 * waiting // size)
        peak = [idle]

        async def ask(number: int, client: Client) -> tuple[float, int, bool, bool]:
            await asyncio.sleep(number * pause)
            start = number * size % (len(lines) - size)
            begun = time.perf_counter()
            status, headers, body = await client.ask("/api/run", {"lines": lines[start : start + size]})
            seconds = time.perf_counter() - begun
            right = status != 200 or json.loads(body)["answers"] == list(wanted[start : start + size])
            return seconds, status, "retry-after" in headers, right

        async def watch() -> None:
            while True:
                await asyncio.sleep(0.2)
                peak.append(server.memory())

        watching = asyncio.create_task(watch())
        found = await asyncio.gather(*(ask(number, client) for number, client in enumerate(connections)))
        watching.cancel()
        for client in (warm, *connections):
            client.close()
    busy = [row for row in found if row[1] == 503]
    return {
        "requests": len(found),
        "requests_per_second": 1 / pause,
        "answered": sum(row[1] == 200 for row in found),
        "turned_away": len(busy),
        "others": sum(row[1] not in (200, 503) for row in found),
        "wrong": sum(not row[3] for row in found),
        "without_retry_after": sum(not row[2] for row in busy),
        "turned_away_milliseconds_p50": 1000 * statistics.median([row[0] for row in busy] or [0.0]),
        "turned_away_milliseconds_p99": 1000 * quantile([row[0] for row in busy] or [0.0], 0.99),
        "megabytes_idle": idle,
        "megabytes_more": max(peak) - idle,
    }


async def drift(server: Server, lines: Sequence[str], requests: int) -> dict[str, Any]:
    """Resident memory before and after many requests; the first tenth is not counted, as caches fill."""

    async def ask(client: Client, numbers: Iterator[int]) -> None:
        for number in numbers:  # of all clients: none waits for the others at the end
            await client.answers([lines[number % len(lines)]])
        client.close()  # a server closes those that are idle for long

    async def all_of(count: int) -> None:
        numbers = iter(range(count))
        await asyncio.gather(*(ask(client, numbers) for client in await clients(server, CONNECTIONS)))

    await all_of(max(CONNECTIONS, requests // 10))
    before, begun = server.memory(), time.perf_counter()
    await all_of(requests)
    seconds, after = time.perf_counter() - begun, server.memory()
    return {
        "requests": requests,
        "requests_per_second": requests / seconds,
        "megabytes_before": before,
        "megabytes_after": after,
        "drift_percent": 100 * (after - before) / before,
    }


def table(found: dict[str, dict[str, Any]]) -> str:
    """What was measured, for people."""
    rows = []
    for part, values in found.items():
        rows.append(part)
        rows += [
            f"  {name.replace('_', ' '):<34} {f'{value:,.2f}' if isinstance(value, float) else f'{value:,}':>12}"
            for name, value in values.items()
        ]
    return "\n".join(rows)


async def measured(asked: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """Everything that was asked for."""
    lines = [line for line in asked.lines.read_text(encoding="utf-8").splitlines() if line][: asked.count]
    file = asked.scratch / "serve-load.txt"
    file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    found: dict[str, dict[str, Any]] = {}
    async with serving(asked.model, asked.workers) as server:
        warm = await Client.to(server.port)
        for number in range(WARM):
            await warm.answers(lines[number : number + 8])
        warm.close()
        if "one" in asked.parts:
            found["one client"] = await one_client(server, asked.model, lines[: asked.singles])
        if "throughput" in asked.parts:
            found["throughput"] = await throughput(server, asked.model, file, asked.workers, asked.rounds)
        if "drift" in asked.parts:
            found["drift"] = await drift(server, lines, asked.requests)
    if "overload" in asked.parts:
        wanted, _, _ = await asyncio.to_thread(run_once, asked.model, file, asked.workers)
        found["overload"] = await overload(asked.model, lines, wanted, asked.workers)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("--lines", type=Path, required=True)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=300)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--parts", nargs="+", default=["one", "throughput", "overload", "drift"])
    parser.add_argument("--scratch", type=Path, default=Path("/tmp"))
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    found = asyncio.run(measured(asked))
    print(table(found))
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
