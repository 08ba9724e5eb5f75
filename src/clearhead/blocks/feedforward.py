"""Point-wise feed-forward nets: every token on its own (L0.13), so that permuting tokens permutes the outputs.

Shapes: b batch, n tokens, d features, f = d_ff features in between.
"""

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.blocks.dropout import Dropout
from clearhead.constants import HIDDEN_RATIO
from clearhead.recipe import FeedForwardSpec

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu-tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """What all nets share: two linear maps, up to ``hidden`` features and down again."""

    def __init__(
        self,
        *,
        width: int,
        hidden: int | None = None,
        activation: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        hidden = hidden or HIDDEN_RATIO * width
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, width, bias=bias)
        self.activation, self._name = ACTIVATIONS[activation], activation
        self.drop = Dropout(dropout)

    def extra_repr(self) -> str:
        """Settings, for people."""
        return self._name

    @classmethod
    def from_spec(cls, spec: FeedForwardSpec, *, width: int, dropout: float) -> "FeedForward":
        """Build from a recipe."""
        hidden = getattr(spec, "width", None)
        return cls(width=width, hidden=hidden, activation=spec.activation, bias=spec.bias, dropout=dropout)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Transform every token."""
        raise NotImplementedError


class StandardFeedForward(FeedForward):
    """act(xW₁ + b₁)W₂ + b₂."""

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Transform every token."""
        hidden = self.activation(self.up(x))  # (b, n, f)
        y: Tensor = self.down(self.drop(hidden))
        return y


class OuterFeedForward(FeedForward):
    """act((xW₁ + b₁)W₂ + b₂), as the notes print it (L0.12): the two maps collapse to one, act(x(W₁W₂) + b₁W₂ + b₂)."""

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Transform every token."""
        return self.activation(self.down(self.drop(self.up(x))))


class GatedFeedForward(FeedForward):
    """(act(xW_g) ⊙ xW₁)W₂: one map opens or closes what the other lets through."""

    def __init__(
        self,
        *,
        width: int,
        hidden: int | None = None,
        activation: str = "silu",
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(width=width, hidden=hidden, activation=activation, bias=bias, dropout=dropout)
        self.gate = nn.Linear(width, self.up.out_features, bias=bias)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Transform every token."""
        hidden = self.activation(self.gate(x)) * self.up(x)  # (b, n, f)
        y: Tensor = self.down(self.drop(hidden))
        return y


class SingleFeedForward(nn.Module):
    """act(xW + b): the one layer that gives self-attention its nonlinearity (L2.6)."""

    def __init__(self, *, width: int, activation: str = "relu", bias: bool = True) -> None:
        super().__init__()
        self.map = nn.Linear(width, width, bias=bias)
        self.activation, self._name = ACTIVATIONS[activation], activation

    def extra_repr(self) -> str:
        """Settings, for people."""
        return self._name

    @classmethod
    def from_spec(cls, spec: FeedForwardSpec, *, width: int, dropout: float) -> "SingleFeedForward":
        """Build from a recipe; there is nothing in between to drop."""
        del dropout
        return cls(width=width, activation=spec.activation, bias=spec.bias)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n d"]:
        """Transform every token."""
        return self.activation(self.map(x))
