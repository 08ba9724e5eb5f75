"""What ``training.compile`` brings: processor time of a step, plain and compiled, and what compiling takes.

    python -m benchmarks.compiling [--steps 20] [--rounds 5] [settings of a recipe …]

One thread. Batches are of several sizes, as training has them; both ways take the same ones in turn, and the fastest
round of each counts.
"""

import argparse
import time
from typing import Any

import torch

from clearhead.data import BOS, EOS, Batch
from clearhead.models import build
from clearhead.recipe import read_recipe
from clearhead.training import Learner, objective_of
from clearhead.training.optimizer import make_optimizers

SIZES = [(32, 16), (24, 21), (16, 32), (11, 46), (40, 13)]
"""Lines and tokens on either side of the batches: about 512 tokens each, as the usual training.batch_tokens."""


def batches(vocabulary: int) -> list[Batch]:
    """Random pairs whose last lines are shorter, as they are after sorting by length."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for lines, length in SIZES:
        source, target = (torch.randint(4, vocabulary, (lines, length), generator=generator) for _ in range(2))
        source[:, -1] = target[:, -1] = EOS
        source[-1, -1] = target[-1, -1] = 0
        inputs = torch.cat((torch.full((lines, 1), BOS), target[:, :-1]), dim=1)
        made.append(Batch(source, inputs, target))
    return made


class Way:
    """One way of training: the model, its loss and its optimizer."""

    def __init__(self, settings: list[str], *, compiles: bool) -> None:
        recipe = read_recipe("tiny", *settings, f"training.compile={str(compiles).lower()}")
        self.learner = Learner(build(recipe, seed=0).train(), objective_of(recipe), recipe.training)
        self.optimizers = make_optimizers(self.learner.model, recipe.training.optimizer)
        self.recipe: Any = recipe

    def step(self, batch: Batch) -> None:
        """One step."""
        (self.learner(batch) / batch.tokens).backward()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

    def seconds(self, made: list[Batch], steps: int) -> float:
        """Processor seconds of a step."""
        start = time.process_time()
        for number in range(steps):
            self.step(made[number % len(made)])
        return (time.process_time() - start) / steps


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    plain, quick = (Way(given.settings, compiles=compiles) for compiles in (False, True))
    made = batches(plain.recipe.model.vocabulary.target)
    start = time.perf_counter(), time.process_time()
    quick.step(made[0])
    wall, busy = time.perf_counter() - start[0], time.process_time() - start[1]
    plain.step(made[0])
    rounds = [[way.seconds(made, given.steps) for way in (plain, quick)] for _ in range(given.rounds)]
    one, other = (1000 * min(times) for times in zip(*rounds, strict=True))
    print(f"first step, with compiling: {wall:.0f} s, of which this process computed {busy:.0f} s")
    print(f"plain {one:.1f} ms a step, compiled {other:.1f} ms: {one / other:.2f} × as fast")


if __name__ == "__main__":
    main()
