"""Health checks, as KServe names them: is the process alive, can it answer, is a model ready."""

from starlette.types import ASGIApp

from clearhead.serving.endpoints import Endpoint, ServedCall
from clearhead.serving.replies import json_reply


async def _live(call: ServedCall) -> ASGIApp:
    del call
    return json_reply({"live": True})


async def _ready(call: ServedCall) -> ASGIApp:
    ready = call.room.state().ready
    return json_reply({"ready": ready}, 200 if ready else 503)


async def _model_ready(call: ServedCall) -> ASGIApp:
    facts = call.room.facts(call.params["name"])
    return json_reply({"name": facts.name, "ready": facts.ready}, 200 if facts.ready else 503)


ENDPOINTS = [
    Endpoint("GET", "/v2/health/live", "Whether the server runs.", _live, open=True),
    Endpoint("GET", "/v2/health/ready", "Whether every model can answer; 503 if not.", _ready, open=True),
    Endpoint("GET", "/v2/models/{name}/ready", "Whether this model can answer; 503 if not.", _model_ready),
]
