"""``python -m tools.attack [--count 10000] [--seed 1] [--kinds "run folder" …]``: attack, and print what gave way."""

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from clearhead.files import write_whole
from clearhead.machine import cores
from tools.attack.case import Case, Result
from tools.attack.kinds import KINDS
from tools.attack.runner import run_all
from tools.attack.victims import Victim, make_victims

INTRODUCTION = """\
# Bad input

Written by `python -m tools.attack --page docs/evidence/attack.md`, which is a part of `make prove`. Every input is a
command with something bad about it: a damaged run folder, a model file that lies under a right checksum, an absurd
recipe or way of decoding, broken data, words without sense, a server that cannot start, odd surroundings. It is a fault
to print a traceback, to report a bug, to hang for a minute, to die of a signal, to end with an exit code that does not
fit or without a message, and to resume a run to other weights than those of the undisturbed one.
"""
FAULTS = ("traceback", "hang", "crash", "code", "silence", "damage")
"""The kinds of fault, the columns of the table."""


def chosen_cases(
    count: int,
    seed: int,
    victims: Sequence[Victim],
    kinds: Sequence[str],
    make_chance: Callable[[str], random.Random] = random.Random,
) -> Iterator[Case]:
    """Draw this many cases, each kind by its share, in random order; reproducible by seed."""
    generators = {kind: KINDS[kind][0](make_chance(f"{seed} {kind}"), victims) for kind in kinds}
    chance, shares = random.Random(seed), [KINDS[kind][1] for kind in kinds]
    for _ in range(count):
        yield next(generators[chance.choices(kinds, shares)[0]])


def main() -> int:
    """Attack; the exit code is 1 if there is a fault."""
    parser = argparse.ArgumentParser(prog="python -m tools.attack", description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--families", nargs="*", default=[])
    parser.add_argument("--jobs", type=int, default=cores())
    parser.add_argument("--faults", type=Path, help="write every fault with its messages to this file")
    parser.add_argument("--page", type=Path, help="write the table to this Markdown page")
    options = parser.parse_args()
    started = time.monotonic()
    faults: dict[str, Counter[str]] = defaultdict(Counter)
    codes: dict[str, Counter[int | None]] = defaultdict(Counter)
    with tempfile.TemporaryDirectory() as scratch:
        victims = make_victims(Path(scratch) / "victims", *options.families)
        cases = chosen_cases(options.count, options.seed, victims, options.kinds)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):  # report what was found until then
            for case, result, found in run_all(cases, jobs=options.jobs, scratch=Path(scratch) / "cases"):
                codes[case.kind][result.code] += 1
                if (done := sum(map(Counter.total, codes.values()))) % 500 == 0:
                    print(f"{done:,} inputs in {(time.monotonic() - started) / 60:.1f} minutes", flush=True)
                if found is not None:
                    faults[case.kind][found.partition(":")[0]] += 1
                    _tell(case, result, found, options.faults)
    total, wrong = sum(map(Counter.total, codes.values())), sum(map(Counter.total, faults.values()))
    minutes = (time.monotonic() - started) / 60
    summary = f"{total:,} bad inputs, seed {options.seed}, in {minutes:.1f} minutes: {wrong:,} faults"
    print(f"{table(codes, faults)}\n{summary}", flush=True)
    if options.page is not None:
        page = f"{INTRODUCTION}\n{table(codes, faults)}\n\n{summary}\n"
        write_whole(options.page, page.encode())
    return int(wrong > 0)


def _tell(case: Case, result: Result, found: str, file: Path | None) -> None:
    text = f"{found}\n  {case.name}\n  clearhead {' '.join(case.arguments)[:300]}\n"
    print(text, file=sys.stderr, flush=True)
    if file is not None:
        with file.open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(f"{text}{result.stderr[-3000:]}\n{'-' * 80}\n")


def table(codes: dict[str, Counter[int | None]], faults: dict[str, Counter[str]]) -> str:
    """A row for each kind: cases, exit codes, faults."""
    lines = ["| kind | inputs | exit codes | " + " | ".join(FAULTS) + " |", "|---" * (3 + len(FAULTS)) + "|"]
    for kind, counted in codes.items():
        shown = ", ".join(f"{code}: {number:,}" for code, number in sorted(counted.items(), key=str))
        numbers = " | ".join(str(faults[kind][fault]) for fault in FAULTS)
        lines.append(f"| {kind} | {counted.total():,} | {shown} | {numbers} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
