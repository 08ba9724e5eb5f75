"""Add & Norm: how a sublayer is wrapped (L0.11, L1.7, L2.7).

Shapes: b batch, n tokens, d features.
"""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.blocks.dropout import Dropout


class AddNorm(nn.Module):
    """post: norm(x + f(x)), as in the notes; pre: x + f(norm(x)), which trains deep stacks without warm-up.

    Without ``residual`` the sum is left out, which shows why it is there (L1.8).
    """

    def __init__(
        self, norm: nn.Module, *, place: Literal["pre", "post"], dropout: float = 0.0, residual: bool = True
    ) -> None:
        super().__init__()
        self.norm, self.place, self.residual = norm, place, residual
        self.drop = Dropout(dropout)

    def extra_repr(self) -> str:
        """Settings, for people."""
        x = "x + " if self.residual else ""
        return f"norm({x}f(x))" if self.place == "post" else f"{x}f(norm(x))"

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        sublayer: Callable[[Tensor], Tensor],
        valid: Bool[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Wrap ``sublayer``, a function from tokens to tokens."""
        change: Tensor = self.drop(sublayer(self.norm(x, valid) if self.place == "pre" else x))
        y = x + change if self.residual else change
        result: Tensor = self.norm(y, valid) if self.place == "post" else y
        return result
