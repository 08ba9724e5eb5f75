"""Runs a student's file in a process of its own: ``python -m clearhead.lectures.exercises.run_answer FILE``.

The cases come as JSON on stdin; results, or what went wrong, go as JSON to stdout. What the file prints goes to stderr.
"""

import json
import runpy
import sys
import traceback
from contextlib import redirect_stdout
from typing import Any


def main(path: str) -> None:
    """Run the file and print one JSON object."""
    from clearhead.lectures.exercises.calls import call

    cases = json.load(sys.stdin)
    try:
        with redirect_stdout(sys.stderr):
            found = runpy.run_path(path)
            told: dict[str, Any] = (
                {"results": call(found["answer"], cases)} if "answer" in found else {"missing": "answer"}
            )
    except (Exception, SystemExit) as failure:  # whatever the student's code does
        told = {"failed": f"{type(failure).__name__}: {failure}", "line": _line(failure, path)}
    print(json.dumps(told))


def _line(failure: BaseException, path: str) -> int | None:
    """The last line of the file that was running."""
    if isinstance(failure, SyntaxError) and failure.filename == path:
        return failure.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(failure.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


if __name__ == "__main__":
    main(sys.argv[1])
