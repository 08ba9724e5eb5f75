"""The server: listens, serves until it is told to stop, finishes what is in flight, and ends."""

import asyncio
import math
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from clearhead.constants import DEVICE_NAMES
from clearhead.errors import ClearheadError, Interrupted, MissingExtra, Problem, RecipeError, did_you_mean
from clearhead.serving.room import Room, names_of
from clearhead.serving.settings import LOOPBACK, ServeSettings

STOPPING_SECONDS = 1.0
"""How long workers may take to end after the last answer."""
TOKEN_CHARACTERS = 16
"""A token shorter than this can be guessed."""


def serve(
    models: str | Path | Sequence[str | Path] | Mapping[str, str | Path],
    *,
    ready: Callable[[str], None] | None = None,
    **settings: Any,
) -> None:
    """Serve models to browsers and programs until SIGINT or SIGTERM: a page at ``/`` and an API.

    clearhead.serve("runs/demo")
    clearhead.serve({"g2p": "runs/demo", "de-en": "de-en.safetensors"}, port=9000, workers=2)

    On SIGHUP, newer models are taken under the same names. In-flight work is finished before it ends.

    Args:
        models: run folders, model files or Hugging Face folders: one, several, or by name.
        ready: Called with the address as soon as requests are answered.
        settings: The fields of ``clearhead.serving.settings.ServeSettings``: host, port, workers, token, watch …
    """
    chosen = checked_settings(settings)
    named = _named(models)
    _require_packages()
    with _listening(chosen) as listener:
        room = Room(named, chosen)
        asyncio.run(_serve(room, chosen, listener, ready))


def checked_settings(given: Mapping[str, Any]) -> ServeSettings:
    """Settings that make sense together; whoever listens to the network needs a token."""
    known = ServeSettings.__dataclass_fields__
    problems = [
        Problem("settings", name, f"is unknown{did_you_mean(name, list(known))}") for name in given if name not in known
    ]
    if problems:
        raise RecipeError(problems)
    settings = ServeSettings(**given)
    problems = [Problem("settings", name, words) for name, words in _refusals(settings)]
    if problems:
        raise RecipeError(problems)
    return settings


def _refusals(settings: ServeSettings) -> Iterator[tuple[str, str]]:
    if settings.host not in LOOPBACK and settings.token is None:
        yield (
            "host",
            f"{settings.host} can be reached by others, so a token is needed: --token-file FILE, or the environment "
            "variable CLEARHEAD_TOKEN",
        )
    if settings.token is not None and (len(settings.token) < TOKEN_CHARACTERS or not _printable(settings.token)):
        yield "token", f"must have at least {TOKEN_CHARACTERS} characters, letters and digits without spaces"
    for name, value in vars(settings).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and name != "port" and not 0 < value < math.inf:
            yield name, f"is {value}, and must be a positive number"
    if settings.int8 and settings.engine != "ctranslate2":
        yield "int8", "only the engine ctranslate2 computes with weights in eight bits"
    if not re.fullmatch(DEVICE_NAMES, settings.device):
        yield "device", f"{settings.device} is no device (auto, cpu, cuda, cuda:1, mps)"
    if settings.engine != "native" and settings.device not in ("auto", "cpu"):
        yield "device", f"the engine {settings.engine} computes on the CPU here: leave out one of the two"
    if not 0 <= settings.port <= 65535:
        yield "port", "must be between 0 and 65535"


def _printable(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text


def _named(models: str | Path | Sequence[str | Path] | Mapping[str, str | Path]) -> dict[str, Path]:
    if isinstance(models, Mapping):
        return names_of([f"{name}={path}" for name, path in models.items()])
    several = [models] if isinstance(models, str | Path) else models
    return names_of([str(model) for model in several])


def _require_packages() -> None:
    for package in ("starlette", "uvicorn", "httptools", "prometheus_client"):
        try:
            __import__(package)
        except ImportError:
            raise MissingExtra("clearhead serve", package.replace("_", "-"), "serve") from None


@contextmanager
def _listening(settings: ServeSettings) -> Iterator[socket.socket]:
    """The socket, bound before any model is loaded, so that a port that is taken is reported at once."""
    try:
        family = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0][0]
        # named TCP: or else asyncio leaves Nagle's algorithm on, and each answer waits 40 ms for the client
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as problem:
        raise ClearheadError(f"{settings.host} cannot be listened on: {problem.strerror or problem}") from None
    except ValueError:  # too long a name, or one with characters that no name has
        raise ClearheadError(f"{settings.host[:40]!r} is no name of a machine") from None
    with listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as problem:
            words = f"port {settings.port} of {settings.host} cannot be used: {problem.strerror or problem}"
            raise ClearheadError(f"{words}; choose another with --port") from None
        yield listener


async def _serve(
    room: Room, settings: ServeSettings, listener: socket.socket, ready: Callable[[str], None] | None
) -> None:
    stopped = asyncio.Event()
    with _signals(stopped) as caught:
        try:
            if not await _started(room, stopped):
                raise Interrupted(caught[0], "")
            with _reloading(room):
                cut_off = await serve_room(room, settings, listener, stopped, ready)
        finally:
            await room.stop(STOPPING_SECONDS)
    if cut_off:
        words = f"{cut_off} requests were cut off: they took longer than {settings.grace_seconds:g} s"
        raise Interrupted(caught[0] if caught else signal.SIGTERM, words)


async def _started(room: Room, stopped: asyncio.Event) -> bool:
    """Whether the models were loaded before somebody stopped us."""
    starting, stopping = asyncio.ensure_future(room.start()), asyncio.ensure_future(stopped.wait())
    try:
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
        return starting.done()
    finally:
        starting.cancel()
        stopping.cancel()
        await asyncio.gather(starting, return_exceptions=True)


async def serve_room(
    room: Room,
    settings: ServeSettings,
    listener: socket.socket,
    stopped: asyncio.Event,
    ready: Callable[[str], None] | None = None,
) -> int:
    """Serve a room that has been started until the event is set; return how many requests were cut off then.

    Args:
        room: what answers.
        settings: the server's settings.
        listener: the socket, bound already.
        stopped: ends it.
        ready: called with the address as soon as requests are answered.
    """
    from clearhead.serving.app import make_app
    from clearhead.serving.running import Running

    port = int(listener.getsockname()[1])
    running = Running(make_app(room, settings, port=port), settings, listener)
    if ready is not None:
        running.ready = partial(ready, address(settings.host, port))
    await running.until(stopped)
    return running.cut_off


@contextmanager
def _signals(stopped: asyncio.Event) -> Iterator[list[int]]:
    """SIGINT and SIGTERM set the event, once: a second one ends the process at once. Yields the signals that came."""
    caught: list[int] = []
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM) if threading.current_thread() is threading.main_thread() else ()

    def catch(number: int) -> None:
        caught.append(number)
        stopped.set()
        for one in numbers:
            loop.remove_signal_handler(one)

    for number in numbers:
        loop.add_signal_handler(number, catch, number)
    try:
        yield caught
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


@contextmanager
def _reloading(room: Room) -> Iterator[None]:
    """SIGHUP takes newer models, and says on standard error what became of each."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGHUP"):
        yield
        return
    tasks: set[asyncio.Task[None]] = set()

    async def reload() -> None:
        try:
            for name, words in (await room.reload()).items():
                print(f"{name}: {words}", file=sys.stderr, flush=True)
        except ClearheadError as problem:
            print(problem, file=sys.stderr, flush=True)

    def asked() -> None:
        task = asyncio.ensure_future(reload())
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, asked)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        for task in tasks:
            task.cancel()


def address(host: str, port: int) -> str:
    """Where the page is; an address that stands for all of them is told as this machine's."""
    name = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)
    return f"http://{name}:{port}/"
