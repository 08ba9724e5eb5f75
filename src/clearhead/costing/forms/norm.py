"""What normalisation costs."""

from sympy import Expr

from clearhead.costing.forms.letters import lg
from clearhead.costing.forms.sketch import FLOAT, MASK, Sketch, Storage, product
from clearhead.recipe import LayerNormSpec, RmsNormSpec


def layernorm(spec: LayerNormSpec, x: Sketch) -> Sketch:
    """7d + 2 operations a token and 2⌈log₂ d⌉ + 9 sequential ones; x, the mean and 1/σ are kept.

    With ε outside, or over the sequence, torch has no kernel: every step is an operator that keeps what it needs.
    """
    *rows, width = x.shape
    if spec.axis == "token" and spec.eps_place == "inside":
        if spec.affine:
            x.ledger.parameter(width, kind="vector", name="gain")
        if spec.affine and spec.shift:
            x.ledger.parameter(width, kind="vector", name="shift")
        return token_norm(x, affine=spec.affine, shift=spec.shift)
    if spec.axis == "token":
        mean = x.sum(*rows, mean=True)
        variance = x.add(mean).apply(keeps="input").sum(*rows, mean=True)
    else:
        share, left = x.ledger.constant(*rows, size=x.itemsize), (rows[0], *(() if spec.axis == "all" else (width,)))
        mean = x.multiply(share).sum(*left)
        variance = x.add(mean).apply(keeps="input").multiply(share).sum(*left)
    deviation = _deviation(variance, outside=spec.eps_place == "outside")
    y = x.add(mean).divide(deviation)
    y = y.gain(width) if spec.affine else y
    return y.shift(width) if spec.affine and spec.shift else y


def token_norm(x: Sketch, *, affine: bool, shift: bool = True) -> Sketch:
    """torch's kernel for the layer norm of each token."""
    *rows, width = x.shape
    tokens, scaled = product(*rows), int(affine) * (1 + int(shift))
    statistic = tokens * (FLOAT if affine else x.itemsize)  # a gain is float32, and then so is the arithmetic
    keeps = (x.storage, Storage(statistic), Storage(statistic))
    return x.kernel(tokens * ((5 + scaled) * width + 2), 2 * lg(width) + 7 + scaled, keeps=keeps)


def _deviation(variance: Sketch, *, outside: bool) -> Sketch:
    """√(σ² + ε), or √σ² + ε with constant rows masked around the root."""
    if not outside:
        return variance.scale().apply(keeps="output")
    constant = Storage(variance.numel * MASK)
    return variance.masked(constant).apply(keeps="output").masked(constant).scale()


def rmsnorm(spec: RmsNormSpec, x: Sketch) -> Sketch:
    """4d + 2 operations a token and ⌈log₂ d⌉ + 6 sequential ones; x, 1/rms and what is scaled are kept.

    With an offset d operations more, beside the others, and 1 + w is kept.
    """
    y = token_rms(x, affine=spec.affine, unit_offset=spec.unit_offset)
    if spec.affine:
        x.ledger.parameter(x.shape[-1], kind="vector", name="gain")
    return y


def token_rms(x: Sketch, *, affine: bool, unit_offset: bool = False) -> Sketch:
    """torch's root mean square of each token, computed in float32 whatever comes in and goes out."""
    *rows, width = x.shape
    if affine and unit_offset:
        x.ledger.count("operations", width)
        x.ledger.save(Storage(width * FLOAT))
    tokens, scaled = product(*rows), int(affine)
    return x.kernel(
        tokens * ((3 + scaled) * width + 2),
        lg(width) + 5 + scaled,
        keeps=(x.typed(FLOAT).storage, Storage(tokens * FLOAT), *_scaled(x.numel, scaled)),
    )


def _scaled(size: Expr, affine: int) -> tuple[Storage, ...]:
    return (Storage(size * FLOAT),) * affine
