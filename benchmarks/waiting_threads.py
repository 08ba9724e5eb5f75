"""How long should a thread spin before it sleeps? A training step by GOMP_SPINCOUNT, on an idle and on a busy machine.

    python -m benchmarks.waiting_threads [--rounds 3] [--busy 3]

Threads of OpenMP wait for each other at the end of every operation. Spinning is the fastest way while each has a core
of its own; beside other processes a thread spins in the place of the one that it waits for. Each setting is a process
of its own, as OpenMP reads it once; they take turns, first with nothing else, then beside so many busy loops. The time
is that of the median step of a model of 3 + 3 layers of 256.
"""

import argparse
import os
import statistics
import subprocess
import sys

SPINS = (300_000, 30_000, 10_000, 1_000)
"""300,000 is OpenMP's own."""
STEP = """
import time, statistics, torch
from benchmarks.train_speed import SIZES, batches, ours
torch.set_num_threads(2)
step, made, times = ours(SIZES["small"]), batches(SIZES["small"], 4), []
for index in range(16):
    before = time.perf_counter()
    step(made[index % 4])
    times.append(time.perf_counter() - before)
print(statistics.median(times[4:]))
"""


def seconds(spins: int) -> float:
    """The median step of a process whose threads spin so often."""
    surroundings = os.environ | {"GOMP_SPINCOUNT": str(spins)}
    found = subprocess.run([sys.executable, "-c", STEP], env=surroundings, capture_output=True, text=True, check=True)
    return float(found.stdout)


def measured(rounds: int, busy: int) -> dict[int, float]:
    """Medians over the rounds, beside ``busy`` processes that do nothing but work."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(busy)]
    try:
        times = [{spins: seconds(spins) for spins in SPINS} for _ in range(rounds)]
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    return {spins: statistics.median(row[spins] for row in times) for spins in SPINS}


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--busy", type=int, default=3)
    asked = parser.parse_args()
    for busy in (0, asked.busy):
        found = measured(asked.rounds, busy)
        print(f"beside {busy} busy processes:")
        for spins, value in found.items():
            print(f"  {spins:>7,} spins  {1000 * value:6.0f} ms a step  {value / found[SPINS[0]]:5.2f} of OpenMP's own")


if __name__ == "__main__":
    main()
