"""What all models share, and what decoding needs of a model that writes.

Shapes: b batch, n tokens, V tokens of the vocabulary.
"""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks import Decoder, DecoderCache, Memory, Output
from clearhead.drawing.html import facts, fragment
from clearhead.models.tree import in_one_line, shown_alone, sizes
from clearhead.recipe import ModelSpec


class Model(nn.Module):
    """A network that knows the spec it was built from."""

    spec: ModelSpec

    def valid_tokens(self, ids: Int[Tensor, "b n"]) -> Bool[Tensor, "b n"] | None:
        """True where a token is no padding; None if nothing is padding."""
        pad = self.spec.vocabulary.pad
        if pad is None:
            return None
        there = ids != pad
        return None if bool(there.all()) else there

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
    """Where a decoder stands: what it has written so far, and what it looks at."""

    cache: DecoderCache
    memory: Memory | None = None

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these lines of the batch, in this order: reordered beams, or a batch without its finished lines."""
        self.cache.select(rows)
        if self.memory is not None:
            self.memory = self.memory.select(rows)


class Writer(Model):
    """A model that writes tokens one after the other: p(y|x) = Π p(y_l | y_<l; x) (L0.1)."""

    decoder: Decoder
    output: Output

    def step(
        self, ids: Int[Tensor, "b n"], state: State, valid: Bool[Tensor, "b n"] | None = None
    ) -> Float[Tensor, "b V"]:
        """Feed the next tokens, one or several, and return the logits of the token after them.

        The state is updated. Lines of unequal length are padded at the left, with ``valid`` False there.
        """
        states: Tensor = self.decoder(ids, valid, memory=state.memory, cache=state.cache)
        logits: Tensor = self.output(states[:, -1])
        return logits
