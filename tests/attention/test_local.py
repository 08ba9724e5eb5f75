"""Restricted self-attention: blocks against a band mask over all pairs, and against a loop."""

import pytest
import torch
from torch import Tensor

from clearhead.attention import AttentionContext, KeyValues, LocalAttention, MultiHeadAttention, band
from clearhead.costing.tracing import counted_macs
from clearhead.positions import ShawPosition, positions_of

WIDTH, HEADS = 8, 2


def _pair(window: int, sides: str, **settings: object) -> tuple[LocalAttention, MultiHeadAttention]:
    """Local attention and full attention with the same weights."""
    torch.manual_seed(3)
    local = LocalAttention(width=WIDTH, heads=HEADS, window=window, sides=sides, **settings)  # type: ignore[arg-type]
    full = MultiHeadAttention(width=WIDTH, heads=HEADS, **settings)
    full.load_state_dict(local.state_dict())
    return local, full


def _expected(full: MultiHeadAttention, x: Tensor, before: int, after: int, **context: object) -> Tensor:
    """The reference: attention over all pairs, of which a mask leaves the windows."""
    length = torch.arange(x.shape[1])
    pairs = band(length, length, before=before, after=after)
    return full(x, context=AttentionContext(pairs=pairs, **context))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["explicit", "fused", "auto"])
@pytest.mark.parametrize(
    ("window", "sides", "before", "after"),
    [(2, "one", 1, 0), (4, "one", 3, 0), (3, "both", 1, 1), (7, "both", 3, 3), (40, "one", 39, 0)],
)
@pytest.mark.parametrize("length", [1, 2, 3, 6, 13])
def test_blocks_equal_full_attention_with_a_band_mask(
    path: str, window: int, sides: str, before: int, after: int, length: int
) -> None:
    """Every length against every window, with and without padding; a window that is one wider is rejected."""
    local, full = _pair(window, sides)
    local.path = path  # type: ignore[assignment]
    x = torch.randn(3, length, WIDTH)
    torch.testing.assert_close(local(x), _expected(full, x, before, after))
    valid = torch.ones(3, length, dtype=torch.bool)
    valid[1, length // 2 + 1 :] = False
    torch.testing.assert_close(
        local(x, context=AttentionContext(valid=valid)), _expected(full, x, before, after, valid=valid)
    )
    if length > before + 1:
        assert not torch.allclose(local(x), _expected(full, x, before + 1, after), atol=1e-4)
        assert not torch.allclose(local(x), _expected(full, x, before - 1, after), atol=1e-4)


def test_band_is_a_loop_over_pairs() -> None:
    """Key j is in the window of query i if −before ≤ j − i ≤ after."""
    mask = band(torch.arange(2, 7), torch.arange(7), before=2, after=1)
    assert mask.tolist() == [[-2 <= j - i <= 1 for j in range(7)] for i in range(2, 7)]


def test_the_window_counts_keys_its_own_included() -> None:
    """r = 5: five weights in the middle of a line, on both sides and on one; they are shown as n×n, as elsewhere."""
    for sides, seen in (("one", [0, 1, 2, 3, 4]), ("both", [2, 3, 4, 5, 6])):
        local, _ = _pair(5, sides)
        shown: list[Tensor] = []
        local.weights.register_forward_hook(lambda _m, _i, out, shown=shown: shown.append(out))
        x = torch.randn(1, 9, WIDTH)
        looked_at = local(x)
        (weights,) = shown
        assert weights.shape == (1, HEADS, 9, 9)
        assert weights[0, 0, 4].nonzero().flatten().tolist() == seen
        local.weights._forward_hooks.clear()
        torch.testing.assert_close(local(x), looked_at)  # what a hook reads is what is computed without it


def test_a_hook_can_change_the_weights() -> None:
    local, _ = _pair(3, "one")
    x = torch.randn(1, 6, WIDTH)
    local.weights.register_forward_hook(lambda _m, _i, out: torch.zeros_like(out))
    torch.testing.assert_close(local(x), local.output.bias.expand(1, 6, WIDTH))


def test_gradients() -> None:
    """gradcheck in float64 through padding, blocks and mask, with relative positions."""
    torch.manual_seed(0)
    local = LocalAttention(width=4, heads=2, window=3).double()
    scheme = ShawPosition(head_size=2, value_size=2, farthest=1).double()
    x = torch.randn(2, 5, 4, dtype=torch.float64, requires_grad=True)
    where = torch.arange(5)
    valid = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])

    def run(tokens: Tensor) -> Tensor:
        out: Tensor = local(tokens, context=AttentionContext(valid=valid, scheme=scheme, queries=where, keys=where))
        return out

    assert torch.autograd.gradcheck(run, (x,))


def test_padding_between_tokens_is_passed_by() -> None:
    """Windows count tokens, not columns: with a hole, as left by prompts of unequal length, a line is as without it."""
    local, _ = _pair(3, "one")
    line = torch.randn(1, 6, WIDTH)
    holed = torch.cat((line[:, :2], torch.randn(1, 2, WIDTH), line[:, 2:]), dim=1)
    valid = torch.tensor([[True] * 2 + [False] * 2 + [True] * 4])
    where = positions_of(8, valid, line.device)
    context = AttentionContext(valid=valid, causal=True, queries=where, keys=where)
    got = local(holed, context=context)[:, valid[0]]
    alone = local(line, context=AttentionContext(causal=True))
    torch.testing.assert_close(got, alone)
    by_column = local(holed, context=AttentionContext(valid=valid, causal=True))[:, valid[0]]
    assert not torch.allclose(by_column, alone, atol=1e-4)  # the wrong variant


def test_work_is_linear_in_the_length_and_decoding_does_not_grow() -> None:
    """4·⌈n/c⌉·c²·d beside the projections, c = r − 1; a step with 100 cached tokens costs what one with r does."""
    local, _ = _pair(5, "one")
    local.path = "explicit"
    for length in (8, 16, 30, 100):
        x = torch.randn(1, length, WIDTH)
        mixing = counted_macs(lambda x=x: local(x)) - 4 * length * WIDTH**2  # type: ignore[misc]
        assert mixing == 4 * -(-length // 4) * 4**2 * WIDTH
    cache, steps = KeyValues(), []
    with torch.no_grad():
        for _ in range(100):
            context = AttentionContext(causal=True)
            steps.append(counted_macs(lambda c=context: local(torch.randn(1, 1, WIDTH), context=c, cache=cache)))  # type: ignore[misc]
    assert [step - 4 * WIDTH**2 for step in steps] == [2 * min(t, 5) * WIDTH for t in range(1, 101)]


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="odd number on both sides, not 4"):
        LocalAttention(width=8, heads=2, window=4, sides="both")
    local = LocalAttention(width=8, heads=2, window=5, sides="both")
    x = torch.randn(1, 6, 8)
    with pytest.raises(ValueError, match="sees the future"):
        local(x, context=AttentionContext(causal=True))
    with pytest.raises(ValueError, match="one sequence"):
        local(x, x)
