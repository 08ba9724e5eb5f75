"""The language model, a decoder without an encoder.

Shapes: b batch, n tokens, d features, V entries of the vocabulary.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks import Decoder, Output
from clearhead.models.assemble import make_output
from clearhead.models.base import State, Writer
from clearhead.recipe import LanguageModelSpec, module_of


class LanguageModel(Writer):
    """A decoder with an output layer: it continues a sequence.

    Args:
        spec: the settings of the model.
        decoder: the stack.
        output: the output layer.
    """

    spec: LanguageModelSpec

    def __init__(self, spec: LanguageModelSpec, *, decoder: Decoder, output: Output) -> None:
        super().__init__()
        self.spec, self.decoder, self.output = spec, decoder, output

    @classmethod
    def from_spec(cls, spec: LanguageModelSpec) -> "LanguageModel":
        """Build from a recipe."""
        tokens = nn.Embedding(spec.vocabulary.target, spec.decoder.width)
        decoder = module_of(spec.decoder).from_spec(
            spec.decoder, tokens=tokens, embedding=spec.embedding, cross=None, memory_width=None
        )
        return cls(spec, decoder=decoder, output=make_output(spec.embedding, tokens, spec.decoder.out_width))

    def states(self, ids: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n d"]:
        """Return the vectors before the logits; padding may be on either side."""
        states: Tensor = self.decoder(ids, self.valid_tokens(ids) if valid is None else valid)
        return states

    def forward(self, ids: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n V"]:
        """Return the logits of the token after each token."""
        logits: Tensor = self.output(self.states(ids, valid))
        return logits

    def start(self) -> State:
        """Return the state before the first token; feed the prompt first, or ``spec.vocabulary.first``."""
        return State(self.decoder.new_cache())
