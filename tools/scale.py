"""Writes docs/scale.md: steps on many GPUs, predicted from the closed forms by an α–β model.

python -m tools.scale --bandwidth-between 25e9 -o /tmp/scale.md    # slower links

Nothing is built and no GPU is needed: bytes sent and held are those of ``clearhead cost --devices``.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path

from clearhead.costing import Cluster, ModelCost, Prediction, cost, predicted
from clearhead.machine import shown_bytes
from clearhead.recipe import read_recipe

PAGE = Path("docs/scale.md")
DEVICES = (8, 64, 512)
MOST = 2**14
"""Devices at which the search for an end stops."""
HALF = 0.5
"""The efficiency at which a model is said to stop scaling."""

INTRODUCTION = """\
# Past this machine

*Made by `python -m tools.scale`; its options are the constants below. A prediction, measured on no GPU.*

What a step on many GPUs takes, by the closed forms of `clearhead cost` and an α–β model: sending b bytes takes
α + b/bandwidth. What is sent and held is counted (`pytest tests/costing/test_parallel.py`: formula − counted = 0 for
DDP and FSDP2 between 2 and 4 processes, in float32); how long that takes is not. The formulas of a model:

    clearhead cost transformer-big training.precision=bfloat16 --devices 64 --parallel fsdp

A step has {tokens:,} tokens, however many GPUs share them: so each has less to compute, while what it sends stays.
DDP's all-reduce is hidden behind the backward pass as far as that is long enough, what FSDP gathers and scatters
behind all of a step. What goes around is as slow as the slowest link, and takes ⌈log₂ W⌉ messages for each collective
(recursive doubling and halving, which send the bytes of a ring)."""
CONCLUSION = """\
## Where it stops, and why

- With a fixed batch computing shrinks as 1/W, the bytes of a ring do not: (W − 1)/W of the gradients, twice. Beyond
  one machine the link between machines decides, and a model stops where sending its gradients takes longer than the
  backward pass of its share of the tokens.
- FSDP sends half as much again as DDP in float32: two gatherings and a scattering instead of an all-reduce, which is
  a scattering and a gathering. In bfloat16, where layers are gathered in two bytes a number, it sends as much. What it
  saves is memory, and all of a step hides what it sends, not the backward pass alone.
- More tokens in a step move all of it: `--tokens`. Whether a model learns as much from larger steps is another
  question.
- Not counted: dropout's masks, what a GPU's autocast keeps in float32 where a CPU's does not, data, stragglers."""


@dataclass(frozen=True)
class Scaled:
    """A model, and the lines that it is trained on."""

    name: str
    words: tuple[str, ...]
    """Its recipe: a preset and changes."""
    length: int
    """Tokens of a line, on each side."""

    def cost(self) -> ModelCost:
        """In bfloat16, as on a GPU."""
        preset, *changes = self.words
        return cost(read_recipe(preset, *changes, "training.precision=bfloat16"))


MODELS = (
    Scaled("base", ("transformer-base",), 64),
    Scaled("big", ("transformer-big",), 64),
    Scaled(
        "1 B", ("gpt2", "model.layers=18", "model.width=2048", "model.heads=16", "model.feedforward.width=8192"), 1024
    ),
)


def step(model: Scaled, whole: ModelCost, devices: int, kind: str, *, cluster: Cluster, tokens: int) -> Prediction:
    """A step whose tokens are shared by all devices."""
    lengths = {"n": model.length} | ({"m": model.length} if whole.recipe.model.family == "seq2seq" else {})
    parallel = whole.parallel(devices, kind)  # type: ignore[arg-type]
    return predicted(parallel, cluster, lines=tokens / devices / model.length, **lengths)


def held(model: Scaled, whole: ModelCost, devices: int, kind: str, tokens: int) -> int:
    """Bytes that each device holds, activations of bfloat16 among them."""
    lines = max(1, round(tokens / devices / model.length))
    return int(whole.parallel(devices, kind).bytes_held.at(n=model.length, m=model.length, B=lines))  # type: ignore[arg-type]


def end(model: Scaled, whole: ModelCost, kind: str, cluster: Cluster, tokens: int) -> str:
    """Where efficiency falls below a half, and why."""
    devices = 2
    while devices <= MOST:
        found = step(model, whole, devices, kind, cluster=cluster, tokens=tokens)
        if found.efficiency < HALF:
            why = "bytes" if found.transfer > found.latency else "messages"
            return f"{devices:,}: {why}"
        devices *= 2
    return f"beyond {MOST:,}"


def page(cluster: Cluster, tokens: int) -> Iterator[str]:
    """The lines of the page."""
    yield from INTRODUCTION.format(tokens=tokens).splitlines()
    yield ""
    yield "| constant | value | |"
    yield "|---|--:|---|"
    for part in fields(Cluster):
        value = getattr(cluster, part.name)
        yield f"| `--{part.name.replace('_', '-')}` | {value:g} | {_words(part.name)} |"
    yield ""
    for model in MODELS:
        whole = model.cost()
        yield f"## {model.name}: `{' '.join(model.words)}`"
        yield ""
        yield f"{whole.parameters.at():,} parameters, lines of {model.length:,} tokens."
        yield ""
        yield "| | GPUs | tokens each | computing | sent each | sending | step | efficiency | memory each |"
        yield "|---|--:|--:|--:|--:|--:|--:|--:|--:|"
        for kind in ("ddp", "fsdp"):
            for devices in DEVICES:
                found = step(model, whole, devices, kind, cluster=cluster, tokens=tokens)
                memory = held(model, whole, devices, kind, tokens)
                sent = int(whole.parallel(devices, kind).bytes_sent.at())
                fits = "" if memory <= cluster.memory else " (too much)"
                yield (
                    f"| {kind} | {devices} | {found.tokens:,.0f} | {_ms(found.computing)} | {shown_bytes(sent)} "
                    f"| {_ms(found.transfer + found.latency)} | {_ms(found.seconds)} | {found.efficiency:.0%} "
                    f"| {shown_bytes(memory)}{fits} |"
                )
        yield ""
        ends = ", ".join(f"{kind} at {end(model, whole, kind, cluster, tokens)}" for kind in ("ddp", "fsdp"))
        yield f"Less than half of a step is computing from so many GPUs on, and what the rest is spent on: {ends}."
        yield ""
    yield from CONCLUSION.splitlines()


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f} ms"


def _words(name: str) -> str:
    """What the docstring under a field says."""
    import inspect

    lines = inspect.getsource(Cluster).splitlines()
    at = next(number for number, line in enumerate(lines) if line.strip().startswith(f"{name}:"))
    return lines[at + 1].strip().strip('"')


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description="Predict steps of training on many GPUs.")
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    parser.add_argument("--tokens", type=int, default=524_288, help="tokens of a step, on all devices together")
    for part in fields(Cluster):
        kind = int if part.name == "node" else float
        parser.add_argument(f"--{part.name.replace('_', '-')}", type=kind, default=part.default, help=_words(part.name))
    given = vars(parser.parse_args())
    output, tokens = given.pop("output"), given.pop("tokens")
    output.write_text("\n".join(page(replace(Cluster(), **given), tokens)) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
