"""The encoder-decoder: represent, encode, decode and predict (L1.4).

Shapes: b batch, n source tokens, m target tokens, d features, V entries of the target vocabulary.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks import Decoder, Memory, Output
from clearhead.models.assemble import make_output
from clearhead.models.base import State, Writer
from clearhead.models.joint import JointTable
from clearhead.recipe import Seq2SeqSpec, module_of


class Seq2Seq(Writer):
    """An encoder and a decoder, each a Transformer or recurrent (L1.3).

    Args:
        spec: the settings of the model.
        encoder: the stack that reads the source.
        decoder: the stack that generates the target.
        output: the output layer.
        joint: n-grams of aligned pairs, by which answers are ranked; they are no part of the logits. May be None.
    """

    spec: Seq2SeqSpec

    def __init__(
        self,
        spec: Seq2SeqSpec,
        *,
        encoder: nn.Module,
        decoder: Decoder,
        output: Output,
        joint: JointTable | None,
    ) -> None:
        super().__init__()
        self.spec, self.encoder, self.decoder, self.output = spec, encoder, decoder, output
        self.joint = joint

    @classmethod
    def from_spec(cls, spec: Seq2SeqSpec) -> "Seq2Seq":
        """Build from a recipe; embeddings are shared where the recipe ties them."""
        source = nn.Embedding(spec.vocabulary.source, spec.encoder.width)
        shared = spec.embedding.tie in ("inputs", "all")
        target = source if shared else nn.Embedding(spec.vocabulary.target, spec.decoder.width)
        encoder = module_of(spec.encoder).from_spec(spec.encoder, tokens=source, embedding=spec.embedding)
        decoder = module_of(spec.decoder).from_spec(
            spec.decoder,
            tokens=target,
            embedding=spec.embedding,
            cross=spec.cross,
            memory_width=spec.encoder.out_width,
        )
        return cls(
            spec,
            encoder=encoder,
            decoder=decoder,
            output=make_output(spec.embedding, target, spec.decoder.out_width),
            joint=JointTable(spec.joint) if spec.joint.nodes else None,
        )

    def encode(self, source: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> Memory:
        """Encode the source; without ``valid``, the recipe's ``pad`` is padding."""
        if valid is None:
            valid = self.valid_tokens(source)
        return Memory(self.encoder(source, valid), valid)

    def states(
        self,
        source: Int[Tensor, "b n"],
        target: Int[Tensor, "b m"],
        source_valid: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b m d"]:
        """Return the decoder's vectors before the logits, for each target token.

        Args:
            source: the source tokens.
            target: the start token and the target tokens, padded on the right, which is masked.
            source_valid: True for source tokens, False for padding. Default: everything except ``pad``.
        """
        states: Tensor = self.decoder(target, memory=self.encode(source, source_valid))
        return states

    def forward(
        self,
        source: Int[Tensor, "b n"],
        target: Int[Tensor, "b m"],
        source_valid: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b m V"]:
        """Return the logits of the token after each target token (teacher forcing); the arguments of ``states``."""
        logits: Tensor = self.output(self.states(source, target, source_valid))
        return logits

    def start(self, source: Int[Tensor, "b n"], valid: Bool[Tensor, "b n"] | None = None) -> State:
        """Encode the source and return the state before the first token; feed ``spec.vocabulary.first`` first."""
        return State(self.decoder.new_cache(), self.encode(source, valid))
