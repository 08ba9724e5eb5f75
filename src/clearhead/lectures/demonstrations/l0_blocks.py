"""L0.10 to L0.13: layer norm, Add & Norm, the feed-forward net of the notes and the standard one."""

import torch
from torch import Tensor, nn

from clearhead.attention import AttentionContext
from clearhead.blocks import AddNorm, LayerNorm, OuterFeedForward, StandardFeedForward
from clearhead.drawing.figure import Lines, Series
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations.compare import alike, far, gap
from clearhead.lectures.demonstrations.pytorch import encoder_layer, layer_like
from clearhead.lectures.evidence import Evidence, Measure, Wrong
from clearhead.recipe import read_recipe


def layer_norm() -> Evidence:
    """L0.10: each token is normalised independently; in the other reading of the notes, tokens see each other."""
    x = torch.randn(1, 5, 16)
    other = x.clone()
    other[:, 1:] = torch.randn(1, 4, 16)  # every token but the first is another one
    token = LayerNorm(width=16, eps=0.0, affine=False)
    sequence = LayerNorm(width=16, eps=0.0, affine=False, axis="sequence")
    mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True, correction=0)
    try:
        read_recipe("tiny", "model.decoder.norm.axis=sequence")
        refused = "is built"
    except RecipeError:
        refused = "is refused"
    name = "(y − μ)/σ, written out"
    what = "first token, after all others were replaced"
    leak = gap(sequence(other)[:, 0], sequence(x)[:, 0])
    return Evidence(
        measures=(
            alike(name, token(x), (x - mean) / deviation),
            alike(what, token(other)[:, 0], token(x)[:, 0], tolerance=0.0),
            Measure("a decoder with statistics over the sequence", "is refused", refused),
        ),
        wrong=(
            Wrong("statistics over the sequence", alike(what, sequence(other)[:, 0], sequence(x)[:, 0], tolerance=0.0)),
            Wrong("the sample's deviation, n − 1", alike(name, token(x), (x - mean) / x.std(-1, keepdim=True))),
        ),
        notes=(
            f"With statistics over the sequence the first token moves by {leak:.2f} when later tokens change: in a "
            "decoder it would see the future.",
        ),
    )


def add_and_norm() -> Evidence:
    """L0.11: our layer, post and pre, against torch's own encoder layer with the same weights."""
    x = torch.randn(2, 6, 24)
    results: dict[str, tuple[Tensor, Tensor]] = {}
    for place in ("post", "pre"):
        reference = encoder_layer(width=24, heads=3, hidden=40, norm_first=place == "pre")
        layer = layer_like(reference, place)
        with torch.no_grad():
            results[place] = (layer(x, AttentionContext()), reference(x))
    f = nn.Linear(24, 24)
    norm = LayerNorm(width=24)
    with torch.no_grad():
        wrapped, written = AddNorm(norm, place="post")(x, f), norm(x + f(x))
        inside_out = norm(x) + f(x)
    name = "LN(X + Sublayer(X))"
    return Evidence(
        measures=(
            alike(name, wrapped, written),
            alike("post-LN layer against torch.nn.TransformerEncoderLayer", *results["post"]),
            alike("pre-LN layer against the same with norm_first", *results["pre"]),
            far("post against pre, the same weights", results["post"][0], results["pre"][0], 0.1),
        ),
        wrong=(
            Wrong("LN(X) + Sublayer(X)", alike(name, inside_out, written)),
            Wrong("pre-LN taken for post-LN", alike("layer against torch's", results["pre"][0], results["post"][1])),
        ),
    )


def outer_relu() -> Evidence:
    """L0.12: with the ReLU outside, the two maps are one; the standard net is more than that."""
    width, hidden = 6, 48
    outer, standard = OuterFeedForward(width=width, hidden=hidden), StandardFeedForward(width=width, hidden=hidden)
    standard.load_state_dict(outer.state_dict())
    x = torch.randn(1, 400, width)
    W1, b1, W2, b2 = outer.up.weight.T, outer.up.bias, outer.down.weight.T, outer.down.bias
    one_map = torch.relu(x @ (W1 @ W2) + b1 @ W2 + b2)
    # along a straight line of inputs each ReLU bends the output where it opens: count the bends
    t = torch.linspace(-6, 6, 4001, dtype=torch.float64)
    start, direction = torch.randn(2, width, dtype=torch.float64)
    along = (start + t[:, None] * direction)[None]
    with torch.no_grad():
        curves = {"outer": outer.double()(along)[0, :, 0], "standard": standard.double()(along)[0, :, 0]}
    bends = {name: _bends(curve) for name, curve in curves.items()}
    outer.float(), standard.float()
    name = "the net against ReLU(X(W₁W₂) + b₁W₂ + b₂), one linear map"
    points = slice(None, None, 100)
    return Evidence(
        measures=(
            alike(name, outer(x), one_map),
            Measure("bends of an output along a line: ReLU outside", 1, bends["outer"], relation="≤"),
            Measure("bends of an output along a line: standard", 10, bends["standard"], relation="≥"),
        ),
        wrong=(
            Wrong("the standard net taken for one linear map", alike(name, torch.relu(standard(x)), one_map)),
            Wrong(
                "the standard net taken for one with a single bend",
                Measure("bends of an output along a line", 1, bends["standard"], relation="≤"),
            ),
        ),
        figures=(
            Lines(
                title=f"One output while the input moves along a line (d_ff = {hidden}, the same weights)",
                alt=f"The net of the notes bends at most once, the standard one {bends['standard']} times.",
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
    net = StandardFeedForward(width=12, hidden=30)
    x = torch.randn(3, 7, 12)
    order = torch.randperm(7)
    wider = nn.Sequential(nn.Linear(12, 30), nn.ReLU(), nn.Linear(30, 9))  # E → V with V ≠ E, no residual around it

    def mixing(tokens: Tensor) -> Tensor:
        out: Tensor = net(tokens.cumsum(1))
        return out

    try:
        AddNorm(LayerNorm(width=12), place="pre")(x, wider)
        residual = "adds up"
    except RuntimeError:
        residual = "cannot be added"
    name = "FFN(permuted tokens) against the permuted FFN(tokens)"
    return Evidence(
        measures=(
            Measure("shape, B × C × E in and B × C × V out", "(3, 7, 12)", str(tuple(net(x).shape))),
            alike(name, net(x[:, order]), net(x)[:, order], tolerance=1e-6),
            alike("a token alone against the same in its context", net(x[:, 3:4])[:, 0], net(x)[:, 3], tolerance=1e-6),
        ),
        wrong=(
            Wrong(
                "a net that is fed running sums, so that tokens see each other",
                alike(name, mixing(x[:, order]), mixing(x)[:, order], 1e-6),
            ),
            Wrong(
                "V ≠ E inside Add & Norm",
                Measure("X (… × 12) + FFN(X) (… × 9)", "adds up", residual),
            ),
        ),
    )
