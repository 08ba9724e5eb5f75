"""The time of a look against that of a forward and backward pass: 6 + 6 layers of width 512, 100 tokens on both sides.

    python -m benchmarks.look_speed [--tokens 100] [--vocabulary 8000] [--repeats 5]

Both are measured in turns on the same line, and the ratio of the medians is printed for each thing that a look tells.
Integrated gradients and occlusion are on demand: the first takes forward and backward passes by the hundred, the second
one forward pass for each token, and neither is part of the bound.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from clearhead.inspection import View
from clearhead.machine import shown_bytes
from clearhead.models import Seq2Seq, build
from clearhead.predictor import look_at_ids
from clearhead.recipe import read_recipe

BOUND = 2.0
"""A look takes at most this many times a forward and backward pass."""


def seconds(run: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def learn(model: Seq2Seq, source: Tensor, target: Tensor) -> None:
    """One forward and backward pass over the same line, as in training."""
    model.train()
    logits = model(source, target[:, :-1])
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten()).backward()
    model.zero_grad()
    model.eval()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=100)
    parser.add_argument("--vocabulary", type=int, default=8000)
    parser.add_argument("--repeats", type=int, default=5)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    sizes = [f"model.vocabulary.{side}={asked.vocabulary}" for side in ("source", "target")]
    model = build(read_recipe("transformer-base", *sizes), seed=1)
    assert isinstance(model, Seq2Seq)
    source = torch.randint(4, asked.vocabulary, (asked.tokens,)).tolist()
    answer = torch.randint(4, asked.vocabulary, (asked.tokens,)).tolist()
    lines = torch.tensor([source]), torch.tensor([[1, *answer]])

    def look() -> View:
        return look_at_ids(model, source, answer)

    def everything() -> None:
        view = look()
        _ = view.attention, view.norms, view.log_probabilities, view.alternatives
        view.rollout()
        view.lens()
        view.decoder_lens()
        view._parts(range(asked.tokens))
        view.align()

    view = look()
    steps: dict[str, Callable[[], object]] = {
        "replay and record": look,
        "norms": lambda: [layer for maps in look().norms.values() for layer in maps],
        "rollout": lambda: look().rollout(),
        "logit lens": lambda: look().lens(),
        "DecoderLens": lambda: look().decoder_lens(),
        "parts of every token": lambda: look()._parts(range(asked.tokens)),
        "everything": everything,
    }
    learn(model, *lines)
    once: list[float] = []
    taken: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(asked.repeats):
        once.append(seconds(lambda: learn(model, *lines)))
        for name, run in steps.items():
            taken[name].append(seconds(run))
    base = statistics.median(once)
    print(f"{asked.tokens} tokens, 6 + 6 layers of 512, vocabulary {asked.vocabulary:,}, one thread")
    print(f"forward + backward       {base * 1e3:8.0f} ms")
    for name, times in taken.items():
        print(f"{name:<24} {statistics.median(times) * 1e3:8.0f} ms  {statistics.median(times) / base:5.2f} ×")
    print(f"memory stated beforehand {shown_bytes(view.memory)}")
    ratio = statistics.median(taken["everything"]) / base
    print(f"everything / (forward + backward) = {ratio:.2f} (bound {BOUND}): {'holds' if ratio <= BOUND else 'FAILS'}")


if __name__ == "__main__":
    main()
