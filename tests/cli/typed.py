"""The command line inside this process: the same code, exit codes and words, without starting Python and torch anew."""

import io
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from subprocess import CompletedProcess
from unittest.mock import patch

from clearhead.cli import BUG, main


def typed(*arguments: str) -> CompletedProcess[str]:
    """What a command without input prints, and how it ends; a bug is no way to end."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        patch.object(sys, "argv", ["clearhead", *arguments]),
        patch.dict(os.environ, {"NO_COLOR": "1", "COLUMNS": "100", "CLEARHEAD_TRACEBACK": "1"}),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code
    assert code is None or isinstance(code, int)
    assert BUG not in err.getvalue(), err.getvalue()
    return CompletedProcess(arguments, code or 0, out.getvalue(), err.getvalue())
