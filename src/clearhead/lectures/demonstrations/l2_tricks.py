"""L2.4 to L2.9: projections, reduced rank, a rolling average, skip connections, layer norm, and the scale."""

import torch
from torch import Tensor

from clearhead.attention import MultiHeadAttention, attend, divisor, dot, weigh
from clearhead.blocks import AddNorm, LayerNorm, SingleFeedForward
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.compare import alike, far
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong


def columns_and_rows() -> Evidence:
    """L2.4: q = W_Q x for a column x is x W_Qᵀ for a row x."""
    module = MultiHeadAttention(width=8, heads=2, bias=False)
    randomise(module)
    x = torch.randn(1, 5, 8)
    measures = []
    for name, part in (("q", module.query), ("k", module.key), ("v", module.value)):
        columns = torch.stack([part.get_parameter("weight") @ token for token in x[0]])
        measures.append(alike(f"{name} of each token against W x, one column at a time", part(x)[0], columns))
    weight = module.query.get_parameter("weight")
    columns = torch.stack([weight @ token for token in x[0]])
    return Evidence(
        measures=tuple(measures),
        wrong=(Wrong("rows times the same matrix, not transposed", alike("q against W x", x[0] @ weight, columns)),),
    )


def reduced_rank() -> Evidence:
    """L2.5: xᵢᵀ(W_QᵀW_K)xⱼ is a multiplicative score whose matrix has the rank of a head at most."""
    width, heads = 32, 4
    size = width // heads
    module = MultiHeadAttention(width=width, heads=heads, bias=False)
    randomise(module)
    x = torch.randn(20, width)
    W_Q, W_K = module.query.get_parameter("weight"), module.key.get_parameter("weight")
    rows = slice(0, size)
    matrix = W_Q[rows].T @ W_K[rows]  # (d, d), of the first head
    scores = dot(x @ W_Q[rows].T, x @ W_K[rows].T)
    rank = int(torch.linalg.matrix_rank(matrix))
    full = int(torch.linalg.matrix_rank(W_Q.T @ W_K))
    what = f"rank of W_QᵀW_K ({width} × {width}), at most d_k"
    return Evidence(
        measures=(
            Measure(what, size, rank, relation="≤"),
            alike("q·k against x(W_QᵀW_K)xᵀ", scores, x @ matrix @ x.T, tolerance=1e-4),
            Measure("weights that W_Q and W_K of a head have, beside d²", 2 * width * size, 2 * W_Q[rows].numel()),
        ),
        wrong=(Wrong("one full matrix for the score", Measure(what, size, full, relation="≤")),),
    )


def rolling_average() -> Evidence:
    """L2.6: attention alone averages; with its weights held, two layers are one linear map, and a ReLU breaks that."""
    first, second = (MultiHeadAttention(width=12, heads=2, bias=False) for _ in range(2))
    for module in (first, second):
        randomise(module)
        held = torch.rand(1, 2, 6, 6).softmax(-1)
        module.weights.register_forward_hook(lambda _module, _inputs, _weights, held=held: held)
    net = SingleFeedForward(width=12, bias=False)
    x, y = torch.randn(1, 6, 12), torch.randn(1, 6, 12)

    def alone(tokens: Tensor) -> Tensor:
        out: Tensor = second(first(tokens))
        return out

    def with_relu(tokens: Tensor) -> Tensor:
        out: Tensor = second(net(first(tokens)))
        return out

    query, keys, values = torch.randn(1, 50, 8), torch.randn(1, 9, 8), torch.randn(1, 9, 4)
    weights, averaged = weigh(query, keys), attend(query, keys, values)
    outside = int(((averaged > values.amax(1, keepdim=True)) | (averaged < values.amin(1, keepdim=True))).sum())
    unnormalised = dot(query, keys).div(divisor("sqrt", 8)).exp()
    name = "f(x + y) against f(x) + f(y)"
    return Evidence(
        measures=(
            Measure("smallest weight", 0.0, float(weights.min()), relation="≥"),
            alike("rows of weights, summed", weights.sum(-1), torch.ones(1, 50), tolerance=1e-6),
            Measure("outputs outside the range of the values", 0, outside),
            alike(f"{name}: two attentions, weights held", alone(x + y), alone(x) + alone(y), tolerance=1e-4),
            far(f"{name}: with a ReLU layer between", with_relu(x + y), with_relu(x) + with_relu(y), 0.05),
        ),
        wrong=(
            Wrong(
                "with the ReLU layer taken for linear", alike(name, with_relu(x + y), with_relu(x) + with_relu(y), 1e-4)
            ),
            Wrong(
                "weights without their normaliser",
                alike("rows of weights, summed", unnormalised.sum(-1), torch.ones(1, 50), 1e-6),
            ),
        ),
    )


def skip_connection() -> Evidence:
    """L2.7: x + F(x) is x when F = 0, and its derivative is 1 more than F's."""
    x = torch.randn(1, 5, 12, requires_grad=True)
    skip = AddNorm(LayerNorm(width=12), place="pre")
    bare = AddNorm(LayerNorm(width=12), place="pre", residual=False)
    results = {name: wrap(x, torch.zeros_like) for name, wrap in (("skip", skip), ("bare", bare))}
    (gradient,) = torch.autograd.grad(results["skip"].sum(), x)
    name = "x_l against x_{l−1}, F = 0"
    return Evidence(
        measures=(
            alike(name, results["skip"], x, tolerance=0.0),
            alike("∂x_l/∂x_{l−1} against 1, F = 0", gradient, torch.ones_like(x), tolerance=0.0),
        ),
        wrong=(Wrong("F(x) alone: everything is lost", alike(name, results["bare"], x, tolerance=0.0)),),
    )


def place_of_epsilon() -> Evidence:
    """L2.8: LN does not see shifts and scales; where ε stands shows once x is as small as √ε."""
    eps = 1e-5
    inside = LayerNorm(width=64, eps=eps, affine=False)
    outside = LayerNorm(width=64, eps=eps, affine=False, eps_place="outside")
    x = torch.randn(1, 8, 64)
    x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)  # σ is exactly the factor below
    sizes = [10.0**power for power in (-6, -5.5, -5, -4.5, -4, -3.5, -3, -2.5, -2, -1.5, -1, -0.5, 0)]
    spread = {
        name: [float(norm(size * x).std(-1, correction=0).mean()) for size in sizes]
        for name, norm in (("inside", inside), ("outside", outside))
    }
    small = 1e-3
    expected = {"inside": small / (small**2 + eps) ** 0.5, "outside": small / (small + eps)}
    seen = {name: values[sizes.index(10.0**-3)] for name, values in spread.items()}
    constant = torch.full((1, 2, 64), 3.0, requires_grad=True)
    (gradient,) = torch.autograd.grad(outside(constant).square().sum(), constant)
    name = "LN(3x + 7) against LN(x)"
    return Evidence(
        measures=(
            alike(name, outside(3 * x + 7), outside(x), tolerance=1e-4),
            Measure("σ of LN(x), x ~ 1e-3, (x − μ)/(σ + ε)", expected["outside"], seen["outside"], tolerance=1e-3),
            Measure("σ of LN(x), x ~ 1e-3, (x − μ)/√(σ² + ε)", expected["inside"], seen["inside"], tolerance=1e-3),
            Measure("gradients of a constant row that are not finite", 0, int((~gradient.isfinite()).sum())),
        ),
        wrong=(
            Wrong("a negative factor: LN(−3x + 7)", alike(name, outside(-3 * x + 7), outside(x), tolerance=1e-4)),
            Wrong(
                "the two places taken for the same",
                Measure("σ of LN(x), x ~ 1e-3", expected["outside"], seen["inside"], tolerance=1e-3),
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


def scale_by_the_root() -> Evidence:
    """L2.9: sums of d products have variance d: dividing by √d brings it to 1, by d far below."""
    sizes = (4, 16, 64, 256)
    spread: dict[str, list[float]] = {"none": [], "sqrt": [], "dim": []}
    means = []
    for d in sizes:
        scores = dot(torch.randn(800, d), torch.randn(500, d))
        means.append(float(scores.mean()))
        for scale, values in spread.items():
            values.append(float((scores / divisor(scale, d)).var()))  # type: ignore[arg-type]
    at = sizes.index(64)
    what = "variance of a score at d = 64"
    even = float(weigh(torch.randn(100, 64), torch.randn(9, 64), scale="dim").amax(-1).mean())
    names = {"none": "q·k: d", "sqrt": "q·k/√d: 1", "dim": "q·k/d: 1/d (the notes)"}
    return Evidence(
        measures=(
            Measure(f"{what}, q·k", 64.0, spread["none"][at], tolerance=3.2),
            Measure(f"{what}, q·k/√d", 1.0, spread["sqrt"][at], tolerance=0.05),
            Measure(f"{what}, q·k/d", 1 / 64, spread["dim"][at], tolerance=0.05 / 64),
            Measure("mean of a score at d = 64", 0.0, means[at], tolerance=0.1),
        ),
        wrong=(
            Wrong("divided by d_k, as the notes say", Measure(what, 1.0, spread["dim"][at], tolerance=0.05)),
            Wrong("not divided at all", Measure(what, 1.0, spread["none"][at], tolerance=0.05)),
        ),
        tables=(
            EvidenceTable(
                "Variance of a score",
                ("d", "q·k", "q·k/√d", "q·k/d"),
                tuple(zip(sizes, spread["none"], spread["sqrt"], spread["dim"], strict=True)),
            ),
        ),
        figures=(
            Lines(
                title="Variance of a score over the size of a head",
                alt="Not scaled it grows as d, divided by d it falls as 1/d, divided by the root of d it stays at 1.",
                x_label="d",
                y_label="variance",
                log_x=True,
                log_y=True,
                series=tuple(
                    Series(names[key], tuple(map(float, sizes)), tuple(values)) for key, values in spread.items()
                ),
            ),
        ),
        notes=(
            f"Divided by 64, the best of 9 keys gets a weight of {even:.3f} on average, where even weights are "
            f"{1 / 9:.3f}: the softmax hardly chooses.",
        ),
    )
