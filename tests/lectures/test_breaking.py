"""Break it yourself: the product is broken, the claims notice, and it is whole again."""

import subprocess
import sys

import pytest
import torch

import clearhead
from clearhead.attention.disentangled import DisentangledAttention, RelativeTable
from clearhead.errors import RecipeError
from clearhead.lectures import claims
from clearhead.lectures.breaks import BREAKS, Break
from clearhead.lectures.demonstrations.broken import broken

UNNOTICED = {"padding-leaks"}
"""Mutations that no claim notices."""
SLOW = {"p2c-swapped"}
"""Only a claim that takes seconds notices: here the module itself must."""


def test_the_catalogue() -> None:
    assert len(BREAKS) >= 15
    assert len({one.name for one in BREAKS}) == len(BREAKS)
    ids = {claim.id for claim in claims()}
    assert all(set(one.noticed) <= ids for one in BREAKS)
    assert {one.name for one in BREAKS if not one.noticed} == UNNOTICED


QUICK = [one for one in BREAKS if one.name not in UNNOTICED | SLOW]


@pytest.mark.parametrize("one", QUICK, ids=lambda one: one.name)
def test_what_is_said_to_notice_notices(one: Break) -> None:
    report = clearhead.break_product(one.name, one.noticed)
    assert report.noticed == one.noticed
    assert str(report).startswith(f"{one.name}: noticed by {len(one.noticed)} of {len(one.noticed)} claims")


def test_padding_leaks_is_a_break_although_no_claim_notices() -> None:
    (one,) = (one for one in BREAKS if one.name == "padding-leaks")
    context = clearhead.AttentionContext(valid=torch.tensor([[True, False]]))
    with broken(one.target, one.wrong):
        assert context.mask(2, 2, torch.device("cpu")) is None
    again = clearhead.AttentionContext(valid=torch.tensor([[True, False]]))
    assert again.mask(2, 2, torch.device("cpu")) is not None


def test_p2c_swapped_is_a_break() -> None:
    (one,) = (one for one in BREAKS if one.name == "p2c-swapped")
    torch.manual_seed(0)
    module = DisentangledAttention(width=8, heads=2, shared=RelativeTable(width=8, span=4))
    x = torch.randn(1, 5, 8)
    right = module(x)
    with broken(one.target, one.wrong):
        assert (module(x) - right).abs().max() > 1e-3
    assert torch.equal(module(x), right)


def test_the_product_is_whole_again_and_each_outcome_is_reported() -> None:
    seen = []
    report = clearhead.break_product(
        "scale-by-d", ["L1.1", "L0.4"], report=lambda outcome: seen.append(outcome.claim.id)
    )
    assert report.noticed == ("L1.1",)
    assert seen == [outcome.claim.id for outcome in report.outcomes]
    assert clearhead.demonstrate("L1.1").reproduced
    assert clearhead.break_product("hard-is-soft", ["L1.1"]).noticed == ()


def test_an_unknown_name_is_told() -> None:
    with pytest.raises(RecipeError, match="no such break; did you mean no-mask"):
        clearhead.break_product("nomask")


def test_the_lists_need_no_torch() -> None:
    code = "import sys, clearhead; clearhead.breaks(); clearhead.exercises(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
