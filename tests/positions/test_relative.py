"""Relative positions against transformers' maps, and their defining property: only distances matter."""

from typing import Any

import pytest
import torch

from clearhead.positions import AlibiBias, BucketBias, RotaryPosition, alibi_slopes, t5_bucket
from clearhead.recipe import T5BucketsSpec


@pytest.mark.parametrize("both_ways", [True, False])
@pytest.mark.parametrize(("buckets", "max_distance"), [(32, 128), (8, 20), (64, 1000)])
def test_t5_buckets_are_exactly_transformers(both_ways: bool, buckets: int, max_distance: int) -> None:
    """Reference: T5Attention._relative_position_bucket; index maps exactly equal."""
    from transformers.models.t5.modeling_t5 import T5Attention

    distance = torch.arange(-2000, 2001)
    expected = T5Attention._relative_position_bucket(distance, both_ways, buckets, max_distance)
    mine = t5_bucket(distance, buckets=buckets, max_distance=max_distance, both_ways=both_ways)
    assert torch.equal(mine, expected)
    assert not torch.equal(t5_bucket(-distance, buckets=buckets, max_distance=max_distance, both_ways=both_ways), mine)


def test_t5_buckets_of_the_facts() -> None:
    """Edge case: bidirectional buckets of 0, 1, −1, +128, −128 are 0, 17, 1, 31, 15."""
    assert t5_bucket(torch.tensor([0, 1, -1, 128, -128]), both_ways=True).tolist() == [0, 17, 1, 31, 15]


@pytest.mark.parametrize("causal", [False, True])
def test_a_causal_stack_has_t5_buckets_for_the_past_alone(causal: bool) -> None:
    """As in T5's decoder: all buckets are for earlier keys, and later ones share the bucket of distance 0."""
    sizes: dict[str, Any] = {"heads": 2, "head_size": 4, "value_size": 4}
    scheme = BucketBias.from_spec(T5BucketsSpec(buckets=8, max_distance=16), **sizes, causal=causal)
    bias = scheme.of_distance(torch.tensor([0, 1, 2, -5]))  # (h, 4)
    later_alike = bool((bias[:, :1] == bias[:, 1:3]).all())
    assert later_alike == causal
    assert (bias[:, 0] != bias[:, 3]).all()


def test_t5_bias_reads_the_table_per_head() -> None:
    bias = BucketBias(heads=3, buckets=8, max_distance=20)
    out = bias.bias(torch.arange(4), torch.arange(6))
    assert out.shape == (3, 4, 6)
    bucket = t5_bucket(torch.tensor(5 - 1), buckets=8, max_distance=20, both_ways=True)
    assert torch.equal(out[:, 1, 5], bias.table.weight[bucket])
    rows = torch.stack([torch.arange(4), torch.arange(4) + 7])
    shifted = bias.bias(rows, rows)
    assert torch.equal(shifted[0], shifted[1])  # L2.11: only distances matter


@pytest.mark.parametrize("start", [0, 5])
def test_a_bias_spread_by_distance_is_that_of_every_pair(start: int) -> None:
    """Lines that share their positions take a shorter way to the same bias; one that starts elsewhere is another."""
    queries, keys = torch.arange(4) + start, torch.arange(9)
    for scheme in (BucketBias(heads=3, buckets=8, max_distance=20), AlibiBias(heads=3)):
        spread = scheme.bias(queries, keys)
        assert torch.equal(spread, scheme.bias(queries[None], keys[None])[0])
        assert not torch.equal(spread, scheme.bias(queries + 1, keys))


@pytest.mark.parametrize("heads", [1, 2, 3, 8, 12, 13, 16])
def test_alibi_is_blooms(heads: int) -> None:
    """Reference: transformers' Bloom, also for numbers of heads that are no power of two.

    Bloom adds slope · j to a row of scores; −slope · (i − j) differs by a constant, which softmax ignores.
    """
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    theirs = build_alibi_tensor(torch.ones(1, 6), heads, torch.float32)[:, 0]  # (h, m)
    torch.testing.assert_close(theirs[:, 1], torch.tensor(alibi_slopes(heads)))
    scores, seen = torch.randn(heads, 6, 6), torch.ones(6, 6).tril().bool()
    bias = AlibiBias(heads=heads).bias(torch.arange(6), torch.arange(6))

    def weights(term: torch.Tensor) -> torch.Tensor:
        return (scores + term).masked_fill(~seen, -torch.inf).softmax(-1)

    torch.testing.assert_close(weights(bias), weights(theirs[:, None]))
    assert not torch.allclose(weights(-bias), weights(theirs[:, None]), atol=1e-3)
    if heads == 12:  # the wrong variant: the rule for powers of two
        assert alibi_slopes(12) != [2 ** (-8 * (index + 1) / 12) for index in range(12)]


def test_alibi_weakens_both_sides_alike_in_an_encoder() -> None:
    bias = AlibiBias(heads=2).bias(torch.arange(5), torch.arange(5))
    assert torch.equal(bias, bias.mT)
    assert bias[:, 2].tolist() == [[-slope * abs(j - 2) for j in range(5)] for slope in (2**-4, 2**-8)]


def test_rope_halves_is_llamas() -> None:
    """Reference: transformers' apply_rotary_pos_emb (Llama)."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    q, k = torch.randn(2, 3, 7, 10), torch.randn(2, 3, 7, 10)
    rope = RotaryPosition(head_size=10)
    positions = torch.arange(7)
    frequencies = 1.0 / 10_000 ** (torch.arange(0, 10, 2) / 10)  # Llama's inv_freq
    torch.testing.assert_close(rope.frequencies(), frequencies)
    angles = torch.outer(positions.float(), frequencies)
    angles = torch.cat((angles, angles), dim=-1)[None]
    expected_q, expected_k = apply_rotary_pos_emb(q, k, angles.cos(), angles.sin())
    torch.testing.assert_close(rope.rotate(q, positions), expected_q)
    torch.testing.assert_close(rope.rotate(k, positions), expected_k)
    assert not torch.allclose(RotaryPosition(head_size=10, layout="interleaved").rotate(q, positions), expected_q)


def test_rope_layouts_are_equal_after_a_permutation() -> None:
    """Edge case: half-rotation (Llama) and interleaved (GPT-J) differ only in the order of the features."""
    q = torch.randn(1, 2, 5, 8)
    positions = torch.arange(5) + 3
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])  # interleaved → halves
    halves = RotaryPosition(head_size=8).rotate(q[..., order], positions)
    interleaved = RotaryPosition(head_size=8, layout="interleaved").rotate(q, positions)
    torch.testing.assert_close(halves, interleaved[..., order])
    assert not torch.allclose(RotaryPosition(head_size=8).rotate(q, positions), interleaved, atol=1e-3)


def test_L2_11_rope_scores_depend_on_distances_alone() -> None:
    """L2.11: shifting queries and keys together changes no score; shifting one of them does."""
    rope = RotaryPosition(head_size=8)
    q, k = torch.randn(1, 1, 6, 8), torch.randn(1, 1, 6, 8)
    at = torch.arange(6)

    def scores(query_shift: int, key_shift: int) -> torch.Tensor:
        return rope.rotate(q, at + query_shift) @ rope.rotate(k, at + key_shift).mT

    torch.testing.assert_close(scores(0, 0), scores(17, 17), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(scores(0, 0), scores(17, 0), atol=1e-2)


def test_rope_keeps_its_angles_in_float32() -> None:
    """A model in bfloat16 still turns far positions by the right angle."""
    q = torch.randn(1, 1, 1, 8)
    far = torch.tensor([1000])
    exact = RotaryPosition(head_size=8).rotate(q, far)
    half = RotaryPosition(head_size=8).bfloat16().rotate(q.bfloat16(), far)
    torch.testing.assert_close(half.float(), exact, atol=0.05, rtol=0.05)


def test_rope_takes_positions_per_line() -> None:
    rope = RotaryPosition(head_size=4)
    q = torch.randn(2, 3, 5, 4)
    rows = torch.stack([torch.arange(5), torch.arange(5) + 2])
    rotated = rope.rotate(q, rows)
    torch.testing.assert_close(rotated[:1], rope.rotate(q[:1], rows[0]))
    torch.testing.assert_close(rotated[1:], rope.rotate(q[1:], rows[1]))
