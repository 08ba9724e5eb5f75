"""A stepper for every model that generates text: it calls the model's own modules.

Shapes: b lines, k beams of a line, n source tokens, V entries of the vocabulary.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from clearhead.models import LanguageModel, Seq2Seq, State, Writer


class ModelStepper:
    """Feeds a model; every beam is a row of its batch.

    Args:
        model: an encoder-decoder or a language model.
        state: its state, to which tokens are added.
        beams: the number of beams, k. Default: 1.
    """

    def __init__(self, model: Writer, state: State, beams: int = 1) -> None:
        self.model, self.state, self._beams = model, state, beams
        self._device = next(model.parameters()).device

    @classmethod
    def reading(cls, model: Seq2Seq, source: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None) -> "ModelStepper":
        """Encode these sources and return a stepper."""
        device = next(model.parameters()).device
        return cls(model, model.start(source.to(device), None if valid is None else valid.to(device)))

    @classmethod
    def prompted(cls, model: LanguageModel, prompts: Sequence[Sequence[int]]) -> "ModelStepper":
        """Feed all tokens of each prompt except the last and return a stepper, which is fed the last one next."""
        device = next(model.parameters()).device
        state = model.start()
        width = max(map(len, prompts)) - 1
        if width:
            # padded on the left, so that all lines end together
            missing = [width - len(prompt) + 1 for prompt in prompts]
            ids = [[0] * places + list(prompt[:-1]) for places, prompt in zip(missing, prompts, strict=True)]
            valid = torch.arange(width) >= torch.tensor(missing)[:, None]
            model.step(torch.tensor(ids, device=device), state, valid.to(device) if any(missing) else None)
        return cls(model, state)

    def step(self, ids: Int[Tensor, "b k"]) -> Float[Tensor, "b k V"]:
        """Feed a token to every beam."""
        batch, self._beams = ids.shape
        logits: Tensor = self.model.step(ids.reshape(-1, 1).to(self._device), self.state)
        return logits.view(batch, self._beams, -1)

    def keep(self, lines: Int[Tensor, "r"], beams: Int[Tensor, "r k"] | None = None) -> None:
        """Continue with these lines and beams."""
        if beams is None:
            beams = torch.arange(self._beams).expand(len(lines), -1)
        self.state.select((lines[:, None] * self._beams + beams).flatten().to(self._device))
