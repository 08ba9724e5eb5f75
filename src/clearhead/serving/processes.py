"""Starts Python processes that do the front's work."""

import asyncio
import os
import sys
from collections.abc import Sequence


async def start_module(
    name: str, *words: str, pass_fds: Sequence[int] = (), stdout: int | None = None
) -> asyncio.subprocess.Process:
    """Run a module as ``python -m`` does, on one thread, with these words and inherited descriptors."""
    return await asyncio.create_subprocess_exec(
        # -P: nothing of the working directory is imported
        *(sys.executable, "-P", "-m", name, *words),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=stdout,
        pass_fds=pass_fds,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
