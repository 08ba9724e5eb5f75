"""The command line: parses, calls, prints. No command imports torch before it needs it."""

import os
import signal
import sys


def main() -> None:
    """Run the command line; whatever goes wrong is one message and an exit code, never a traceback."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that leaves ends us quietly, as it ends any filter
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal without our letters gets question marks
    try:
        from clearhead.cli.app import app
        from clearhead.errors import ClearheadError

        try:
            app()
            sys.stdout.flush()
        except ClearheadError as error:
            print(error, file=sys.stderr)
            sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except MemoryError:
        print("there is not enough memory", file=sys.stderr)
        sys.exit(4)
    except OSError as error:
        # no space, no permission, a name that is too long: what the system says is what there is to say
        print(f"{error.filename or 'output'}: {error.strerror or error}", file=sys.stderr)
        os._exit(1)  # the interpreter would try to flush again


__all__ = ["main"]
