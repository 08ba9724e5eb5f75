"""Speed of the training pipeline on real pairs, with our batches and with the usual random ones.

    python -m benchmarks.pipeline_speed [--data TRAIN.tsv] [--seconds 60]

Both train the default model with the same step; only the batches differ. Ours are of lines of one length, by a budget
of tokens; the usual ones are of shuffled lines, as many as give the same number of real target tokens a batch, padded
to the longest. They take turns; printed are real target tokens per second of work, making the batch included.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from clearhead.data import EncodedPairs, EpochPlan, make_batch, padding_share
from clearhead.models import Seq2Seq, build
from clearhead.recipe import TrainingSpec, read_recipe
from clearhead.training import batch_loss, prepare
from clearhead.training.optimizer import make_optimizers


def random_plan(pairs: EncodedPairs, tokens: float) -> list[NDArray[np.int64]]:
    """Batches of shuffled lines with ``tokens`` target tokens on average."""
    lines = round(tokens / float((pairs.target.lengths + 1).mean()))
    order = np.random.default_rng(0).permutation(len(pairs))
    return np.split(order, range(lines, len(order), lines))


def tokens_per_second(
    model: Seq2Seq, optimizer: torch.optim.Optimizer, pairs: EncodedPairs, plan: list[NDArray[np.int64]], seconds: float
) -> Iterator[float]:
    """Train for about ``seconds`` per iteration; yield target tokens per second, without padding."""
    index = 0
    while True:
        done, start = 0, time.perf_counter()
        while time.perf_counter() - start < seconds:
            batch = make_batch(pairs, plan[index % len(plan)])
            (batch_loss(model, batch, 0.1) / batch.tokens).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            done += batch.tokens
            index += 1
        yield done / (time.perf_counter() - start)


def main() -> None:
    """Print tokens per second of both, and the ratio of medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="g2p-en", help="a task or a file of pairs")
    parser.add_argument("--seconds", type=float, default=60.0, help="of training for each of the two")
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    where = "task" if arguments.data == "g2p-en" else "train"
    with tempfile.TemporaryDirectory() as folder:
        run = prepare(read_recipe(None, f'data.{where}="{arguments.data}"', "training.steps=1"), Path(folder))
        spec: TrainingSpec = run.recipe.training
        pairs = run.examples
        assert isinstance(pairs, EncodedPairs)
        ours = list(EpochPlan(pairs, seed=0, epoch=0, batch_tokens=spec.batch_tokens, window=spec.window))
        tokens = float((pairs.target.lengths + 1).sum()) / len(ours)
        plans = {"ours": ours, "random": random_plan(pairs, tokens)}
        runs = {}
        for name, plan in plans.items():
            model = build(run.recipe, seed=0)
            assert isinstance(model, Seq2Seq)
            (optimizer,) = make_optimizers(model, spec.optimizer)
            runs[name] = tokens_per_second(model, optimizer, pairs, plan, arguments.seconds / 10)
        speeds: dict[str, list[float]] = {name: [] for name in runs}
        for number in range(11):
            for name, measured in runs.items():
                speed = next(measured)
                if number:  # the first turn warms up
                    speeds[name].append(speed)
        medians = {name: statistics.median(values) for name, values in speeds.items()}
        for name, median in medians.items():
            print(f"{name:<8} {padding_share(pairs, plans[name]):6.1%} padding, {median:6,.0f} target tokens/s")
        print(f"ours is {medians['ours'] / medians['random']:.2f}×")


if __name__ == "__main__":
    main()
