"""Attention rollout through encoder and decoder (Abnar and Zuidema 2020; over source and prefix, Ferrando et al. 2022).

In every layer a token keeps half of itself, by the residual connection, and takes the other half from the tokens that
it attends to, by the mean of all heads: R ← (R + ᾱR)/2. A decoder's token mixes what it has from the source, through
the encoder's rollout, with what it has from the tokens before it. Rows sum to 1: they say where a token could come
from, if heads were equal and sublayers only mixed. Attention is not an explanation; ``norms`` and ``parts`` say more.

Shapes: n source tokens, m inputs of the decoder.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.errors import ClearheadError
from clearhead.inspection.record import LayerRecord, Record, SublayerRecord
from clearhead.models import Model


def why_not(model: Model, record: Record) -> str | None:
    """Why there is no rollout; None if there is one."""
    for name in ("encoder", "decoder"):
        if hasattr(model, name) and name not in record.stacks:
            return f"the {name} is recurrent: its states pass through every token, and no matrix says how much"
    for name, stack in record.stacks.items():
        for number, layer in enumerate(stack.layers, start=1):
            for part in layer.sublayers:
                if part.name != "feedforward" and not part.attentions:
                    return f"{name}.{number}.{part.name} mixes tokens without attention weights"
    return None


def rollout(model: Model, record: Record) -> dict[str, Float[Tensor, "r c"]]:
    """How much of each token comes from each token: ``encoder`` is (n, n), ``decoder`` (m, n + m): source, then prefix.

    A language model's decoder is (m, m).
    """
    if (reason := why_not(model, record)) is not None:
        raise ClearheadError(f"no rollout: {reason}")
    found = {}
    source = None
    if "encoder" in record.stacks:
        stack = record.stacks["encoder"]
        source = torch.eye(stack.y.shape[1], dtype=torch.float64, device=stack.y.device)
        for layer in stack.layers:
            source = _mixed(layer, "attention", source, source)
        found["encoder"] = source
    if "decoder" in record.stacks:
        stack = record.stacks["decoder"]
        length, before = stack.y.shape[1], 0 if source is None else len(source)
        here = torch.zeros(length, before + length, dtype=torch.float64, device=stack.y.device)
        here[:, before:] = torch.eye(length)
        memory = None if source is None else torch.cat((source, source.new_zeros(before, length)), dim=1)
        for layer in stack.layers:
            here = _mixed(layer, "attention", here, here)
            if memory is not None:
                here = _mixed(layer, "cross", here, memory)
        found["decoder"] = here
    return found


def _mixed(layer: LayerRecord, name: str, rows: Tensor, seen: Tensor) -> Tensor:
    """One attention and the residual connection around it."""
    sublayer = layer.named(name)
    if sublayer is None:
        return rows
    taken = _mean_heads(sublayer) @ seen
    return (rows + taken) / 2 if sublayer.around.residual else taken


def _mean_heads(sublayer: SublayerRecord) -> Float[Tensor, "n m"]:
    """The mean over heads, through all parts of an attention; rows sum to 1."""
    whole: Tensor | None = None
    for part in sublayer.attentions:
        weights = part.weights[0].double().abs().mean(0)
        weights = weights / weights.sum(-1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        whole = weights if whole is None else weights @ whole
    assert whole is not None
    return whole
