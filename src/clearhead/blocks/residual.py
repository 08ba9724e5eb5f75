"""Add & Norm, the residual connection and norm around a sublayer (L0.11, L1.7, L2.7).

Shapes: b batch, n tokens, d features in, v features out (d, unless the sublayer changes it).
"""

from collections.abc import Callable
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.blocks.dropout import Dropout


class AddNorm(nn.Module):
    """norm(x + f(x)), x + f(norm(x)) or x + after(f(norm(x))), around a sublayer f.

    Args:
        norm: the norm.
        place: ``post`` is norm(x + f(x)), as in the notes; ``pre`` is x + f(norm(x)), which trains deep stacks without
            warm-up; ``both`` is x + after(f(norm(x))).
        after: the norm of f's output, with ``both``.
        dropout: probability of dropping an entry of f's output during training. Default: 0.
        residual: whether x is added; without it one sees why it is (L1.8). Default: True.
        project: a map of x before it is added, for a sublayer that changes the number of features. Default: none.
    """

    def __init__(
        self,
        norm: nn.Module,
        *,
        place: Literal["pre", "post", "both"],
        after: nn.Module | None = None,
        dropout: float = 0.0,
        residual: bool = True,
        project: nn.Linear | None = None,
    ) -> None:
        super().__init__()
        if (after is not None) != (place == "both"):
            raise ValueError(f"place {place!r} {'needs' if after is None else 'has no'} norm after the sublayer")
        self.norm, self.place, self.after = norm, place, after
        self.residual, self.project = residual, project
        self.drop = Dropout(dropout)

    def extra_repr(self) -> str:
        x = "" if not self.residual else "x + " if self.project is None else "xW + "
        return {"post": f"norm({x}f(x))", "pre": f"{x}f(norm(x))", "both": f"{x}after(f(norm(x)))"}[self.place]

    def forward(
        self,
        x: Float[Tensor, "b n d"],
        sublayer: Callable[[Tensor], Tensor],
        valid: Bool[Tensor, "b n"] | None = None,
        *,
        onto: Float[Tensor, "b n d"] | None = None,
    ) -> Float[Tensor, "b n v"]:
        """Apply ``sublayer``, a function from tokens to tokens, with norm and residual connection.

        Args:
            x: the tokens.
            sublayer: the function.
            valid: True for tokens, False for padding.
            onto: what the sublayer's output is added to. Default: ``x``.
        """
        change = sublayer(x if self.place == "post" else self.norm(x, valid))
        change = self.drop(change if self.after is None else self.after(change, valid))
        x = x if onto is None else onto
        if self.residual and self.project is not None:
            x = self.project(x)
        y = x + change if self.residual else change
        result: Tensor = self.norm(y, valid) if self.place == "post" else y
        return result
