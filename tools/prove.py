"""Runs the long proofs, and writes their results to docs/evidence/proofs.md.

    python -m tools.prove

1. A training run that writes a checkpoint after every step is killed a hundred times, at random instants and while it
   writes, and ends bit-identical; so is one of two processes. The disk is full at every single write, sync and rename
   of a run: it ends with one message, and is resumed bit for bit. The tests that `make test` leaves out or runs on
   some cases (marks `prove` and `drawn`) run on all: every mechanism is traced alone, 30 drawn batches go through
   each, thousands of texts through every reader, and `run -o` is killed and resumed across real windows of lines.
2. Ten thousand bad inputs, of seven kinds, end in a message and the right exit code (docs/evidence/attack.md).
   200,000 lines go through a pipe, and a million pairs are prepared, in flat memory. Ten thousand requests, drawn from
   the OpenAPI document and spoilt, reach the application of `clearhead serve`: no 500, no traceback, no hang.
3. A model is trained on `g2p-en`; 10,000 words are answered alone, in batches of 7 and of 64, and shuffled, by greedy
   search, beam and sampling. Answers must be the same; where they are not, the first two tokens that differ must be a
   tie: their log-probabilities are less than 1e-5 apart.
4. Every mechanism learns a small task that needs it, to 99 % on new examples; without it the task stays unlearnt.
5. A language model learns the phones of `g2p-en` for 35 minutes and has a lower perplexity than a Kneser–Ney 5-gram.
6. The task `digits`, with its defaults and three minutes, reaches 97 % on held-out images.

What fails is on the page too, and decides the exit code.
"""

import json
import os
import platform
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch
from benchmarks.lm_perplexity import compare

from clearhead.data import PAIRS, read_corpus
from clearhead.evaluation import group
from clearhead.machine import cores
from clearhead.models import Seq2Seq
from clearhead.predictor import Answer, Predictor, TextWriter, WorkerPool, forced, load
from clearhead.recipe import read_recipe
from tools import learning
from tools.long_haul import flat_memory

ROOT = Path(__file__).parent.parent
WORDS = 10_000
FAILED = "**not reached**:"


KILLS, FAULTS = 100, 10_000
"""How often runs are killed, and at how many instants at most the disk is full; a run has fewer."""
REQUESTS = 10_000
"""Hostile requests to the server."""


def longer(words: Sequence[str], wanted: str, failure: str = "a run did not end bit-identical") -> str:
    """Run longer versions of tests, and return the lines of pytest's output that contain ``wanted``."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", *words]
    counts = {"CLEARHEAD_KILLS": str(KILLS), "CLEARHEAD_FAULTS": str(FAULTS), "CLEARHEAD_THOROUGH": "1"}
    environment = os.environ | counts | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        print(result.stdout, result.stderr)
        return f"{FAILED} {failure}"
    return "; ".join(line.lstrip(".") for line in result.stdout.splitlines() if wanted in line)


def kill_storm() -> str:
    """The kill test of tests/cli/test_train.py, with more kills."""
    return longer(["tests/cli/test_train.py::test_a_storm_of_kills_changes_nothing"], "killed")


def full_disk() -> str:
    """The faults of tests/training/test_faults.py, at every instant."""
    return longer(["tests/training/test_faults.py"], "the disk was full")


def every_case() -> str:
    """The tests of which `make test` runs some cases, on all of them."""
    return longer(["-m", "prove or drawn", "tests"], " passed", "see above")


def bad_inputs() -> str:
    """The whole attack; its table has its own page."""
    command = [sys.executable, "-m", "tools.attack", "--page", str(ROOT / "docs" / "evidence" / "attack.md")]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    summary = result.stdout.splitlines()[-1]
    return f"{FAILED} {summary}" if result.returncode else summary


def hostile_requests(model: Path) -> str:
    """Requests of all kinds to the server's application, answered by this model; see tools/fuzz_serve.py."""
    command = [sys.executable, "-m", "tools.fuzz_serve", f"run={model}", "--count", str(REQUESTS)]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    return f"{FAILED} see above" if result.returncode else "; ".join(result.stdout.splitlines())


def long_haul(model: Path) -> str:
    """Many lines through a pipe, and many pairs prepared."""
    try:
        answered = flat_memory(str(model))
    except AssertionError as error:
        return f"{FAILED} {error}"
    command = [sys.executable, "-m", "tools.long_haul_data"]
    result = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    prepared = "; ".join(result.stdout.split("\n")).strip("; ")
    return f"{FAILED if result.returncode else ''} {answered}; {prepared}".strip()


def trained(folder: Path) -> Predictor:
    """A model of g2p-en after 1,500 steps: often wrong, often uncertain."""
    command = [sys.executable, "-m", "clearhead", "train", "g2p-en", "-o", str(folder), "--max-steps", "1500"]
    subprocess.run([*command, "training.evaluate_every=1500", "decoding.beam_size=1"], check=True)
    return load(folder)


def batches_do_not_matter(predictor: Predictor, settings: dict[str, int | bool]) -> str:
    """Contract 1 on real words."""
    corpus = read_corpus(read_recipe(None, "data.task=g2p-en").data, PAIRS)
    words = group([*corpus.test, *corpus.dev, *corpus.train()])[0][:WORDS]
    longest = max(len(word) for word in words) + 1
    runs = {"alone": 1, "7": 7 * longest, "64": 64 * longest}
    reference = [best for best, *_ in predictor.answers(words, predictor.decoding(**settings))]
    notes = []
    for name, tokens in runs.items():
        other = [best for best, *_ in predictor.answers(words, predictor.decoding(**settings, batch_tokens=tokens))]
        notes.append(_compared(predictor, words, name, reference, other))
    order = list(range(len(words)))
    random.Random(0).shuffle(order)
    shuffled = predictor.answers([words[index] for index in order], predictor.decoding(**settings), numbers=order)
    back = [shuffled[place][0] for place in sorted(range(len(order)), key=order.__getitem__)]
    notes.append(_compared(predictor, words, "shuffled", reference, back))
    return f"{len(words):,} words; " + "; ".join(notes)


def _compared(predictor: Predictor, words: list[str], name: str, mine: list[Answer], other: list[Answer]) -> str:
    """Count the answers that differ; a difference of more than a tie at the first differing token is a failure."""
    rows = [index for index, pair in enumerate(zip(mine, other, strict=True)) if pair[0].tokens != pair[1].tokens]
    gaps = [_gap(predictor, words[index], mine[index].tokens, other[index].tokens) for index in rows]
    if any(gap > 1e-5 for gap in gaps):
        return f"{FAILED} {name}: answers differ by more than a tie: {max(gaps)}"
    return f"{name}: {len(rows)} differ" + (f" (ties, at most {max(gaps):.1e})" if rows else "")


def _gap(predictor: Predictor, word: str, mine: list[int], other: list[int]) -> float:
    """The difference between the log-probabilities of the first two tokens that differ, after the same prefix."""
    same = next((i for i, pair in enumerate(zip(mine, other, strict=False)) if pair[0] != pair[1]), None)
    same = min(len(mine), len(other)) if same is None else same
    assert isinstance(predictor, TextWriter)
    eos, model = predictor.engine.eos, predictor.model
    assert isinstance(model, Seq2Seq)
    source = [*predictor.source.encode([word])[0], eos]
    first, second = forced(model, [source] * 2, [[*mine, eos][: same + 1], [*other, eos][: same + 1]])
    return abs(first.log_probabilities[same] - second.log_probabilities[same])


def language_model_beside_kneser_ney(minutes: float = 35.0) -> str:
    """Train both on the same lines; the language model must be better."""
    found = compare(minutes, cores())
    notes = [
        f"{name}: {found['clearhead'][name]:.2f}, Kneser–Ney {found['kneser-ney'][name]:.2f}"
        for name in ("dev", "test")
    ]
    note = f"{minutes:g} minutes; perplexity on " + ", on ".join(notes)
    return note if found["clearhead"]["test"] < found["kneser-ney"]["test"] else f"{FAILED} {note}"


def digits(folder: Path, minutes: float = 3.0) -> str:
    """Accuracy on the test images."""
    command = [sys.executable, "-m", "clearhead"]
    subprocess.run([*command, "train", "digits", "-o", str(folder), "--minutes", str(minutes)], check=True)
    said = subprocess.run(
        [*command, "eval", str(folder), "--split", "test", "--json"], check=True, capture_output=True, text=True
    )
    accuracy = json.loads(said.stdout)["metrics"]["accuracy"]
    note = f"{minutes:g} minutes; accuracy {accuracy['value']:.1f} [{accuracy['low']:.1f}, {accuracy['high']:.1f}]"
    return note if accuracy["value"] >= 97 else f"{FAILED} {note}"


def main() -> None:
    """Run all proofs and write the page."""
    torch.set_num_threads(1)
    rows: list[tuple[str, str]] = []

    def note(name: str, found: str) -> None:
        rows.append((name, found))
        print(rows[-1], flush=True)

    note("Killed and resumed", kill_storm())
    note("A full disk", full_disk())
    note("Every case of the tests", every_case())
    note("Bad input", bad_inputs())
    with tempfile.TemporaryDirectory() as folder:
        predictor = trained(Path(folder) / "run")
        searches: dict[str, dict[str, int | bool]] = {
            "beam of 4": {"beam_size": 4},
            "greedy": {"beam_size": 1},
            "sampling": {"sample": True, "seed": 1},
        }
        with WorkerPool(partial(batches_do_not_matter, predictor), cores()) as pool:
            for name, found in zip(searches, pool.results(searches.values()), strict=True):
                note(f"Batches do not matter, {name}", found)
        note("Hostile requests", hostile_requests(Path(folder) / "run"))
        note("Long haul", long_haul(Path(folder) / "run"))
        lessons, unlearnt = learning.prove()
        note("A language model beside a 5-gram", language_model_beside_kneser_ney())
        note("Digits", digits(Path(folder) / "digits"))
    lines = [
        "# Proofs",
        "",
        "Written by `make prove`.",
        "",
        f"torch {torch.__version__}, Python {platform.python_version()}",
        "",
    ]
    lines += ["| proof | what it found |", "|---|---|"] + [f"| {name} | {found} |" for name, found in rows]
    lines += ["", "## Every mechanism learns a task that needs it", "", *learning.legend(), "", *lessons]
    (ROOT / "docs" / "evidence").mkdir(parents=True, exist_ok=True)
    (ROOT / "docs" / "evidence" / "proofs.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.exit("\n".join(unlearnt + [f"{name}: {found}" for name, found in rows if FAILED in found]) or 0)


if __name__ == "__main__":
    main()
