"""L2.4 to L2.8: projections, reduced rank, a rolling average, skip connections, and layer norm."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from clearhead.attention import AttentionContext, MultiHeadAttention
from clearhead.attention.heads import split_heads
from clearhead.blocks import AddNorm, LayerNorm, SingleFeedForward
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, alike, far, gap
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.demonstrations.ways import alike_on_every_path, every_way, gaps
from clearhead.lectures.evidence import Evidence, Measure
from clearhead.models import EncoderModel, build
from clearhead.recipe import read_recipe

HEADS = "clearhead.attention.heads.Heads"


def columns_and_rows() -> Evidence:
    """L2.4: q = W_Q x, k = W_K x, v = W_V x for columns, and the attention that follows, against the module's rows."""
    module = MultiHeadAttention(width=8, heads=2, bias=False)
    randomise(module)
    x = torch.randn(6, 8)
    W = {name: module.get_submodule(name).get_parameter("weight") for name in ("query", "key", "value", "output")}

    def projected(name: str, head: int) -> Tensor:
        """W x of a head, one column at a time; the result is a matrix of columns."""
        return torch.stack([W[name].view(2, 4, 8)[head] @ token for token in x], dim=1)

    def in_columns(seen: Tensor) -> Tensor:
        """V softmax(KᵀQ/√d), a softmax down each column, then W_O: every matrix is the transpose of ours."""
        heads = []
        for head in range(2):
            q, k, v = (projected(name, head) for name in ("query", "key", "value"))
            scores = (k.T @ q / 4**0.5).masked_fill(~seen.T, -torch.inf)
            heads.append(v @ scores.softmax(0))
        return (W["output"] @ torch.cat(heads)).T

    def worst(path: str) -> Measure:
        return Measure("attention in columns: max|Δ|", 0.0, gaps(module, x, in_columns)[path], tolerance=ROUNDING)

    with torch.no_grad():
        keys, values = module.candidates(x[None])
        rows = {"query": module.queries(x[None]), "key": keys, "value": values}
        measures = [
            alike(
                f"{name[0]} of each token and head against W x",
                part[0],
                torch.stack([projected(name, h).T for h in (0, 1)]),
            )
            for name, part in rows.items()
        ]
        return Evidence(
            measures=(*measures, *alike_on_every_path("attention in columns against rows", module, x, in_columns)),
            wrong=(
                broken_block(
                    "rows times the same matrix, not transposed",
                    f"{HEADS}.queries",
                    lambda _right: lambda self, tokens: split_heads(tokens @ self.query.weight, self.heads),
                    partial(worst, "explicit"),
                ),
                broken_block(
                    "keys and values mixed up",
                    f"{HEADS}.candidates",
                    lambda right: lambda *given: right(*given)[::-1],
                    partial(worst, "fused"),
                ),
                broken_block(
                    "heads that take every second feature",
                    "clearhead.attention.heads.split_heads",
                    lambda _right: lambda joined, heads, *_norm: joined.unflatten(-1, (-1, heads)).movedim(-1, 1),
                    partial(worst, "blocks"),
                ),
            ),
        )


def reduced_rank() -> Evidence:
    """L2.5: the score is xᵢᵀ(W_QᵀW_K)xⱼ, whose matrix has the rank of a head; normalised, it weighs the values."""
    width, heads, n = 32, 4, 20
    size = width // heads
    module = MultiHeadAttention(width=width, heads=heads, bias=False).double()
    randomise(module)
    x = 0.3 * torch.randn(n, width, dtype=torch.float64)
    W_Q, W_K, W_V = (
        module.get_submodule(name).get_parameter("weight").view(heads, size, width)
        for name in ("query", "key", "value")
    )

    def pair_by_pair(seen: Tensor) -> Tensor:
        """e_ij = xᵢᵀ M xⱼ/√d_k with one matrix M a head, α_ij = exp e_ij / Σ_j' exp e_ij', o_i = Σ_j α_ij v_j."""
        rows = []
        for i in range(n):
            parts = []
            for h in range(heads):
                matrix = W_Q[h].T @ W_K[h]
                e = torch.stack([x[i] @ matrix @ x[j] for j in range(n) if seen[i, j]]) / size**0.5
                v = torch.stack([W_V[h] @ x[j] for j in range(n) if seen[i, j]])
                parts.append((e.exp() / e.exp().sum()) @ v)
            rows.append(torch.cat(parts))
        out: Tensor = module.output(torch.stack(rows))
        return out

    def rank() -> Measure:
        """ln α_ij − ln α_i0 = e_ij − e_i0, so the weights show the rank of the scores."""
        weights: list[Tensor] = []
        handle = module.weights.register_forward_hook(lambda _module, _given, out: weights.append(out))
        module(x[None])
        handle.remove()
        scores = weights[0][0].log()
        ranks = torch.linalg.matrix_rank(scores - scores[..., :1], rtol=1e-9)
        what = f"rank of the scores of {n} tokens, the largest of all heads, at most d_k"
        return Measure(what, size, int(ranks.max()), relation="≤")

    references = {mask: pair_by_pair(seen) for mask, seen in _masks(n).items()}

    def reference(seen: Tensor) -> Tensor:
        return references[next(mask for mask, kept in _masks(n).items() if torch.equal(kept, seen))]

    def worst(path: str) -> Measure:
        return Measure("pair by pair: max|Δ|", 0.0, gaps(module, x, reference)[path], tolerance=ROUNDING)

    with torch.no_grad():
        return Evidence(
            measures=(
                rank(),
                *alike_on_every_path("vectorised against pair by pair", module, x, reference),
                Measure("weights of a head's W_Q and W_K, fewer than d²", width**2, 2 * W_Q[0].numel(), relation="≤"),
            ),
            wrong=(
                broken_block(
                    "a score of distances, which no matrix of rank d_k gives",
                    "clearhead.attention.score.dot",
                    lambda _right: lambda query, keys: -torch.cdist(query, keys),
                    rank,
                ),
                broken_block(
                    "a normaliser over queries, not over keys",
                    "clearhead.attention.choice.choose",
                    lambda right: lambda scores, mask, choice: right(scores.mT, None, choice).mT,
                    partial(worst, "explicit"),
                ),
                broken_block(
                    "a fused path that forgets the scale",
                    "clearhead.attention.attend.fused",
                    lambda right: lambda *given, **more: right(*given, **(more | {"scale": "none"})),
                    partial(worst, "fused"),
                ),
            ),
        )


def _masks(n: int) -> dict[str, Tensor]:
    """The masks of ``every_way``: nothing, the last two tokens, later tokens."""
    everything = torch.ones(n, n, dtype=torch.bool)
    return {
        "none": everything,
        "padding": everything & (torch.arange(n) < n - 2),
        "causal": everything.tril(),
    }


def rolling_average() -> Evidence:
    """L2.6: attention alone averages; with its weights held, two layers are one linear map, and a ReLU breaks that."""
    bare = MultiHeadAttention(width=8, heads=2, projections=False, output=False)
    tokens = 2 * torch.randn(9, 8)
    tokens[:, 0] = 1.0  # a feature that all tokens share: an average leaves it as it is

    def averages() -> dict[str, tuple[int, float]]:
        """For each path: outputs outside of the range of the tokens that are seen; how far the shared one is off."""
        found: dict[str, tuple[int, float]] = {}
        for way in every_way(bare, tokens):
            near = tokens[None].expand(len(tokens), -1, -1)
            least = near.masked_fill(~way.seen[..., None], torch.inf).amin(1)
            most = near.masked_fill(~way.seen[..., None], -torch.inf).amax(1)
            outside = int(((way.out > most + ROUNDING) | (way.out < least - ROUNDING)).sum())
            before = found.get(way.path, (0, 0.0))
            found[way.path] = before[0] + outside, max(before[1], gap(way.out[:, 0], tokens[:, 0]))
        return found

    def shared(path: str) -> Measure:
        what = f"weights add up to 1: a feature that all tokens share, path {path}: max|Δ|"
        return Measure(what, 0.0, averages()[path][1], tolerance=ROUNDING)

    held, with_relu = _linear(False), _linear(True)
    paths = list(averages())
    return Evidence(
        measures=(
            *(shared(path) for path in paths),
            *(
                Measure(f"outputs outside of the range of the tokens seen, path {path}", 0, count)
                for path, (count, _) in averages().items()
            ),
            held(),
            with_relu(),
        ),
        wrong=(
            broken_block(
                "weights without their normaliser",
                "clearhead.attention.choice.choose",
                lambda _right: lambda scores, _mask, _choice: scores.exp(),
                partial(shared, "explicit"),
            ),
            broken_block(
                "in blocks, a sum that counts the last key twice",
                "clearhead.attention.paths.attend_by_distance",
                lambda right: (
                    lambda query, keys, values, **more: right(query, keys, values, **more) + values[:, :, -1:]
                ),
                partial(shared, "blocks"),
            ),
            broken_block(
                "a net without its ReLU: two layers are one linear map again",
                "clearhead.blocks.feedforward.SingleFeedForward.forward",
                lambda _right: lambda self, x: self.map(x),
                with_relu,
            ),
        ),
    )


def _linear(relu: bool) -> Any:
    """A measure whether two attentions, their weights held, are linear: f(x + y) against f(x) + f(y)."""
    first, second = (MultiHeadAttention(width=12, heads=2, bias=False) for _ in range(2))
    for module in (first, second):
        randomise(module)
        held = torch.rand(1, 2, 6, 6).softmax(-1)
        module.weights.register_forward_hook(lambda _module, _inputs, _weights, held=held: held)
    net = SingleFeedForward(width=12, bias=False)
    x, y = torch.randn(1, 6, 12), torch.randn(1, 6, 12)

    def measure() -> Measure:
        def f(tokens: Tensor) -> Tensor:
            out: Tensor = second(net(first(tokens)) if relu else first(tokens))
            return out

        name = "f(x + y) against f(x) + f(y)"
        with torch.no_grad():
            if relu:
                return far(f"{name}: with a ReLU layer between", f(x + y), f(x) + f(y), 0.05)
            return alike(f"{name}: two attentions, weights held", f(x + y), f(x) + f(y), tolerance=1e-4)

    return measure


def skip_connection() -> Evidence:
    """L2.7: a whole encoder whose sublayers give 0 changes nothing; the derivative of a layer is 1 more than F's."""
    settings = [
        "model.layers=3",
        "model.width=12",
        "model.heads=2",
        "model.vocabulary.source=9",
        "model.norm.place=pre",
    ]
    model = build(read_recipe(None, "model.family=encoder", *settings), seed=1).eval()
    assert isinstance(model, EncoderModel)
    layers: Any = model.get_submodule("encoder.layers")
    x = torch.randn(1, 5, 12, requires_grad=True)
    with torch.no_grad():
        for layer in layers:
            for last in (layer.attention.output, layer.feedforward.down):
                for parameter in last.parameters():
                    parameter.zero_()

    def run() -> Tensor:
        out = x
        for layer in layers:
            out = layer(out, AttentionContext())
        return out

    def unchanged() -> Measure:
        return alike("three layers of a pre-norm encoder, F = 0, against their input", run(), x, tolerance=0.0)

    def slope() -> Measure:
        out = run()
        gradient = torch.autograd.grad(out.sum(), x)[0] if out.requires_grad else torch.zeros_like(x)
        return alike("∂x_3/∂x_0 against 1, F = 0", gradient, torch.ones_like(x), tolerance=0.0)

    def added() -> Measure:
        """For an F that is not 0: x_l − x_{l−1} is F."""
        wrap = AddNorm(LayerNorm(width=12), place="pre")
        return alike("x_l − x_{l−1} against F(x_{l−1}), F = sin", wrap(x, torch.sin) - x, torch.sin(wrap.norm(x)))

    name = "clearhead.blocks.residual.AddNorm.forward"
    return Evidence(
        measures=(unchanged(), slope(), added()),
        wrong=(
            broken_block(
                "F(x) alone: everything is lost",
                name,
                lambda _right: lambda self, x, sublayer, valid=None: sublayer(self.norm(x, valid)),
                unchanged,
            ),
            broken_block(
                "a norm on the way that should be free",
                name,
                lambda _right: lambda self, x, sublayer, valid=None: self.norm(x, valid) + sublayer(x),
                slope,
            ),
            broken_block(
                "F(x) taken away from x",
                name,
                lambda _right: lambda self, x, sublayer, _valid=None: x - sublayer(self.norm(x)),
                added,
            ),
        ),
    )


def place_of_epsilon() -> Evidence:
    """L2.8: LN as printed, over tokens and over a sequence with padding; it sees no shift; where ε stands shows."""
    eps, width = 1e-5, 64
    x = torch.randn(1, 8, width)
    x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)  # σ is exactly the factor below
    small = 1e-3
    valid = torch.arange(8)[None] < 6

    def norm(place: Any, axis: Any = "token") -> LayerNorm:
        return LayerNorm(width=width, eps=eps, affine=False, eps_place=place, axis=axis)

    def printed(axis: str) -> Measure:
        """(x − μ)/(σ + ε) with torch's own mean and population standard deviation, padding left out."""
        tokens = small * x + 1
        near = tokens[:, :6] if axis == "sequence" else tokens
        dim = 1 if axis == "sequence" else -1
        expected = (near - near.mean(dim, keepdim=True)) / (near.std(dim, keepdim=True, correction=0) + eps)
        mine = norm("outside", axis)(tokens, valid)[:, : near.shape[1]]
        return alike(f"(x − μ)/(σ + ε) over each {axis}, x ~ 1e-3", mine, expected, tolerance=1e-3)

    def unseen() -> Measure:
        return alike("LN(3x + 7) against LN(x)", norm("outside")(3 * x + 7), norm("outside")(x), tolerance=1e-4)

    def width_of(place: str) -> Measure:
        expected = {"inside": small / (small**2 + eps) ** 0.5, "outside": small / (small + eps)}
        formula = {"inside": "(x − μ)/√(σ² + ε)", "outside": "(x − μ)/(σ + ε)"}[place]
        seen = float(norm(place)(small * x).std(-1, correction=0).mean())
        return Measure(f"σ of LN(x), x ~ 1e-3, {formula}", expected[place], seen, tolerance=1e-3)

    def constant() -> Measure:
        row = torch.full((1, 2, width), 3.0, requires_grad=True)
        (gradient,) = torch.autograd.grad(norm("outside")(row).square().sum(), row)
        return Measure("gradients of a constant row that are not finite", 0, int((~gradient.isfinite()).sum()))

    deviation = "clearhead.blocks.norm.LayerNorm._deviation"
    sizes = [10.0 ** (power / 2) for power in range(-12, 1)]
    spread = {
        place: [float(norm(place)(size * x).std(-1, correction=0).mean()) for size in sizes]
        for place in ("inside", "outside")
    }
    return Evidence(
        measures=(
            printed("token"),
            printed("sequence"),
            unseen(),
            width_of("outside"),
            width_of("inside"),
            constant(),
        ),
        wrong=(
            broken_block(
                "the sample's standard deviation, which divides by d − 1",
                deviation,
                lambda right: lambda self, variance: right(self, variance * width / (width - 1)),
                partial(printed, "token"),
            ),
            broken_block(
                "over a sequence, ε in the other place",
                deviation,
                lambda _right: lambda self, variance: (variance + self.eps).sqrt(),
                partial(printed, "sequence"),
            ),
            broken_block(
                "no mean taken away",
                "clearhead.blocks.norm.LayerNorm.forward",
                lambda _right: lambda self, x, _valid=None: x / self._deviation(x.var(-1, keepdim=True, correction=0)),
                unseen,
            ),
            broken_block(
                "a root that is taken of 0",
                deviation,
                lambda _right: lambda self, variance: variance.sqrt() + self.eps,
                constant,
            ),
        ),
        figures=(
            Lines(
                title="How wide LN(x) is, over how wide x is (ε = 1e-5)",
                alt="Outside the root, ε shows only below σ = 1e-4; inside it, already below 1e-2.",
                x_label="σ of x",
                y_label="σ of LN(x)",
                log_x=True,
                series=(
                    Series("σ + ε (the notes)", tuple(sizes), tuple(spread["outside"])),
                    Series("√(σ² + ε) (torch)", tuple(sizes), tuple(spread["inside"])),
                ),
            ),
        ),
    )
