"""The state in which a model is replayed: locked, in evaluation mode, on the explicit path, with some heads off."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import Weights
from clearhead.inspection.gates import heads_off
from clearhead.models import AttentionChoice, ClassifierModel, EncoderModel, LanguageModel, Model, Seq2Seq, evaluating


@contextmanager
def replaying(
    model: Model, attention: AttentionChoice = "trained", off: Sequence[str] = (), *, gradients: bool = False
) -> Iterator[None]:
    """Inside the ``with`` block the model computes as it was recorded: bit for bit, if it gets the same tensors.

    Args:
        model: the model; it is locked meanwhile, so that threads can share it.
        attention: soft or hard attention.
        off: names of heads that are switched off.
        gradients: whether gradients are needed. Default: False.
    """
    with (
        evaluating(model, attention, gradients=True),  # without inference mode, whose tensors nobody could use later
        nullcontext() if gradients else torch.no_grad(),
        heads_off(model, off) if off else nullcontext(),
        _explicitly(model),
    ):
        yield


@contextmanager
def _explicitly(model: nn.Module) -> Iterator[None]:
    """Make every attention form its weights: a hook wants to see them."""

    def see(_module: nn.Module, _args: Any, _weights: Any) -> None: ...

    with ExitStack() as hooks:
        for part in model.modules():
            if isinstance(part, Weights):
                hooks.callback(part.register_forward_hook(see).remove)
        yield


def run(model: Model, source: Tensor | None, target: Tensor | None, valid: Tensor | None = None) -> Tensor:
    """The logits of a model of any family; the vectors of an encoder without a head."""
    if isinstance(model, Seq2Seq):
        logits: Tensor = model(source, target, valid)
    elif isinstance(model, LanguageModel):
        logits = model(target)
    else:
        assert isinstance(model, EncoderModel)
        assert source is not None
        plain = isinstance(model, ClassifierModel) or model.output is None
        logits = model(source, valid) if plain or model.output is None else model.output(model.states(source, valid))
    return logits
