"""What there is to say about a model's cost: every number with its title and its convention, in one order for all."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from clearhead.costing.forms.bill import Cost, ModelFormulas
from clearhead.costing.forms.formula import Formula


@dataclass(frozen=True)
class CostLine:
    """One number of a model."""

    key: str
    """In JSON."""
    title: str
    group: str
    convention: str
    of: Callable[[ModelFormulas], Formula]
    printed: Callable[[ModelFormulas], Formula] | None = None
    """What the lectures count, where it is something else."""
    writers: bool = False
    """Only for models that decode."""
    tuned: bool = False
    """Only for recipes that train a part of the model, or adapters."""
    halved: bool = False
    """Only for training in bfloat16."""


LINES = (
    CostLine(
        "parameters",
        "parameters",
        "parameters",
        "learned numbers; shared ones once",
        lambda cost: cost.parameters,
        lambda cost: cost.matrices + cost.tables,
    ),
    CostLine(
        "parameters_without_embeddings",
        "without embeddings",
        "parameters",
        "neither embedding tables nor output matrix",
        lambda cost: cost.without_embeddings,
        lambda cost: cost.matrices,
    ),
    CostLine(
        "trained_parameters",
        "trained",
        "parameters",
        "with adapters; without what training.freeze leaves as it is",
        lambda cost: cost.trained,
        tuned=True,
    ),
    CostLine("macs", "forward", "work", "multiply-accumulates, dense", lambda cost: cost.macs),
    CostLine(
        "causal_macs",
        "forward, causal",
        "work",
        "without pairs that a causal mask hides",
        lambda cost: cost.causal_macs,
    ),
    CostLine("flops", "forward, FLOPs", "work", "2 × multiply-accumulates, dense", lambda cost: cost.flops),
    CostLine("backward_macs", "backward", "work", "multiply-accumulates, dense", lambda cost: cost.backward),
    CostLine("training_macs", "training step", "work", "forward + backward", lambda cost: cost.training),
    CostLine("operations", "operations", "work", "forward; all but matrix products", lambda cost: cost.operations),
    CostLine(
        "step_macs",
        "decoding step t",
        "work",
        "with a cache, t tokens so far",
        lambda cost: cost.step.macs,
        writers=True,
    ),
    CostLine(
        "decode_macs",
        "greedy decode",
        "work",
        "reading, then m tokens with a cache",
        lambda cost: cost.decode_macs,
        writers=True,
    ),
    CostLine("weight_bytes", "weights", "space", "bytes, float32", lambda cost: cost.weights),
    CostLine("gradient_bytes", "gradients", "space", "bytes, float32", lambda cost: cost.gradients),
    CostLine("optimizer_bytes", "optimizer", "space", "bytes; the recipe's optimizer", lambda cost: cost.optimizer),
    CostLine("average_bytes", "average", "space", "bytes; the recipe's moving average", lambda cost: cost.average),
    CostLine(
        "saved_bytes",
        "activations, explicit",
        "space",
        "bytes kept for the backward pass, no dropout",
        lambda cost: cost.saved,
    ),
    CostLine(
        "saved_bytes_fused",
        "activations, fused",
        "space",
        "the same where attention never holds its weights",
        lambda cost: cost.fused.saved,
    ),
    CostLine(
        "copied_bytes",
        "copies of weights",
        "space",
        "bytes of both, in bfloat16: a product keeps them",
        lambda cost: cost.copies,
        halved=True,
    ),
    CostLine(
        "cache_bytes",
        "KV cache",
        "space",
        "bytes after t tokens, cross-attention included",
        lambda cost: cost.step.cache,
        writers=True,
    ),
    CostLine("span", "span", "time", "sequential operations, sums as trees", lambda cost: cost.span),
    CostLine(
        "serial_span",
        "span, serial dots",
        "time",
        "dot products one term after the other",
        lambda cost: cost.serial_span,
    ),
    CostLine(
        "decode_span",
        "span of decoding",
        "time",
        "m tokens, each step whole before the next begins",
        lambda cost: cost.decode_span,
        writers=True,
    ),
    CostLine(
        "sequential", "sequential operations", "time", "along the sequence, in training", lambda cost: cost.sequential
    ),
    CostLine(
        "path",
        "longest path",
        "time",
        "layers between two positions",
        lambda cost: cost.path or cost.sequential,
    ),
)


By = Literal["block", "layer", "model"]
DEPTH: dict[By, int] = {"model": 0, "layer": 2, "block": 99}
"""How deep each way of looking goes."""


def lines_of(cost: ModelFormulas) -> list[CostLine]:
    """The lines that this model has."""
    shown = [line for line in LINES if (cost.writes or not line.writers) and (cost.is_tuned or not line.tuned)]
    shown = [line for line in shown if cost.precision == "bfloat16" or not line.halved]
    return [line for line in shown if line.key != "path" or cost.path]


def rows_of(cost: ModelFormulas, by: By) -> list[tuple[int, Cost]]:
    """The blocks to show, with their depths: all, those down to layers, or the model alone."""
    return [(depth, part) for depth, part in cost.walk() if depth <= DEPTH[by]]
