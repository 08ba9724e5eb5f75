"""Time and peak memory of reading, checking, and preparing a million pairs.

python -m tools.long_haul_data [PAIRS]
"""

import multiprocessing
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from clearhead.data import PAIRS, check_corpus, read_corpus
from clearhead.recipe import DataSpec, read_recipe
from clearhead.training import prepare as prepared

MILLION = 1_000_000
WORDS = 20_000
"""Distinct words of the made-up language."""


def write_pairs(file: Path, count: int, seed: int = 1) -> None:
    """Sentences of 3 to 25 words, and the same with longer words in reverse order: about 150 bytes a pair."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(WORDS)]
    with file.open("w", encoding="utf-8") as stream:
        for _ in range(count):
            # the square makes some words far more frequent than others
            source = [words[int(WORDS * rng.random() ** 2)] for _ in range(rng.randint(3, 25))]
            stream.write(f"{' '.join(source)}\t{' '.join(f'{word}o' for word in reversed(source))}\n")


def prepare(file: Path, folder: Path) -> str:
    """What training does before its first step: all of it but building a model."""
    run = prepared(read_recipe(None, f"data.train={file}", "training.steps=1"), folder)
    examples = run.examples
    if len(examples) + examples.too_long != run.corpus.train_size:
        raise SystemExit(f"{run.corpus.train_size:,} training pairs, {len(examples):,} written: some are missing")
    return f"{len(examples):,} pairs, {examples.tokens:,} target tokens"


def read(file: Path, folder: Path) -> str:
    """Reading alone: one pass over the file."""
    del folder
    corpus = read_corpus(DataSpec(train=str(file)), PAIRS)
    return f"{corpus.train_size:,} train, {len(corpus.dev):,} dev, {len(corpus.test):,} test"


def check(file: Path, folder: Path) -> str:
    """Check the pairs, as `clearhead check` does."""
    del folder
    checkup = check_corpus(read_corpus(DataSpec(train=str(file), bad_lines="skip"), PAIRS))
    return f"{checkup.sizes['train']:,} examined, {'healthy' if checkup.healthy else 'something is wrong'}"


WORK: Mapping[str, Callable[[Path, Path], str]] = {"read": read, "check": check, "prepare": prepare}


def measure(name: str, file: Path, folder: Path) -> None:
    """Do the work and print its time and memory; call this in a new process, so that its peak memory is the work's."""
    start = time.perf_counter()
    said = WORK[name](file, folder)
    used = resource.getrusage(resource.RUSAGE_SELF)
    spent = f"{time.perf_counter() - start:6.1f} s, {used.ru_utime + used.ru_stime:6.1f} s of a core"
    print(f"{name:<8} {spent}  {used.ru_maxrss / 2**10:7,.0f} MiB peak  {said}", flush=True)


def long_haul(count: int = MILLION) -> bool:
    """Do everything with this many pairs; return whether all of it succeeded."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pairs.tsv"
        write_pairs(file, count)
        print(f"{count:,} pairs, {file.stat().st_size / 2**20:,.0f} MiB")
        fine = True
        for name in WORK:
            process = multiprocessing.get_context("spawn").Process(
                target=measure, args=(name, file, Path(folder) / name)
            )
            process.start()
            process.join()
            fine &= process.exitcode == 0
    return fine


if __name__ == "__main__":
    sys.exit(not long_haul(int(sys.argv[1]) if len(sys.argv) > 1 else MILLION))
