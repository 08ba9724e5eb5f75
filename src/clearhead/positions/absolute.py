"""Absolute positions: none, sinusoidal in three layouts, and learned (L2.10)."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.errors import TooLong
from clearhead.positions.base import AbsolutePosition
from clearhead.positions.branching import is_exporting, may_branch
from clearhead.recipe import LearnedSpec, NoPositionSpec, SinusoidalSpec

Layout = Literal["interleaved", "halves", "tensor2tensor"]


def sinusoids(
    length: int, width: int, *, layout: Layout = "interleaved", base: float = 10_000.0
) -> Float[Tensor, "n d"]:
    """The table of sinusoidal positions (L2.10), computed in float64 and then rounded, but for tensor2tensor.

    With i = 0 … d/2−1 and angle(p, i) = p · ω_i:
      interleaved    column 2i is sin, column 2i+1 is cos, ω_i = base^(−2i/d)         (the paper)
      halves         column i is sin, column d/2+i is cos, ω_i = base^(−2i/d)         (transformers' MarianMT)
      tensor2tensor  column i is sin, column d/2+i is cos, ω_i = base^(−i/(d/2−1))    (tensor2tensor, Marian in C++)

    The last is computed in float32, step by step as fairseq and transformers do: M2M100 and NLLB were trained with
    these numbers, which at far positions are more than 1e-5 away from the exact ones.
    """
    table = _sinusoids_at(torch.arange(length), width, layout=layout, base=base)
    return table.to(torch.get_default_dtype())  # (n, d)


def _sinusoids_at(
    positions: Int[Tensor, "*b n"], width: int, *, layout: Layout, base: float
) -> Float[Tensor, "*b n d"]:
    """The rows of these positions, in float64; in float32 for tensor2tensor."""
    half = width // 2
    if layout == "tensor2tensor":
        indices = torch.arange(half, dtype=torch.float32, device=positions.device)
        rates = torch.exp(indices * -(math.log(base) / max(half - 1, 1)))
        angles = positions.float().unsqueeze(-1) * rates  # (*b, n, d/2)
    else:
        exponents = torch.arange(half, dtype=torch.float64, device=positions.device) / half
        angles = positions.double().unsqueeze(-1) * base**-exponents  # (*b, n, d/2)
    pair = (angles.sin(), angles.cos())
    return torch.stack(pair, dim=-1).flatten(-2) if layout == "interleaved" else torch.cat(pair, dim=-1)


class NoPosition(AbsolutePosition):
    """No positions: the Transformer sees a set, not a sequence (L1.10)."""

    @classmethod
    def from_spec(cls, spec: NoPositionSpec, *, width: int) -> "NoPosition":
        """Build from a recipe."""
        del spec, width
        return cls()

    def extra_repr(self) -> str:
        return "adds nothing"

    def forward(self, positions: Int[Tensor, "*b n"], end: int) -> None:
        del positions, end


class SinusoidalPosition(AbsolutePosition):
    """Sines and cosines of the position, in a table that grows with the longest sequence and is not saved.

    Args:
        width: features of a token, d.
        layout: the order of sines and cosines: ``interleaved`` (the default), ``halves`` or ``tensor2tensor``; see
            ``sinusoids``.
        base: the base of the frequencies. Default: 10,000.
        offset: the number of the first position. Default: 0.
    """

    table: Float[Tensor, "n d"]

    def __init__(self, *, width: int, layout: Layout = "interleaved", base: float = 10_000.0, offset: int = 0) -> None:
        super().__init__()
        self.width, self.layout, self.base, self.offset = width, layout, base, offset
        self.register_buffer("table", self._rows(256), persistent=False)

    @classmethod
    def from_spec(cls, spec: SinusoidalSpec, *, width: int) -> "SinusoidalPosition":
        """Build from a recipe."""
        return cls(width=width, layout=spec.layout, base=spec.base, offset=spec.offset)

    def _rows(self, length: int) -> Float[Tensor, "n d"]:
        if torch.get_default_device().type == "meta":  # only the shape is asked for; torch's way there is slow
            return torch.empty(length, self.width)
        return sinusoids(length, self.width, layout=self.layout, base=self.base)

    def extra_repr(self) -> str:
        return self.layout + (f" from {self.offset}" if self.offset else "")

    def forward(self, positions: Int[Tensor, "*b n"], end: int) -> Float[Tensor, "*b n d"]:
        positions, end = (positions + self.offset, end + self.offset) if self.offset else (positions, end)
        if is_exporting():  # a table of a fixed length would be the end of the graph's reach
            return _sinusoids_at(positions, self.width, layout=self.layout, base=self.base).to(self.table.dtype)
        self.reach(end)
        return self.table[positions]

    def reach(self, end: int) -> None:
        """Make the table long enough for positions below ``end``."""
        if end > len(self.table):
            with torch.inference_mode(mode=False):  # the buffer must also work outside of inference mode later
                self.table = self._rows(2 ** math.ceil(math.log2(end))).to(self.table)


class LearnedPosition(AbsolutePosition):
    """One learned vector for each position.

    Args:
        size: the number of positions, the longest sequence.
        width: features of a token, d; the table is (offset + size, d).
        offset: unused rows before the first position (2 in BART, pad + 1 in RoBERTa). Default: 0.
    """

    def __init__(self, *, size: int, width: int, offset: int = 0) -> None:
        super().__init__()
        self.most_tokens, self.offset = size, offset
        self.table = nn.Embedding(size + offset, width)

    @classmethod
    def from_spec(cls, spec: LearnedSpec, *, width: int) -> "LearnedPosition":
        """Build from a recipe."""
        return cls(size=spec.size, width=width, offset=spec.offset)

    def extra_repr(self) -> str:
        return f"{self.most_tokens} positions" + (f" after {self.offset} unused rows" if self.offset else "")

    def forward(self, positions: Int[Tensor, "*b n"], end: int) -> Float[Tensor, "*b n d"]:
        # padding may be past the end of the table, tokens may not; elsewhere the lookup itself fails
        too_far = may_branch(positions) and end > self.most_tokens
        if too_far and (last := int(positions.max())) >= self.most_tokens:
            raise TooLong(
                f"position {last + 1} is past the end of the table of {self.most_tokens} learned positions: "
                "shorten the sequence, or train with a larger model.position.size"
            )
        vectors: Tensor = self.table(positions + self.offset)
        return vectors
