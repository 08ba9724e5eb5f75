"""The product is broken only while it is measured, only in one thread, and everywhere it was imported."""

import threading

import pytest
import torch

import clearhead.attention
import clearhead.attention.context
from clearhead.attention import AttentionContext
from clearhead.attention.context import causal_mask
from clearhead.lectures.demonstrations import toy
from clearhead.lectures.demonstrations.broken import broken, broken_block, damage
from clearhead.lectures.demonstrations.learning import idle_step
from clearhead.lectures.evidence import Measure

MASK = "clearhead.attention.context.causal_mask"


def test_a_function_is_broken_wherever_it_was_imported_and_repaired() -> None:
    right = causal_mask
    with broken(MASK, lambda right: lambda *sizes: ~right(*sizes)):
        assert clearhead.attention.causal_mask is clearhead.attention.context.causal_mask is not right
        assert clearhead.attention.causal_mask(2, 2).tolist() == [[False, True], [False, False]]
    assert clearhead.attention.causal_mask is clearhead.attention.context.causal_mask is right


def test_it_is_repaired_after_an_error() -> None:
    def fail() -> None:
        with broken(MASK, lambda right: right):
            raise KeyError("x")

    with pytest.raises(KeyError):
        fail()
    assert clearhead.attention.causal_mask is causal_mask


def test_other_threads_keep_the_right_one() -> None:
    seen: list[bool] = []
    with broken(MASK, lambda right: lambda *sizes: ~right(*sizes)):
        thread = threading.Thread(target=lambda: seen.append(bool(clearhead.attention.causal_mask(1, 1)[0, 0])))
        thread.start()
        thread.join()
        seen.append(bool(clearhead.attention.causal_mask(1, 1)[0, 0]))
    assert seen == [True, False]


def test_methods_too() -> None:
    name = "clearhead.attention.context.AttentionContext._make_mask"
    before = vars(AttentionContext)["_make_mask"]
    with broken(name, lambda right: lambda self, *sizes: torch.zeros(1)):
        mask = AttentionContext(causal=True)._make_mask(2, 2, torch.device("cpu"))
        assert mask is not None
        assert mask.numel() == 1
    assert vars(AttentionContext)["_make_mask"] is before


def test_a_block_that_fails_is_rejected_and_named() -> None:
    def measure() -> Measure:
        return Measure("corner", False, bool(clearhead.attention.causal_mask(2, 2)[0, 1]))

    assert measure().agrees
    wrong = broken_block("the mask inverted", MASK, lambda right: lambda *sizes: ~right(*sizes), measure)
    assert (wrong.rejected, wrong.broken) == (True, MASK)

    def fails(*_: int) -> None:
        raise RuntimeError("no")

    assert broken_block("no mask at all", MASK, lambda right: fails, measure).rejected


def test_a_name_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(AttributeError), broken("clearhead.attention.context.no_such_mask", lambda right: right):
        pass


def test_what_was_learnt_while_broken_is_not_kept_and_what_was_learnt_before_is_not_used() -> None:
    """A cached model would outlive the damage, and one from before would hide it."""
    step = "clearhead.training.trainer.Trainer._step"
    assert damage() == ()
    with broken(step, lambda right: idle_step):
        (outer,) = damage()
        first = toy.trained(3)
        assert toy.trained(3) is first
        with broken(MASK, lambda right: right):
            assert damage()[0] == outer
            assert toy.trained(3) is not first
    assert damage() == ()
    with broken(step, lambda right: idle_step):
        assert toy.trained(3) is not first
    for mine, other in zip(first.parameters(), toy.untrained(3).parameters(), strict=True):
        assert torch.equal(mine, other)
