"""How preparing a run scales with the number of pairs: time of each stage, pairs a second and core, peak memory.

    python -m benchmarks.large_data --pairs 1000000 3000000 10000000 [--workers 2]

Pairs are generated: sentences of words from a vocabulary of 200,000 with Zipf's frequencies, each with a translation
word by word. Each number of pairs has a process of its own, and microseconds are those of a core. Memory is what the
process and all its workers hold for themselves, sampled ten times a second; what is mapped from files is not counted,
as the system drops it when it needs room.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

WORDS = 200_000
AT_ONCE = 50_000
STAGES = {"_read": "reading", "learn": "tokenizers", "_write": "encoding"}


def write_pairs(path: Path, pairs: int, seed: int = 0) -> int:
    """Write so many pairs to a TSV file; returns its bytes."""
    rng = np.random.default_rng(seed)
    letters = np.array(list("etaoinshrdlucmfwypvbgkqjxz"))
    lengths = np.minimum(2 + rng.poisson(np.linspace(1, 8, WORDS)), 14)
    drawn = letters[np.minimum(rng.geometric(0.12, (WORDS, 14)) - 1, 25)]
    left = ["".join(row[:length]) for row, length in zip(drawn.tolist(), lengths.tolist(), strict=True)]
    right = [word[::-1] + "en" * (number % 3 == 0) for number, word in enumerate(left)]
    weights = 1 / np.arange(1, WORDS + 1) ** 1.05
    below = np.cumsum(weights / weights.sum())
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, pairs, AT_ONCE):
            sizes = rng.integers(3, 14, min(AT_ONCE, pairs - start))
            words = np.searchsorted(below, rng.random(int(sizes.sum()))).clip(max=WORDS - 1)
            rows = np.split(words, np.cumsum(sizes)[:-1])
            file.writelines(
                f"{' '.join([left[word] for word in row])}\t{' '.join([right[word] for word in row])}\n"
                for row in (part.tolist() for part in rows)
            )
    return path.stat().st_size


class Memory:
    """The most memory that this process and its children held for themselves at one time."""

    def __init__(self) -> None:
        self.peak, self._over = 0, threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> "Memory":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.peak = max(self.peak, sum(map(_private, _family())))


def _family() -> list[int]:
    """This process and its children."""
    found = [int(Path("/proc/self").resolve().name)]
    for children in Path("/proc/self/task").glob("*/children"):
        try:
            found += map(int, children.read_text().split())
        except OSError:  # a thread that has ended
            continue
    return found


def _private(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "RssShmem"))) * 1024


def cpu() -> float:
    """Seconds of a core that this process, and its workers that have ended, took: a busy machine does not count."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(part.ru_utime + part.ru_stime for part in used)


@contextmanager
def timed(owner: Any, name: str, times: dict[str, float]) -> Iterator[None]:
    """Add up how long a function takes."""
    original = getattr(owner, name)

    def measured(*arguments: Any, **named: Any) -> Any:
        start, before = time.perf_counter(), cpu()
        try:
            return original(*arguments, **named)
        finally:
            times[STAGES[name]] = times.get(STAGES[name], 0.0) + time.perf_counter() - start
            times[f"{STAGES[name]} cpu"] = times.get(f"{STAGES[name]} cpu", 0.0) + cpu() - before

    with patch.object(owner, name, measured):
        yield


def measure(pairs: int, workers: int | None, folder: Path) -> dict[str, Any]:
    """Prepare a run on so many pairs."""
    from clearhead.recipe import read_recipe
    from clearhead.training import preparation, prepare
    from clearhead.training.objectives.pairs import Pairs

    file = folder / "pairs.tsv"
    size = write_pairs(file, pairs)
    settings = [f'data.train="{file}"', "training.steps=1", "data.source.size=2000"]
    if workers is not None:
        settings.append(f"training.threads={workers}")
    times: dict[str, float] = {}
    start = time.perf_counter()
    with (
        Memory() as memory,
        timed(preparation, "_read", times),
        timed(Pairs, "learn", times),
        timed(preparation, "_write", times),
    ):
        prepare(read_recipe(None, *settings), folder / "run")
    total = time.perf_counter() - start
    found = {"pairs": pairs, "bytes": size, "workers": workers or 1, "peak": memory.peak, "total": total}
    return found | times | resumed(folder / "run")


def resumed(run: Path) -> dict[str, float]:
    """Seconds of a core to open the run again: texts read anew, encoded examples compared, nothing changed."""
    from clearhead.training import reopen
    from clearhead.training.stamps import NAME, RECENT

    times = {}
    time.sleep(RECENT)
    for way in ("texts read", "compared", "looked at"):
        if way == "texts read":
            (run / "data" / NAME).unlink()
        elif way == "compared":
            for file in (run / "data").glob("train.*"):
                file.touch()
            time.sleep(RECENT)
        start = cpu()
        reopen(run).note_files()
        times[way] = cpu() - start
    return times


def by_line(folder: Path, pairs: int = 100_000) -> dict[str, float]:
    """Microseconds of a core for a pair, one line at a time: reading it, and giving it to the tokenizer alone."""
    from clearhead.data import Codec

    file = folder / "few.tsv"
    write_pairs(file, pairs)
    start, found = cpu(), []
    with file.open(encoding="utf-8") as stream:
        for line in stream:
            source, target = line.rstrip("\n").split("\t")
            found.append((source.strip(), target.strip()))
    read = cpu()
    codec = Codec.learn("bpe", [text for pair in found[:20_000] for text in pair], 2000)
    learnt = cpu()
    for source, target in found[:20_000]:
        codec.encode([source])
        codec.encode([target])
    return {"reading": 1e6 * (read - start) / pairs, "encoding": 1e6 * (cpu() - learnt) / 20_000}


def page(rows: Sequence[dict[str, Any]], plain: dict[str, float]) -> str:
    """The table of a page."""
    columns = (
        "pairs | file | workers | reading | tokenizers | encoding | all | reading, µs a pair | encoding, µs a pair"
    )
    lines = [f"| {columns} | peak memory |", "|" + "---|" * 10]
    for row in rows:
        micro = {stage: 1e6 * row[f"{stage} cpu"] / row["pairs"] for stage in ("reading", "encoding")}
        seconds = [f"{row[stage]:.0f} s" for stage in ("reading", "tokenizers", "encoding", "total")]
        cells = [f"{row['pairs']:,}", f"{row['bytes'] / 1e6:,.0f} MB", str(row["workers"]), *seconds]
        cells += [f"{micro['reading']:.1f}", f"{micro['encoding']:.1f}", f"{row['peak'] / 2**20:,.0f} MiB"]
        lines.append(f"| {' | '.join(cells)} |")
    lines += [
        "",
        "| pairs | resuming, texts read | encoded examples compared | nothing changed |",
        "|" + "---|" * 4,
        *(
            f"| {row['pairs']:,} | "
            + " | ".join(f"{row[way]:.2f} s" for way in ("texts read", "compared", "looked at"))
            + " |"
            for row in rows
        ),
        "",
        f"A line at a time, `split` and `strip` alone take {plain['reading']:.1f} µs a pair, and the tokenizer, "
        f"asked for one text after the other, {plain['encoding']:.1f} µs.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Print, or write, a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--workers", type=int)
    parser.add_argument("--folder", type=Path, help="where data and run go for a while; a temporary folder without it")
    parser.add_argument("--one", action="store_true", help="print one measurement as JSON")
    arguments = parser.parse_args()
    rows = []
    for pairs in arguments.pairs:
        if arguments.one:
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                print(json.dumps(measure(pairs, arguments.workers, Path(folder))))
            return
        command = [sys.executable, "-m", "benchmarks.large_data", "--one", "--pairs", str(pairs)]
        command += [] if arguments.workers is None else ["--workers", str(arguments.workers)]
        command += [] if arguments.folder is None else ["--folder", str(arguments.folder)]
        rows.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        print(rows[-1], file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        print(page(rows, by_line(Path(folder))))


if __name__ == "__main__":
    main()
