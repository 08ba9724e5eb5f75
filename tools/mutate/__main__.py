"""``python -m tools.mutate [--only AREA/NAME …] [--page PAGE]``: which mutations does no test notice?

The exit code is 0 if all are caught, 1 if one survives, 2 if a test fails without mutations or a mutation is unsound.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tools.mutate.catalogue import AREAS, Mutation, read_catalogue
from tools.mutate.runner import Job, Outcome, group_by_file, import_libraries, run_all

INTRODUCTION = """\
# Mutations

Written by `make mutate`. Each row is a small, realistic mistake that is put into the code on purpose, one at a time.
The tests that should see it are named beside it in `tools/mutate/areas`; the table shows the first that failed. Without
mutations, all of these tests pass. A mutation that no test catches survives, and `make mutate` fails. A change that
breaks the import, or ends in a name that does not exist, is refused: any test would see that.
"""


def main() -> int:
    """Mutate, print survivors, write the page."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutate", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], metavar="AREA/NAME", help="mutations that begin with this")
    parser.add_argument("--jobs", "-j", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--areas", type=Path, default=AREAS, help="the folder of the mutations")
    parser.add_argument("--page", type=Path, help="write the table to this Markdown page")
    parser.add_argument("--mutants-only", action="store_true", help="skip the run of the tests without mutations")
    options = parser.parse_args()
    started = time.monotonic()
    everything = read_catalogue(options.areas)
    chosen = [one for one in everything if not options.only or one.label.startswith(tuple(options.only))]
    for mutation in chosen:
        mutation.source()
    import_libraries()
    if not options.mutants_only and not _sound(chosen, options.jobs):
        return 2
    outcomes: dict[str, Outcome] = {}
    for job, outcome in run_all((Job(one.tests, one) for one in chosen), at_once=options.jobs):
        assert job.mutation is not None
        outcomes[job.mutation.label] = outcome
        _tell(f"[{len(outcomes)}/{len(chosen)}] {outcome.busy:5.1f} s  {_line(job.mutation, outcome)}")
    summary = _summary(chosen, outcomes)
    minutes, busy = (time.monotonic() - started) / 60, sum(os.times()[:4]) / 60
    summary += f" {minutes:.0f} minutes with {options.jobs} jobs at once; {busy:.0f} minutes of processor time."
    _tell(summary)
    for mutation in chosen:
        if outcomes[mutation.label].verdict != "caught":
            print(_line(mutation, outcomes[mutation.label]))
    if options.page is not None:
        options.page.write_text(f"{INTRODUCTION}\n{summary}\n{_table(chosen, outcomes)}", encoding="utf-8")
    verdicts = {outcome.verdict for outcome in outcomes.values()}
    return 2 if "refused" in verdicts else int("survived" in verdicts)


def _sound(chosen: Sequence[Mutation], jobs: int) -> bool:
    """Whether all tests pass without mutations; tells which do not."""
    tests = [test for mutation in chosen for test in mutation.tests]
    groups, failed = group_by_file(tests), list[str]()
    for count, (job, outcome) in enumerate(run_all((Job(group) for group in groups), at_once=jobs), start=1):
        wrong = [*outcome.failed, *([outcome.refused] if outcome.refused else [])]
        failed += wrong
        file = job.tests[0].partition("::")[0]
        _tell(f"[{count}/{len(groups)}] {outcome.busy:5.1f} s  {file}: {outcome.ran} tests, {len(wrong)} failed")
    for name in failed:
        print(f"fails without mutations: {name}")
    return not failed


def _line(mutation: Mutation, outcome: Outcome) -> str:
    by = outcome.refused or ", ".join(outcome.failed) or f"none of {outcome.ran} tests noticed"
    return f"{outcome.verdict}: {mutation.label} ({mutation.file}): {by}"


def _summary(chosen: Sequence[Mutation], outcomes: dict[str, Outcome]) -> str:
    verdicts = [outcomes[mutation.label].verdict for mutation in chosen]
    counts = ", ".join(f"{verdicts.count(word)} {word}" for word in ("caught", "survived", "refused"))
    return f"{len(chosen)} mutations: {counts}."


def _table(chosen: Sequence[Mutation], outcomes: dict[str, Outcome]) -> str:
    lines, area = list[str](), ""
    for mutation in chosen:
        if mutation.area != area:
            area = mutation.area
            lines += ["", f"## {area.capitalize()}", "", "| mistake | file | caught by |", "|---|---|---|"]
        outcome = outcomes[mutation.label]
        by = outcome.failed[0].removeprefix("tests/").partition("[")[0] if outcome.failed else outcome.verdict
        lines.append(f"| {mutation.name} | `{mutation.file}` | `{by}` |")
    return "\n".join(lines) + "\n"


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
