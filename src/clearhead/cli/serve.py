"""``clearhead serve``: models behind a page and an API."""

import os
from pathlib import Path
from typing import Annotated

import typer

import clearhead
from clearhead.cli.words import Device, Engine, Int8, usage

TOKEN = "CLEARHEAD_TOKEN"
TOKEN_BYTES = 4_096
"""A longer file is no token."""


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL",
            help="Run folders, model files or Hugging Face folders; NAME=PATH gives one a name for requests.",
        ),
    ],
    host: Annotated[str, typer.Option(help="The address to listen on; others than this machine need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8000,
    workers: Annotated[
        int | None, typer.Option(min=1, max=256, help="Processes that answer; without it as many as cores, 1 on a GPU.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"A file with the token that clients must send; or set {TOKEN}. Never on the command line, where "
            "others on this machine could read it.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A name by which clients reach this server, such as that of a proxy."),
    ] = None,
    watch: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.1, help="Look for newer models this often; SIGHUP does it once."),
    ] = None,
    max_lines: Annotated[int | None, typer.Option(min=1, help="Most lines in one request.")] = None,
    max_characters: Annotated[int | None, typer.Option(min=1, help="The longest line.")] = None,
    max_waiting: Annotated[
        int | None, typer.Option(min=1, help="Lines that may wait; beyond it clients are told to come back (503).")
    ] = None,
    deadline: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.01, help="How long an answer may take (504).")
    ] = None,
    engine: Engine = "native",
    int8: Int8 = False,
    device: Device = "cpu",
    access_log: Annotated[
        bool, typer.Option("--access-log", help="Log a JSON line for each request on standard error, without texts.")
    ] = False,
) -> None:
    """Serve models to browsers and programs: a page at / and an API.

    It answers only this machine unless --host says otherwise.

    clearhead serve runs/demo              # then open http://127.0.0.1:8000/

    clearhead serve g2p=runs/demo de-en=m.safetensors    # several, by name

    clearhead serve runs/demo --watch 60   # the newest model of a training

    clearhead serve runs/demo --host 0.0.0.0 --token-file token

    J='Content-Type: application/json'

    curl localhost:8000/api/run -H "$J" -d '{"lines": ["lovely"]}'

    Ctrl-C or SIGTERM stop it after the work in flight is finished. SIGHUP takes newer models.

    /api/run, /api/score, /api/look and /api/models are clearhead's own; /translate is for clients of LibreTranslate,
    /v1/completions for those of OpenAI; /v2/health/live, /v2/health/ready and /metrics are for operators.
    /openapi.json describes all of them.
    """
    settings = {
        "workers": workers,
        "token": _token(token_file),
        "watch": watch,
        "lines_per_request": max_lines,
        "characters_per_line": max_characters,
        "waiting_lines": max_waiting,
        "deadline_seconds": deadline,
    }
    clearhead.serve(
        models,
        host=host,
        port=port,
        allowed_hosts=tuple(allow_host or ()),
        access_log=access_log,
        engine=engine,
        int8=int8,
        device=device,
        ready=lambda address: typer.echo(f"{address} (Ctrl-C ends)", err=True),
        **{name: value for name, value in settings.items() if value is not None},
    )


def _token(file: Path | None) -> str | None:
    """The token, without the end of its line."""
    if file is None:
        token = os.environ.get(TOKEN)
        if token == "":  # whoever sets it wants a token to be asked for
            raise usage(TOKEN, "is set, but empty")
        return token
    try:
        with file.open("rb") as opened:
            content = opened.read(TOKEN_BYTES + 1)
        token = content.decode().strip()
    except (OSError, UnicodeDecodeError) as problem:
        raise usage("--token-file", f"{file}: {getattr(problem, 'strerror', None) or 'is not a text file'}") from None
    if not token or len(content) > TOKEN_BYTES:
        raise usage("--token-file", f"{file}: should hold the token and nothing else")
    return token
