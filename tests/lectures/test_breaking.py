"""Break it yourself: the product is broken, the claims notice, and it is whole again."""

import subprocess
import sys

import pytest
import torch

import clearhead
from clearhead.attention.disentangled import DisentangledAttention, RelativeTable
from clearhead.errors import RecipeError
from clearhead.lectures import claims
from clearhead.lectures.demonstrations.broken import broken
from clearhead.lectures.mutations import BREAKS, Break

SLOW = {"p2c-swapped", "mask-off-by-one", "padding-leaks"}
"""Noticed by claims that take seconds: here the parts themselves are asked."""
FALLS_OVER = {"no-mask"}
"""L1.9 looks at the pairs that are masked, and finds none."""


def test_the_catalogue() -> None:
    assert len(BREAKS) >= 15
    assert len({one.name for one in BREAKS}) == len(BREAKS)
    ids = {claim.id for claim in claims()}
    assert all(set(one.noticed) <= ids for one in BREAKS)
    assert all(one.noticed for one in BREAKS)


QUICK = [one for one in BREAKS if one.name not in SLOW]


@pytest.mark.parametrize("one", QUICK, ids=lambda one: one.name)
def test_what_is_said_to_notice_notices(one: Break) -> None:
    report = clearhead.break_product(one.name, one.noticed)
    assert report.noticed == one.noticed
    if one.name not in FALLS_OVER:
        assert [outcome.error for outcome in report.outcomes if outcome.error] == [], "wrong, and yet it must run"
    assert str(report).startswith(f"{one.name}: noticed by {len(one.noticed)} of {len(one.noticed)} claims")


def test_masks_are_broken_as_said() -> None:
    by_name = {one.name: one for one in BREAKS}
    valid = torch.tensor([[True, False]])
    for name, wrong in (
        ("mask-off-by-one", [[True, True], [True, True]]),
        ("padding-leaks", [[True, False], [True, True]]),
    ):
        with broken(by_name[name].target, by_name[name].wrong):
            kept = None if name == "mask-off-by-one" else valid
            mask = clearhead.AttentionContext(causal=True, valid=kept).mask(2, 2, torch.device("cpu"))
            assert mask is not None
            assert mask.tolist() == wrong
    right = clearhead.AttentionContext(causal=True, valid=valid).mask(2, 2, torch.device("cpu"))
    assert right is not None
    assert right.tolist() == [[[[True, False], [True, False]]]]


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
