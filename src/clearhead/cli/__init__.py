"""The command line: parses, calls, prints. No command imports torch before it needs it."""

import os
import signal
import sys
import traceback
from typing import NoReturn

import clearhead

BUG = "this is a bug in clearhead"
"""What a message begins with that nobody's input should cause; tests and `tools.attack` look for it."""
SPINS = 30_000
"""How often a waiting thread looks before it sleeps. On two idle cores a training step of the demo took as long as with
OpenMP's 300,000 (0.078 s; with 10,000: 0.081; with 1,000: 0.11), beside three busy processes 0.44 s instead of 0.77."""
_NO_MEMORY = ("can't allocate memory", "cannot allocate memory", "failed to map segment", "out of memory")
"""How libraries say that memory has run out, other than by MemoryError."""


def main() -> None:
    """Run the command line; whatever goes wrong is one message and an exit code, never a traceback."""
    _open_closed_streams()
    _write_utf8()
    _wait_without_spinning()
    clearhead.keep_freed_memory()
    try:
        clearhead.refuse_torch_without_room()
        from clearhead.cli.app import app

        try:
            app()
            sys.stdout.flush()
        except clearhead.ClearheadError as error:
            _fail(_shown(error), error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _end_as_a_filter()
    except OSError as error:
        if _is_memory(error):
            _fail("there is not enough memory", 4)
        # no space, no permission, a name that is too long: what the system says is what there is to say
        _fail(f"{error.filename or 'output'}: {error.strerror or error}", 1, flush=False)
    except Exception as error:
        if _is_memory(error):
            _fail("there is not enough memory", 4)
        if os.environ.get("CLEARHEAD_TRACEBACK"):
            traceback.print_exc()
        _fail(
            f"{BUG}: {type(error).__name__}: {error}\n"
            "please report it with what you typed; CLEARHEAD_TRACEBACK=1 shows where it happened",
            1,
        )


def _shown(error: clearhead.ClearheadError) -> str:
    """What is said of an error: of several processes that torchrun started, the others say who they are.

    What all of them find, and that another process failed, is for the first one to say.
    """
    if os.environ.get("RANK", "0") == "0":
        return str(error)
    return "" if error.process is None else f"process {error.process}: {error}"


def _fail(message: str, code: int, *, flush: bool = True) -> NoReturn:
    if message:
        print(message, file=sys.stderr)
    if flush:
        sys.exit(code)
    sys.stderr.flush()
    os._exit(code)  # the interpreter would try to flush standard output again


def _end_as_a_filter() -> NoReturn:
    """The reader of our output has left: end quietly, by the signal that ends any filter then.

    Only now: until here the signal is off, or a worker that is gone could end us in the same way.
    """
    if not hasattr(signal, "SIGPIPE"):
        os._exit(1)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
    os._exit(128 + signal.SIGPIPE)


def _is_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or any(words in str(error).lower() for words in _NO_MEMORY)


def _open_closed_streams() -> None:
    """Give a process whose standard streams were closed (``<&-``, ``>&-``) streams that end, or fail, at once.

    Otherwise the next file that is opened would take their number, and be written to in their name.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is not None:
            continue
        # reading ends at once; writing results fails, as it should; messages have nowhere to go
        flags = os.O_WRONLY if name == "stderr" else os.O_RDONLY
        descriptor = os.open(os.devnull, flags)
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
        setattr(sys, name, stream)


def _wait_without_spinning() -> None:
    """Let OpenMP's threads sleep soon while they wait for each other; OpenMP reads this when torch is loaded.

    By default they spin 300,000 times. Beside other busy processes that takes the cores from the very thread that is
    waited for.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & os.environ.keys():
        os.environ["GOMP_SPINCOUNT"] = str(SPINS)


def _write_utf8() -> None:
    """Files and pipes get UTF-8 in every locale; a terminal gets its own encoding, and question marks beyond it.

    An encoding that PYTHONIOENCODING names is the user's choice.
    """
    for stream in (sys.stdout, sys.stderr):
        if not hasattr(stream, "reconfigure"):
            continue
        if stream.isatty() or os.environ.get("PYTHONIOENCODING"):
            stream.reconfigure(errors="replace")
        else:
            # a name that is not UTF-8 is written as it is on the disk
            stream.reconfigure(encoding="utf-8", errors="surrogateescape")


__all__ = ["BUG", "main"]
