"""L4.7 and L4.8: means and variances of sums and products, and why scores are divided by the root of d_k."""

from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from clearhead.attention import dot, weigh
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.ways import spread_of_scores, weights_on_every_path
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure

if TYPE_CHECKING:
    from collections.abc import Callable

DOT = "clearhead.attention.score.dot"
RULES = {
    "E[Σ X_i] = Σ E[X_i]": lambda mean, _var: mean.sum(),
    "E[Π X_i] = Π E[X_i]": lambda mean, _var: mean.prod(),
    "Var[Σ X_i] = Σ Var[X_i]": lambda _mean, var: var.sum(),
    "Var[Π X_i] = Π(Var[X_i] + E[X_i]²) − Π E[X_i]²": lambda mean, var: (var + mean**2).prod() - (mean**2).prod(),
}
"""The four rules: what they say, from the mean and the variance of each variable."""


def means_and_variances() -> Evidence:
    """L4.7: the four rules on every outcome of a few variables; sums and products are those of the score itself."""
    worlds = {
        "independent": torch.cartesian_prod(*(torch.tensor(v) for v in ([0.0, 1, 4], [-1.0, 2], [1.0, 3]))),
        "uncorrelated": torch.tensor([[-1.0, 1.0], [0.0, -2.0], [1.0, 1.0]]),  # the second is 3X² − 2
        "correlated": torch.tensor([[0.0], [1.0], [4.0]]).expand(-1, 2),  # two names for one
    }
    holds = {"independent": RULES, "uncorrelated": list(RULES)[:3], "correlated": list(RULES)[:1]}

    def off(world: str, rule: str) -> Measure:
        claimed, seen = _both_sides(worlds[world].double(), rule)
        return Measure(f"{rule}, {world} variables", claimed, seen, tolerance=1e-9)

    def gap_of(world: str, rule: str) -> Measure:
        claimed, seen = _both_sides(worlds[world].double(), rule)
        return Measure(f"{rule.partition(' = ')[0]}, {world}: off by", 0.1, abs(claimed - seen), relation="≥")

    fails = [(world, rule) for world in worlds for rule in RULES if rule not in holds[world]]
    rows = [
        (world, *("holds" if off(world, rule).agrees else "fails" for rule in RULES))
        for world in ("independent", "uncorrelated", "correlated")
    ]
    return Evidence(
        measures=(
            *(off(world, rule) for world in worlds for rule in holds[world]),
            *(gap_of(*case) for case in fails),
        ),
        wrong=(
            broken_block(
                "a sum that leaves out a term",
                DOT,
                lambda right: (
                    lambda query, keys: right(query[:, :-1], keys[:, :-1]) if query.shape[1] > 1 else right(query, keys)
                ),
                partial(off, "independent", "Var[Σ X_i] = Σ Var[X_i]"),
            ),
            broken_block(
                "a product that is a sum",
                DOT,
                lambda _right: lambda query, keys: (query[:, None] + keys).sum(-1),
                partial(off, "independent", "E[Π X_i] = Π E[X_i]"),
            ),
            broken_block(
                "products of absolute values",
                DOT,
                lambda right: lambda query, keys: right(query.abs(), keys.abs()),
                partial(off, "independent", "Var[Π X_i] = Π(Var[X_i] + E[X_i]²) − Π E[X_i]²"),
            ),
        ),
        tables=(EvidenceTable("Which rule holds for which variables", ("variables", *RULES), tuple(rows)),),
        notes=(
            "The mean of a sum needs nothing. The variance of a sum needs variables that are uncorrelated, not "
            "independent; so does the mean of a product of two. The variance of a product needs independence: it fails "
            "for X and 3X² − 2, which are uncorrelated and yet depend on each other.",
        ),
    )


def _both_sides(outcomes: Tensor, rule: str) -> tuple[float, float]:
    """What a rule says, and what is so, over equally likely outcomes (rows) of several variables (columns)."""
    right: Callable[[Tensor, Tensor], Tensor] = RULES[rule]
    claimed = float(right(outcomes.mean(0), outcomes.var(0, correction=0)))
    if "Σ" in rule.partition(" = ")[0]:
        combined = dot(outcomes, torch.ones(1, outcomes.shape[1], dtype=outcomes.dtype))[:, 0]
    else:
        combined = reduce(lambda a, b: dot(a[:, None], b[:, None]).diagonal(), outcomes.unbind(1))
    return claimed, float(combined.mean() if rule.startswith("E") else combined.var(correction=0))


SIZES, COUNT, AT = (4, 16, 64, 256, 1024), 256, 64


def variance_of_a_score() -> Evidence:
    """L4.8: Var[q·k] over d_k, on every path; what the scale does to the softmax; which dependence breaks it."""
    drawn = {d: (_normal(COUNT, d), _normal(COUNT, d)) for d in SIZES}
    paths = list(weights_on_every_path(*drawn[AT]))

    def scaled(path: str) -> Measure:
        weights = weights_on_every_path(*drawn[AT])[path]
        return Measure(f"Var[q·k/√d_k] at d_k = {AT}, path {path}", 1.0, spread_of_scores(weights), tolerance=0.05)

    def raw(d: int) -> Measure:
        weights = weigh(*drawn[d], scale="none")
        return Measure(f"Var[q·k] at d_k = {d}", float(d), spread_of_scores(weights), tolerance=0.1 * d)

    def mean() -> Measure:
        return Measure(f"E[q·k] at d_k = {AT}", 0.0, float(dot(*drawn[AT]).mean()), tolerance=0.1)

    entropy = {scale: [_entropy(weigh(*_few(drawn[d]), scale=scale)) for d in SIZES] for scale in ("none", "sqrt")}
    slope = {scale: [_gradient(*_few(drawn[d]), scale) for d in SIZES] for scale in ("none", "sqrt")}
    x = tuple(map(float, SIZES))
    return Evidence(
        measures=(
            *(raw(d) for d in SIZES[1:4]),
            *(scaled(path) for path in paths),
            mean(),
            *_kinds_of_dependence(),
            Measure(
                "entropy of the weights over 16 keys, scaled, d_k = 1024 against 4",
                0.8,
                entropy["sqrt"][-1] / entropy["sqrt"][0],
                relation="≥",
            ),
            Measure("the same, not scaled", 0.2, entropy["none"][-1] / entropy["none"][0], relation="≤"),
            Measure(
                "gradient through the softmax, scaled against not, d_k = 1024",
                5.0,
                slope["sqrt"][-1] / slope["none"][-1],
                relation="≥",
            ),
        ),
        wrong=(
            broken_block(
                "divided by d_k",
                "clearhead.attention.score.divisor",
                lambda right: lambda _scale, size: right("dim", size),
                partial(scaled, "fused"),
            ),
            broken_block(
                "the scale of the whole width, with two heads' worth of features",
                "clearhead.attention.score.divisor",
                lambda right: lambda scale, size: right(scale, 2 * size),
                partial(scaled, "explicit"),
            ),
            broken_block(
                "scores that are doubled before the softmax",
                "clearhead.attention.choice.choose",
                lambda right: lambda scores, mask=None, choice="soft": right(2 * scores, mask, choice),
                partial(raw, AT),
            ),
            broken_block(
                "a score of absolute values",
                DOT,
                lambda right: lambda query, keys: right(query.abs(), keys.abs()),
                mean,
            ),
        ),
        figures=(
            Lines(
                title="How even the weights over 16 keys are: their entropy over d_k",
                alt="With the scale the entropy stays near 2.3; without it, it falls towards 0 as d_k grows.",
                x_label="d_k",
                y_label="entropy",
                log_x=True,
                series=(Series("q·k/√d_k", x, tuple(entropy["sqrt"])), Series("q·k", x, tuple(entropy["none"]))),
            ),
            Lines(
                title="How much gradient comes through the softmax: mean |∂α/∂score|",
                alt="With the scale it stays; without it, it falls by more than a factor of ten at d_k = 1024.",
                x_label="d_k",
                y_label="gradient",
                log_x=True,
                log_y=True,
                series=(Series("q·k/√d_k", x, tuple(slope["sqrt"])), Series("q·k", x, tuple(slope["none"]))),
            ),
        ),
        notes=(
            "Enough are queries that are independent of keys, and entries of one of the two that are uncorrelated with "
            "each other: the notes' q_i ⊥ k_i alone is not enough, and full independence is not needed.",
        ),
    )


def _normal(*sizes: int) -> Tensor:
    return torch.randn(*sizes, dtype=torch.float64)


def _few(pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return pair[0], pair[1][:16]


def _kinds_of_dependence() -> list[Measure]:
    """Var[q·k] for pairs whose entries depend on each other in different ways, over pairs of their own."""
    count, d = 4000, AT
    signs = _normal(count, d).sign()
    common, one = 2**0.5 * (_normal(count, 1) > 0).double(), _normal(count, 1).expand(-1, d)
    cases = {
        "uncorrelated entries that share their size, beside one number for all of k": (signs * common, one, True),
        "one number for all of q, one for all of k: q_i ⊥ k_i, but not across i": (
            _normal(count, 1).expand(-1, d),
            one,
            False,
        ),
    }
    measures = []
    for name, (query, keys, holds) in cases.items():
        seen = float(dot(query[:, None], keys[:, None]).var())  # (count, 1, 1)
        if holds:
            measures.append(Measure(f"Var[q·k] over d_k, {name}", 1.0, seen / d, tolerance=0.15))
        else:
            measures.append(Measure(f"Var[q·k] over d_k, {name}", d / 2, seen / d, relation="≥"))
    same = _normal(count, d)
    found = float(dot(same[:, None], same[:, None]).mean())
    return [*measures, Measure("E[q·k] over d_k where k = q", 1.0, found / d, tolerance=0.05)]


def _entropy(weights: Tensor) -> float:
    return float(-(weights * weights.clamp(min=1e-300).log()).sum(-1).mean())


def _gradient(query: Tensor, keys: Tensor, scale: Any) -> float:
    """The mean of |∂α_ij/∂s_ij| over the scaled scores s, by autograd: a bias of 0 takes their place."""
    bias = torch.zeros(len(query), len(keys), dtype=query.dtype, requires_grad=True)
    weights = weigh(query, keys, scale=scale, bias=bias)
    total = 0.0
    for key in range(len(keys)):
        (slopes,) = torch.autograd.grad(weights[:, key].sum(), bias, retain_graph=True)
        total += float(slopes[:, key].abs().mean())
    return total / len(keys)
