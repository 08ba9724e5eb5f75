"""Specs of normalisation: what is normalised, and where it stands around a sublayer."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from clearhead.recipe.registry import register
from clearhead.recipe.spec import KindSpec


class NormSpec(KindSpec):
    """The base of every normalisation."""

    slot: ClassVar[str] = "norm"

    kind: str
    """Which normalisation: see `clearhead presets --kinds`."""
    place: Literal["pre", "post", "both"] = "pre"
    """x + f(norm(x)), or norm(x + f(x)) as in the notes (L0.11), or x + norm(f(norm(x))) with two norms (Gemma 2)."""
    final: bool | None = None
    """One more norm after the last layer; without it: yes, but for post."""
    first: bool = True
    """A norm before the first sublayer of a stack; ModernBERT, which normalises the embedding, has none there."""
    eps: Annotated[float, Field(ge=0, le=1)] = 1e-5
    """Keeps the division away from zero."""
    affine: bool = True
    """Learned scale (and shift, for layernorm) after normalising."""

    @property
    def has_final(self) -> bool:
        """Whether the stack ends with a norm of its own."""
        return self.place != "post" if self.final is None else self.final

    @property
    def mixes_positions(self) -> bool:
        """Whether a token's result depends on other tokens: then it cannot stand in a causal stack."""
        return False

    @property
    def centres_features(self) -> bool:
        """Whether the mean of all tokens is 0 in each feature, before γ and β."""
        return False


class LayerNormSpec(NormSpec):
    """(x − μ)/σ, per token (L0.10, L2.8)."""

    kind: Literal["layernorm"] = "layernorm"
    shift: bool = True
    """A learned shift beside the learned scale; ModernBERT has none."""
    eps_place: Literal["inside", "outside"] = "inside"
    """√(σ² + ε), or σ + ε as in the notes (L2.8)."""
    axis: Literal["token", "sequence", "all"] = "token"
    """Statistics over a token's features, per feature over the tokens of the sequence, or one μ and one σ over all
    features of all tokens, as the notes write it (L0.10)."""

    @property
    def mixes_positions(self) -> bool:
        """True for statistics over the sequence."""
        return self.axis != "token"

    @property
    def centres_features(self) -> bool:
        """True for statistics of each feature over the sequence."""
        return self.axis == "sequence"


class RmsNormSpec(NormSpec):
    """x / √(mean(x²) + ε): no mean, no shift (T5, Llama)."""

    kind: Literal["rmsnorm"] = "rmsnorm"
    eps: Annotated[float, Field(ge=0, le=1)] = 1e-6
    """Keeps the division away from zero; T5's value."""
    unit_offset: bool = False
    """Store γ − 1, which starts at 0, and scale by 1 plus that (Gemma)."""


register(LayerNormSpec, module="clearhead.blocks.norm:LayerNorm", cost="clearhead.costing.forms.norm:layernorm")
register(RmsNormSpec, module="clearhead.blocks.norm:RmsNorm", cost="clearhead.costing.forms.norm:rmsnorm")
