"""What whole models cost: stacks of layers behind embeddings, and what decoding does with them.

Blocks are named as the modules are, so that each can be found in a traced graph.
"""

from dataclasses import replace
from typing import Any

from sympy import Expr

from clearhead.costing.forms.attention import Look
from clearhead.costing.forms.letters import B, m, n, t
from clearhead.costing.forms.position import Acting, Scheme
from clearhead.costing.forms.sketch import INDEX, ONE, ZERO, Block, Ledger, Map, Sketch
from clearhead.recipe import (
    AttentionSpec,
    Classifier,
    Embedding,
    Encoder,
    LanguageModel,
    ModelSpec,
    NormSpec,
    PositionSpec,
    Seq2Seq,
    Stack,
    cost_of,
)


class Form:
    """What a family does: with a whole batch, and if it writes, before and in every step of decoding."""

    writes = False

    def __init__(self, spec: Any) -> None:
        self.spec = spec

    def forward(self, ledger: Ledger) -> None:
        """The forward pass over whole sequences."""
        raise NotImplementedError

    def read(self, ledger: Ledger) -> None:
        """What is done once before the first step of decoding."""

    def step(self, ledger: Ledger) -> None:
        """One step of decoding, with t tokens so far, the new one among them."""

    steps: tuple[Expr, Expr] = (ONE, ZERO)
    """t of the first and of the last step."""


def run_norm(spec: NormSpec, x: Sketch) -> Sketch:
    """A norm in a block of its own."""
    return x.ledger.measured("norm", lambda y: cost_of(spec)(spec, y), x)


def embed(stack: Stack, spec: Embedding, ids: Sketch, *, tokens: Expr, tied: bool, part: str) -> Sketch:
    """scale · tokens[id] + position + segment, normalised where the recipe asks for it."""
    ledger = ids.ledger
    width = ledger.letters("d", stack.width, part)
    with ledger.block("embedding") as block:
        if not tied:
            ledger.parameter(tokens, width, kind="table")
        ledger.save(ids.storage)
        x = start = ledger.input(*ids.shape, width, time=ids.time)
        if spec.scale == "sqrt":
            x = x.scale()
        if stack.position.enters == "embedding":
            x = cost_of(stack.position)(stack.position, x)
        if spec.segments:
            ledger.parameter(spec.segments, width, kind="table")
            x = x.scale()
        if spec.norm:
            x = run_norm(stack.norm, x)
        block.span = x.time.since(start.time)
    return x


def layer(
    stack: Stack,
    *,
    look: Look,
    acting: Acting | None,
    cross: AttentionSpec | None = None,
    memory: Sketch | None = None,
    across: Look | None = None,
) -> Map:
    """Self-attention, perhaps attention over a memory, and the point-wise net, each inside its Add & Norm.

    ``acting`` if every layer has relative positions of its own.
    """

    def around(name: str, part: Map, x: Sketch) -> Sketch:
        ledger, outside = x.ledger, Block(f"around_{name}")

        def norm(y: Sketch) -> Sketch:
            with ledger.inside(outside):
                return run_norm(stack.norm, y)

        change = ledger.measured(name, part, norm(x) if stack.norm.place == "pre" else x)
        taken = ledger.here.parts[-1].span
        ledger.here.parts.append(outside)
        with ledger.inside(outside):
            y = x.add(change) if stack.residual else change
        y = norm(y) if stack.norm.place == "post" else y
        outside.span = y.time.since(x.time).since(taken)
        return y

    def one(x: Sketch) -> Sketch:
        own = look if acting is None else replace(look, scheme=run_scheme(stack.position, x.ledger, acting))
        x = around("attention", lambda y: cost_of(stack.attention)(stack.attention, y, look=own), x)
        if cross is not None:
            x = around("cross", lambda y: cost_of(cross)(cross, y, memory, look=across), x)
        net = stack.feedforward
        return around("feedforward", lambda y: cost_of(net)(net, y, part=look.part), x)

    return one


def run_scheme(spec: PositionSpec, ledger: Ledger, acting: Acting) -> Scheme:
    """Relative positions in a block of their own."""
    with ledger.block("scheme"):
        scheme: Scheme = cost_of(spec)(spec, ledger, acting)
    return scheme


def _acting(stack: Stack, ledger: Ledger, *, queries: Expr, keys: Expr, part: str) -> Acting:
    width, heads = ledger.letters("d", stack.width, part), ledger.letters("h", stack.attention.heads, part)
    head_size, value_size = (
        ledger.letters(name, size, part) if size * stack.attention.heads != stack.width else width / heads
        for name, size in zip(("d_q", "d_v"), stack.attention.sizes(stack.width), strict=True)
    )
    return Acting(heads=heads, head_size=head_size, value_size=value_size, queries=queries, keys=keys, part=part)


def run_stack(
    name: str,
    stack: Stack,
    embedding: Embedding,
    ids: Sketch,
    *,
    tokens: Expr,
    tied: bool = False,
    causal: bool = False,
    so_far: Expr | None = None,
    cross: AttentionSpec | None = None,
    memory: Sketch | None = None,
    stored: bool = False,
) -> Sketch:
    """An encoder, or a decoder; with ``so_far`` one new token behind those that the cache holds."""
    ledger, part = ids.ledger, name[:3]
    with ledger.block(name) as block:
        x = embed(stack, embedding, ids, tokens=tokens, tied=tied, part=part)
        acting = None
        look = Look(part=part, causal=causal, so_far=so_far)
        if stack.position.enters == "attention":
            acting = _acting(stack, ledger, queries=ids.shape[-1], keys=so_far or ids.shape[-1], part=part)
            if not stack.position.per_layer:
                look, acting = replace(look, scheme=run_scheme(stack.position, ledger, acting)), None
        across = Look(part="cross", stored=stored)
        for spec, mark in ((stack.attention, part), (cross, "cross")):
            if hasattr(formula := spec and cost_of(spec), "shared_part"):
                formula.shared_part(spec, ledger, mark)
        one = layer(stack, look=look, acting=acting, cross=cross, memory=memory, across=across)
        x = ledger.repeat("layers", stack.layers, ledger.letters("L", stack.layers, part), one, x)
        if stack.norm.has_final:
            x = ledger.measured("final_norm", lambda y: cost_of(stack.norm)(stack.norm, y), x)
        block.span = x.time.since(ids.time)
    return x


def logits(spec: ModelSpec, x: Sketch, tokens: Expr) -> Sketch:
    """xEᵀ + b: n·d·V, whether E is the embedding itself or not."""
    tied = spec.embedding.tie in ("auto", "output", "all")

    def output(x: Sketch) -> Sketch:
        if spec.embedding.output_scale == "rsqrt":
            x = x.scale()
        if not tied:
            x.ledger.parameter(tokens, x.shape[-1], kind="table")
        return x.linear(tokens, bias=spec.embedding.output_bias, tied=True)

    return x.ledger.measured("output", output, x)


def choice(x: Sketch) -> Sketch:
    """Greedy search takes the best token: V − 1 comparisons."""
    return x.ledger.measured("choice", lambda y: y.best(), x)


class Seq2SeqForm(Form):
    """The encoder reads n tokens, the decoder writes m (L1.4)."""

    spec: Seq2Seq
    writes = True
    steps = (ONE, m)

    def _encode(self, ledger: Ledger) -> Sketch:
        spec = self.spec
        tokens = ledger.letters("V", spec.vocabulary.source, "src")
        return run_stack("encoder", spec.encoder, spec.embedding, ledger.input(B, n, size=INDEX), tokens=tokens)

    def _decode(self, ledger: Ledger, memory: Sketch, length: Expr, **how: Any) -> Sketch:
        spec = self.spec
        tokens = ledger.letters("V", spec.vocabulary.target, "tgt")
        x = run_stack(
            "decoder",
            spec.decoder,
            spec.embedding,
            ledger.input(B, length, size=INDEX),
            tokens=tokens,
            tied=spec.embedding.tie in ("inputs", "all"),
            causal=True,
            cross=spec.cross.attention,
            memory=memory,
            **how,
        )
        return logits(spec, x, tokens)

    def forward(self, ledger: Ledger) -> None:
        """Teacher forcing: all target tokens at once."""
        ledger.root.span = self._decode(ledger, self._encode(ledger), m).time

    def read(self, ledger: Ledger) -> None:
        """The encoder, and the memory's keys and values in every decoder layer, which are then kept."""
        memory = self._encode(ledger)
        stack, cross = self.spec.decoder, self.spec.cross.attention
        width = ledger.letters("d", stack.width, "dec")
        with ledger.block("decoder"), ledger.block("layers") as layers:
            layers.times = ledger.letters("L", stack.layers, "dec")
            with ledger.block("cross"):  # no queries yet
                cost_of(cross)(cross, ledger.input(B, ZERO, width), memory, look=Look(part="cross"))
        ledger.root.span = memory.time

    def step(self, ledger: Ledger) -> None:
        """One token through the decoder, over t tokens so far and n memory tokens."""
        width = ledger.letters("d", self.spec.encoder.width, "enc")
        memory = ledger.constant(B, n, width)
        x = self._decode(ledger, memory, ONE, so_far=t, stored=True)
        ledger.root.span = choice(x).time


class LanguageModelForm(Form):
    """A decoder reads a prompt of n tokens, or a text of n tokens, and writes m more."""

    spec: LanguageModel
    writes = True
    steps = (n + 1, n + m - 1)

    def _states(self, ledger: Ledger, length: Expr, so_far: Expr | None) -> tuple[Sketch, Expr]:
        spec = self.spec
        tokens = ledger.letters("V", spec.vocabulary.target, "tgt")
        ids = ledger.input(B, length, size=INDEX)
        return run_stack(
            "decoder", spec.decoder, spec.embedding, ids, tokens=tokens, causal=True, so_far=so_far
        ), tokens

    def forward(self, ledger: Ledger) -> None:
        """All n tokens at once, each predicting the next."""
        ledger.root.span = logits(self.spec, *self._states(ledger, n, None)).time

    def read(self, ledger: Ledger) -> None:
        """The prompt, whose last token predicts the first new one."""
        x, tokens = self._states(ledger, n, n)
        ledger.root.span = choice(logits(self.spec, x.view(B, x.shape[-1]), tokens)).time

    def step(self, ledger: Ledger) -> None:
        """One token over t tokens so far."""
        x, tokens = self._states(ledger, ONE, t)
        ledger.root.span = choice(logits(self.spec, x, tokens)).time


class EncoderForm(Form):
    """A vector for every one of n tokens; the pooler runs only when it is asked."""

    spec: Encoder

    def forward(self, ledger: Ledger) -> None:
        """All n tokens at once."""
        x = self.states(ledger)
        ledger.root.span = x.time
        if self.spec.pooler:
            with ledger.block("pooler"):
                ledger.parameter(x.shape[-1], x.shape[-1])
                ledger.parameter(x.shape[-1], kind="vector")

    def states(self, ledger: Ledger) -> Sketch:
        """The encoder's vectors."""
        spec = self.spec
        tokens = ledger.letters("V", spec.vocabulary.source, "src")
        return run_stack("encoder", spec.encoder, spec.embedding, ledger.input(B, n, size=INDEX), tokens=tokens)


class ClassifierForm(EncoderForm):
    """An encoder, what it pools, and a map to the classes."""

    spec: Classifier

    def forward(self, ledger: Ledger) -> None:
        """All n tokens at once."""
        spec, x = self.spec, self.states(ledger)
        width = x.shape[-1]
        pooled = x.view(B, width)
        if spec.pooling == "mean":
            pooled = ledger.measured("pooling", lambda y: y.sum(B, width, mean=True), x)
        elif spec.pooler:
            pooled = ledger.measured("pooler", lambda y: y.linear(width).apply(keeps="output"), pooled)
        classes = ledger.letters("C", spec.classes)
        ledger.root.span = ledger.measured("head", lambda y: y.linear(classes), pooled).time
