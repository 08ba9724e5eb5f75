"""Roles of heads on weights whose role is known, and how much heads overlap."""

from typing import Any

import pytest
import torch

from clearhead.inspection import Reading, RoleSums
from clearhead.inspection.roles import OverlapSums

LENGTHS = torch.tensor([6, 4])
EYE = torch.eye(6)


def role_of(weights: torch.Tensor, reading: Reading) -> Any:
    sums = RoleSums(1)
    sums.add(weights.expand(2, 1, 6, 6), reading)
    return sums.roles()[0]


@pytest.mark.parametrize(
    ("role", "matrix"),
    [
        ("previous", EYE.roll(-1, 1)),
        ("next", EYE.roll(1, 1)),
        ("same", EYE),
        ("first", EYE[:1].expand(6, 6)),
    ],
)
def test_a_sharp_head_has_its_role(role: str, matrix: torch.Tensor) -> None:
    found, score = role_of(matrix, Reading(LENGTHS, LENGTHS))
    assert found == role
    assert score == pytest.approx(1.0)
    # the wrong variant: the same head read from keys to queries
    turned = {"previous": "next", "next": "previous", "same": "same"}.get(role)
    assert turned is None or role_of(matrix.T, Reading(LENGTHS, LENGTHS))[0] == turned


def test_the_last_token_is_that_of_the_line_and_not_of_the_batch() -> None:
    weights = torch.zeros(2, 1, 6, 6)
    weights[0, :, :, 5] = weights[1, :, :, 3] = 1.0
    sums = RoleSums(1)
    sums.add(weights, Reading(LENGTHS, LENGTHS))
    ((role, score),) = sums.roles()
    assert role == "last"
    assert score == pytest.approx(1.0)


def test_equal_weights_are_broad_with_and_without_a_causal_mask() -> None:
    whole = torch.zeros(2, 1, 6, 6)
    whole[0], whole[1, :, :, :4] = 1 / 6, 1 / 4
    causal = torch.ones(6, 6).tril()
    for weights, reading in (
        (whole, Reading(LENGTHS, LENGTHS)),
        (causal / causal.sum(-1, keepdim=True), Reading(LENGTHS, LENGTHS, causal=True)),
        (whole, Reading(LENGTHS, LENGTHS, cross=True)),
    ):
        role, score = role_of(weights, reading)
        assert role == "broad"
        assert score == pytest.approx(1.0, abs=1e-6)


def test_cross_attention_along_the_diagonal() -> None:
    monotone = Reading(torch.tensor([6, 6]), torch.tensor([6, 6]), cross=True)
    assert role_of(EYE, monotone) == ("diagonal", pytest.approx(1.0))
    assert role_of(EYE.flip(0), monotone)[0] == "broad"  # backwards is not along


def test_induction_looks_after_the_earlier_equal_token() -> None:
    ids = torch.tensor([[5, 6, 7, 5, 6, 7]]).expand(2, 6)
    weights = torch.eye(6)
    for query, key in ((3, 1), (4, 2), (5, 3)):  # 5 6 7 5: after the first 5 came 6
        weights[query] = torch.eye(6)[key]
    lengths = torch.tensor([6, 6])
    assert role_of(weights, Reading(lengths, lengths, causal=True, ids=ids)) == ("induction", pytest.approx(1.0))
    other = torch.tensor([[5, 6, 7, 8, 9, 4]]).expand(2, 6)  # nothing is repeated
    assert role_of(weights, Reading(lengths, lengths, causal=True, ids=other))[0] != "induction"


def test_overlap_is_one_for_equal_heads_and_zero_for_heads_that_share_no_token() -> None:
    weights = torch.stack([EYE, EYE, EYE.roll(1, 1), torch.full((6, 6), 1 / 6)]).expand(2, 4, 6, 6)
    sums = OverlapSums(4)
    sums.add(weights, LENGTHS)
    expected = torch.tensor([1.0, 1.0, 0.0, 6**-0.5]).double()
    torch.testing.assert_close(sums.values()[0], expected, atol=1e-6, rtol=0)
