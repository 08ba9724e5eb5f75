"""Time and memory of every 1-D attention over the length, compared with other libraries.

    pip install linformer
    python -m benchmarks.attention [--lengths 256 … 4096] [--rounds 7] [--threads 1] [--plot FILE.svg]

One layer's attention of one sequence, d = 256, 4 heads, forward and with its backward pass. Those that are compared
take turns, and medians count: disentangled attention beside transformers' DeBERTa (both with k = 512), Linformer
(k = 128) beside the package of that name, T5's buckets, ALiBi, RoPE and Shaw beside plain fused attention. Memory is
the rise of the peak resident size of a process of its own. Equal outputs are checked first.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.attention import (
    AttentionContext,
    DisentangledAttention,
    LinformerAttention,
    MultiHeadAttention,
    RelativeTable,
)
from clearhead.positions import AlibiBias, BucketBias, RelativePosition, RotaryPosition, ShawPosition

WIDTH, HEADS, SPAN, RANK = 256, 4, 512, 128
Run = Callable[[Tensor], Tensor]


def plain(length: int) -> Run:
    """Fused multi-head attention."""
    del length
    return MultiHeadAttention(width=WIDTH, heads=HEADS)


def with_scheme(make: Callable[[], RelativePosition]) -> Callable[[int], Run]:
    """Fused multi-head attention with a relative position scheme."""

    def made(length: int) -> Run:
        attention, scheme, places = MultiHeadAttention(width=WIDTH, heads=HEADS), make(), torch.arange(length)

        def run(x: Tensor) -> Tensor:
            out: Tensor = attention(x, context=AttentionContext(scheme=scheme, queries=places, keys=places))
            return out

        return run

    return made


def disentangled(length: int) -> Run:
    """Ours."""
    torch.manual_seed(0)
    module = DisentangledAttention(width=WIDTH, heads=HEADS, shared=RelativeTable(width=WIDTH, span=SPAN))
    with torch.no_grad():  # DeBERTa's keys have no biases
        module.key.bias.zero_()  # type: ignore[operator]
        module.place_key.bias.zero_()  # type: ignore[union-attr]
    places = torch.arange(length)

    def run(x: Tensor) -> Tensor:
        out: Tensor = module(x, context=AttentionContext(queries=places, keys=places))
        return out

    run.module = module  # type: ignore[attr-defined]
    return run


def deberta(length: int) -> Run:
    """transformers' DeBERTa: its self-attention and the output map, with our weights."""
    from transformers import DebertaConfig
    from transformers.models.deberta.modeling_deberta import DisentangledSelfAttention, build_relative_position

    config = DebertaConfig(
        hidden_size=WIDTH,
        num_attention_heads=HEADS,
        relative_attention=True,
        pos_att_type=["c2p", "p2c"],
        max_position_embeddings=SPAN,
        attention_probs_dropout_prob=0.0,
        hidden_dropout_prob=0.0,
    )
    theirs, ours = DisentangledSelfAttention(config), disentangled(length).module  # type: ignore[attr-defined]
    with torch.no_grad():
        split = [part.weight.unflatten(0, (HEADS, 1, -1)) for part in (ours.query, ours.key, ours.value)]
        theirs.in_proj.weight.copy_(torch.cat(split, 1).flatten(0, 2))
        theirs.q_bias.copy_(ours.query.bias)
        theirs.v_bias.copy_(ours.value.bias)
        theirs.pos_proj.weight.copy_(ours.place_key.weight)
        theirs.pos_q_proj.load_state_dict(ours.place_query.state_dict())
    table, mask = ours.places.table.weight.detach(), torch.ones(1, 1, length, length, dtype=torch.bool)

    like = torch.zeros(1, length, 1)
    distances = build_relative_position(like, like)  # their encoder makes it once for all layers

    def run(x: Tensor) -> Tensor:
        states: Tensor = theirs(x, mask, relative_pos=distances, rel_embeddings=table)[0]
        out: Tensor = ours.output(states)
        return out

    return run


def linformer(length: int) -> Run:
    """Ours."""
    return LinformerAttention(width=WIDTH, heads=HEADS, rank=RANK, length=length)


def public_linformer(length: int) -> Run:
    """The package of that name."""
    from linformer import LinformerSelfAttention

    run: Run = LinformerSelfAttention(WIDTH, length, k=RANK, heads=HEADS)
    return run


KINDS: dict[str, Callable[[int], Run]] = {
    "plain": plain,
    "T5": with_scheme(lambda: BucketBias(heads=HEADS)),
    "ALiBi": with_scheme(lambda: AlibiBias(heads=HEADS)),
    "RoPE": with_scheme(lambda: RotaryPosition(head_size=WIDTH // HEADS)),
    "Shaw": with_scheme(lambda: ShawPosition(head_size=WIDTH // HEADS, value_size=WIDTH // HEADS)),
    "disentangled": disentangled,
    "DeBERTa (transformers)": deberta,
    "Linformer": linformer,
    "linformer (PyPI)": public_linformer,
}
GROUPS = {
    "plain": ["plain", "T5", "ALiBi", "RoPE", "Shaw"],
    "DeBERTa (transformers)": ["DeBERTa (transformers)", "disentangled"],
    "linformer (PyPI)": ["linformer (PyPI)", "Linformer"],
}
"""What is compared: the first of each group is the reference for the others."""


def forward(run: Run, x: Tensor) -> None:
    """A forward pass."""
    with torch.inference_mode():
        run(x)


def forward_and_backward(run: Run, x: Tensor) -> None:
    """A forward and a backward pass."""
    run(x.requires_grad_()).sum().backward()
    x.grad = None


def seconds(names: list[str], length: int, measured: Callable[[Run, Tensor], None], rounds: int) -> dict[str, float]:
    """Median seconds of each kind; they take turns, and the first round does not count."""
    kinds = {name: KINDS[name](length) for name in names}
    times: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + 1):
        for name, run in kinds.items():
            x = torch.randn(1, length, WIDTH)
            start = time.perf_counter()
            measured(run, x)
            if number:
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def mebibytes(name: str, length: int, measured: Callable[[Run, Tensor], None]) -> float:
    """The rise of the peak resident size while one kind runs, in a new process."""
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.attention", "--peak", name, measured.__name__]
    done = subprocess.run([*command, str(length)], capture_output=True, text=True, check=True)
    return float(done.stdout)


def peak(name: str, measured: Callable[[Run, Tensor], None], length: int) -> float:
    """The rise itself; Linux reports the peak since it was last cleared."""

    def resident(key: str) -> int:
        line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key))
        return int(line.split()[1])

    torch.set_num_threads(1)
    run = KINDS[name](length)
    measured(KINDS[name](64), torch.randn(1, 64, WIDTH))  # what is loaded or made once does not count
    x = torch.randn(1, length, WIDTH)
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    measured(run, x)
    return (resident("VmHWM") - before) / 1024


def check_equal() -> None:
    """Disentangled attention is that of transformers, blockwise too."""
    x = torch.randn(1, 700, WIDTH)
    with torch.inference_mode():
        difference = float((disentangled(700)(x) - deberta(700)(x)).abs().max())
    print(f"disentangled against transformers at n = 700: max|Δ| = {difference:.1e}")
    if not difference < 1e-5:
        raise SystemExit("the outputs differ: times mean nothing")


def draw(figures: list[dict[str, Any]], path: Path) -> None:
    """Time and memory of a forward pass over the length, on doubly logarithmic axes."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    panels = {
        "seconds": ("time of a forward pass, ms", 1000.0),
        "mebibytes": ("peak memory of a forward pass, MiB", 1.0),
    }
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for axis, (unit, (title, factor)) in zip(axes, panels.items(), strict=True):
        for number, name in enumerate(KINDS):
            points = [(row["n"], factor * row[unit]) for row in figures if row["kind"] == name and unit in row]
            points = sorted({row[0]: row for row in points if row[1] > 0}.values())
            if points:
                theirs = "(" in name
                style = {"linestyle": "--" if theirs else "-", "marker": "osD^v<>Ph"[number], "color": f"C{number}"}
                axis.loglog(*zip(*points, strict=True), label=name, linewidth=1.5, markersize=5, **style)
        lengths = sorted({row["n"] for row in figures if unit in row})
        axis.set_xscale("log", base=2)
        axis.set_xticks(lengths, [str(length) for length in lengths])
        axis.minorticks_off()
        axis.set_xlabel("tokens n")
        axis.set_title(title)
        axis.grid(visible=True, alpha=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Print a table per length."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[256, 512, 1024, 2048, 4096])
    parser.add_argument(
        "--memory", type=int, nargs="*", default=[1024, 2048, 4096], help="lengths to measure memory at"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    parser.add_argument("--plot", type=Path, help="draw time and memory over the length")
    parser.add_argument("--peak", nargs=3, metavar=("KIND", "HOW", "LENGTH"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.peak:
        name, how, length = arguments.peak
        print(peak(name, {run.__name__: run for run in (forward, forward_and_backward)}[how], int(length)))
        return
    torch.set_num_threads(arguments.threads)
    check_equal()
    figures: list[dict[str, Any]] = []
    print(f"d {WIDTH}, {HEADS} heads, {arguments.threads} threads, medians of {arguments.rounds} rounds")
    for measured in (forward, forward_and_backward):
        for length in arguments.lengths:
            print(f"n = {length}, {measured.__name__.replace('_', ' ')}")
            for first, names in GROUPS.items():
                medians = seconds(names, length, measured, arguments.rounds)
                for name, value in medians.items():
                    print(f"  {name:<24} {1000 * value:9.1f} ms {medians[first] / value:6.2f}× the speed of {first}")
                    figures.append({"kind": name, "n": length, "how": measured.__name__, "seconds": value})
        for length in arguments.memory:
            print(f"n = {length}, {measured.__name__.replace('_', ' ')}: peak memory")
            for first, names in GROUPS.items():
                sizes = {name: mebibytes(name, length, measured) for name in names}
                for name, size in sizes.items():
                    print(f"  {name:<24} {size:9.1f} MiB {size / sizes[first]:6.2f}× that of {first}")
                    figures.append({"kind": name, "n": length, "how": measured.__name__, "mebibytes": size})
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))
    if arguments.plot:
        draw([row for row in figures if row["how"] == "forward"], arguments.plot)


if __name__ == "__main__":
    main()
