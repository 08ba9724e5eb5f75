"""Time and memory of one encoder layer over the length, and the exponents that the closed forms predict.

    python -m benchmarks.clock [--lengths 64 128 … 4096] [--width 128] [--rounds 5] [-o docs/evidence/clock.png]

A forward and a backward pass of one sequence, attention explicit and fused. Time is the median of a few rounds, memory
what autograd keeps. The exponent is fitted to the last four lengths, of what was measured and of the formula. The clock
is shown, never the judge: it follows work only roughly.
"""

import argparse
import math
import statistics
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from clearhead.costing import Formula, cost
from clearhead.costing.picture import COLOURS, check_file, pyplot, save
from clearhead.costing.tracing import attention_path, saved_bytes
from clearhead.models import build
from clearhead.recipe import read_recipe


@dataclass(frozen=True)
class Curve:
    """Measurements over the length, and what is predicted for them up to a factor."""

    name: str
    measured: list[float]
    predicted: list[int]


def slope(lengths: list[int], values: list[float] | list[int]) -> float:
    """The exponent at the long end: a line through the last four points on logarithmic axes."""
    xs, ys = [math.log(n) for n in lengths[-4:]], [math.log(value) for value in values[-4:]]
    x, y = statistics.mean(xs), statistics.mean(ys)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / sum((a - x) ** 2 for a in xs)


def measure(lengths: list[int], width: int, rounds: int) -> tuple[list[Curve], list[Curve]]:
    """Seconds and bytes of both paths."""
    sizes = ["model.layers=1", f"model.width={width}", "model.heads=4", "model.dropout.residual=0.0"]
    recipe = read_recipe("ttic", *sizes, "model.dropout.embedding=0.0", "model.vocabulary.pad=none")
    model, formula = build(recipe, seed=1), cost(recipe)
    clocks, memories = [], []
    for path in ("explicit", "fused"):
        attention_path(model, path)
        seconds, kept = [], []
        for length in lengths:
            ids = torch.randint(4, 200, (1, length))
            kept.append(float(saved_bytes(lambda ids=ids: model(ids), model)))  # type: ignore[misc]
            seconds.append(statistics.median(_seconds(model, ids) for _ in range(rounds)))
        saved = formula.saved if path == "explicit" else formula.fused.saved
        clocks.append(Curve(path, seconds, _values(formula.training, lengths)))
        memories.append(Curve(path, kept, _values(saved, lengths)))
    return clocks, memories


def _values(formula: Formula, lengths: list[int]) -> list[int]:
    return [formula.at(n=length, B=1) for length in lengths]


def _seconds(model: torch.nn.Module, ids: torch.Tensor) -> float:
    start = time.perf_counter()
    model(ids).sum().backward()
    return time.perf_counter() - start


def draw(lengths: list[int], clocks: list[Curve], memories: list[Curve], path: Path) -> None:
    """Two panels on logarithmic axes: points are measured, lines are predicted, scaled to the last point."""
    plt = pyplot()
    figure, panels = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    titles = ("forward and backward, seconds", "kept for the backward pass, bytes")
    for panel, title, curves in zip(panels, titles, (clocks, memories), strict=True):
        for colour, curve in zip(COLOURS, curves, strict=True):
            scale = curve.measured[-1] / curve.predicted[-1]
            was, says = slope(lengths, curve.measured), slope(lengths, curve.predicted)
            panel.plot(lengths, [scale * value for value in curve.predicted], color=colour, linewidth=1.5)
            panel.plot(
                lengths,
                curve.measured,
                "o",
                color=colour,
                label=f"{curve.name}: measured n^{was:.2f}, formula n^{says:.2f}",
            )
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_xlabel("n, tokens", fontsize=11)
        panel.set_title(title, fontsize=12, loc="left")
        panel.grid(which="major", alpha=0.3)
        panel.legend(fontsize=10, frameon=False)
    save(figure, path)
    plt.close(figure)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 128, 256, 512, 1024, 2048, 4096])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("-o", "--output", type=Path, default=Path("docs/evidence/clock.png"))
    asked = parser.parse_args()
    check_file(asked.output)
    torch.set_num_threads(1)
    clocks, memories = measure(asked.lengths, asked.width, asked.rounds)
    for what, curves in (("seconds", clocks), ("bytes", memories)):
        for curve in curves:
            was, says = slope(asked.lengths, curve.measured), slope(asked.lengths, curve.predicted)
            print(f"{what:<8} {curve.name:<9} measured n^{was:.2f}, formula n^{says:.2f}")
    draw(asked.lengths, clocks, memories, asked.output)


if __name__ == "__main__":
    main()
