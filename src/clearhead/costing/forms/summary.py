"""What there is to say about a model's cost: every number with its title and its convention, in one order for all."""

from collections.abc import Callable
from dataclasses import dataclass

from clearhead.costing.forms.bill import Cost, ModelCost
from clearhead.costing.forms.formula import Formula


@dataclass(frozen=True)
class Line:
    """One number of a model."""

    key: str
    """In JSON."""
    title: str
    group: str
    convention: str
    of: Callable[[ModelCost], Formula]
    printed: Callable[[ModelCost], Formula] | None = None
    """What the lectures count, where it is something else."""
    writers: bool = False
    """Only for models that decode."""


LINES = (
    Line(
        "parameters",
        "parameters",
        "parameters",
        "learned numbers; shared ones once",
        lambda cost: cost.parameters,
        lambda cost: cost.matrices + cost.tables,
    ),
    Line(
        "parameters_without_embeddings",
        "without embeddings",
        "parameters",
        "neither embedding tables nor output matrix",
        lambda cost: cost.without_embeddings,
        lambda cost: cost.matrices,
    ),
    Line("macs", "forward", "work", "multiply-accumulates, dense", lambda cost: cost.macs),
    Line(
        "causal_macs",
        "forward, causal",
        "work",
        "without pairs that a causal mask hides",
        lambda cost: cost.causal_macs,
    ),
    Line("flops", "forward, FLOPs", "work", "2 × multiply-accumulates, dense", lambda cost: cost.flops),
    Line("backward_macs", "backward", "work", "multiply-accumulates, dense", lambda cost: cost.backward),
    Line("training_macs", "training step", "work", "forward + backward", lambda cost: cost.training),
    Line("operations", "operations", "work", "forward; all that is no matrix product", lambda cost: cost.operations),
    Line(
        "step_macs",
        "decoding step t",
        "work",
        "with a cache, t tokens so far",
        lambda cost: cost.step.macs,
        writers=True,
    ),
    Line(
        "decode_macs",
        "greedy decode",
        "work",
        "reading, then m tokens with a cache",
        lambda cost: cost.decode_macs,
        writers=True,
    ),
    Line("weight_bytes", "weights", "space", "bytes, float32", lambda cost: cost.weights),
    Line("gradient_bytes", "gradients", "space", "bytes, float32", lambda cost: cost.gradients),
    Line("optimizer_bytes", "optimizer", "space", "bytes; the recipe's optimizer", lambda cost: cost.optimizer),
    Line("average_bytes", "average", "space", "bytes; the recipe's moving average", lambda cost: cost.average),
    Line(
        "saved_bytes",
        "activations, explicit",
        "space",
        "bytes kept for the backward pass, no dropout",
        lambda cost: cost.saved,
    ),
    Line(
        "saved_bytes_fused",
        "activations, fused",
        "space",
        "the same where attention never holds its weights",
        lambda cost: cost.fused.saved,
    ),
    Line(
        "cache_bytes",
        "KV cache",
        "space",
        "bytes after t tokens, cross-attention included",
        lambda cost: cost.step.cache,
        writers=True,
    ),
    Line("span", "span", "time", "operations behind each other, sums as trees", lambda cost: cost.span),
    Line(
        "serial_span",
        "span, serial dots",
        "time",
        "dot products one term after the other",
        lambda cost: cost.serial_span,
    ),
    Line(
        "decode_span",
        "span of decoding",
        "time",
        "m tokens, one after the other",
        lambda cost: cost.decode_span,
        writers=True,
    ),
    Line(
        "sequential", "sequential operations", "time", "along the sequence, in training", lambda cost: cost.sequential
    ),
    Line(
        "path",
        "longest path",
        "time",
        "layers between two positions",
        lambda cost: cost.path or cost.sequential,
    ),
)


DEPTH = {"model": 0, "layer": 2, "block": 99}
"""How deep each way of looking goes."""


def lines_of(cost: ModelCost) -> list[Line]:
    """The lines that this model has."""
    return [line for line in LINES if (cost.writes or not line.writers) and (line.key != "path" or cost.path)]


def rows_of(cost: ModelCost, by: str) -> list[tuple[int, Cost]]:
    """The blocks to show, with their depths: all, those down to layers, or the model alone."""
    return [(depth, part) for depth, part in cost.walk() if depth <= DEPTH[by]]
