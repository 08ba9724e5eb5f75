"""Point-wise feed-forward networks: each token is transformed independently of the others (L0.13).

Shapes: b batch, n tokens, d features, f = d_ff hidden features, v features out (d, unless another number is given).
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
    """The base class of networks with two linear maps, up to ``hidden`` features and down again.

    Args:
        width: features of a token, d.
        hidden: hidden features, f. Default: 4 · width.
        activation: ``relu`` (the default), ``gelu``, ``gelu-tanh`` or ``silu``.
        bias: whether the maps have biases. Default: True.
        dropout: probability of dropping a hidden feature during training. Default: 0.
        out_width: features out, v (L0.13). Default: width.
    """

    def __init__(
        self,
        *,
        width: int,
        hidden: int | None = None,
        activation: str = "relu",
        bias: bool = True,
        dropout: float = 0.0,
        out_width: int | None = None,
    ) -> None:
        super().__init__()
        hidden = hidden or HIDDEN_RATIO * width
        self.up = nn.Linear(width, hidden, bias=bias)
        self.down = nn.Linear(hidden, out_width or width, bias=bias)
        self.activation, self._name = ACTIVATIONS[activation], activation
        self.drop = Dropout(dropout)

    def extra_repr(self) -> str:
        return self._name

    @classmethod
    def from_spec(cls, spec: FeedForwardSpec, *, width: int, dropout: float) -> "FeedForward":
        """Build from a recipe."""
        hidden = getattr(spec, "width", None)
        return cls(
            width=width,
            hidden=hidden,
            activation=spec.activation,
            bias=spec.bias,
            dropout=dropout,
            out_width=spec.out_width,
        )

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n v"]:
        """Transform every token."""
        raise NotImplementedError


class StandardFeedForward(FeedForward):
    """act(xW₁ + b₁)W₂ + b₂. The arguments are those of ``FeedForward``."""

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n v"]:
        """Transform every token."""
        hidden = self.activation(self.up(x))  # (b, n, f)
        y: Tensor = self.down(self.drop(hidden))
        return y


class OuterFeedForward(FeedForward):
    """act((xW₁ + b₁)W₂ + b₂), as the notes print it (L0.12): both maps collapse into one, act(x(W₁W₂) + b₁W₂ + b₂).

    The arguments are those of ``FeedForward``.
    """

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n v"]:
        """Transform every token."""
        return self.activation(self.down(self.drop(self.up(x))))


class GatedFeedForward(FeedForward):
    """(act(xW_g) ⊙ xW₁)W₂: a gated linear unit (Shazeer 2020).

    The arguments are those of ``FeedForward``, but the activation is ``silu`` by default (SwiGLU).
    """

    def __init__(
        self,
        *,
        width: int,
        hidden: int | None = None,
        activation: str = "silu",
        bias: bool = True,
        dropout: float = 0.0,
        out_width: int | None = None,
    ) -> None:
        super().__init__(
            width=width, hidden=hidden, activation=activation, bias=bias, dropout=dropout, out_width=out_width
        )
        self.gate = nn.Linear(width, self.up.out_features, bias=bias)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n v"]:
        """Transform every token."""
        hidden = self.activation(self.gate(x)) * self.up(x)  # (b, n, f)
        y: Tensor = self.down(self.drop(hidden))
        return y


class SingleFeedForward(nn.Module):
    """act(xW + b): a single layer, which gives self-attention its nonlinearity (L2.6).

    Args:
        width: features of a token, d.
        activation: ``relu`` (the default), ``gelu``, ``gelu-tanh`` or ``silu``.
        bias: whether the map has a bias. Default: True.
        out_width: features out, v. Default: width.
    """

    def __init__(
        self, *, width: int, activation: str = "relu", bias: bool = True, out_width: int | None = None
    ) -> None:
        super().__init__()
        self.map = nn.Linear(width, out_width or width, bias=bias)
        self.activation, self._name = ACTIVATIONS[activation], activation

    def extra_repr(self) -> str:
        return self._name

    @classmethod
    def from_spec(cls, spec: FeedForwardSpec, *, width: int, dropout: float) -> "SingleFeedForward":
        """Build from a recipe; without hidden features there is no dropout."""
        del dropout
        return cls(width=width, activation=spec.activation, bias=spec.bias, out_width=spec.out_width)

    def forward(self, x: Float[Tensor, "b n d"]) -> Float[Tensor, "b n v"]:
        """Transform every token."""
        return self.activation(self.map(x))
