"""What a stack of Transformer layers costs.

Blocks are named as the modules are, so that each can be found in a traced graph.
"""

from dataclasses import replace
from functools import partial

from sympy import Expr

from clearhead.costing.forms.attention import AttentionSetting, attention_form
from clearhead.costing.forms.inputs import Inputs, StackRole, embed, patch_grid, run_norm
from clearhead.costing.forms.letters import B
from clearhead.costing.forms.position import PositionSetting, Scheme
from clearhead.costing.forms.sketch import ZERO, Ledger, LedgerBlock, Map, Sketch
from clearhead.recipe import AttentionSpec, PositionSpec, ResidualSpec, TransformerSpec, cost_of


def add_and_norm(stack: ResidualSpec, name: str, part: Map, x: Sketch) -> Sketch:
    """A sublayer inside its Add & Norm: norm(x + f(x)), or x + f(norm(x))."""
    ledger, outside = x.ledger, LedgerBlock(f"around_{name}")

    def norm(y: Sketch) -> Sketch:
        with ledger.inside(outside):
            return run_norm(stack.norm, y)

    change = ledger.measured(name, part, norm(x) if stack.norm.place == "pre" else x)
    taken = ledger.here.parts[-1].span
    ledger.here.parts.append(outside)
    with ledger.inside(outside):
        if stack.residual and change.shape[-1] != x.shape[-1]:  # x is projected to what the sublayer puts out
            y = change.add(ledger.measured("project", lambda z: z.linear(change.shape[-1], bias=False), x))
        else:
            y = x.add(change) if stack.residual else change
    y = norm(y) if stack.norm.place == "post" else y
    outside.span = y.time.since(x.time).since(taken)
    return y


def layer(
    stack: TransformerSpec,
    *,
    setting: AttentionSetting,
    position_setting: PositionSetting | None,
    cross: AttentionSpec | None = None,
    memory: Sketch | None = None,
    across: AttentionSetting | None = None,
    ends: bool = False,
) -> Map:
    """Self-attention, perhaps attention over a memory, and the point-wise net, each inside its Add & Norm.

    ``position_setting`` is given if every layer has relative positions of its own; ``ends`` if it is the last layer,
    whose net may put out another width.
    """

    def around(name: str, part: Map, x: Sketch) -> Sketch:
        return add_and_norm(stack, name, part, x)

    def one(x: Sketch) -> Sketch:
        own = (
            setting
            if position_setting is None
            else replace(setting, scheme=run_scheme(stack.position, x.ledger, position_setting))
        )
        x = around("attention", lambda y: cost_of(stack.attention)(stack.attention, y, setting=own), x)
        if cross is not None:
            x = around("cross", lambda y: cost_of(cross)(cross, y, memory, setting=across), x)
        net = stack.feedforward if ends else stack.feedforward.replaced(out_width=None)
        return around("feedforward", lambda y: cost_of(net)(net, y, part=setting.part), x)

    return one


def run_scheme(spec: PositionSpec, ledger: Ledger, position_setting: PositionSetting) -> Scheme:
    """Relative positions in a block of their own."""
    with ledger.block("scheme"):
        scheme: Scheme = cost_of(spec)(spec, ledger, position_setting)
    return scheme


def _position_setting(
    stack: TransformerSpec, ledger: Ledger, *, queries: Expr, setting: AttentionSetting
) -> PositionSetting:
    part = setting.part
    width, heads = ledger.letters("d", stack.width, part), ledger.letters("h", stack.attention.heads, part)
    head_size, value_size = (
        ledger.letters(name, size, part) if size * stack.attention.heads != stack.width else width / heads
        for name, size in zip(("d_q", "d_v"), stack.attention.sizes(stack.width), strict=True)
    )
    keys, extent = setting.so_far or queries, attention_form(stack.attention).extent
    if extent is not None:
        queries, keys = extent(stack.attention, ledger, queries, keys, part)
    return PositionSetting(
        heads=heads,
        head_size=head_size,
        value_size=value_size,
        queries=queries,
        keys=keys,
        part=part,
        grid=setting.grid,
        in_windows=extent is not None,
    )


class TransformerForm:
    """An encoder, or a decoder, of Transformer layers."""

    def __init__(self, spec: TransformerSpec) -> None:
        self.spec = spec

    def run(self, ledger: Ledger, inputs: Inputs, role: StackRole) -> Sketch:
        """All tokens of the inputs; with ``so_far`` they follow those that the cache holds."""
        spec, part = self.spec, role.part
        grid = None if inputs.patches is None else patch_grid(ledger, inputs.patches)
        with ledger.block(role.name) as block:
            x = embed(ledger, spec, inputs, role, position=spec.position, norm=spec.norm)
            length, position_setting = x.shape[-2], None
            setting = AttentionSetting(part=part, causal=spec.causal, so_far=role.so_far, grid=grid)
            if spec.position.enters == "attention":
                position_setting = _position_setting(spec, ledger, queries=length, setting=setting)
                if not spec.position.per_layer:
                    setting, position_setting = (
                        replace(setting, scheme=run_scheme(spec.position, ledger, position_setting)),
                        None,
                    )
            for kind, mark in ((spec.attention, part), (role.cross, "cross")):
                if kind is not None:
                    attention_form(kind).shared(kind, ledger, x.shape[-1], mark)
            across = AttentionSetting(part="cross", stored=role.stored)
            make = partial(
                layer,
                spec,
                setting=setting,
                position_setting=position_setting,
                cross=role.cross,
                memory=role.memory,
                across=across,
            )
            layers = ledger.letters("L", spec.layers, part)
            if spec.out_width == spec.width:
                x = ledger.repeat("layers", spec.layers, layers, make(), x)
            else:
                if spec.layers > 1:
                    x = ledger.repeat("layers", spec.layers - 1, layers - 1, make(), x)
                x = ledger.measured(f"layers.{spec.layers - 1}", make(ends=True), x)
            if spec.norm.has_final:
                x = ledger.measured("final_norm", lambda y: cost_of(spec.norm)(spec.norm, y), x)
            block.span = x.time
        return x

    def out_width(self, ledger: Ledger) -> Expr:
        """Features of the vectors that an encoder hands on."""
        wide = self.spec.out_width == self.spec.width
        return ledger.letters("d" if wide else "v", self.spec.out_width, "enc")

    def prepare(self, ledger: Ledger, role: StackRole) -> None:
        """What decoding does once: the memory's keys and values in every layer, and projected positions."""
        width = ledger.letters("d", self.spec.width, role.part)
        with ledger.block(role.name), ledger.block("layers") as layers:
            layers.times = ledger.letters("L", self.spec.layers, role.part)
            with ledger.block("attention"):
                attention_form(self.spec.attention).prepared(self.spec.attention, ledger, width, role.part)
            if role.cross is not None:
                with ledger.block("cross"):  # no queries yet
                    none = ledger.input(B, ZERO, width)
                    cost_of(role.cross)(role.cross, none, role.memory, setting=AttentionSetting(part="cross"))
