"""Batches: every pair once an epoch, within the budget, little padding, and an order that follows from its numbers."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import (
    BOS,
    EOS,
    PAD,
    Codec,
    EncodedPairs,
    EncodedTexts,
    EpochPlan,
    make_batch,
    padding_share,
    window_batch,
)
from clearhead.data.arrays import Side, read_encoded, write_encoded


def encoded(lengths: list[tuple[int, int]]) -> EncodedPairs:
    def side(sizes: list[int]) -> Side:
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        return Side(np.arange(4, 4 + starts[-1], dtype=np.uint32), starts)

    return EncodedPairs(side([s for s, _ in lengths]), side([t for _, t in lengths]), too_long=0)


lengths = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), min_size=1, max_size=60)


@given(lengths, st.integers(16, 200), st.integers(1, 80), st.integers(0, 5), st.integers(0, 3))
@settings(max_examples=100, deadline=None)
def test_every_pair_once_within_the_budget(
    sizes: list[tuple[int, int]], budget: int, window: int, seed: int, epoch: int
) -> None:
    pairs = encoded(sizes)
    batches = list(EpochPlan(pairs, seed=seed, epoch=epoch, batch_tokens=budget, window=window))
    assert sorted(np.concatenate(batches).tolist()) == list(range(len(sizes)))
    for rows in batches:
        longest = max(max(sizes[row]) + 1 for row in rows.tolist())
        assert len(rows) == 1 or longest * len(rows) <= budget
    again = list(EpochPlan(pairs, seed=seed, epoch=epoch, batch_tokens=budget, window=window))
    assert all(np.array_equal(mine, other) for mine, other in zip(batches, again, strict=True))


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    pairs = encoded([(i % 9 + 1, i % 7 + 1) for i in range(300)])

    def order(seed: int, epoch: int) -> list[int]:
        plan = EpochPlan(pairs, seed=seed, epoch=epoch, batch_tokens=64, window=100)
        return [int(row) for rows in plan for row in rows]

    assert len({tuple(order(*key)) for key in ((1, 0), (1, 1), (2, 0), (2, 1))}) == 4


def test_long_and_short_batches_come_in_no_order() -> None:
    """Inside a window, examples are sorted by length, but their batches are not."""
    pairs = encoded([(i % 20 + 1, i % 20 + 1) for i in range(300)])
    plan = EpochPlan(pairs, seed=1, epoch=0, batch_tokens=64, window=300)
    longest = [int(pairs.sizes_of(rows)[1].max()) for rows in plan]
    assert sorted(longest) != longest
    assert sorted(longest, reverse=True) != longest


def test_a_language_model_is_fed_all_but_the_last_token_and_says_all_but_the_first() -> None:
    texts = EncodedTexts(
        Side(np.array([1, 7, 8, 2, 1, 9, 2], dtype=np.uint32), np.array([0, 4, 7])), np.zeros(0, dtype=np.int64), 0
    )
    batch = window_batch(texts, np.array([0, 1]))
    assert batch.inputs.tolist() == [[1, 7, 8], [1, 9, PAD]]
    assert batch.labels.tolist() == [[7, 8, 2], [9, 2, PAD]]
    assert batch.tokens == 5


def test_bucketing_saves_padding() -> None:
    """Lengths like those of pronunciations: below 5 %, where random batches waste a third and more."""
    rng = np.random.default_rng(0)
    source = rng.integers(3, 16, 5000)
    pairs = encoded([(int(s), int(max(1, s - rng.integers(0, 4)))) for s in source])
    plan = EpochPlan(pairs, seed=1, epoch=0, batch_tokens=1024, window=5000)
    shuffled = np.array_split(rng.permutation(5000), 50)
    assert padding_share(pairs, plan) < 0.05
    assert padding_share(pairs, list(shuffled)) > 0.3


def test_a_batch_is_ended_shifted_and_padded() -> None:
    batch = make_batch(encoded([(2, 1), (1, 3)]), np.array([0, 1]))
    assert batch.source.tolist() == [[4, 5, EOS], [6, EOS, PAD]]
    assert batch.labels.tolist() == [[4, EOS, PAD, PAD], [5, 6, 7, EOS]]
    assert batch.inputs.tolist() == [[BOS, 4, PAD, PAD], [BOS, 5, 6, 7]]
    assert batch.tokens == 6
    assert batch.source.dtype == torch.long


def test_arrays_come_back_from_disk(tmp_path: Path) -> None:
    codec = Codec.learn("characters", ["abc"])
    blocks = [  # sources and targets
        [["ab", "a" * 11, "c" * 10], ["c", "b", "a" * 10]],
        [["c", "b"], ["abc", "b" * 11]],
        [["bb", "ba"], ["ca", "cab"]],
    ]
    write_encoded(blocks, codec, codec, tmp_path, "train", max_length=10)
    again = read_encoded(tmp_path, "train")
    assert len(again) == 5
    assert again.too_long == 2
    for side, expected in (
        (again.source, ["ab", "c" * 10, "c", "bb", "ba"]),
        (again.target, ["c", "a" * 10, "abc", "ca", "cab"]),
    ):
        assert codec.decode([side.line(index).tolist() for index in range(5)]) == expected
    assert isinstance(again.source.ids, np.memmap)
    with pytest.raises(IndexError):
        again.source.starts[9]
