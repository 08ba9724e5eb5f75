"""What a model would answer after fewer layers.

The logit lens puts the residual stream after each layer through the final norm and the output layer, whose σ is that of
this stream (nostalgebraist 2020). DecoderLens lets the decoder read the encoder's stream after each layer (Langedijk et
al. 2023). After the last layer, both are the model's own output, bit for bit.

Shapes: n places, d features, V entries of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.blocks import Memory, Stack
from clearhead.errors import ClearheadError
from clearhead.inspection.record import Record, StackRecord
from clearhead.models import ClassifierModel, EncoderModel, LanguageModel, Model, Seq2Seq


@dataclass(frozen=True)
class Guess:
    """The most probable tokens at one place after one layer."""

    tokens: tuple[tuple[str, float], ...]
    """Tokens with their probabilities, the most probable first."""
    log_probability: float | None
    """log p of the token that the model answered there; None if there is none."""


@dataclass(frozen=True)
class DecoderGuess:
    """What the decoder answers if the encoder ends after one layer, teacher-forced."""

    tokens: tuple[str, ...]
    """The most probable token at each place of the answer."""
    log_probabilities: tuple[float | None, ...]
    """log p of the answer's tokens."""


def lens_stack(model: Model) -> str | None:
    """The stack whose vectors become logits: ``decoder``, ``encoder``, or None (no logits, or recurrent)."""
    name = "decoder" if isinstance(model, Seq2Seq | LanguageModel) else "encoder"
    has_logits = isinstance(model, ClassifierModel) or getattr(model, "output", None) is not None
    return name if has_logits and isinstance(getattr(model, name), Stack) else None


def why_not(model: Model) -> str | None:
    """Why there is no logit lens; None if there is one."""
    if lens_stack(model) is not None:
        return None
    if isinstance(model, EncoderModel):
        return "this encoder gives vectors and no logits"
    return "a recurrent decoder has no residual stream: the states of its lower layers are no vectors of the output"


def why_no_decoder_lens(model: Model) -> str | None:
    """Why there is no DecoderLens; None if there is one."""
    if not isinstance(model, Seq2Seq):
        return "there is no encoder whose layers a decoder could read"
    if not isinstance(model.encoder, Stack):
        return "a recurrent encoder has no residual stream: its lower layers have other features than the decoder reads"
    return None


def layer_logits(model: Model, record: Record) -> Iterator[Float[Tensor, "1 n V"] | Float[Tensor, "1 c"]]:
    """The logits after the embedding and after every layer, one layer at a time; call inside ``replaying``."""
    if (reason := why_not(model)) is not None:
        raise ClearheadError(f"no lens: {reason}")
    name = lens_stack(model)
    assert name is not None
    stack = record.stacks[name]
    for stream in stack.streams:
        states = _finished(stack, stream)
        if isinstance(model, ClassifierModel):
            pooled = model.pool(states) if model.spec.pooling == "first" else states.mean(1)
            yield model.head(pooled)
        else:
            yield model.output(states)  # type: ignore[operator]


def decoder_logits(
    model: Model, record: Record, layers: Sequence[int] | None = None
) -> Iterator[Float[Tensor, "1 m V"]]:
    """The decoder's logits over the encoder's stream after these layers, one at a time; call inside ``replaying``.

    Layer 0 is the embedding. The decoder runs over all of them at once, so that the last bits of a number depend on how
    many there are. Default: every layer.
    """
    if (reason := why_no_decoder_lens(model)) is not None:
        raise ClearheadError(f"no DecoderLens: {reason}")
    assert isinstance(model, Seq2Seq)
    stack, target, valid = record.stacks["encoder"], record.inputs["target"], record.stacks["encoder"].embedding.valid
    chosen = range(len(stack.streams)) if layers is None else layers
    if not chosen:
        return
    memory = torch.cat([_finished(stack, stack.streams[layer]) for layer in chosen])  # (layers, n, d)
    count = len(chosen)
    seen = Memory(memory, None if valid is None else valid.expand(count, -1))
    states = model.decoder(target.expand(count, -1), memory=seen)
    for state in states:
        yield model.output(state[None])


def _finished(stack: StackRecord, stream: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
    """The stream as if it had been the last: through the final norm, if there is one."""
    final = stack.module.final_norm
    return stream if final is None else final(stream, stack.embedding.valid)  # type: ignore[operator,no-any-return]
