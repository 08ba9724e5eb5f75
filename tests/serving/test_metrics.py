"""Metrics and access log: what they count, and that nothing of a request is in them."""

import asyncio
import io
import json
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from clearhead.serving.app import ENDPOINTS, make_app
from clearhead.serving.metrics import route_labels
from clearhead.serving.settings import ServeSettings
from tests.serving.client import connected
from tests.serving.fake import FakeRoom
from tests.serving.test_api import got

SECRET = "s3cret"


async def scene(log: io.StringIO, **settings: Any) -> str:
    """Requests with a secret in every place where a client can put something; returns the metrics."""
    app = make_app(FakeRoom(), ServeSettings(**settings), log=lambda: log)
    async with connected(app) as client:
        await client.post("/api/run", json={"lines": [SECRET], "model": "shout"})
        await client.post("/api/run", json={"lines": [1], SECRET: SECRET})
        await client.post("/api/run", json={"lines": ["a"], "stream": True})
        await client.get(f"/{SECRET}?{SECRET}=1", headers={"User-Agent": SECRET, "Referer": SECRET})
        await client.get(f"/api/models/{SECRET}")
        await client.get("/api/models", headers={"Host": f"{SECRET}.example"})
        await client.get("/api/models", headers={"Origin": f"https://{SECRET}.example"})
        await client.get("/api/models", headers={"Authorization": f"Bearer {SECRET}"})
        await client.request(SECRET.upper(), "/api/models")
        return (await client.get("/metrics")).text


def test_requests_are_counted_by_route_and_status() -> None:
    text = asyncio.run(scene(io.StringIO()))
    for row in (
        'clearhead_requests_total{method="POST",route="/api/run",status="200"} 2.0',
        'clearhead_requests_total{method="POST",route="/api/run",status="422"} 1.0',
        'clearhead_requests_total{method="GET",route="other",status="404"} 1.0',
        'clearhead_requests_total{method="GET",route="/api/models/{name}",status="404"} 1.0',
        'clearhead_requests_total{method="GET",route="/api/models",status="403"} 2.0',
        'clearhead_requests_total{method="other",route="/api/models",status="405"} 1.0',
        'clearhead_request_seconds_count{route="/api/run"} 3.0',
        "clearhead_waiting_lines 3.0",
        "clearhead_workers_alive 2.0",
        "clearhead_tokens_written_total 50.0",
        'clearhead_batch_lines_bucket{le="4.0"} 3.0',
        "clearhead_batch_lines_count 3.0",
        'clearhead_ended_total{how="busy"} 1.0',
    ):
        assert row in text.splitlines()
    families = {family.name for family in text_string_to_metric_families(text)}
    assert {"clearhead_requests", "clearhead_request_seconds", "clearhead_batch_lines"} <= families


def test_nothing_of_a_request_is_in_metrics_or_logs(capsys: pytest.CaptureFixture[str]) -> None:
    log = io.StringIO()
    text = asyncio.run(scene(log, access_log=True))
    assert SECRET not in text.lower()
    assert SECRET not in log.getvalue().lower()
    assert "127.0.0.1" not in text + log.getvalue()
    printed = capsys.readouterr()
    assert printed.out + printed.err == ""


def test_the_access_log_is_a_json_line_for_each_request() -> None:
    log = io.StringIO()
    asyncio.run(scene(log, access_log=True))
    rows = [json.loads(line) for line in log.getvalue().splitlines()]
    assert len(rows) == 10
    assert set(rows[0]) == {"time", "method", "route", "status", "seconds", "bytes"}
    assert (rows[0]["method"], rows[0]["route"], rows[0]["status"]) == ("POST", "/api/run", 200)


def test_no_access_log_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    log = io.StringIO()
    asyncio.run(scene(log))
    assert log.getvalue() == ""


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("/", "/"),
        ("/api/models/g2p", "/api/models/{name}"),
        ("/api/models/a/b", "other"),
        ("/v2/models/g2p/ready", "/v2/models/{name}/ready"),
        ("/v2/models/ready", "other"),
        ("/assets/x", "other"),
        ("/nowhere", "other"),
        ("", "other"),
    ],
)
def test_labels_are_routes(path: str, label: str) -> None:
    assert route_labels(ENDPOINTS)(path) == label


def test_the_type_of_the_page() -> None:
    assert got("/metrics").headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
