"""Recording changes nothing, and leaves nothing behind: over every attention, position and norm of the registry."""

import threading
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.errors import RecipeError
from clearhead.inspection import Record, heads_off, record
from clearhead.inspection.contributions import head_outputs, norms_inside, token_contributions
from clearhead.inspection.parts import why_not
from tests.inspection.cases import apart, check_parts, ids, pixels, shaken
from tests.inspection.conftest import Hold
from tests.models.zoo import GRID_VARIANTS, RECURRENT, RECURRENT_LM, VARIANTS, make, make_grid

SOURCE, TARGET = ids(3, 8), ids(3, 6, seed=4)
SOURCE[1, 5:] = 0
ALONE = SOURCE[1:2, :5]


def weights(found: Record) -> list[Tensor]:
    return [part.weights for _, _, parts in found.attentions() for part in parts]


def check_rows(found: Record, hold: Hold) -> None:
    for _, _, parts in found.attentions():
        for part in parts:
            sums = part.chosen.sum(-1)
            hold("attention rows sum to 1", 1e-6, apart(sums, torch.ones_like(sums)))


def check_sums(found: Record, hold: Hold) -> None:
    """Σ over (head, source token) + b_O = the output of the attention; wrong: the strongest is forgotten."""
    for _, _, parts in found.attentions():
        for part in parts:
            each = token_contributions(part)
            bias = 0.0 if part.output_bias is None else part.output_bias
            seen = apart(each.sum((1, 3)) + bias, part.out)
            by_head = apart(head_outputs(part).sum(1) + bias, part.out)
            sizes = each.norm(dim=-1, keepdim=True)
            lacking = apart((each * (sizes < sizes.amax())).sum((1, 3)) + bias, part.out)
            hold("Σ (head, token) + b_O = output of the attention", 1e-5, max(seen, by_head), lacking)
            truth = each.norm(dim=-1)
            name = "norms without the vectors = norms of the vectors"
            hold(name, 1e-5, apart(truth, norms_inside(part)), apart(truth, part.inside.abs()))


@pytest.mark.parametrize("variant", [*VARIANTS, *RECURRENT])
def test_watched_is_unwatched_and_alone_is_in_a_batch(variant: str, hold: Hold) -> None:
    model = shaken(make("seq2seq", variant))
    unwatched = model(SOURCE, TARGET)
    found = record(model, SOURCE, TARGET)
    again = model(SOURCE, TARGET)
    other = record(model, ids(3, 8, seed=9), TARGET).logits
    hold("watched = unwatched", 1e-5, apart(found.logits, unwatched), apart(other, unwatched))
    assert torch.equal(unwatched, again), "something stays behind"
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    alone = record(model, ALONE, TARGET[1:2])
    for one, many in zip(weights(alone), weights(found), strict=True):
        n, m = one.shape[2:]
        hold(
            "alone = in a batch (attention)", 1e-5, apart(one[0], many[1, :, :n, :m]), apart(one[0], many[2, :, :n, :m])
        )
    for stack, one_stack in alone.stacks.items():
        for one, many in zip(one_stack.streams, found.stacks[stack].streams, strict=True):
            scale = float(one.abs().max().clamp(min=1))
            near, other = (apart(one[0], many[row, : one.shape[1]]) / scale for row in (1, 2))
            hold("alone = in a batch (residual streams)", 1e-5, near, other)
    check_rows(alone, hold)  # in a batch, a window of padding alone has no weights
    check_rows(record(model, SOURCE[::2], TARGET[::2]), hold)
    check_sums(alone, hold)
    if why_not(model) is None:
        check_parts(model, alone, hold)
    else:
        assert variant in RECURRENT


@pytest.mark.parametrize("variant", list(GRID_VARIANTS))
def test_pictures(variant: str, hold: Hold) -> None:
    model = shaken(make_grid("classifier", variant))
    inputs = pixels(2)
    found, alone = record(model, inputs), record(model, inputs[1:])
    hold("watched = unwatched", 1e-5, apart(found.logits, model(inputs)), apart(found.logits, model(inputs.flip(0))))
    for one, many in zip(weights(alone), weights(found), strict=True):
        assert one.shape[-1] == one.shape[-2] >= 32, "over the whole grid"
        hold("alone = in a batch (attention)", 1e-5, apart(one[0], many[1]))
    check_rows(found, hold)
    check_sums(alone, hold)
    if why_not(model) is None:
        check_parts(model, alone, hold)
    else:
        assert "over the sequence" in variant


@pytest.mark.parametrize("family", ["lm", "encoder", "classifier"])
def test_other_families(family: str, hold: Hold) -> None:
    model = shaken(make(family, "plain", *(["model.head=tokens"] if family == "encoder" else [])))
    found = record(model, None, TARGET) if family == "lm" else record(model, TARGET)
    states = model(TARGET)
    plain = model.output(states) if family == "encoder" else states
    hold("watched = unwatched", 1e-5, apart(found.logits, plain), apart(found.logits, plain.flip(0)))
    check_rows(found, hold)
    check_sums(found, hold)


@pytest.mark.parametrize("variant", list(RECURRENT_LM))
def test_a_model_without_attention_has_no_weights(variant: str) -> None:
    model = make("lm", variant)
    found = record(model, None, TARGET)
    assert weights(found) == []
    assert apart(found.logits, model(TARGET)) <= 1e-5


def test_rows_that_do_not_sum_to_one_are_rejected(hold: Hold) -> None:
    found = record(make("seq2seq", "Linformer headwise"), SOURCE, TARGET)
    (part,) = next(parts for stack, _, parts in found.attentions() if stack == "encoder")
    over_slots, over_tokens = part.chosen.sum(-1), part.weights.sum(-1)
    hold("attention rows sum to 1", 1e-6, apart(over_slots, torch.ones(())), apart(over_tokens, torch.ones(())))
    assert part.chosen.shape[-1] == 3
    assert part.weights.shape[-1] == SOURCE.shape[1]


def test_values_of_positions_belong_to_the_contributions(hold: Hold) -> None:
    """Shaw's value vectors: leaving them out is the wrong variant."""
    model = shaken(make("seq2seq", "Shaw values"))
    part = next(parts[0] for _, _, parts in record(model, ALONE, TARGET[1:2]).attentions())
    bias = part.output_bias
    assert bias is not None
    right = token_contributions(part).sum((1, 3)) + bias
    values_only = (part.inside @ part.values).transpose(1, 2).flatten(2)
    wrong = part.part.output(values_only)  # type: ignore[operator]
    hold("Σ (head, token) + b_O = output of the attention", 1e-5, apart(right, part.out), apart(wrong, part.out))


def test_hooks_are_gone_after_an_error() -> None:
    model = make("seq2seq", "plain")
    with pytest.raises(IndexError):
        record(model, torch.tensor([[999]]), TARGET[:1])
    with pytest.raises(RecipeError, match="no such head"):
        record(model, SOURCE, TARGET, off=["cross.9.1"])
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())


def test_threads_do_not_see_each_other() -> None:
    model = make("seq2seq", "plain")
    lines = [ids(1, 4 + number, seed=number) for number in range(6)]
    alone = [
        record(model, line, TARGET[:1], off=["cross.1.1"] if number % 2 else []) for number, line in enumerate(lines)
    ]
    found: list[Any] = [None] * len(lines)

    def work(number: int) -> None:
        for _ in range(3):
            found[number] = record(model, lines[number], TARGET[:1], off=["cross.1.1"] if number % 2 else [])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(lines))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for one, many in zip(alone, found, strict=True):
        assert torch.equal(one.logits, many.logits)
        assert len(weights(one)) == len(weights(many)) == 6


def test_a_head_that_is_off_brings_nothing(hold: Hold) -> None:
    model = shaken(make("seq2seq", "position shaw"))
    with heads_off(model, ["decoder.1.2"]):
        expected = model(ALONE, TARGET[1:2])
    found = record(model, ALONE, TARGET[1:2], off=["decoder.1.2"])
    hold(
        "head off, replayed = head off",
        1e-5,
        apart(found.logits, expected),
        apart(found.logits, model(ALONE, TARGET[1:2])),
    )
    (part,) = next(parts for stack, _, parts in found.attentions() if stack == "decoder")
    assert norms_inside(part)[:, 1].abs().max() == 0
    check_sums(found, hold)
