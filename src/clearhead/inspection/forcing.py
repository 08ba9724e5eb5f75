"""Teacher forcing over a corpus: the loss of every line, with gates on the heads.

Inspection knows no tokenizers: batches of ids are handed in.

Shapes: b lines of a batch, n tokens to read, m inputs of the decoder, r tokens that are predicted in the whole batch, V
entries of the vocabulary, h heads.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from clearhead.blocks import Memory
from clearhead.errors import ClearheadError
from clearhead.inspection.gates import head_gates, headed_attentions
from clearhead.models import ClassifierModel, EncoderModel, LanguageModel, Model, Seq2Seq


@dataclass(frozen=True)
class ForcedBatch:
    """Some lines of a corpus, and the tokens that the model is asked to predict in them.

    Args:
        lines: the line of the corpus that each row belongs to, b of them; a long line may have several rows.
        inputs: what the encoder reads, (b, n) ids or (b, height, width, channels) pixels; for a language model what
            the decoder reads.
        lengths: how many of the inputs are no padding, (b,).
        answers: what the decoder of an encoder-decoder reads, (b, m).
        answer_lengths: how many of these are no padding, (b,).
        rows: for every predicted token its row, (r,).
        places: for every predicted token its place among the vectors of the row, (r,); 0 for a classifier.
        labels: the right tokens, (r,), or classes.
    """

    lines: list[int]
    inputs: Tensor
    lengths: Int[Tensor, "b"]
    answers: Int[Tensor, "b m"] | None
    answer_lengths: Int[Tensor, "b"] | None
    rows: Int[Tensor, "r"]
    places: Int[Tensor, "r"]
    labels: Int[Tensor, "r"]

    @property
    def tokens(self) -> Float[Tensor, "b"]:
        """How many tokens are predicted in each row."""
        return torch.zeros(len(self.lines)).index_add(0, self.rows, torch.ones(len(self.rows)))

    def valid(self) -> Tensor | None:
        """True for tokens, False for padding; None without padding, or for images."""
        if self.inputs.is_floating_point() or int(self.lengths.min()) == self.inputs.shape[1]:
            return None
        return torch.arange(self.inputs.shape[1]) < self.lengths[:, None]


def row_losses(model: Model, batch: ForcedBatch, memory: Memory | None = None) -> Float[Tensor, "b"]:
    """−log p of the right tokens, summed over each row of a batch.

    Args:
        model: the model.
        batch: the rows.
        memory: what the encoder makes of the batch, if that is known already.
    """
    device = next(model.parameters()).device
    log_p = _logits(model, batch, memory, device).log_softmax(-1)  # (r, V)
    losses = -log_p.gather(-1, batch.labels.to(device)[:, None])[:, 0]
    return losses.new_zeros(len(batch.lines)).index_add(0, batch.rows.to(device), losses)


def encoded(model: Model, batch: ForcedBatch) -> Memory | None:
    """What the encoder of an encoder-decoder makes of a batch, as long as no head of it is switched off; else None."""
    if not isinstance(model, Seq2Seq):
        return None
    device = next(model.parameters()).device
    valid = batch.valid()
    return model.encode(batch.inputs.to(device), None if valid is None else valid.to(device))


def _logits(model: Model, batch: ForcedBatch, memory: Memory | None, device: torch.device) -> Float[Tensor, "r V"]:
    rows, places = batch.rows.to(device), batch.places.to(device)
    inputs, valid = batch.inputs.to(device), batch.valid()
    valid = None if valid is None else valid.to(device)
    if isinstance(model, ClassifierModel):
        logits: Tensor = model(inputs, valid)
        return logits[rows]
    if isinstance(model, Seq2Seq):
        assert batch.answers is not None
        states: Tensor = model.decoder(batch.answers.to(device), memory=memory or model.encode(inputs, valid))
    elif isinstance(model, LanguageModel | EncoderModel) and model.output is not None:
        states = model.states(inputs, valid)
    else:
        raise ClearheadError("this model predicts nothing, so that no head can be judged by its loss")
    assert model.output is not None
    predicted: Tensor = model.output(states[rows, places])
    return predicted


def gate_gradients(model: Model, batch: ForcedBatch) -> tuple[Float[Tensor, "b"], dict[str, Float[Tensor, "b h"]]]:
    """The loss of every row, and ∂(loss of the row)/∂(gate) of every head, by the name of its attention.

    Every row has gates of its own, so that one backward pass gives all derivatives. Gradients must be enabled.
    """
    rows, device = len(batch.lines), next(model.parameters()).device
    gates = {
        attention.name: torch.ones(rows, attention.heads, device=device, requires_grad=True)
        for attention in headed_attentions(model)
    }
    with head_gates(model, gates):
        losses = row_losses(model, batch)
        found = torch.autograd.grad(losses.sum(), list(gates.values()))
    return losses.detach(), dict(zip(gates, found, strict=True))
