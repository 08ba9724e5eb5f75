"""Relative positions: T5's buckets, ALiBi and RoPE. Shifting a whole sequence changes nothing (L2.11).

Shapes: b batch, n queries, m keys, h heads, d features of a head.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from clearhead.positions.base import DistanceBias, RelativePosition, Turns
from clearhead.recipe import AlibiSpec, RotarySpec, T5BucketsSpec


def t5_bucket(
    distance: Int[Tensor, "*shape"], *, buckets: int = 32, max_distance: int = 128, both_ways: bool
) -> Int[Tensor, "*shape"]:
    """The bucket of a distance j − i from query i to key j (Raffel et al. 2020).

    Half of the buckets hold one distance each; the others grow logarithmically up to ``max_distance``, and all larger
    distances share the last one. With ``both_ways`` the upper half is for keys to the right, so that the buckets of 0,
    1, −1, 128, −128 are 0, 17, 1, 31, 15; otherwise keys to the right share bucket 0.
    """
    offset = torch.zeros_like(distance)
    if both_ways:
        buckets //= 2
        offset = (distance > 0).to(distance.dtype) * buckets
        away = distance.abs()
    else:
        away = (-distance).clamp(min=0)
    exact = buckets // 2
    # log() of the small distances is not used; the clamp keeps it finite
    growth = (away.clamp(min=1).float() / exact).log() / math.log(max_distance / exact)
    far = (exact + (growth * (buckets - exact)).to(distance.dtype)).clamp(max=buckets - 1)
    return offset + torch.where(away < exact, away, far)


class BucketBias(DistanceBias):
    """T5: a learned bias for each head and bucket of distances, shared by all layers of a stack.

    Args:
        heads: number of heads, h; the table is (buckets, h).
        buckets: number of buckets. Default: 32.
        max_distance: the distance from which on all share a bucket. Default: 128.
        both_ways: whether keys to the right have buckets of their own; False for causal stacks. Default: True.
    """

    def __init__(self, *, heads: int, buckets: int = 32, max_distance: int = 128, both_ways: bool = True) -> None:
        super().__init__()
        self.buckets, self.max_distance, self.both_ways = buckets, max_distance, both_ways
        self.alike_beyond = max_distance
        self.table = nn.Embedding(buckets, heads)

    @classmethod
    def from_spec(
        cls, spec: T5BucketsSpec, *, heads: int, head_size: int, value_size: int, causal: bool
    ) -> "BucketBias":
        """Build from a recipe; a causal stack uses all buckets for earlier keys."""
        del head_size, value_size
        return cls(heads=heads, buckets=spec.buckets, max_distance=spec.max_distance, both_ways=not causal)

    def extra_repr(self) -> str:
        return f"{self.buckets} buckets, {'both ways' if self.both_ways else 'the past'}"

    def of_distance(self, distances: Int[Tensor, "*s"]) -> Float[Tensor, "h *s"]:
        """Return table[bucket(j − i)]."""
        buckets = t5_bucket(distances, buckets=self.buckets, max_distance=self.max_distance, both_ways=self.both_ways)
        values: Tensor = self.table(buckets).movedim(-1, 0).contiguous()
        return values


def alibi_slopes(heads: int) -> list[float]:
    """The slope of each head: 2^(−8/h), 2^(−16/h) … if h is a power of two (Press et al. 2022).

    Other numbers of heads take the slopes of the next lower power of two and every other one of the next higher.
    """
    lower = 2 ** math.floor(math.log2(heads))
    slopes = [2 ** (-8 * (index + 1) / lower) for index in range(lower)]
    return slopes + [2 ** (-4 * (2 * index + 1) / lower) for index in range(heads - lower)]


class AlibiBias(DistanceBias):
    """ALiBi: a bias of −slope · |j − i|, which is not learned.

    Args:
        heads: number of heads, each with its own slope.
    """

    slopes: Float[Tensor, "h"]

    def __init__(self, *, heads: int) -> None:
        super().__init__()
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)

    @classmethod
    def from_spec(cls, spec: AlibiSpec, *, heads: int, head_size: int, value_size: int, causal: bool) -> "AlibiBias":
        """Build from a recipe; without ``causal``, the bias is the same on both sides."""
        del spec, head_size, value_size, causal
        return cls(heads=heads)

    def extra_repr(self) -> str:
        return f"{len(self.slopes)} slopes"

    def of_distance(self, distances: Int[Tensor, "*s"]) -> Float[Tensor, "h *s"]:
        return -self.slopes.view(-1, *[1] * distances.dim()) * distances.abs()


def slow_all(spec: RotarySpec, frequencies: Float[Tensor, "half"]) -> Float[Tensor, "half"]:
    """ω/f: positions as if they were f times as close (Chen et al. 2023)."""
    return frequencies / spec.factor


def slow_long_waves(spec: RotarySpec, frequencies: Float[Tensor, "half"]) -> Float[Tensor, "half"]:
    """ω/f for waves of which fewer than ``low`` fit into the original length, ω from ``high`` on, a blend between."""
    waves = spec.original * frequencies / (2 * math.pi)
    share = ((waves - spec.low) / (spec.fast - spec.low)).clamp(0, 1)
    return (1 - share) * frequencies / spec.factor + share * frequencies


def slow_by_place(spec: RotarySpec, frequencies: Float[Tensor, "half"]) -> Float[Tensor, "half"]:
    """YaRN (Peng et al. 2023): the same bounds, but the blend is linear in the number i of the pair, not in its waves.

    Pair i has original·ω_i/2π waves in the original length, so w waves are those of pair d/2 · log_base(original/2πw).
    """
    pairs = len(frequencies)

    def pair_of(waves: float) -> float:
        return pairs * math.log(spec.original / (2 * math.pi * waves)) / math.log(spec.base)

    first, last = pair_of(spec.fast), pair_of(spec.low)
    if spec.rounded:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, 2 * pairs - 1)
    if first == last:
        last += 0.001  # a step between two pairs
    numbers = torch.arange(pairs, dtype=frequencies.dtype, device=frequencies.device)
    slowed = ((numbers - first) / (last - first)).clamp(0, 1)
    return slowed * frequencies / spec.factor + (1 - slowed) * frequencies


_SLOW = {"linear": slow_all, "llama3": slow_long_waves, "yarn": slow_by_place}


def magnitude_of(spec: RotarySpec) -> float:
    """What rotated queries and keys are multiplied by: 1, or YaRN's 0.1 · ln f + 1."""
    if spec.scaling != "yarn":
        return 1.0
    return 0.1 * math.log(spec.factor) + 1.0 if spec.magnitude is None else spec.magnitude


class RotaryPosition(RelativePosition):
    """RoPE: pairs of features of queries and keys are rotated by p · ω_i, so that q·k depends on the distance alone.

    Args:
        head_size: features of a query and of a key in one head, d; even.
        layout: which features are pairs: i and d/2 + i (``halves``, the default), or 2i and 2i + 1 (``interleaved``).
        base: the base of the frequencies. Default: 10,000.
        features: how many features are rotated, the first ones of a head; the others stay as they are. Default: all.
        slow: a function that slows frequencies down, for texts longer than those of training. Default: none.
        magnitude: what the rotated features are multiplied by (YaRN). Default: None, they keep their length.
    """

    def __init__(
        self,
        *,
        head_size: int,
        layout: Literal["halves", "interleaved"] = "halves",
        base: float = 10_000.0,
        features: int | None = None,
        slow: Callable[[Tensor], Tensor] | None = None,
        magnitude: float | None = None,
    ) -> None:
        super().__init__()
        self.layout, self.base, self.features, self.slow = layout, base, features or head_size, slow
        self.magnitude = 1.0 if magnitude is None else magnitude
        self.rotates_all = self.features == head_size

    def frequencies(self, device: torch.device | None = None) -> Float[Tensor, "half"]:
        """ω_i = base^(−2i/d) in float32, whatever the model's precision: large positions need it."""
        apple = device is not None and device.type == "mps"  # has no float64
        where = torch.device("cpu") if apple else device
        exponents = torch.arange(0, self.features, 2, dtype=torch.float64, device=where) / self.features
        frequencies = self.base**-exponents
        return (frequencies if self.slow is None else self.slow(frequencies)).float().to(device)

    @classmethod
    def from_spec(
        cls, spec: RotarySpec, *, heads: int, head_size: int, value_size: int, causal: bool
    ) -> "RotaryPosition":
        """Build from a recipe."""
        del heads, value_size, causal
        return cls(
            head_size=head_size,
            layout=spec.layout,
            base=spec.base,
            features=spec.features,
            slow=None if spec.scaling == "none" else partial(_SLOW[spec.scaling], spec),
            magnitude=magnitude_of(spec),
        )

    def extra_repr(self) -> str:
        return self.layout + ("" if self.rotates_all else f", {self.features} features")

    def turns(self, positions: Int[Tensor, "*b n"], dtype: torch.dtype) -> Turns:
        """cos and sin of p · ω_i, times ``magnitude``: (n, d/2), or (b, 1, n, d/2) where each line has its own p."""
        angles = positions.unsqueeze(-1) * self.frequencies(positions.device)  # (*b, n, d/2)
        if positions.dim() == 2:
            angles = angles.unsqueeze(1)  # the same for all heads
        cos, sin = angles.cos(), angles.sin()
        if self.magnitude != 1.0:
            cos, sin = cos * self.magnitude, sin * self.magnitude
        return cos.to(dtype), sin.to(dtype)

    def turn(self, heads: Float[Tensor, "b h n d"], turns: Turns) -> Float[Tensor, "b h n d"]:
        """(x₁, x₂) → (x₁ cos − x₂ sin, x₁ sin + x₂ cos) for every pair of features."""
        if self.rotates_all:
            return self._turn(heads, *turns)
        turned = self._turn(heads[..., : self.features], *turns)
        return torch.cat((turned, heads[..., self.features :]), dim=-1)

    def _turn(self, heads: Tensor, cos: Tensor, sin: Tensor) -> Float[Tensor, "b h n d"]:
        if self.layout == "halves":
            first, second = heads.chunk(2, dim=-1)
            return torch.cat((first * cos - second * sin, first * sin + second * cos), dim=-1)
        first, second = heads[..., 0::2], heads[..., 1::2]
        return torch.stack((first * cos - second * sin, first * sin + second * cos), dim=-1).flatten(-2)
