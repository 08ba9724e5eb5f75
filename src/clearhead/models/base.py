"""The base classes of all models, and of models that generate text.

Shapes: b batch, n tokens, V entries of the vocabulary.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks import Decoder, DecoderCache, Memory, Output
from clearhead.drawing.html import facts, fragment
from clearhead.models.tree import in_one_line, shown_alone, sizes
from clearhead.positions import may_branch
from clearhead.recipe import ModelSpec


class Model(nn.Module):
    """A network with the spec it was built from."""

    spec: ModelSpec

    def valid_tokens(self, ids: Int[Tensor, "b n"]) -> Bool[Tensor, "b n"] | None:
        """True for tokens, False for padding; None without padding."""
        pad = self.spec.vocabulary.pad
        if pad is None:
            return None
        valid = ids != pad
        return None if may_branch(valid) and bool(valid.all()) else valid

    def __repr__(self) -> str:
        """One line; ``print(model)`` lists every module, as torch does."""
        return in_one_line(type(self).__name__, sizes(self))

    def __str__(self) -> str:
        return super().__repr__()

    def _repr_html_(self) -> str:
        """The tree of ``clearhead show``, for a notebook."""
        return fragment(f"<h3>{type(self).__name__}</h3>{facts(sizes(self))}{shown_alone(self)}")


@dataclass
class State:
    """The state of generation: the decoder's cache, and the encoder's output if there is an encoder."""

    cache: DecoderCache
    memory: Memory | None = None

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order: beams are reordered, finished lines dropped."""
        self.cache.select(rows)
        if self.memory is not None:
            self.memory = self.memory.select(rows)


class Writer(Model):
    """A model that generates text token by token: p(y|x) = Π p(y_l | y_<l; x) (L0.1)."""

    decoder: Decoder
    output: Output

    def step(
        self, ids: Int[Tensor, "b n"], state: State, valid: Bool[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b V"]:
        """Feed the next tokens, one or several, and return the logits of the token after them.

        Args:
            ids: the next tokens; lines of unequal length are padded on the left.
            state: the state, which is updated.
            valid: True for tokens, False for padding. Default: no padding.
        """
        states: Tensor = self.decoder(ids, valid, memory=state.memory, cache=state.cache)
        logits: Tensor = self.output(states[:, -1])
        return logits
