"""The comparison of a look with other libraries: equal numbers pass, and wrong variants do not."""

from collections.abc import Iterator
from functools import cache

import pytest
import torch
from benchmarks.look_peers import (
    BASELINE,
    Case,
    Difference,
    Pair,
    Size,
    difference,
    imported,
    our_attention,
    our_gradients,
    our_lens,
    reference,
    side_by_side,
    transformers_attention,
    transformers_lens,
)
from torch import Tensor

KINDS = ("bert", "gpt2")
STEPS = 8


@cache
def case(kind: str) -> Case:
    model = reference(kind, Size(layers=2, width=16, heads=2, vocabulary=50))
    return Case(kind, model, imported(model), [7, 31, 12, 44, 9, 20], STEPS)


def by_hand(of: Case, shares: Tensor) -> Tensor:
    """Integrated gradients of the last token's log p in transformers' model, from what leaves its embedding."""
    place = len(of.ids) - 1
    row = place if of.kind == "bert" else place - 1
    layer = of.model.bert.embeddings if of.kind == "bert" else of.model.transformer.drop
    ends: list[Tensor] = []
    noting = layer.register_forward_hook(lambda _layer, _args, out: ends.append(out.detach()))
    of.model(of.tokens)
    of.model(torch.full_like(of.tokens, BASELINE))
    noting.remove()
    full, empty = ends
    total = torch.zeros_like(full)
    for share in shares.tolist():
        here = (empty + share * (full - empty)).requires_grad_()
        putting = layer.register_forward_hook(lambda _layer, _args, _out, here=here: here)
        log_p = of.model(of.tokens).logits[0, row].log_softmax(-1)[of.ids[place]]
        putting.remove()
        total += torch.autograd.grad(log_p, here)[0]
    return ((full - empty) * total / len(shares)).sum(-1)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_attention_is_the_same_and_heads_in_another_order_are_not(kind: str) -> None:
    mine, theirs = (
        our_attention(case(kind).look()),
        torch.cat(transformers_attention(case(kind).model, case(kind).tokens)),
    )
    assert difference("attention", mine, theirs).holds
    assert not difference("attention", mine.roll(1, dims=1), theirs).holds


@pytest.mark.parametrize("kind", KINDS)
def test_the_lens_is_the_same_and_one_layer_off_is_not(kind: str) -> None:
    mine, theirs = our_lens(case(kind).look()), transformers_lens(case(kind).model, case(kind).tokens)
    assert difference("logit lens", mine, theirs).holds
    assert not difference("logit lens", mine.roll(1, dims=0), theirs).holds


def test_a_lens_without_the_final_norm_is_rejected() -> None:
    model, mine = case("gpt2").model, our_lens(case("gpt2").look())
    with torch.no_grad():
        states = model(case("gpt2").tokens, output_hidden_states=True).hidden_states
        wrong = torch.cat([model.lm_head(state) for state in states]).log_softmax(-1)
    assert not difference("logit lens", mine, wrong).holds


@pytest.mark.parametrize("kind", KINDS)
def test_integrated_gradients_are_the_same_and_left_ends_are_not(kind: str) -> None:
    mine = our_gradients(case(kind).look(), len(case(kind).ids) - 1, STEPS)
    left = torch.arange(STEPS) / STEPS
    assert difference("integrated gradients", mine, by_hand(case(kind), left + 0.5 / STEPS)).holds
    assert not difference("integrated gradients", mine, by_hand(case(kind), left)).holds


def test_other_shapes_are_no_comparison() -> None:
    with pytest.raises(ValueError, match="not the same thing"):
        difference("attention", torch.zeros(2, 3), torch.zeros(3))


def test_nan_is_not_the_same() -> None:
    assert not Difference(float("nan"), 1.0, 1e-5).holds


def test_a_peer_that_is_not_installed_is_left_out_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    def absent(_case: Case) -> Iterator[Pair]:
        raise ImportError("No module named 'absent'")
        yield

    def wrong(_case: Case) -> Iterator[Pair]:
        yield Pair("attention", "wrong", lambda: torch.ones(2), lambda: torch.zeros(2))

    good, missing = side_by_side(case("bert"), 1, {"absent": absent, "wrong": wrong})
    assert missing == {"absent": "ImportError: No module named 'absent'"}
    assert not good
    assert "FAILS" in capsys.readouterr().out
