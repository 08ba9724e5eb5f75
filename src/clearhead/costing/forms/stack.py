"""What a stack of Transformer layers costs.

Blocks are named as the modules are, so that each can be found in a traced graph.
"""

from dataclasses import replace

from sympy import Expr

from clearhead.costing.forms.attention import Look
from clearhead.costing.forms.inputs import Inputs, Reading, embed, patch_grid, run_norm
from clearhead.costing.forms.letters import B
from clearhead.costing.forms.position import Acting, Scheme
from clearhead.costing.forms.sketch import ZERO, Block, Ledger, Map, Sketch
from clearhead.recipe import AttentionSpec, PositionSpec, Stack, cost_of


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


def _acting(stack: Stack, ledger: Ledger, *, queries: Expr, look: Look) -> Acting:
    part = look.part
    width, heads = ledger.letters("d", stack.width, part), ledger.letters("h", stack.attention.heads, part)
    head_size, value_size = (
        ledger.letters(name, size, part) if size * stack.attention.heads != stack.width else width / heads
        for name, size in zip(("d_q", "d_v"), stack.attention.sizes(stack.width), strict=True)
    )
    return Acting(
        heads=heads,
        head_size=head_size,
        value_size=value_size,
        queries=queries,
        keys=look.so_far or queries,
        part=part,
        grid=look.grid,
    )


class TransformerForm:
    """An encoder, or a decoder, of Transformer layers."""

    def __init__(self, spec: Stack) -> None:
        self.spec = spec

    def run(self, ledger: Ledger, inputs: Inputs, reading: Reading) -> Sketch:
        """All tokens of the inputs; with ``so_far`` they stand behind those that the cache holds."""
        spec, part = self.spec, reading.part
        grid = None if inputs.patches is None else patch_grid(ledger, inputs.patches)
        with ledger.block(reading.name) as block:
            x = embed(ledger, spec, inputs, reading, position=spec.position, norm=spec.norm)
            length, acting = x.shape[-2], None
            look = Look(part=part, causal=spec.causal, so_far=reading.so_far, grid=grid)
            if spec.position.enters == "attention":
                acting = _acting(spec, ledger, queries=length, look=look)
                if not spec.position.per_layer:
                    look, acting = replace(look, scheme=run_scheme(spec.position, ledger, acting)), None
            for kind, mark in ((spec.attention, part), (reading.cross, "cross")):
                if kind is not None and hasattr(formula := cost_of(kind), "shared_part"):
                    formula.shared_part(kind, ledger, x.shape[-1], mark)
            across = Look(part="cross", stored=reading.stored)
            one = layer(spec, look=look, acting=acting, cross=reading.cross, memory=reading.memory, across=across)
            x = ledger.repeat("layers", spec.layers, ledger.letters("L", spec.layers, part), one, x)
            if spec.norm.has_final:
                x = ledger.measured("final_norm", lambda y: cost_of(spec.norm)(spec.norm, y), x)
            block.span = x.time
        return x

    def out_width(self, ledger: Ledger) -> Expr:
        """Features of the vectors that an encoder hands on."""
        return ledger.letters("d", self.spec.width, "enc")

    def prepare(self, ledger: Ledger, reading: Reading) -> None:
        """What decoding does once: the memory's keys and values in every layer, and projected positions."""
        width = ledger.letters("d", self.spec.width, reading.part)
        with ledger.block(reading.name), ledger.block("layers") as layers:
            layers.times = ledger.letters("L", self.spec.layers, reading.part)
            if hasattr(formula := cost_of(self.spec.attention), "prepare"):
                with ledger.block("attention"):
                    formula.prepare(self.spec.attention, ledger, width, reading.part)
            if reading.cross is not None:
                with ledger.block("cross"):  # no queries yet
                    none = ledger.input(B, ZERO, width)
                    cost_of(reading.cross)(reading.cross, none, reading.memory, look=Look(part="cross"))
