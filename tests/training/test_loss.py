"""The loss, whole and in chunks, and the learning rate."""

import math
from collections.abc import Callable

import pytest
import torch

from clearhead.blocks import Output
from clearhead.recipe import ScheduleSpec
from clearhead.training import token_loss
from clearhead.training.schedule import rate_at


@pytest.mark.parametrize("size", [50, 2500])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_torchs_whole_or_in_chunks(size: int, bias: bool, smoothing: float) -> None:
    """Reference: torch's cross_entropy over whole logits; value and all gradients, 600 rows, more than two chunks."""
    weight = torch.randn(size, 16) * 0.3
    labels = torch.randint(0, size, (600,))

    def run(chunked: bool) -> list[torch.Tensor]:
        torch.manual_seed(0)
        output = Output(weight.clone(), bias=bias)
        if output.bias is not None:
            torch.nn.init.normal_(output.bias)
        states = torch.randn(600, 16, requires_grad=True)
        if chunked:
            loss = token_loss(states, output, labels, smoothing)
        else:
            loss = torch.nn.functional.cross_entropy(output(states), labels, reduction="sum", label_smoothing=smoothing)
        (loss / 7).backward()
        gradients = [states.grad, output.weight.grad] + ([output.bias.grad] if output.bias is not None else [])
        return [loss.detach(), *(gradient for gradient in gradients if gradient is not None)]

    for mine, other in zip(run(chunked=True), run(chunked=False), strict=True):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("bias", [False, True])
def test_chunks_smooth_by_epsilon_over_the_whole_vocabulary(bias: bool) -> None:
    """Reference: torch's cross_entropy in float64, with logits whose mean is far from 0, so that ε/V shows; the wrong
    variant is ε/(V − 1)."""
    size, epsilon = 2100, 0.2
    output = Output(torch.randn(size, 4, dtype=torch.float64) + 0.5, bias=bias)
    if output.bias is not None:
        output.bias = torch.nn.Parameter(torch.randn(size, dtype=torch.float64) + 2.0)
    states, labels = torch.randn(300, 4, dtype=torch.float64) + 1.0, torch.randint(0, size, (300,))

    def results(smoothing: float, *, chunked: bool) -> list[torch.Tensor]:
        leaf = states.clone().requires_grad_()
        if chunked:
            loss = token_loss(leaf, output, labels, smoothing)
        else:
            logits = output(leaf)
            loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=smoothing)
        return [loss.detach(), *torch.autograd.grad(loss, [leaf, *output.parameters()])]

    mine = results(epsilon, chunked=True)
    for one, right, wrong in zip(
        mine,
        results(epsilon, chunked=False),
        results(epsilon * size / (size - 1), chunked=False),
        strict=True,
    ):
        torch.testing.assert_close(one, right, atol=1e-9, rtol=1e-9)
        assert not torch.allclose(one, wrong, atol=1e-9, rtol=1e-9)


@pytest.mark.parametrize("bias", [False, True])
def test_chunks_round_factors_under_autocast_and_nothing_else(bias: bool) -> None:
    """Reference: the loss whose logits torch's autocast computes as a whole; the wrong variants also round the sum of
    the chunks' gradients, or do not round at all."""
    torch.manual_seed(0)
    rows, size = 1100, 2500  # five chunks
    output = Output(torch.randn(size, 16) * 0.3, bias=bias)
    states, labels = torch.randn(rows, 16), torch.randint(0, size, (rows,))

    def results(*, chunked: bool, rounded: bool) -> list[torch.Tensor]:
        leaf = states.clone().requires_grad_()
        with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
            if chunked:
                loss = token_loss(leaf, output, labels, 0.1)
            else:
                logits = output(leaf).float()
                loss = torch.nn.functional.cross_entropy(logits, labels, reduction="sum", label_smoothing=0.1)
        return [loss.detach(), *torch.autograd.grad(loss, [leaf, *output.parameters()])]

    mine, whole = results(chunked=True, rounded=True), results(chunked=False, rounded=True)
    exact = results(chunked=True, rounded=False)
    assert {part.dtype for part in mine} == {torch.float32}
    for one, other, unrounded in zip(mine, whole, exact, strict=True):
        distance = (one - unrounded).norm() / unrounded.norm()
        assert distance < 0.01
        assert (one - other).norm() / other.norm() < 0.01
    assert (mine[2] - exact[2]).norm() / exact[2].norm() > 1e-5  # products of rounded factors
    assert not torch.equal(mine[2], mine[2].bfloat16().float())  # but a sum of float32


@pytest.mark.parametrize("size", [50, 2500])
@pytest.mark.parametrize("bias", [False, True])
def test_two_passes_agree_as_in_r_drop(size: int, bias: bool) -> None:
    """Reference: the loss as Liang et al. (2021) write it, by torch's cross_entropy and kl_div in float64, for 300
    rows, more than two chunks; the wrong variants have one divergence alone, or none."""
    torch.manual_seed(0)
    output = Output(torch.randn(size, 8, dtype=torch.float64), bias=bias)
    if output.bias is not None:
        output.bias = torch.nn.Parameter(torch.randn(size, dtype=torch.float64))
    states, labels = torch.randn(2, 300, 8, dtype=torch.float64), torch.randint(0, size, (300,))

    def written_out(leaf: torch.Tensor, *, both: float = 1.0, alpha: float = 5.0) -> torch.Tensor:
        logits = output(leaf)
        losses = [torch.nn.functional.cross_entropy(x, labels, reduction="sum", label_smoothing=0.1) for x in logits]
        p, q = logits.log_softmax(-1)
        there, back = (
            torch.nn.functional.kl_div(one, other, reduction="sum", log_target=True) for one, other in ((q, p), (p, q))
        )
        return sum(losses) / 2 + alpha / 4 * (there + both * back)

    def results(loss: Callable[[torch.Tensor], torch.Tensor]) -> list[torch.Tensor]:
        leaf = states.clone().requires_grad_()
        found = loss(leaf)
        return [found.detach(), *torch.autograd.grad(found, [leaf, *output.parameters()])]

    mine = results(lambda leaf: token_loss(leaf, output, labels, 0.1, agreement=5.0))
    for one, right, one_sided, without in zip(
        mine,
        results(written_out),
        results(lambda leaf: written_out(leaf, both=0.0)),
        results(lambda leaf: written_out(leaf, alpha=0.0)),
        strict=True,
    ):
        torch.testing.assert_close(one, right, atol=1e-8, rtol=1e-8)
        assert not torch.allclose(one, one_sided, atol=1e-4, rtol=1e-4)
        assert not torch.allclose(one, without, atol=1e-4, rtol=1e-4)


def test_chunks_reject_a_forgotten_term() -> None:
    """The wrong variant: smoothing left out is noticed."""
    torch.manual_seed(0)
    output = Output(torch.randn(2500, 16))
    states, labels = torch.randn(600, 16), torch.randint(0, 2500, (600,))
    smoothed, plain = (float(token_loss(states, output, labels, smoothing).detach()) for smoothing in (0.1, 0.0))
    assert abs(smoothed - plain) > 1


def test_schedules() -> None:
    """Up to 1 during the warm-up; then a cosine or a line to 0, 1/√step, or nothing."""
    for kind in ("cosine", "linear", "inverse-sqrt", "constant"):
        spec = ScheduleSpec(kind=kind, warmup=10)
        rates = [rate_at(step, spec, 100) for step in range(101)]
        assert rates[0] == pytest.approx(0.1)
        assert rates[9] == pytest.approx(1.0)
        assert all(0 <= rate <= 1 for rate in rates)
    assert rate_at(55, ScheduleSpec(kind="cosine", warmup=10), 100) == pytest.approx(0.5)
    assert rate_at(55, ScheduleSpec(kind="linear", warmup=10), 100) == pytest.approx(0.5)
    assert rate_at(39, ScheduleSpec(kind="inverse-sqrt", warmup=10), 100) == pytest.approx(math.sqrt(10 / 40))
    assert rate_at(100, ScheduleSpec(kind="cosine", warmup=10), 100) == pytest.approx(0.0)
    assert rate_at(3, ScheduleSpec(warmup=0.04), 100) == pytest.approx(1.0)
