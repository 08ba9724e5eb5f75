"""What whole models cost: with a whole batch, and in every step of decoding."""

from abc import ABC, abstractmethod
from typing import Any

from sympy import Expr

from clearhead.costing.forms.attention import soft_cap
from clearhead.costing.forms.inputs import Inputs, StackRole
from clearhead.costing.forms.letters import B, m, n, t
from clearhead.costing.forms.sketch import ONE, ZERO, Ledger, Sketch
from clearhead.recipe import (
    ClassifierSpec,
    EncoderModelSpec,
    LanguageModelSpec,
    ModelSpec,
    ResidualSpec,
    Seq2SeqSpec,
    cost_of,
)

OUTPUT = "output.weight"
"""The output matrix, which may be tied to a table of tokens."""


class Form(ABC):
    """What a family does with a whole batch; each method writes into the ledger, and returns what the model puts out.

    When that is ready is the span of the whole.
    """

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    @abstractmethod
    def forward(self, ledger: Ledger) -> Sketch:
        """The forward pass over whole sequences: logits, or vectors."""


class WritingForm(Form):
    """What a family does that also writes, token by token with a cache."""

    steps: tuple[Expr, Expr]
    """t of the first and of the last step."""

    @abstractmethod
    def read(self, ledger: Ledger) -> Sketch:
        """What is done once, before the first step."""

    @abstractmethod
    def step(self, ledger: Ledger) -> Sketch:
        """One step, with t tokens so far, the new one among them: the token that is chosen."""


def logits(spec: ModelSpec, x: Sketch, tokens: Expr) -> Sketch:
    """xEᵀ + b: n·d·V, whether E is the embedding itself or not."""
    tied = spec.embedding.tie in ("auto", "output", "all")

    def output(x: Sketch) -> Sketch:
        if spec.embedding.output_scale == "rsqrt":
            x = x.scale()
        if not tied:
            x.ledger.parameter(tokens, x.shape[-1], kind="table")
        if spec.embedding.output_bias:
            x.ledger.parameter(tokens, kind="vector", name="bias")
        copied = x.ledger.copy(tokens, x.shape[-1])
        found = x.linear(tokens, bias=spec.embedding.output_bias, known=True, copied=copied)
        return found if spec.embedding.output_cap is None else soft_cap(found)

    return x.ledger.measured("output", output, x)


def choice(x: Sketch) -> Sketch:
    """Greedy search takes the best token: V − 1 comparisons."""
    return x.ledger.measured("choice", lambda y: y.best(), x)


class Seq2SeqForm(WritingForm):
    """The encoder reads n tokens, the decoder writes m (L1.4); either may be a Transformer or recurrent."""

    spec: Seq2SeqSpec
    steps = (ONE, m)

    def _encode(self, ledger: Ledger) -> Sketch:
        spec = self.spec
        names = {"inputs": ("decoder.embedding.tokens.weight",), "all": ("decoder.embedding.tokens.weight", OUTPUT)}
        tokens = ledger.letters("V", spec.vocabulary.source, "src")
        inputs = Inputs(n, tokens, names=names.get(spec.embedding.tie, ()))
        memory: Sketch = cost_of(spec.encoder)(spec.encoder).run(ledger, inputs, StackRole("encoder", spec.embedding))
        return memory

    def _reading(self, memory: Sketch, **how: Any) -> StackRole:
        return StackRole("decoder", self.spec.embedding, cross=self.spec.cross, memory=memory, **how)

    def _decode(self, ledger: Ledger, memory: Sketch, length: Expr, **how: Any) -> Sketch:
        spec = self.spec
        tokens = ledger.letters("V", spec.vocabulary.target, "tgt")
        names = (OUTPUT,) if spec.embedding.tie in ("auto", "output") else ()
        inputs = Inputs(length, tokens, tied=spec.embedding.tie in ("inputs", "all"), names=names)
        decoder = cost_of(spec.decoder)(spec.decoder)
        return logits(spec, decoder.run(ledger, inputs, self._reading(memory, **how)), tokens)

    def forward(self, ledger: Ledger) -> Sketch:
        """Teacher forcing: all target tokens at once."""
        return self._decode(ledger, self._encode(ledger), m)

    def read(self, ledger: Ledger) -> Sketch:
        """The encoder, and what the decoder makes from its vectors once and for all."""
        memory = self._encode(ledger)
        cost_of(self.spec.decoder)(self.spec.decoder).prepare(ledger, self._reading(memory))
        return memory

    def step(self, ledger: Ledger) -> Sketch:
        """One token through the decoder, over t tokens so far and n memory tokens."""
        encoder = cost_of(self.spec.encoder)(self.spec.encoder)
        memory = ledger.input(B, n, encoder.out_width(ledger)).detach()
        return choice(self._decode(ledger, memory, ONE, so_far=t, stored=True))


class LanguageModelForm(WritingForm):
    """A decoder reads a prompt of n tokens, or a text of n tokens, and writes m more."""

    spec: LanguageModelSpec
    steps = (n + 1, n + m - 1)

    def _states(self, ledger: Ledger, length: Expr, so_far: Expr | None) -> tuple[Sketch, Expr]:
        spec = self.spec
        tokens = ledger.letters("V", spec.vocabulary.target, "tgt")
        role = StackRole("decoder", spec.embedding, so_far=so_far)
        names = (OUTPUT,) if spec.embedding.tie in ("auto", "output", "all") else ()
        return cost_of(spec.decoder)(spec.decoder).run(ledger, Inputs(length, tokens, names=names), role), tokens

    def forward(self, ledger: Ledger) -> Sketch:
        """All n tokens at once, each predicting the next."""
        return logits(self.spec, *self._states(ledger, n, None))

    def read(self, ledger: Ledger) -> Sketch:
        """The prompt, whose last token predicts the first new one."""
        x, tokens = self._states(ledger, n, n)
        return choice(logits(self.spec, x.view(B, x.shape[-1]), tokens))

    def step(self, ledger: Ledger) -> Sketch:
        """One token over t tokens so far."""
        x, tokens = self._states(ledger, ONE, t)
        return choice(logits(self.spec, x, tokens))


class EncoderForm(Form):
    """A vector for every one of n tokens, or of the patches of an image; pooler and head run only when asked."""

    spec: EncoderModelSpec

    def forward(self, ledger: Ledger) -> Sketch:
        """All tokens at once: their vectors."""
        x = self.states(ledger)
        if self.spec.pooler:
            with ledger.block("pooler"):
                ledger.linear(x.shape[-1], x.shape[-1])
        if self.spec.head == "tokens":
            with ledger.block("output"):
                self._head(ledger, x.shape[-1])
        return x

    def _head(self, ledger: Ledger, width: Expr) -> None:
        """Its parameters: a bias, as the matrix is the embedding; and d² + d and a norm's 2d for a transform."""
        ledger.parameter(ledger.letters("V", self.spec.vocabulary.source, "src"), kind="vector", name="bias")
        encoder, narrow = self.spec.encoder, self.spec.embedding.width
        if self.spec.head_transform != "none" and isinstance(encoder, ResidualSpec):
            table = ledger.letters("E", narrow, "enc") if narrow not in (None, encoder.width) else width
            ledger.linear(width, table, bias=self.spec.head_bias, name="transform.map")
            shifts = encoder.norm.kind == "layernorm" and getattr(encoder.norm, "shift", True)
            names = ("gain", "shift")[: 2 if shifts else 1] if encoder.norm.affine else ()
            for name in names:
                ledger.parameter(table, kind="vector", name=f"transform.norm.{name}")

    def states(self, ledger: Ledger) -> Sketch:
        """The encoder's vectors."""
        spec = self.spec
        tokens = ledger.letters("V", spec.vocabulary.source, "src") if spec.patches is None else ZERO
        inputs = Inputs(n, tokens, patches=spec.patches, names=(OUTPUT,) if spec.head == "tokens" else ())
        x: Sketch = cost_of(spec.encoder)(spec.encoder).run(ledger, inputs, StackRole("encoder", spec.embedding))
        return x


class ClassifierForm(EncoderForm):
    """An encoder, what it pools, and a map to the classes."""

    spec: ClassifierSpec

    def forward(self, ledger: Ledger) -> Sketch:
        """All tokens at once: a logit for each class."""
        spec, x = self.spec, self.states(ledger)
        width = x.shape[-1]
        pooled = x.view(B, width)
        if spec.pooling == "mean":
            pooled = ledger.measured("pooling", lambda y: y.sum(B, width, mean=True), x)
        elif spec.pooler:
            pooled = ledger.measured("pooler", lambda y: y.linear(width), pooled).apply(keeps="output")
        classes = ledger.letters("K", spec.classes)
        return ledger.measured("head", lambda y: y.linear(classes), pooled)
