"""Normalisation (L0.10, L2.8).

Shapes: b batch, n tokens, d features.
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.recipe import LayerNormSpec, RmsNormSpec


class LayerNorm(nn.Module):
    """γ ⊙ (x − μ)/σ + β, with the mean μ and the (population) standard deviation σ.

    Args:
        width: features of a token, d; γ and β are (d,).
        eps: ε, which keeps the denominator above 0. Default: 1e-5.
        eps_place: ``inside`` is √(σ² + ε) (the default), ``outside`` is σ + ε (L2.8); they differ visibly once x is as
            small as √ε.
        axis: ``token`` takes μ and σ over the features of each token (the default); ``sequence`` takes them, for each
            feature, over the tokens that are not padding; ``all`` takes one μ and one σ over all features of these
            tokens, μ = E Y, as the notes write it (L0.10).
        affine: whether there are γ and β. Default: True.
        shift: whether there is β, if there is γ. Default: True.
    """

    def __init__(
        self,
        *,
        width: int,
        eps: float = 1e-5,
        eps_place: Literal["inside", "outside"] = "inside",
        axis: Literal["token", "sequence", "all"] = "token",
        affine: bool = True,
        shift: bool = True,
    ) -> None:
        super().__init__()
        self.width, self.eps, self.eps_place, self.axis = width, eps, eps_place, axis
        self.gain = nn.Parameter(torch.ones(width)) if affine else None
        self.shift = nn.Parameter(torch.zeros(width)) if affine and shift else None

    @classmethod
    def from_spec(cls, spec: LayerNormSpec, *, width: int) -> "LayerNorm":
        """Build from a recipe."""
        return cls(width=width, **spec.model_dump(include={"eps", "eps_place", "axis", "affine", "shift"}))

    def extra_repr(self) -> str:
        where = "over everything" if self.axis == "all" else f"per {self.axis}"
        lacks = ", no gain" if self.gain is None else ", no shift" if self.shift is None else ""
        return f"{where}, ε {self.eps_place}{lacks}"

    def forward(self, x: Float[Tensor, "b n d"], valid: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n d"]:
        """Normalise; ``valid`` is True for tokens and False for padding, which is left out of μ and σ."""
        if self.axis == "token" and self.eps_place == "inside":
            return F.layer_norm(x, (self.width,), self.gain, self.shift, self.eps)
        if self.axis == "token":
            mean = x.mean(-1, keepdim=True)  # (b, n, 1)
            variance = (x - mean).square().mean(-1, keepdim=True)
        else:
            over, terms = ((1, 2), self.width) if self.axis == "all" else ((1,), 1)
            there = x.new_ones(x.shape[:2]) if valid is None else valid.to(x.dtype)
            share = (there / (terms * there.sum(1, keepdim=True).clamp(min=1))).unsqueeze(-1)  # (b, n, 1)
            mean = (share * x).sum(over, keepdim=True)  # (b, 1, d), or (b, 1, 1) over everything
            variance = (share * (x - mean).square()).sum(over, keepdim=True)
        y = (x - mean) / self._deviation(variance)
        if self.axis != "token" and valid is not None:
            # padding is not in the statistics, and a line of only padding has none: its values must stay bounded
            y = y.masked_fill(~valid.unsqueeze(-1), 0.0)
        y = y if self.gain is None else y * self.gain
        return y if self.shift is None else y + self.shift

    def _deviation(self, variance: Float[Tensor, "b n2 d2"]) -> Float[Tensor, "b n2 d2"]:
        if self.eps_place == "inside":
            return (variance + self.eps).sqrt()
        # the square root has no finite gradient at 0, so constant rows must not pass through it
        constant = variance == 0
        return variance.masked_fill(constant, 1.0).sqrt().masked_fill(constant, 0.0) + self.eps


class NoNorm(nn.Module):
    """The identity, where a stack leaves a norm out."""

    def extra_repr(self) -> str:
        return "changes nothing"

    def forward(self, x: Float[Tensor, "b n d"], valid: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n d"]:
        """Return the tokens."""
        del valid
        return x


class RmsNorm(nn.Module):
    """γ ⊙ x / √(mean(x²) + ε): no mean is subtracted and no shift added.

    Args:
        width: features of a token, d; γ is (d,).
        eps: ε. Default: 1e-6.
        affine: whether there is γ. Default: True.
        unit_offset: whether ``gain`` holds γ − 1, and starts at 0 (Gemma). Default: False.
    """

    def __init__(self, *, width: int, eps: float = 1e-6, affine: bool = True, unit_offset: bool = False) -> None:
        super().__init__()
        self.width, self.eps, self.unit_offset = width, eps, unit_offset
        self.gain = nn.Parameter(torch.full((width,), 0.0 if unit_offset else 1.0)) if affine else None

    @classmethod
    def from_spec(cls, spec: RmsNormSpec, *, width: int) -> "RmsNorm":
        """Build from a recipe."""
        return cls(width=width, eps=spec.eps, affine=spec.affine, unit_offset=spec.unit_offset)

    @property
    def scale(self) -> Float[Tensor, "d"] | None:
        """γ, if there is one."""
        return 1.0 + self.gain if self.unit_offset and self.gain is not None else self.gain

    def extra_repr(self) -> str:
        return "per token" + (", no gain" if self.gain is None else ", 1 + gain" if self.unit_offset else "")

    def forward(self, x: Float[Tensor, "b n d"], valid: Bool[Tensor, "b n"] | None = None) -> Float[Tensor, "b n d"]:
        """Normalise each token; ``valid`` makes no difference."""
        del valid
        return F.rms_norm(x, (self.width,), self.scale, self.eps)
