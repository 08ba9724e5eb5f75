"""Pronunciation beside g2p-en, Phonetisaurus and espeak-ng: the same words, errors, speed, start-up and size.

    python -m benchmarks.pronunciation MODEL... --words test.tsv [--beams 1 4] [--json FILE] [--page FILE]

MODEL is a model file or a run; with several, each gets its rows. The words are ``letters<TAB>phones``, the letters
with or without spaces between them, one line for each pronunciation; digits of stress are removed.

The peers are no part of the project's requirements. One that is not there is left out, and a line says how to get it:

    pip install --target /tmp/peers-g2p g2p-en
    pip install --target /tmp/peers-phonetisaurus phonetisaurus
    apt install espeak-ng
    python -m benchmarks.pronunciation runs/g2p --words test.tsv --train train.tsv \\
        --phonetisaurus /tmp/peers-fst/train.fst --phonetisaurus-path /tmp/peers-phonetisaurus \\
        --g2p-en-path /tmp/peers-g2p

Phonetisaurus is trained on --train once, with the settings of its package; the model stays in the file that
--phonetisaurus names, with a note of what it was trained on. g2p-en answers with its GRU alone: ``G2p.predict``,
which asks neither dictionary nor tagger. As nltk would download both, the script gives it an empty dictionary and
lets it look for nothing; the network and its weights are untouched. g2p-en was trained on the whole dictionary, the
words of any test included.

Errors. A word is right if the answer equals any of its pronunciations; a phone error is the edit distance to the
closest pronunciation over its length, all words together. Brackets are 95 % bootstrap intervals. ``strict`` compares
phones as they are; espeak-ng's IPA is first mapped to ARPAbet by a table (benchmarks/phones.py). ``folded`` also
makes phones equal that differ by notation, in the answers of every system and in the references: the rules are
printed.

Speed. All systems answer the same words in turns, each in --workers processes of one thread; medians of rounds.
Phonetisaurus, g2p-en and espeak-ng are started anew each time, so the time for one word, taken in the same round, is
subtracted. Start-up is the time from a new process to its first answer, when the files are in memory already. Sizes:
what was learnt, and everything that is installed for it without Python itself.
"""

import argparse
import json
import math
import os
import random
import shlex
import statistics
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.phones import FOLDED, folded, without_stress
from benchmarks.pronouncers import (
    Clearhead,
    Lexicon,
    NotInstalled,
    Pronouncer,
    espeak_ng,
    g2p_en,
    phonetisaurus,
    train_phonetisaurus,
)
from clearhead.data.lines import read_lines
from clearhead.errors import ClearheadError, DataError
from clearhead.evaluation import Metric, score
from clearhead.files import write_whole
from clearhead.machine import cores

WIDTH = 80
CHUNK = 4000
"""Words that a system answers between two lines of progress."""
METRICS = ("line_error", "symbol_error")
BUSY = 0.5
"""A load of the machine before the start above which times mean little."""
MEGABYTE = 1e6


@dataclass(frozen=True)
class Errors:
    """Shares of words and phones that are wrong, in percent."""

    words: Metric
    phones: Metric


@dataclass(frozen=True)
class Times:
    """Medians of rounds.

    Args:
        words_per_second: how many words are answered, without loading.
        start: seconds from a new process to its first answer.
    """

    words_per_second: float
    start: float


@dataclass(frozen=True)
class Row:
    """What was found about a system."""

    name: str
    version: str
    strict: Errors
    folded: Errors
    model_bytes: int
    all_bytes: int
    notes: tuple[str, ...] = ()
    times: Times | None = None


# ---- words and errors ----


def read_lexicon(path: Path) -> Lexicon:
    """Words with all their pronunciations, without spaces between letters and without stress, in the file's order."""
    words: dict[str, list[str]] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        letters, tab, phones = line.partition("\t")
        word, spoken = "".join(letters.split()), without_stress(phones)
        if not tab or not word or not spoken:
            raise DataError(f"{path}: line {number}: {line[:40]!r} is not letters<TAB>phones")
        known = words.setdefault(word, [])
        if spoken not in known:
            known.append(spoken)
    if not words:
        raise DataError(f"{path}: no words inside")
    return words


def errors(answers: Sequence[str], references: Sequence[Sequence[str]], bootstrap: int) -> Errors:
    """Errors of answers, each right if it equals any of its references."""
    scores = score(answers, references, spaced=True, names=METRICS, bootstrap=bootstrap)
    return Errors(scores["line_error"], scores["symbol_error"])


def folded_errors(answers: Sequence[str], references: Sequence[Sequence[str]], bootstrap: int) -> Errors:
    """The same where differences of notation do not count."""
    same = [[folded(phones) for phones in known] for known in references]
    return errors([folded(phones) for phones in answers], same, bootstrap)


def judged(system: Pronouncer, lexicon: Lexicon, bootstrap: int, say: Callable[[str], None]) -> Row:
    """The errors of a system on all words; says how far it is."""
    words, answers = list(lexicon), list[str]()
    for at in range(0, len(words), CHUNK):
        answers += system.answers(words[at : at + CHUNK])
        say(f"{system.name}: {len(answers):,} of {len(words):,} words")
    references = list(lexicon.values())
    return Row(
        system.name,
        system.version,
        errors(answers, references, bootstrap),
        folded_errors(answers, references, bootstrap),
        system.model_bytes,
        system.all_bytes,
        system.notes,
    )


# ---- time ----


def times_in_turns(
    systems: Sequence[Pronouncer],
    words: Sequence[str],
    rounds: int,
    say: Callable[[str], None],
    clock: Callable[[], float] = time.perf_counter,
) -> list[Times]:
    """Words per second and start-up of all systems; they take turns, so that a busy moment meets all of them."""
    starts: list[list[float]] = [[] for _ in systems]
    takes: list[list[float]] = [[] for _ in systems]
    for number in range(1, rounds + 1):
        for system, started, taken in zip(systems, starts, takes, strict=True):
            begin = clock()
            system.first_answer(words[0])
            middle = clock()
            system.answers(words)
            started.append(middle - begin)
            taken.append(clock() - middle)
        say(f"times: round {number} of {rounds}")
    return [
        Times(speed(len(words), taken, started if system.loads_each_time else None), statistics.median(started))
        for system, started, taken in zip(systems, starts, takes, strict=True)
    ]


def speed(words: int, taken: Sequence[float], started: Sequence[float] | None) -> float:
    """Words per second, by the median of rounds.

    What is loaded in each round has answered one word after ``started``, so only the rest counts; NaN if there is none.
    """
    if started is None:
        return words / statistics.median(taken)
    rest = statistics.median(whole - start for whole, start in zip(taken, started, strict=True))
    return (words - 1) / rest if rest > 0 else float("nan")


# ---- the table ----


def interval(metric: Metric) -> str:
    """A value with its interval."""
    if metric.low is None or metric.high is None:
        return f"{metric.value:.2f}"
    return f"{metric.value:.2f} [{metric.low:.2f}, {metric.high:.2f}]"


def error_cells(row: Row) -> list[str]:
    """The cells of a row of the table of errors."""
    both = f"{row.folded.words.value:.2f} / {row.folded.phones.value:.2f}"
    return [row.name, interval(row.strict.words), interval(row.strict.phones), both]


def cost_cells(row: Row, first: Row) -> list[str]:
    """The cells of a row of the table of costs; ``first`` is what speeds are compared with."""
    sizes = [f"{size / MEGABYTE:,.1f}" for size in (row.model_bytes, row.all_bytes)]
    if row.times is None or first.times is None:
        return [row.name, "", "", "", *sizes]
    rate = row.times.words_per_second
    rates = [f"{rate:,.0f}", f"{rate / first.times.words_per_second:.2f}×"] if math.isfinite(rate) else ["–", "–"]
    return [row.name, *rates, f"{row.times.start:.2f}", *sizes]


ERROR_HEADER = ["system", "words wrong, %", "phones wrong, %", "folded"]
COST_HEADER = ["system", "words/s", "× first", "start, s", "model, MB", "all, MB"]


def tables(rows: Sequence[Row]) -> list[list[list[str]]]:
    """Errors and costs, each with its header."""
    return [
        [ERROR_HEADER, *map(error_cells, rows)],
        [COST_HEADER, *(cost_cells(row, rows[0]) for row in rows)],
    ]


def aligned(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table for a terminal: names on the left, numbers on the right; long names are cut to fit."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    widths[0] = min(widths[0], WIDTH - sum(widths[1:]) - 2 * len(widths[1:]))
    for name, *cells in table:
        short = name if len(name) <= widths[0] else name[: widths[0] - 1] + "…"
        numbers = (cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join([short.ljust(widths[0]), *numbers]).rstrip()


def markdown(table: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table for a page."""
    header, *rows = table
    yield f"| {' | '.join(header)} |"
    yield "|---" + "|---:" * (len(header) - 1) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def remarks(rows: Sequence[Row], missing: Mapping[str, str], conditions: Mapping[str, Any]) -> list[str]:
    """What a reader has to know, each once."""
    found = list(dict.fromkeys(note for row in rows for note in row.notes))
    found.append(f"Folded, words / phones: {'; '.join(FOLDED)}; for every system, in answers and references.")
    if conditions["rounds"]:
        found.append(
            f"Times: medians of {conditions['rounds']} rounds in turns on {conditions['timed_words']:,} words, "
            f"{conditions['workers']} process(es) of one thread for each system; {conditions['cores']} core(s)."
        )
        if conditions["load"] > BUSY:
            found.append(
                f"THE MACHINE WAS BUSY (load {conditions['load']:.1f} before the start): "
                "words/s and start-up are not valid."
            )
    return found + [f"{name} is left out: {how}" for name, how in missing.items()]


def document(rows: Sequence[Row], missing: Mapping[str, str], conditions: Mapping[str, Any]) -> dict[str, Any]:
    """Everything, for JSON; NaN becomes null."""

    def metric(found: Metric) -> dict[str, float | None]:
        return {"value": found.value, "low": found.low, "high": found.high}

    def both(found: Errors) -> dict[str, Any]:
        return {"line_error": metric(found.words), "symbol_error": metric(found.phones)}

    def times(row: Row) -> dict[str, float | None]:
        if row.times is None:
            return {"words_per_second": None, "start_seconds": None}
        rate = row.times.words_per_second
        return {"words_per_second": rate if math.isfinite(rate) else None, "start_seconds": row.times.start}

    systems = [
        {"name": row.name, "version": row.version, "strict": both(row.strict), "folded": both(row.folded)}
        | times(row)
        | {"model_bytes": row.model_bytes, "all_bytes": row.all_bytes, "notes": list(row.notes)}
        for row in rows
    ]
    return {"systems": systems, "missing": dict(missing), "conditions": dict(conditions)}


def page(rows: Sequence[Row], missing: Mapping[str, str], conditions: Mapping[str, Any]) -> str:
    """A section of a page."""
    versions = dict.fromkeys(f"{row.name.split(',')[0]} {row.version}" for row in rows)
    counts = f"{conditions['words']:,} words, {conditions['pronunciations']:,} pronunciations"
    parts = [
        "## Pronunciation beside other systems",
        f"```\n{conditions['command']}\n```",
        f"{counts}; a word is right if the answer equals any listed pronunciation; "
        "brackets are 95 % bootstrap intervals. "
        f"{', '.join(versions)}; Python {conditions['python']}, torch {conditions['torch']}.",
        *("\n".join(markdown(table)) for table in tables(rows)),
        "\n".join(f"- {remark}" for remark in remarks(rows, missing, conditions)),
    ]
    return "\n\n".join(parts) + "\n"


# ---- the run ----


def arguments() -> argparse.Namespace:
    """What was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", metavar="MODEL", help="a model file or a run of clearhead")
    parser.add_argument("--words", type=Path, required=True, help="letters<TAB>phones")
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 4], help="1 is greedy")
    parser.add_argument("--train", type=Path, nargs="+", help="what Phonetisaurus is trained on; the form of --words")
    parser.add_argument("--phonetisaurus", type=Path, metavar="FST", help="its model; made from --train if not there")
    parser.add_argument("--phonetisaurus-path", type=Path, metavar="DIR", help="where pip has put it")
    parser.add_argument("--g2p-en-path", type=Path, metavar="DIR", help="where pip has put it")
    parser.add_argument("--espeak-ng", default="espeak-ng", metavar="PROGRAM")
    parser.add_argument("--workers", type=int, default=cores(), help="processes of each system; all cores without it")
    parser.add_argument("--rounds", type=int, default=5, help="of times; 0 measures none")
    parser.add_argument("--timed-words", type=int, default=1000, help="words of a round, drawn from --words")
    parser.add_argument("--bootstrap", type=int, default=1000, help="samples for the intervals")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="a section in Markdown")
    return parser.parse_args()


def trained_phonetisaurus(asked: argparse.Namespace, lexicon: Lexicon) -> Pronouncer:
    """Phonetisaurus, trained if it has to be; says how many of the words it has seen."""
    if asked.phonetisaurus is None:
        raise NotInstalled("--phonetisaurus FST names its model, and --train FILE what to train it on")
    if asked.train is None:
        if not asked.phonetisaurus.exists():
            raise NotInstalled(f"{asked.phonetisaurus} is not there: --train FILE makes it")
        return phonetisaurus(asked.phonetisaurus_path, asked.phonetisaurus, "training data unknown", asked.workers)
    known: dict[str, list[str]] = {}
    for file in asked.train:
        for word, spoken in read_lexicon(file).items():
            known.setdefault(word, []).extend(spoken)
    if not asked.phonetisaurus.exists():
        say(f"Phonetisaurus: training on {len(known):,} words, which takes a few minutes")
    train_phonetisaurus(asked.phonetisaurus_path, asked.phonetisaurus, asked.train, known)
    names = " and ".join(file.name for file in asked.train)
    seen = sum(word in known for word in lexicon)
    trained_on = f"trained on {names}, {len(known):,} words, {seen:,} of them among these"
    return phonetisaurus(asked.phonetisaurus_path, asked.phonetisaurus, trained_on, asked.workers)


def present(asked: argparse.Namespace, lexicon: Lexicon) -> tuple[list[Pronouncer], dict[str, str]]:
    """All systems that are there, and how to get the others."""
    names = [Path(model).name for model in asked.models]
    names = names if len(set(names)) == len(names) else asked.models
    ours = ["clearhead"] if len(names) == 1 else [f"clearhead {name}" for name in names]
    systems: list[Pronouncer] = [
        Clearhead(model, beam, asked.workers, name)
        for model, name in zip(asked.models, ours, strict=True)
        for beam in asked.beams
    ]
    peers: dict[str, Callable[[], Pronouncer]] = {
        "Phonetisaurus": lambda: trained_phonetisaurus(asked, lexicon),
        "g2p-en": lambda: g2p_en(asked.g2p_en_path, asked.workers),
        "espeak-ng": lambda: espeak_ng(asked.espeak_ng, asked.workers),
    }
    missing = {}
    for name, make in peers.items():
        try:
            systems.append(make())
        except NotInstalled as problem:
            missing[name] = str(problem)
            say(f"{name} is left out: {problem}")
    return systems, missing


def shown_command(words: Sequence[str]) -> str:
    """The command without the folders of this machine."""
    return shlex.join(["python", "-m", "benchmarks.pronunciation", *(Path(word).name or word for word in words)])


def say(line: str) -> None:
    """A line of progress."""
    print(line, file=sys.stderr, flush=True)


def compare(asked: argparse.Namespace) -> None:
    """Judge, time, print, write."""
    import torch

    load = os.getloadavg()[0]
    lexicon = read_lexicon(asked.words)
    systems, missing = present(asked, lexicon)
    timed = random.Random(1).sample(list(lexicon), min(asked.timed_words, len(lexicon)))
    conditions = {
        "command": shown_command(sys.argv[1:]),
        "words": len(lexicon),
        "pronunciations": sum(map(len, lexicon.values())),
        "rounds": asked.rounds,
        "timed_words": len(timed),
        "workers": asked.workers,
        "cores": cores(),
        "load": load,
        "python": sys.version.split()[0],
        "torch": torch.__version__,
    }
    try:
        rows = [judged(system, lexicon, asked.bootstrap, say) for system in systems]
        if asked.rounds:
            measured = times_in_turns(systems, timed, asked.rounds, say)
            rows = [Row(**vars(row) | {"times": times}) for row, times in zip(rows, measured, strict=True)]
    finally:
        for system in systems:
            system.close()
    for table in tables(rows):
        print(*aligned(table), sep="\n", end="\n\n")
    for remark in remarks(rows, missing, conditions):
        print(textwrap.fill(remark, WIDTH, subsequent_indent="  "))
    if asked.json:
        content = json.dumps(document(rows, missing, conditions), indent=1, ensure_ascii=False)
        write_whole(asked.json, f"{content}\n".encode())
    if asked.page:
        write_whole(asked.page, page(rows, missing, conditions).encode())


def main() -> int:
    """Compare; a mistake of the user is a line, not a traceback."""
    try:
        compare(arguments())
    except ClearheadError as problem:
        say(f"error: {problem}")
        return problem.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
