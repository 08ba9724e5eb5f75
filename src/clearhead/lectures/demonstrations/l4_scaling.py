"""L4.7 and L4.8: means and variances of sums and products, and why scores are divided by the root of d_k."""

from fractions import Fraction
from itertools import product
from math import prod

import torch
from torch import Tensor

from clearhead.attention import divisor, dot, weigh
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.evidence import Evidence, Measure, Wrong

Variable = tuple[tuple[int, Fraction], ...]
"""Values and their probabilities."""
Outcomes = list[tuple[tuple[int, ...], Fraction]]
"""Values of several variables together, and the probability of that."""


def means_and_variances() -> Evidence:
    """L4.7: the four rules on three small random variables, exactly, by every outcome; then by drawing."""
    third, quarter = Fraction(1, 3), Fraction(1, 4)
    variables: list[Variable] = [
        ((0, third), (1, third), (4, third)),
        ((-1, quarter), (2, 1 - quarter)),
        ((1, 1 - third), (3, third)),
    ]
    means = [_mean(variable) for variable in variables]
    variances = [_variance(variable) for variable in variables]
    free = _outcomes(variables)
    tied: Outcomes = [((value,) * 3, p) for value, p in variables[0]]  # three names for one variable
    predicted = {
        "E[Σ X_i] = Σ E[X_i]": sum(means, Fraction(0)),
        "E[Π X_i] = Π E[X_i]": prod(means, start=Fraction(1)),
        "Var[Σ X_i] = Σ Var[X_i]": sum(variances, Fraction(0)),
        "Var[Π X_i] = Π(Var + E²) − Π E²": _product_rule(means, variances),
    }
    exact = dict(zip(predicted, _four(free), strict=True))
    drawn = _drawn(variables)
    one_mean, one_variance = means[0], variances[0]
    claimed = [3 * one_mean, one_mean**3, 3 * one_variance, _product_rule([one_mean] * 3, [one_variance] * 3)]
    dependent = dict(zip(predicted, zip(claimed, _four(tied), strict=True), strict=True))
    return Evidence(
        measures=(
            *(Measure(f"{rule}, exactly", str(value), str(exact[rule])) for rule, value in predicted.items()),
            *(
                Measure(f"{rule}, 200,000 draws", float(value), drawn[rule], tolerance=0.03 * abs(float(value)) + 0.02)
                for rule, value in predicted.items()
            ),
            Measure("E[Σ X_i] with X₁ = X₂ = X₃, exactly", str(3 * one_mean), str(_four(tied)[0])),
        ),
        wrong=tuple(
            Wrong(f"{rule.partition(' = ')[0]} with X₁ = X₂ = X₃", Measure(rule, str(claim), str(seen)))
            for rule, (claim, seen) in list(dependent.items())[1:]
        ),
        notes=(
            "Only the mean of a sum needs no independence; the other three rules fail when one variable is all three.",
        ),
    )


def _mean(variable: Variable) -> Fraction:
    return sum((value * p for value, p in variable), Fraction(0))


def _variance(variable: Variable) -> Fraction:
    return sum((value**2 * p for value, p in variable), Fraction(0)) - _mean(variable) ** 2


def _product_rule(means: list[Fraction], variances: list[Fraction]) -> Fraction:
    second = (variance + mean**2 for mean, variance in zip(means, variances, strict=True))
    return prod(second, start=Fraction(1)) - prod((mean**2 for mean in means), start=Fraction(1))


def _outcomes(variables: list[Variable]) -> Outcomes:
    """Every joint outcome of independent variables, with its probability."""
    return [(tuple(v for v, _ in row), prod((p for _, p in row), start=Fraction(1))) for row in product(*variables)]


def _four(outcomes: Outcomes) -> list[Fraction]:
    """E of the sum, E of the product, Var of the sum, Var of the product."""
    sums: Variable = tuple((sum(values), p) for values, p in outcomes)
    products: Variable = tuple((prod(values), p) for values, p in outcomes)
    return [_mean(sums), _mean(products), _variance(sums), _variance(products)]


def _drawn(variables: list[Variable]) -> dict[str, float]:
    columns = []
    for variable in variables:
        values = torch.tensor([float(value) for value, _ in variable], dtype=torch.float64)
        chosen = torch.multinomial(torch.tensor([float(p) for _, p in variable]), 200_000, replacement=True)
        columns.append(values[chosen])
    draws = torch.stack(columns)
    total, together = draws.sum(0), draws.prod(0)
    names = ("E[Σ X_i] = Σ E[X_i]", "E[Π X_i] = Π E[X_i]", "Var[Σ X_i] = Σ Var[X_i]", "Var[Π X_i] = Π(Var + E²) − Π E²")
    return dict(zip(names, map(float, (total.mean(), together.mean(), total.var(), together.var())), strict=True))


def variance_of_a_score() -> Evidence:
    """L4.8: Var[q·k] over d_k, by drawing; what the scale does to the softmax; where dependence breaks it."""
    sizes = (4, 16, 64, 256, 1024)
    variance, entropy, slope = (
        [],
        {"none": list[float](), "sqrt": list[float]()},
        {"none": list[float](), "sqrt": list[float]()},
    )
    for d in sizes:
        query, keys = torch.randn(800, d), torch.randn(400, d)
        variance.append(float(dot(query, keys).var()))
        for scale in ("none", "sqrt"):
            few = torch.randn(16, d)
            weights = weigh(query, few, scale=scale)
            entropy[scale].append(float(-(weights * weights.clamp(min=1e-30).log()).sum(-1).mean()))
            slope[scale].append(float(_softmax_slope(weights).mean()))
    at = sizes.index(256)
    same = torch.randn(4000, 1).expand(-1, 256)  # every entry of q is one number, and so is every entry of k
    other = torch.randn(4000, 1).expand(-1, 256)
    what = "Var[q·k] at d_k = 256"
    x = tuple(map(float, sizes))
    return Evidence(
        measures=(
            *(
                Measure(f"Var[q·k] at d_k = {d}", float(d), seen, tolerance=0.05 * d)
                for d, seen in zip(sizes, variance, strict=True)
            ),
            Measure("Var[q·k/√d_k] at d_k = 256", 1.0, variance[at] / divisor("sqrt", 256) ** 2, tolerance=0.05),
            Measure("entropy of the weights over 16 keys, d_k = 1024, scaled", 2.0, entropy["sqrt"][-1], relation="≥"),
            Measure("the same, not scaled (even: 2.77)", 0.3, entropy["none"][-1], relation="≤"),
            Measure(
                "gradient through the softmax, scaled against not, d_k = 1024",
                5.0,
                slope["sqrt"][-1] / slope["none"][-1],
                relation="≥",
            ),
        ),
        wrong=(
            Wrong(
                "entries that are not independent of each other: q_1 = … = q_d, k_1 = … = k_d",
                Measure(what, 256.0, float((same * other).sum(-1).var()), tolerance=12.8),
            ),
            Wrong(
                "q and k that are not independent: k = q",
                Measure(
                    "E[q·k] at d_k = 256", 0.0, float(torch.randn(4000, 256).square().sum(-1).mean()), tolerance=1.0
                ),
            ),
            Wrong(
                "divided by d_k", Measure("Var[q·k/d_k]", 1.0, variance[at] / divisor("dim", 256) ** 2, tolerance=0.05)
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
                title="How much gradient comes through the softmax: mean |∂α_i/∂s_i|",
                alt="With the scale it stays; without it, it falls by more than a factor of ten at d_k = 1024.",
                x_label="d_k",
                y_label="gradient",
                log_x=True,
                log_y=True,
                series=(Series("q·k/√d_k", x, tuple(slope["sqrt"])), Series("q·k", x, tuple(slope["none"]))),
            ),
        ),
    )


def _softmax_slope(weights: Tensor) -> Tensor:
    """∂α_i/∂s_i = α_i(1 − α_i)."""
    return weights * (1 - weights)
