"""What a stack of Transformer layers costs.

Blocks are named as the modules are, so that each can be found in a traced graph.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

from sympy import Expr, Integer

from clearhead.costing.forms.attention import AttentionSetting, attention_form, does_without_weights
from clearhead.costing.forms.inputs import Inputs, StackRole, embed, patch_grid, run_norm
from clearhead.costing.forms.letters import B
from clearhead.costing.forms.position import PositionSetting, Scheme
from clearhead.costing.forms.sketch import ZERO, Ledger, LedgerBlock, Map, Sketch
from clearhead.recipe import AttentionSpec, PositionSpec, ResidualSpec, TransformerSpec, cost_of


def add_and_norm(
    stack: ResidualSpec,
    name: str,
    part: Map,
    x: Sketch,
    *,
    onto: Sketch | None = None,
    own_norm: bool = True,
    normed: bool = True,
) -> Sketch:
    """A sublayer inside its Add & Norm: norm(x + f(x)), x + f(norm(x)), or x + after(f(norm(x))).

    ``onto`` is what f(x) is added to, if not x; without ``own_norm`` the norm is that of another sublayer,
    and without ``normed`` there is none before it.
    """
    ledger, outside = x.ledger, LedgerBlock(f"around_{name}")

    def norm(y: Sketch, *, after: bool = False) -> Sketch:
        with ledger.inside(outside), nullcontext() if own_norm else ledger.without("parameters"):
            return run_norm(stack.norm, y, "after" if after else "norm")

    change = ledger.measured(name, part, norm(x) if normed and stack.norm.place != "post" else x)
    taken = ledger.here.parts[-1].span
    ledger.here.parts.append(outside)
    change = norm(change, after=True) if stack.norm.place == "both" else change
    began, x = x.time, x if onto is None else onto
    with ledger.inside(outside):
        if stack.residual and change.shape[-1] != x.shape[-1]:  # x is projected to what the sublayer puts out
            y = change.add(ledger.measured("project", lambda z: z.linear(change.shape[-1], bias=False), x))
        else:
            y = x.add(change) if stack.residual else change
    y = norm(y) if stack.norm.place == "post" else y
    outside.span = y.time.since(began).since(taken)
    return y


@dataclass(frozen=True)
class EqualLayers:
    """Layers in a row with the same sizes.

    They are all layers of a stack, unless heads are removed from some, or the last one puts out another width.
    """

    first: int
    """The first of them, from 0."""
    count: int
    attention: AttentionSpec
    cross: AttentionSpec | None
    fewer: bool
    """Whether heads of self-attention are removed, so that they use a part of the stack's biases alone."""
    ends: bool = False
    """Whether it is the last layer, and its net puts out another width."""
    normed: bool = True
    """Whether there is a norm before self-attention."""
    weights: bool = True
    """Whether they have weights of their own."""


def across(ledger: Ledger, role: StackRole, *, stored: bool) -> AttentionSetting:
    """What attention over the memory can see: all of it, at relative positions if the recipe gives some."""
    setting = AttentionSetting(part="cross", stored=stored)
    if role.cross is None or role.cross.position.enters == "embedding":
        return setting
    position = role.cross.position
    where = PositionSetting(heads=ZERO, head_size=ZERO, value_size=ZERO, queries=ZERO, keys=ZERO, part="cross")
    return replace(setting, scheme=cost_of(position)(position, ledger, where))


def equal_layers(
    stack: TransformerSpec, cross: AttentionSpec | None, tuned: Callable[[int], tuple[bool, ...]] | None = None
) -> Iterator[EqualLayers]:
    """The layers of a stack, as many as possible at a time; ``tuned`` is equal for those that are trained alike."""

    other_end = stack.out_width != stack.width
    signatures = {number: () if tuned is None else tuned(number) for number in range(1, stack.layers + 1)}

    unlike_first = stack.shared or not stack.norm.first

    def own(number: int) -> tuple[AttentionSpec, AttentionSpec | None, bool, bool, tuple[bool, ...]]:
        across = None if cross is None else cross.in_layer(number, stack.width)
        attention = stack.attention.in_layer(number, stack.width)
        return attention, across, other_end and number == stack.layers, unlike_first and number == 1, signatures[number]

    alike = len(set(signatures.values())) == 1 and (not unlike_first or stack.layers == 1)
    if alike and not other_end and all(kind is None or kind.same_in_all_layers for kind in (stack.attention, cross)):
        yield EqualLayers(0, stack.layers, stack.attention, cross, fewer=False, normed=stack.norm.first)
        return
    first = 0
    for (attention, across, ends, begins, _), group in groupby(range(1, stack.layers + 1), key=own):
        count = len(list(group))
        fewer = attention.heads != stack.attention.heads
        normed, weights = stack.norm.first or not begins, not stack.shared or begins
        yield EqualLayers(first, count, attention, across, fewer=fewer, ends=ends, normed=normed, weights=weights)
        first += count


def layer(
    stack: TransformerSpec,
    attention: AttentionSpec,
    *,
    setting: AttentionSetting,
    own_scheme: Callable[[Ledger], Scheme] | None,
    cross: AttentionSpec | None = None,
    memory: Sketch | None = None,
    across: AttentionSetting | None = None,
    ends: bool = False,
    normed: bool = True,
) -> Map:
    """Self-attention, perhaps attention over a memory, and the point-wise net, each inside its Add & Norm.

    ``own_scheme`` is given if every layer has relative positions of its own; ``ends`` if it is the last layer, and its
    net puts out another width; ``normed`` if a norm stands before self-attention.
    """

    def around(name: str, part: Map, x: Sketch, **how: Any) -> Sketch:
        return add_and_norm(stack, name, part, x, **how)

    def one(x: Sketch) -> Sketch:
        own = setting if own_scheme is None else replace(setting, scheme=own_scheme(x.ledger))
        net = stack.feedforward if ends else stack.feedforward.replaced(out_width=None)
        run_net = partial(cost_of(net), net, part=setting.part)
        y = around("attention", lambda z: cost_of(attention)(attention, z, setting=own), x, normed=normed)
        if stack.parallel != "no":
            return around("feedforward", run_net, x, onto=y, own_norm=stack.parallel == "two-norms")
        if cross is not None:
            y = around("cross", lambda z: cost_of(cross)(cross, z, memory, setting=across), y)
        return around("feedforward", run_net, y)

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
        forms_scores=extent is not None or not does_without_weights(stack.attention),
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
            cross = None if role.cross is None else role.cross.attention
            groups = list(equal_layers(spec, cross, partial(ledger.tuned.signature, role.name)))
            setting = AttentionSetting(part=part, causal=spec.causal, so_far=role.so_far, grid=grid)
            position_setting = None
            if spec.position.enters == "attention":
                position_setting = _position_setting(spec, ledger, queries=x.shape[-2], setting=setting)
                if not spec.position.per_layer:
                    used = not spec.position.per_head or not all(group.fewer for group in groups)
                    used = used and not ledger.recompute  # it is computed in each layer then
                    with nullcontext() if used else ledger.without("saved"):
                        setting = replace(setting, scheme=run_scheme(spec.position, ledger, position_setting))
            nearby = setting
            if position_setting is not None and (near := spec.position.in_windows()) != spec.position:
                nearby = replace(setting, scheme=cost_of(near)(near, ledger, position_setting))
            for kind, mark in ((spec.attention, part), (cross, "cross")):
                if kind is not None:
                    with ledger.without("saved") if ledger.recompute else nullcontext():
                        attention_form(kind).shared(kind, ledger, x.shape[-1], mark)
            over_memory = across(ledger, role, stored=role.stored)
            for group in groups:
                own = nearby if spec.attention.sees_window(group.first + 1) else setting
                layers = self._layer(group, role, own, over_memory, position_setting)
                one = ledger.computed_again(layers, role.memory)
                with nullcontext() if group.weights else ledger.without("parameters"):
                    x = ledger.repeat(self._name(group), group.count, self._times(group, ledger, part), one, x)
            if spec.norm.has_final:
                x = ledger.measured("final_norm", lambda y: cost_of(spec.norm)(spec.norm, y), x)
            block.span = x.time
        return x

    def _layer(
        self,
        group: EqualLayers,
        role: StackRole,
        setting: AttentionSetting,
        over_memory: AttentionSetting,
        position_setting: PositionSetting | None,
    ) -> Map:
        """One of some equal layers; ``position_setting`` is given if positions act inside attention."""
        position = self.spec.position
        alone = position.per_head and group.fewer  # its heads are a part of those that the stack's scheme is for

        def own_scheme(ledger: Ledger) -> Scheme:
            assert position_setting is not None
            if not alone:
                return run_scheme(position, ledger, position_setting)
            heads = ledger.letters("h", group.attention.heads, role.part)
            with ledger.without("parameters"):
                return run_scheme(position, ledger, replace(position_setting, heads=heads))

        return layer(
            self.spec,
            group.attention,
            setting=setting,
            own_scheme=own_scheme if position_setting is not None and (alone or position.per_layer) else None,
            cross=group.cross,
            memory=role.memory,
            across=over_memory,
            ends=group.ends,
            normed=group.normed,
        )

    def out_width(self, ledger: Ledger) -> Expr:
        """Features of the vectors that an encoder hands on."""
        wide = self.spec.out_width == self.spec.width
        return ledger.letters("d" if wide else "v", self.spec.out_width, "enc")

    def prepare(self, ledger: Ledger, role: StackRole) -> None:
        """What decoding does once: the memory's keys and values in every layer, and projected positions."""
        width = ledger.letters("d", self.spec.width, role.part)
        with ledger.block(role.name):
            for group in equal_layers(self.spec, None if role.cross is None else role.cross.attention):
                with ledger.block(self._name(group)) as layers:
                    layers.times = self._times(group, ledger, role.part)
                    with ledger.block("attention"):
                        attention_form(group.attention).prepared(group.attention, ledger, width, role.part)
                    if group.cross is not None:
                        with ledger.block("cross"):  # no queries yet
                            none = ledger.input(B, ZERO, width)
                            setting = across(ledger, role, stored=False)
                            cost_of(group.cross)(group.cross, none, role.memory, setting=setting)

    def _name(self, group: EqualLayers) -> str:
        return "layers" if group.count == self.spec.layers else f"layers.{group.first}"

    def _times(self, group: EqualLayers, ledger: Ledger, part: str) -> Expr:
        whole = group.count == self.spec.layers
        return ledger.letters("L", group.count, part) if whole else Integer(group.count)
