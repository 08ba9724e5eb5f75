"""The encoder-decoder: represent, encode, decode and predict (L1.4).

Shapes: b batch, n source tokens, m target tokens, d features, V tokens of the target vocabulary.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks import Decoder, Memory, Output
from clearhead.models.assemble import make_output
from clearhead.models.base import State, Writer
from clearhead.recipe import Seq2SeqSpec, module_of


class Seq2Seq(Writer):
    """An encoder that reads and a decoder that writes; either may be a Transformer or recurrent (L1.3)."""

    spec: Seq2SeqSpec

    def __init__(self, spec: Seq2SeqSpec, *, encoder: nn.Module, decoder: Decoder, output: Output) -> None:
        super().__init__()
        self.spec, self.encoder, self.decoder, self.output = spec, encoder, decoder, output

    @classmethod
    def from_spec(cls, spec: Seq2SeqSpec) -> "Seq2Seq":
        """Build from a recipe, with one embedding matrix where the recipe ties them."""
        source = nn.Embedding(spec.vocabulary.source, spec.encoder.width)
        shared = spec.embedding.tie in ("inputs", "all")
        target = source if shared else nn.Embedding(spec.vocabulary.target, spec.decoder.width)
        encoder = module_of(spec.encoder).from_spec(spec.encoder, tokens=source, embedding=spec.embedding)
        decoder = module_of(spec.decoder).from_spec(
            spec.decoder,
            tokens=target,
            embedding=spec.embedding,
            cross=spec.cross.attention,
            memory_width=spec.encoder.out_width,
        )
        return cls(spec, encoder=encoder, decoder=decoder, output=make_output(spec.embedding, target))

    def encode(self, source: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> Memory:
        """Read the source; padding is what the recipe calls ``pad``, unless ``valid`` says otherwise."""
        if valid is None:
            valid = self.valid_tokens(source)
        return Memory(self.encoder(source, valid), valid)

    def states(
        self,
        source: Int[Tensor, "b n"],
        target: Int[Tensor, "b m"],
        source_present: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b m d"]:
        """The decoder's vectors for each target token fed in, before the logits.

        ``target`` begins with the start token and is padded at the right, where no real token looks.
        """
        states: Tensor = self.decoder(target, memory=self.encode(source, source_present))
        return states

    def forward(
        self,
        source: Int[Tensor, "b n"],
        target: Int[Tensor, "b m"],
        source_present: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b m V"]:
        """Logits of the token after each target token: teacher forcing."""
        logits: Tensor = self.output(self.states(source, target, source_present))
        return logits

    def start(self, source: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> State:
        """Read the source and be ready to write; the first token to feed is ``spec.vocabulary.first``."""
        return State(self.decoder.new_cache(), self.encode(source, valid))
