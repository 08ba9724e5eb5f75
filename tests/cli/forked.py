"""The command line as a process of its own, forked from this one: with streams, signals and an end like any other, but
without starting Python and importing torch anew, which takes longer than most commands do."""

import gc
import io
import os
import signal
import subprocess
import sys
import traceback
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from tools.attack.runner import import_everything


class Forked(subprocess.Popen[Any]):
    """``subprocess.Popen`` for ``clearhead …``; the command is given without the program's name."""

    def _execute_child(self, args: Sequence[str], *places: Any) -> None:
        """In place of fork and exec: fork alone. ``places`` are those of ``Popen``, in its order."""
        (_, _, _, _, cwd, env, _, _, _, p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite, *rest) = places
        new_session = rest[-2]
        import_everything()  # here, once: every child would import again what it lacks
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if not self.pid:
            _become(args, [p2cread, c2pwrite, errwrite], cwd, env, new_session=new_session)
        self._child_created = True
        self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]


def forked(
    *arguments: str, given: Any = None, env: Mapping[str, str] | None = None, cwd: Any = None, text: bool = False
) -> subprocess.CompletedProcess[Any]:
    """What ``subprocess.run`` gives, with both outputs captured."""
    pipe = subprocess.PIPE
    process = Forked(list(arguments), stdin=pipe, stdout=pipe, stderr=pipe, env=env, cwd=cwd, text=text)
    with process:
        out, err = process.communicate(given)
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def _become(
    args: Sequence[str], streams: list[int], cwd: Any, env: Mapping[str, str] | None, *, new_session: bool
) -> None:
    """In the child: put the streams in place, forget what pytest has set up, run the command. Never returns."""
    code: object = 70
    try:
        gc.freeze()  # otherwise a collection would look at, and copy, all that the parent has made
        if new_session:
            os.setsid()
        # first out of the way, then in place: the numbers may be each other's
        kept = [os.dup(stream if stream >= 0 else number) for number, stream in enumerate(streams)]
        for number, stream in enumerate(kept):
            os.dup2(stream, number)
        os.closerange(3, 4096)
        if cwd is not None:
            os.chdir(cwd)
        if env is not None:
            os.environ.clear()
            os.environ.update(env)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python starts
        signal.signal(signal.SIGINT, signal.default_int_handler)
        warnings.resetwarnings()
        warnings.simplefilter("ignore", DeprecationWarning)
        sys.stdin, sys.stdout, sys.stderr = (
            io.TextIOWrapper(open(number, mode, closefd=False), encoding="utf-8", line_buffering=number == 2)  # noqa: SIM115
            for number, mode in ((0, "rb"), (1, "wb"), (2, "wb"))
        )
        sys.argv = ["clearhead", *map(str, args)]
        from clearhead.cli import main

        main()
        code = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code if isinstance(code, int) else int(code is not None))
