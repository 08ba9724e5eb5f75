"""What the point-wise nets cost."""

from typing import Literal

from sympy import Expr

from clearhead.constants import HIDDEN_RATIO
from clearhead.costing.forms.sketch import Sketch
from clearhead.recipe import ConvolutionalSpec, FeedForwardSpec, GatedSpec, OuterSpec, SingleSpec, StandardSpec

Keeps = Literal["input", "output"]


def activate(spec: FeedForwardSpec | ConvolutionalSpec, x: Sketch) -> Sketch:
    """ReLU's gradient is computed from its result, that of the others from what went in."""
    keeps: Keeps = "output" if spec.activation == "relu" else "input"
    return x.apply(keeps=keeps)


def _hidden(spec: StandardSpec | OuterSpec | GatedSpec, x: Sketch, part: str) -> Expr:
    """d_ff, or 4d if the recipe says nothing."""
    return x.ledger.letters("d_ff", spec.width, part) if spec.width else HIDDEN_RATIO * x.shape[-1]


def _out(spec: FeedForwardSpec, x: Sketch, part: str) -> Expr:
    """Features out, v, or as many as go in."""
    return x.ledger.letters("v", spec.out_width, part) if spec.out_width else x.shape[-1]


def standard(spec: StandardSpec, x: Sketch, *, part: str = "") -> Sketch:
    """act(xW₁ + b₁)W₂ + b₂ (L4.4): 2n·d·d_ff."""
    hidden = activate(spec, x.linear(_hidden(spec, x, part), bias=spec.bias, name="up"))
    return hidden.linear(_out(spec, x, part), bias=spec.bias, name="down")


def outer(spec: OuterSpec, x: Sketch, *, part: str = "") -> Sketch:
    """act((xW₁ + b₁)W₂ + b₂): costs what the standard net costs, and collapses to one map (L0.12)."""
    hidden = x.linear(_hidden(spec, x, part), bias=spec.bias, name="up")
    return activate(spec, hidden.linear(_out(spec, x, part), bias=spec.bias, name="down"))


def single(spec: SingleSpec, x: Sketch, *, part: str = "") -> Sketch:
    """act(xW + b): n·d²."""
    return activate(spec, x.linear(_out(spec, x, part), bias=spec.bias, name="map"))


def gated(spec: GatedSpec, x: Sketch, *, part: str = "") -> Sketch:
    """(act(xW_g) ⊙ xW₁)W₂: 3n·d·d_ff."""
    hidden = _hidden(spec, x, part)
    gate = activate(spec, x.linear(hidden, bias=spec.bias, name="gate"))
    raised = x.linear(hidden, bias=spec.bias, name="up")
    return gate.multiply(raised).linear(_out(spec, x, part), bias=spec.bias, name="down")
