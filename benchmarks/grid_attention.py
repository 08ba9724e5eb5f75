"""Time of attention on a grid: the whole grid at once, along its axes, and in windows.

    python -m benchmarks.grid_attention [--sizes 16 32 64] [--width 128] [--heads 4] [--window 8] [--rounds 7]

One layer's attention, of one image of X × X patches, forward and with its backward pass; the kinds take turns and the
median counts. Beside each time stand the multiply-accumulates of the closed forms: 4XYd² + 2(XY)²d for the grid,
8XYd² + 2XY(X + Y)d along the axes, 4XYd² + 2w²XYd in windows.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from clearhead.attention import AxialAttention, GridAttention, MultiHeadAttention, WindowAttention


@dataclass(frozen=True)
class Contender:
    """One kind of attention, and what it costs by its closed form."""

    module: nn.Module
    macs: int


def contenders(size: int, width: int, heads: int, window: int) -> dict[str, Contender]:
    """Every kind on a grid of size × size."""

    def inside() -> MultiHeadAttention:
        return MultiHeadAttention(width=width, heads=heads)

    grid, n = (size, size), size * size
    projections = 4 * n * width**2
    return {
        "grid": Contender(GridAttention(inside(), grid=grid), projections + 2 * n * n * width),
        "axial": Contender(AxialAttention(inside(), inside(), grid=grid), 2 * projections + 2 * n * 2 * size * width),
        f"window {window}": Contender(
            WindowAttention(inside(), grid=grid, size=window), projections + 2 * window**2 * n * width
        ),
    }


def forward(module: nn.Module, cells: Tensor) -> None:
    """A forward pass."""
    with torch.inference_mode():
        module(cells)


def forward_and_backward(module: nn.Module, cells: Tensor) -> None:
    """A forward and a backward pass."""
    module(cells).sum().backward()
    module.zero_grad(set_to_none=True)


def measure(
    kinds: dict[str, Contender], run: Callable[[nn.Module, Tensor], None], cells: Tensor, rounds: int
) -> dict[str, float]:
    """Median seconds of each kind; they take turns, and the first round does not count."""
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + 1):
        for name, contender in kinds.items():
            start = time.perf_counter()
            run(contender.module, cells)
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def main() -> None:
    """Print a table per size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[16, 32, 64], help="rows and columns of the grid")
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--window", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"d {arguments.width}, {arguments.heads} heads, {arguments.threads} threads, {arguments.rounds} rounds")
    for size in arguments.sizes:
        torch.manual_seed(0)
        kinds = contenders(size, arguments.width, arguments.heads, arguments.window)
        cells = torch.randn(1, size * size, arguments.width)
        for run in (forward, forward_and_backward):
            medians = measure(kinds, run, cells, arguments.rounds)
            print(f"{size} × {size}, {run.__name__.replace('_', ' ')}")
            for name, seconds in medians.items():
                faster, macs = medians["grid"] / seconds, kinds[name].macs / 1e6
                print(f"  {name:<10} {1000 * seconds:8.1f} ms {faster:6.1f}× the grid's speed {macs:9,.0f} M MACs")


if __name__ == "__main__":
    main()
