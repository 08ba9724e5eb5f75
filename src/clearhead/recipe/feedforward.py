"""Specs of the point-wise feed-forward net (L0.13): every token on its own."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.registry import register
from clearhead.recipe.spec import KindSpec

Activation = Literal["relu", "gelu", "gelu-tanh", "silu"]


class FeedForwardSpec(KindSpec):
    """The base of every feed-forward net."""

    slot: ClassVar[str] = "feedforward"

    kind: str
    """Which net: see `clearhead presets --kinds`."""
    activation: Activation = "relu"
    """The nonlinearity: ReLU, GELU, GELU's tanh approximation, SiLU (swish)."""
    bias: bool = True
    """A bias in each linear map."""
    out_width: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Features that the net of a stack's last layer puts out, V in E → V (L0.13); x is then projected before it is
    added (x + f(x) needs one width). Without it as many as go in."""


class _TwoMaps(FeedForwardSpec):
    width: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Features between the two linear maps, d_ff; without it four times the model's width."""


class StandardSpec(_TwoMaps):
    """act(xW₁ + b₁)W₂ + b₂, as the paper has it."""

    kind: Literal["standard"] = "standard"


class OuterSpec(_TwoMaps):
    """act((xW₁ + b₁)W₂ + b₂), as the notes print it (L0.12): collapses to one linear map."""

    kind: Literal["outer"] = "outer"


class SingleSpec(FeedForwardSpec):
    """act(xW + b), one layer (L2.6)."""

    kind: Literal["single"] = "single"


class GatedSpec(_TwoMaps):
    """(act(xW_g) ⊙ xW₁)W₂, the gated linear unit of T5 1.1 and Llama."""

    kind: Literal["gated"] = "gated"
    activation: Activation = "silu"
    """The nonlinearity of the gate: SiLU as in Llama (SwiGLU), or another one."""


register(
    StandardSpec,
    module="clearhead.blocks.feedforward:StandardFeedForward",
    cost="clearhead.costing.forms.feedforward:standard",
)
register(
    OuterSpec, module="clearhead.blocks.feedforward:OuterFeedForward", cost="clearhead.costing.forms.feedforward:outer"
)
register(
    SingleSpec,
    module="clearhead.blocks.feedforward:SingleFeedForward",
    cost="clearhead.costing.forms.feedforward:single",
)
register(
    GatedSpec, module="clearhead.blocks.feedforward:GatedFeedForward", cost="clearhead.costing.forms.feedforward:gated"
)
