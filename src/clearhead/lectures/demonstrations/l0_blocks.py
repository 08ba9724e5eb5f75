"""L0.10 to L0.13: layer norm, Add & Norm, the feed-forward net of the notes and the standard one."""

import dataclasses
import itertools
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any, get_args

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clearhead.attention import AttentionContext
from clearhead.blocks import AddNorm, Layer, LayerNorm, OuterFeedForward, StandardFeedForward
from clearhead.drawing.figure import Lines, Series
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, alike, far, gap
from clearhead.lectures.demonstrations.pytorch import encoder_layer, layer_like
from clearhead.lectures.evidence import Evidence, Measure
from clearhead.models import build
from clearhead.recipe import LayerNormSpec, read_recipe


def layer_norm() -> Evidence:
    """L0.10: each token is normalised independently; in the other reading of the notes, tokens see each other."""
    x = torch.randn(2, 5, 16)
    valid = torch.ones(2, 5, dtype=torch.bool)
    valid[1, 3:] = False
    other = x.clone()
    other[:, 1:] = torch.randn(2, 4, 16)  # every token but the first is another one

    def against_torch() -> Measure:
        reference, norm = nn.LayerNorm(16), LayerNorm(width=16)
        small = 1e-3 * x  # as small as √ε, where it matters where ε stands
        return alike("LayerNorm against torch.nn.LayerNorm, also for small x", norm(small), reference(small))

    def alone() -> Measure:
        norm = LayerNorm(width=16)
        what = "first token, after all others were replaced"
        return alike(what, norm(other, valid)[:, 0], norm(x, valid)[:, 0], tolerance=0.0)

    def moments() -> Measure:
        out = LayerNorm(width=16, eps=0.0)(x).double()
        off = torch.stack((out.mean(-1).abs().max(), (out.var(-1, correction=0).sqrt() - 1).abs().max())).max()
        return Measure(
            "mean and deviation of a token's features against 0 and 1", 0.0, float(off.detach()), tolerance=1e-5
        )

    def each_reading() -> Measure:
        """Every setting of axis and of ε against the formula in double precision, with padding."""
        worst = 0.0
        settings = (get_args(LayerNormSpec.model_fields[name].annotation) for name in ("axis", "eps_place"))
        for axis, place in itertools.product(*settings):
            norm = LayerNorm(width=16, eps=1e-2, axis=axis, eps_place=place)
            expected = _normalised(x, valid, axis=axis, inside=place == "inside")
            worst = max(worst, gap(norm(x, valid)[valid], expected[valid]))
        what = "(y − μ)/σ over every axis that there is, ε inside or outside, padded lines: max|Δ|"
        return Measure(what, 0.0, worst, tolerance=ROUNDING)

    def in_a_decoder() -> Measure:
        built = []
        for axis in get_args(LayerNormSpec.model_fields["axis"].annotation):
            with suppress(RecipeError):
                read_recipe("tiny", f"model.decoder.norm.axis={axis}")
                built.append(axis)
        return Measure("axes that a decoder may normalise over", "token", ", ".join(built))

    printed = LayerNorm(width=16, axis="all")
    leak = gap(printed(other, valid)[:, 0], printed(x, valid)[:, 0])
    forward, deviation = "clearhead.blocks.norm.LayerNorm.forward", "clearhead.blocks.norm.LayerNorm._deviation"
    return Evidence(
        measures=(against_torch(), alone(), moments(), each_reading(), in_a_decoder()),
        wrong=(
            broken_block(
                "one mean and deviation for all of Y, as printed", forward, lambda right: _over_everything, alone
            ),
            broken_block(
                "the sample's deviation, n − 1",
                forward,
                lambda right: lambda self, x, valid=None: right(self, x, valid) * math.sqrt(15 / 16),
                moments,
            ),
            broken_block(
                "ε outside the root",
                forward,
                lambda right: (
                    lambda self, x, valid=None: (
                        (x - x.mean(-1, True)) / (x.std(-1, correction=0, keepdim=True) + self.eps)
                    )
                ),
                against_torch,
            ),
            broken_block(
                "ε inside the root, whatever the setting says",
                deviation,
                lambda right: lambda self, variance: (variance + self.eps).sqrt(),
                each_reading,
            ),
            broken_block(
                "padding counted in the statistics",
                forward,
                lambda right: lambda self, x, valid=None: right(self, x, None),
                each_reading,
            ),
            broken_block(
                "recipes that let a decoder normalise over the sequence",
                "clearhead.recipe.norm.LayerNormSpec.mixes_positions",
                lambda right: lambda self: False,
                in_a_decoder,
            ),
        ),
        notes=(
            f"With one μ and σ for all of Y, as printed, the first token moves by {leak:.2f} when later tokens change: "
            "in a decoder it would see the future.",
        ),
    )


def _normalised(x: Tensor, valid: Tensor, *, axis: str, inside: bool) -> Tensor:
    """The formula, a line and a statistic at a time, in double precision; ε = 0.01."""
    out = torch.zeros_like(x)
    for line in range(len(x)):
        tokens = x[line, valid[line]].double().numpy()
        over = {"token": (1,), "sequence": (0,), "all": (0, 1)}[axis]
        mean, deviation = tokens.mean(over, keepdims=True), tokens.std(over, keepdims=True)
        root = np.sqrt(deviation**2 + 1e-2) if inside else deviation + 1e-2
        out[line, valid[line]] = torch.tensor((tokens - mean) / root, dtype=x.dtype)
    return out


def _over_everything(self: LayerNorm, x: Tensor, valid: Tensor | None = None) -> Tensor:
    return (x - x.mean((1, 2), keepdim=True)) / (x.var((1, 2), correction=0, keepdim=True) + self.eps).sqrt()


def add_and_norm() -> Evidence:
    """L0.11: our layer, post and pre, against torch's own encoder layer with the same weights, with padding."""
    x = torch.randn(2, 6, 24)
    valid = torch.ones(2, 6, dtype=torch.bool)
    valid[1, 4:] = False
    layers = {}
    for place in ("post", "pre"):
        reference = encoder_layer(width=24, heads=3, hidden=40, norm_first=place == "pre")
        layers[place] = (layer_like(reference, place), reference)

    def results(place: str) -> tuple[Tensor, Tensor]:
        layer, reference = layers[place]
        with torch.no_grad():
            mine = layer(x, AttentionContext(valid=valid), valid=valid)
            return mine[valid], reference(x, src_key_padding_mask=~valid)[valid]

    def post() -> Measure:
        return alike("post-LN layer against torch.nn.TransformerEncoderLayer, padded lines", *results("post"))

    def pre() -> Measure:
        return alike("pre-LN layer against the same with norm_first, padded lines", *results("pre"))

    def formula() -> Measure:
        f, norm = nn.Linear(24, 24), LayerNorm(width=24)
        with torch.no_grad():
            return alike("LN(X + Sublayer(X))", AddNorm(norm, place="post")(x, f), F.layer_norm(x + f(x), (24,)))

    forward = "clearhead.blocks.residual.AddNorm.forward"
    return Evidence(
        measures=(
            formula(),
            post(),
            pre(),
            far(
                "post against pre, our layer with the same weights",
                results("post")[0],
                _as_pre(layers["post"][0], x)[valid],
                0.1,
            ),
        ),
        wrong=(
            broken_block(
                "LN(X) + Sublayer(X)",
                forward,
                lambda right: lambda self, x, f, valid=None: self.norm(x, valid) + f(x),
                formula,
            ),
            broken_block(
                "pre-LN whatever the setting says",
                forward,
                lambda right: lambda self, x, f, valid=None: x + f(self.norm(x, valid)),
                post,
            ),
            broken_block(
                "post-LN whatever the setting says",
                forward,
                lambda right: lambda self, x, f, valid=None: self.norm(x + f(x), valid),
                pre,
            ),
            broken_block(
                "padding that is taken for tokens",
                "clearhead.attention.paths.attend_heads",
                lambda right: lambda *given: right(*given[:-1], dataclasses.replace(given[-1], valid=None)),
                post,
            ),
        ),
    )


def _as_pre(layer: Layer, x: Tensor) -> Tensor:
    """The same layer with its norms before the sublayers."""
    for wrap in (layer.around_attention, layer.around_feedforward):
        wrap.place = "pre"
    with torch.no_grad():
        out: Tensor = layer(x, AttentionContext())
    for wrap in (layer.around_attention, layer.around_feedforward):
        wrap.place = "post"
    return out


def outer_relu() -> Evidence:
    """L0.12: with the ReLU outside, the two maps are one; the standard net is more than that."""
    width, hidden = 6, 48
    outer, standard = OuterFeedForward(width=width, hidden=hidden), StandardFeedForward(width=width, hidden=hidden)
    standard.load_state_dict(outer.state_dict())
    x = torch.randn(1, 400, width)
    W1, b1, W2, b2 = outer.up.weight.T, outer.up.bias, outer.down.weight.T, outer.down.bias
    one_map = torch.relu(x @ (W1 @ W2) + b1 @ W2 + b2).detach()
    # along a straight line of inputs each ReLU bends the output where it opens: count the bends
    t = torch.linspace(-6, 6, 4001, dtype=torch.float64)
    start, direction = torch.randn(2, width, dtype=torch.float64)
    along = (start + t[:, None] * direction)[None]

    def collapses() -> Measure:
        with torch.no_grad():
            return alike("the net of the notes against ReLU(X(W₁W₂) + b₁W₂ + b₂), one linear map", outer(x), one_map)

    def bends(name: str, net: nn.Module) -> Measure:
        what, most = f"bends of an output along a line: {name}", name == "ReLU outside"
        with torch.no_grad():
            seen = _bends(net.double()(along)[0, :, 0])
        net.float()
        return Measure(what, 1 if most else hidden // 5, seen, relation="≤" if most else "≥")

    with torch.no_grad():
        curves = {"outer": outer.double()(along)[0, :, 0], "standard": standard.double()(along)[0, :, 0]}
    outer.float(), standard.float()
    points = slice(None, None, 100)
    folder = "clearhead.blocks.feedforward"
    return Evidence(
        measures=(collapses(), bends("ReLU outside", outer), bends("standard", standard)),
        wrong=(
            broken_block(
                "the notes' net with its ReLU inside",
                f"{folder}.OuterFeedForward.forward",
                lambda right: StandardFeedForward.forward,
                collapses,
            ),
            broken_block(
                "the standard net with its ReLU outside",
                f"{folder}.StandardFeedForward.forward",
                lambda right: OuterFeedForward.forward,
                lambda: bends("standard", standard),
            ),
            broken_block(
                "the standard net without a ReLU",
                f"{folder}.StandardFeedForward.forward",
                lambda right: lambda self, x: self.down(self.up(x)),
                lambda: bends("standard", standard),
            ),
        ),
        figures=(
            Lines(
                title=f"One output while the input moves along a line (d_ff = {hidden}, the same weights)",
                alt=f"The net of the notes bends at most once, the standard one {_bends(curves['standard'])} times.",
                x_label="place on the line",
                y_label="output",
                series=tuple(
                    Series(label, tuple(t[points].tolist()), tuple(curves[key][points].tolist()))
                    for key, label in (("outer", "ReLU outside (the notes)"), ("standard", "ReLU inside (standard)"))
                ),
            ),
        ),
    )


def _bends(curve: Tensor) -> int:
    """Where the slope changes: places whose second difference is not 0, neighbours counted once."""
    second = curve[2:] - 2 * curve[1:-1] + curve[:-2]
    bent = second.abs() > 1e-9
    return int((bent[1:] & ~bent[:-1]).sum()) + int(bent[0])


def point_wise() -> Evidence:
    """L0.13: tokens are independent: permuting tokens permutes the outputs, and batch and context keep their shape."""
    batch, context, width = 3, 7, 12
    nets = {kind: _net(kind, width) for kind in ("standard", "outer", "gated", "single")}
    out = width - 3
    wider = _layer("standard", width, f"model.feedforward.out_width={out}", "model.norm.place=pre")
    x, order = torch.randn(batch, context, width), torch.randperm(context)

    def permuted() -> Measure:
        worst = max(gap(net(x[:, order]), net(x)[:, order]) for net in nets.values())
        what = f"FFN(permuted tokens) against the permuted FFN(tokens), {len(nets)} kinds: max|Δ|"
        return Measure(what, 0.0, worst, tolerance=1e-6)

    def alone() -> Measure:
        worst = max(gap(net(x[:, 3:4])[:, 0], net(x)[:, 3]) for net in nets.values())
        return Measure(f"a token alone against the same in its context, {len(nets)} kinds", 0.0, worst, tolerance=1e-6)

    def widened() -> Measure:
        """X + FFN(X) for E ≠ V by a layer of the product, whose Add & Norm projects X."""
        try:
            shape = str(tuple(wider(x, AttentionContext()).shape))
        except (RuntimeError, TypeError):
            shape = "cannot be added"
        return Measure(f"a layer whose net maps {width} features to {out}", str((batch, context, out)), shape)

    def mixed(right: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda self, tokens: right(self, tokens.cumsum(1))

    return Evidence(
        measures=(
            Measure(
                f"shapes of FFN(X), B × C × E, {len(nets)} kinds",
                str((batch, context, width)),
                " ".join({str(tuple(net(x).shape)) for net in nets.values()}),
            ),
            permuted(),
            alone(),
            Measure(
                f"shape of the net alone, E = {width}, V = {out}",
                str((batch, context, out)),
                str(tuple(wider.feedforward(x).shape)),
            ),
            widened(),
        ),
        wrong=(
            broken_block(
                "the standard net fed running sums, so that tokens see each other",
                "clearhead.blocks.feedforward.StandardFeedForward.forward",
                mixed,
                permuted,
            ),
            broken_block(
                "the gated net fed running sums",
                "clearhead.blocks.feedforward.GatedFeedForward.forward",
                mixed,
                alone,
            ),
            broken_block(
                "V ≠ E inside an Add & Norm that does not project X",
                "clearhead.blocks.residual.AddNorm.forward",
                lambda right: lambda self, x, f, valid=None: x + f(self.norm(x, valid)),
                widened,
            ),
        ),
    )


def _net(kind: str, width: int) -> Any:
    return _layer(kind, width).feedforward


def _layer(kind: str, width: int, *more: str) -> Any:
    """A layer of the product, built from the settings of a recipe."""
    settings = [f"model.width={width}", "model.heads=1", "model.layers=1", f"model.feedforward.kind={kind}", *more]
    if kind != "single":
        settings.append("model.feedforward.width=30")
    model = build(read_recipe(None, "model.family=encoder", "model.vocabulary.source=20", *settings), seed=1).eval()
    return model.get_submodule("encoder.layers.0").requires_grad_(requires_grad=False)
