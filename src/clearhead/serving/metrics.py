"""Counts and times for Prometheus, and the access log. Neither has anything that a client wrote, nor who it is."""

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TextIO

from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from clearhead.serving.endpoints import Endpoint, ServedCall

if TYPE_CHECKING:
    from clearhead.serving.room import Room

disable_created_metrics()  # type: ignore[no-untyped-call] # they double the page, and Prometheus does not need them

TYPE = "text/plain; version=0.0.4"
SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
METHODS = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH")
LEFT = 499
"""The status that is counted for a client that left before its answer."""


class Meter:
    """Middleware that counts and times requests, and logs them if asked.

    Args:
        app: what answers.
        room: whose state is told too.
        endpoints: the routes; requests for anything else count as ``other``.
        log: where a JSON line for each request goes; None: nowhere.
    """

    def __init__(
        self, app: ASGIApp, room: "Room", endpoints: Sequence[Endpoint], log: Callable[[], TextIO] | None
    ) -> None:
        self.app, self.log = app, log
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "clearhead_requests", "Requests.", ["route", "method", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "clearhead_request_seconds",
            "Time from the head of a request to the end of its answer.",
            ["route"],
            registry=self.registry,
            buckets=SECONDS,
        )
        self.registry.register(_RoomMetrics(room))
        self._label = route_labels(endpoints)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, sent = time.perf_counter(), LEFT, 0
        scope.setdefault("state", {})["metrics"] = self.registry

        async def counted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, counted)
        finally:
            took = time.perf_counter() - began
            if scope["state"].get("left"):
                status = LEFT
            method = scope["method"] if scope["method"] in METHODS else "other"
            route = self._label(scope["path"])
            self.requests.labels(route, method, str(status)).inc()
            self.seconds.labels(route).observe(took)
            if self.log is not None:
                _write(self.log(), method=method, route=route, status=status, took=took, sent=sent)


def _write(log: TextIO, *, method: str, route: str, status: int, took: float, sent: int) -> None:
    line = {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "method": method,
        "route": route,
        "status": status,
        "seconds": round(took, 6),
        "bytes": sent,
    }
    print(json.dumps(line), file=log, flush=True)


def route_labels(endpoints: Sequence[Endpoint]) -> Callable[[str], str]:
    """A function from paths to routes: what is not ours is ``other``, so that no label is a client's word."""
    whole = {endpoint.path for endpoint in endpoints if "{" not in endpoint.path}
    patterns = [
        (re.compile(re.escape(one.path).replace(r"\{name\}", "[^/]+")), one.path)
        for one in endpoints
        if "{" in one.path
    ]

    def label(path: str) -> str:
        if path in whole:
            return path
        return next((route for pattern, route in patterns if pattern.fullmatch(path)), "other")

    return label


class _RoomMetrics(Collector):
    """The room's state, asked for whenever somebody looks."""

    def __init__(self, room: "Room") -> None:
        self.room = room

    def collect(self) -> Iterator[Metric]:
        state = self.room.state()
        for name, words, value in (
            ("workers", "Processes that should answer.", state.workers),
            ("workers_alive", "Processes that can answer.", state.workers_alive),
            ("waiting_lines", "Lines that wait.", state.waiting_lines),
            ("working_lines", "Lines that are being answered.", state.working_lines),
            ("open_streams", "Answers that are being written token by token.", state.open_streams),
            ("waiting_looks", "Looks that wait.", state.waiting_looks),
            ("ready", "1 if every model can answer.", int(state.ready)),
        ):
            yield GaugeMetricFamily(f"clearhead_{name}", words, value)
        for name, words, value in (
            ("workers_restarted", "Processes that ended and were started again.", state.workers_restarted),
            ("batches", "Batches.", state.batches),
            ("answered_lines", "Lines that were answered.", state.answered_lines),
            ("characters_read", "Characters of questions.", state.characters_read),
            ("tokens_written", "Tokens of answers.", state.tokens_written),
            ("reloads", "Models that were replaced by newer ones.", state.reloads),
        ):
            yield CounterMetricFamily(f"clearhead_{name}", words, value)
        ended = CounterMetricFamily("clearhead_ended", "Requests to the models by how they ended.", labels=["how"])
        for how, count in state.requests.items():
            ended.add_metric([how], count)
        yield ended
        yield _batch_sizes(state.batch_sizes, state.answered_lines)


def _batch_sizes(sizes: dict[int, int], lines: int) -> Metric:
    family = HistogramMetricFamily("clearhead_batch_lines", "Lines of a batch.")
    buckets, total = [], 0
    for size, count in sorted(sizes.items()):
        total += count
        buckets.append((f"{float(size)}", float(total)))
    family.add_metric([], [*buckets, ("+Inf", float(total))], sum_value=lines)
    return family


async def _metrics(call: ServedCall) -> ASGIApp:
    return Response(generate_latest(call.registry), headers={"Content-Type": f"{TYPE}; charset=utf-8"})


def standard_error() -> TextIO:
    """Where the access log goes."""
    return sys.stderr


ENDPOINTS = [Endpoint("GET", "/metrics", "Counts and times, for Prometheus.", _metrics, media=TYPE)]
__all__ = ["ENDPOINTS", "LEFT", "Meter", "route_labels", "standard_error"]
