"""Which settings learn most in the same time? One table, from training runs on dev data alone.

    python -m benchmarks.learning STUDY --train train.tsv --dev dev.tsv [--core-minutes 5] [--only rope muon]

Each row of ``SETTINGS`` is trained by `clearhead train` on one thread, for as many steps as fit into the same time of
one core. What a step takes is measured for all rows before the first is trained (``--plan`` does only this: in a quiet
minute), and the number of steps is kept: from then on steps are the clock, and other work on the machine changes
nothing. ``--steps 5000`` gives every row this number instead. Rows that STUDY already has are not trained again, so
that the study can be stopped and continued; a row that was interrupted goes on from its last checkpoint. ``--seeds 1
2`` trains each row twice. Two parallel files make one of pairs: `paste train.en train.de | awk -F'\\t' 'NF == 2' >
train.tsv`; sentences are judged by BLEU, words by the share of those that are wrong.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

import clearhead
from clearhead.data import EpochPlan
from clearhead.models import build, count_parameters
from clearhead.recipe import metric_rises, read_with_origins
from clearhead.training.hardware import loss_of
from clearhead.training.optimizer import make_optimizers
from clearhead.training.preparation import Prepared, prepare
from clearhead.training.resuming import StatedRecipe
from clearhead.verbs.sizing import sized_by_budget

ROPE = ["model.position.kind=rope"]
ACROSS = [*ROPE, "model.cross.position.kind=rope"]
GATED = ["model.feedforward.kind=gated", "model.feedforward.width=512"]
BEFORE = [*ACROSS, *GATED, "model.feedforward.activation=relu"]
NGRAMS = [*BEFORE, "model.encoder.ngrams.reach=2"]
SETTINGS: dict[str, list[str]] = {
    # 3+3 layers of width 192, gated nets of 512, rotary positions, across too, n-grams that reach 2 letters to either
    # side, AdamW 0.001; and 512 tokens a batch, where many short lines would have 2,048
    "defaults": [],
    "256 tokens": ["training.batch_tokens=256"],
    "2,048 tokens": ["training.batch_tokens=2048"],
    "2,048 tokens, rate 0.001": ["training.batch_tokens=2048", "training.optimizer.rate=0.001"],
    "2,048 tokens, rate 0.002": ["training.batch_tokens=2048", "training.optimizer.rate=0.002"],
    "2,048 tokens, rate 0.004": ["training.batch_tokens=2048", "training.optimizer.rate=0.004"],
    "2,048 tokens, rate 0.002, agreement": [
        *("training.batch_tokens=2048", "training.optimizer.rate=0.002"),
        *("training.agreement=5", "model.dropout.residual=0.2", "model.dropout.embedding=0.2"),
    ],
    "1,024 tokens": ["training.batch_tokens=1024"],
    "1,024 tokens, rate 0.002": ["training.batch_tokens=1024", "training.optimizer.rate=0.002"],
    "mixed lengths": ["training.window=1"],
    "muon": ["training.optimizer.kind=muon"],
    "average 0.99": ["training.average=0.99"],
    "float32": ["training.precision=float32"],
    "pieces of letters": ["data.source.kind=bpe", "data.source.size=300"],
    # n-grams, nets and positions
    "n-grams, 8,192 rows of 32": [*NGRAMS, "model.encoder.ngrams.buckets=8192", "model.encoder.ngrams.width=32"],
    "n-grams within 1": [*BEFORE, "model.encoder.ngrams.reach=1"],
    "n-grams within 3": [*BEFORE, "model.encoder.ngrams.reach=3"],
    "no n-grams": BEFORE,
    "gated by SiLU": [*ACROSS, *GATED],
    "gated by SiLU, 384": [*ACROSS, *GATED, "model.feedforward.width=384"],
    "plain nets": ACROSS,
    "gated by SiLU, not across": [*ROPE, *GATED],
    "plain nets, not across": ROPE,
    # what changes the row above
    "sinusoids": ["model.position.kind=sinusoidal"],
    "sinusoids in the encoder": ["model.encoder.position.kind=sinusoidal", "model.decoder.position.kind=rope"],
    "shaw": ["model.position.kind=shaw"],
    "t5": ["model.position.kind=t5"],
    "4+3 layers": [*ROPE, "model.encoder.layers=4"],
    "4+4 layers, net of 384": [*ROPE, "model.layers=4", "model.feedforward.width=384"],
    "4+2 layers of width 128": [*ROPE, "model.encoder.layers=4", "model.decoder.layers=2", "model.width=128"],
    "3+1 layers of width 256": [*ROPE, "model.encoder.layers=3", "model.decoder.layers=1", "model.width=256"],
    "width 256, rate 0.0005": [*ROPE, "model.width=256", "training.optimizer.rate=0.0005"],
    "8 heads": [*ROPE, "model.heads=8"],
    "rate 0.0005": [*ROPE, "training.optimizer.rate=0.0005"],
    "rate 0.002": [*ROPE, "training.optimizer.rate=0.002"],
    "betas 0.9, 0.95": [*ROPE, "training.optimizer.betas=[0.9,0.95]"],
    "warm-up 0.15": [*ROPE, "training.schedule.warmup=0.15"],
    "warm-up 0.15, rate 0.002": [*ROPE, "training.schedule.warmup=0.15", "training.optimizer.rate=0.002"],
    "linear": [*ROPE, "training.schedule.kind=linear"],
    "dropout 0.05": [*ROPE, "model.dropout.residual=0.05", "model.dropout.embedding=0.05"],
    "no smoothing": [*ROPE, "training.label_smoothing=0"],
}
"""Rows, each with its settings; what describes no layers has those that suit a short budget."""
TIMED = 24
"""Steps by which the time of a step is measured; the median counts."""
ROUNDS = 3


def seconds_per_step(run: Prepared) -> float:
    """Processor time of a step on one thread: forward, backward, optimizer."""
    spec, objective = run.recipe.training, run.objective
    model: Any = build(run.recipe, seed=0).train()
    optimizers = make_optimizers(model, spec.optimizer)
    plan = list(EpochPlan(run.examples, seed=1, epoch=0, batch_tokens=spec.batch_tokens, window=spec.window))
    times = []
    for rows in plan[:TIMED]:
        before = time.process_time()
        torch.autograd.backward(loss_of(objective, model, objective.batch(run.examples, rows, 0), spec))
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        times.append(time.process_time() - before)
    return statistics.median(times[4:])


def settings_of(name: str, seed: int, asked: argparse.Namespace) -> list[str]:
    """All settings of a row."""
    data = [f"data.train={asked.train}", f"data.dev={asked.dev}", f"training.seed={seed}", "training.threads=1"]
    batch = [] if any("batch_tokens" in setting for setting in SETTINGS[name]) else ["training.batch_tokens=512"]
    return [*data, "decoding.beam_size=1", *batch, *SETTINGS[name]]


def plan_missing(names: Sequence[str], asked: argparse.Namespace) -> None:
    """Plan the rows that have no plan: steps that fit into the time of a core, by rounds over all rows.

    Other work can only slow a step down: the fastest of the rounds counts.
    """
    missing = [name for name in names if not _plan(name, asked).exists()]
    with tempfile.TemporaryDirectory() as folder:
        runs = {}
        for name in missing:
            described = read_with_origins(None, *settings_of(name, 1, asked), "training.steps=1000")
            recipe, chosen = sized_by_budget(*described)
            left = StatedRecipe(recipe, described[1], free=bool(chosen)).left_to_data
            runs[name] = prepare(recipe, Path(folder) / _folder(name), free=left)
        times: dict[str, list[float]] = {name: [] for name in missing}
        for _ in range(ROUNDS):
            for name, run in runs.items():
                times[name].append(seconds_per_step(run))
        for name, run in runs.items():
            each = min(times[name])
            steps = asked.steps or max(1, round(60 * asked.core_minutes / each))
            plan = {"steps": steps, "seconds_per_step": each, "parameters": count_parameters(build(run.recipe, seed=0))}
            _plan(name, asked).write_text(json.dumps(plan), encoding="utf-8")


def _plan(name: str, asked: argparse.Namespace) -> Path:
    study: Path = asked.study
    return study / f"{_folder(name)}.plan.json"


def _folder(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


def studied(name: str, seed: int, asked: argparse.Namespace) -> dict[str, Any]:
    """Train one row, and say how far it came."""
    plan = json.loads(_plan(name, asked).read_text(encoding="utf-8"))
    settings = settings_of(name, seed, asked)
    folder = asked.study / f"{_folder(name)}-{seed}"
    started = time.process_time()
    settings += [f"training.evaluate_every={plan['steps']}"]  # steps are trained, not evaluations
    run = clearhead.train(None, folder, steps=plan["steps"], resume=folder.exists(), settings=settings)
    best = run.best or {}
    scores = {key.removeprefix("dev_"): value for key, value in best.items() if key.startswith("dev_")}
    return {"name": name, "seed": seed, "settings": SETTINGS[name], **plan, **scores} | {
        "core_seconds": time.process_time() - started
    }


def measures(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What the dev data were judged by, the chief one first."""
    return [name for name in ("line_error", "bleu", "symbol_error", "chrf") if all(name in row for row in rows)]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows, the best first."""
    shown = measures(rows)
    lines = [
        f"| setting | seed | parameters | ms a step | steps | {' | '.join(f'dev {name}' for name in shown)} |",
        "|---" * (5 + len(shown)) + "|",
    ]
    for row in sorted(rows, key=lambda row: row[shown[0]], reverse=metric_rises(shown[0])):
        spent = f"{row['parameters']:,} | {1000 * row['seconds_per_step']:.0f} | {row['steps']:,}"
        scores = " | ".join(f"{row[name]:.2f}" for name in shown)
        lines.append(f"| {row['name']} | {row['seed']} | {spent} | {scores} |")
    return "\n".join(lines)


def main() -> None:
    """Train what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("study", type=Path, help="the folder of the study")
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--dev", type=Path, required=True)
    parser.add_argument("--core-minutes", type=float, default=5.0)
    parser.add_argument("--steps", type=int, help="the same number for all, instead of the same time")
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS), metavar="NAME")
    parser.add_argument("--plan", action="store_true", help="measure the steps of each row, and train nothing")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.study.mkdir(parents=True, exist_ok=True)
    kept = asked.study / "rows.jsonl"
    rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()] if kept.exists() else []
    done = {(row["name"], row["seed"]) for row in rows}
    plan_missing(asked.only, asked)
    if asked.plan:
        return
    for seed in asked.seeds:
        for name in asked.only:
            if (name, seed) not in done:
                rows.append(studied(name, seed, asked))
                with kept.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(rows[-1]) + "\n")
                chief = measures(rows[-1:])[0]
                print(f"{name}, seed {seed}: {chief} {rows[-1][chief]:.2f}", flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
