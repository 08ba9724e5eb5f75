"""Long inputs: many lines through a pipe, with flat memory.

python -m tools.long_haul runs/demo
"""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

LINES = 200_000


def flat_memory(model: str, lines: int = LINES, *, most_growth: float = 1.2) -> str:
    """Answer this many lines through a pipe; say how much memory that took after a fifth of them, and later at most.

    Failures raise ``AssertionError``.
    """
    command = [sys.executable, "-m", "clearhead", "run", model, "--beam-size", "1", "decoding.max_length=4"]
    begun = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        stdin = process.stdin

        def feed() -> None:
            for number in range(lines):
                stdin.write(f"{'abcdefg'[number % 7] * (1 + number % 5)}\n".encode())
            stdin.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        early = late = answered = 0
        for answered, _ in enumerate(process.stdout, start=1):
            if answered == lines // 5:
                early = _memory(process.pid)
            elif answered > lines // 5 and answered % max(1, lines // 20) == 0:
                late = max(late, _memory(process.pid))
        feeder.join()
        assert process.wait() == 0
    assert answered == lines, f"{answered:,} answers to {lines:,} lines"
    assert late <= most_growth * early, f"memory grew from {early / 2**20:.0f} to {late / 2**20:.0f} MiB"
    minutes = (time.monotonic() - begun) / 60
    return (
        f"{lines:,} lines through a pipe in {minutes:.1f} minutes: {early / 2**20:.0f} MiB after a fifth of them, "
        f"at most {late / 2**20:.0f} MiB later"
    )


def _memory(parent: int) -> int:
    """The private memory of a process and its children, in bytes."""
    total = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            family = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent not in (int(folder.name), family):
                continue
            roll = (folder / "smaps_rollup").read_text()
        except OSError:  # it has ended meanwhile
            continue
        total += 1024 * sum(int(size) for size in re.findall(r"^Private_\w+:\s+(\d+)", roll, re.MULTILINE))
    return total


if __name__ == "__main__":
    print(flat_memory(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else LINES))
