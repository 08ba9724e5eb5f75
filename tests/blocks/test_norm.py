"""Normalisation: what the notes say, what torch does, and where they differ."""

from typing import Any

import pytest
import torch

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import LayerNorm, RmsNorm


def test_L0_10_a_token_is_normalised_on_its_own() -> None:
    """L0.10: (y − μ)/σ with the population's σ over a token's features; other tokens do not matter."""
    norm = LayerNorm(width=6, eps=0.0, affine=False)
    x = torch.randn(2, 5, 6)
    expected = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True, correction=0)
    torch.testing.assert_close(norm(x), expected)
    assert not torch.allclose(norm(x), (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True), atol=1e-3)
    other = x.clone()
    other[:, 1:] = torch.randn(2, 4, 6)
    assert torch.equal(norm(other)[:, 0], norm(x)[:, 0])


def test_L0_10_statistics_over_the_sequence_mix_tokens() -> None:
    """L0.10, the other reading: per feature over the tokens that are there; padding does not count."""
    norm = LayerNorm(width=6, eps=0.0, affine=False, axis="sequence")
    x = torch.randn(1, 5, 6)
    expected = (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True, correction=0)
    torch.testing.assert_close(norm(x), expected, atol=1e-5, rtol=1e-5)
    padded = torch.cat((x, torch.full((1, 3, 6), 99.0)), dim=1)
    valid = torch.tensor([[True] * 5 + [False] * 3])
    torch.testing.assert_close(norm(padded, valid)[:, :5], expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(norm(padded)[:, :5], expected, atol=1e-2)
    other = x.clone()
    other[:, -1] += 5
    assert not torch.allclose(norm(other)[:, 0], norm(x)[:, 0], atol=1e-3)  # token 0 sees the last one


def test_L0_10_one_mean_and_one_deviation_over_all_of_y() -> None:
    """L0.10 as printed: μ = E Y and σ over all features of all tokens of a line; padding does not count."""
    norm = LayerNorm(width=6, eps=0.0, affine=False, axis="all")
    x = 3 * torch.randn(2, 5, 6) + 1
    expected = torch.stack([(line - line.mean()) / line.std(correction=0) for line in x])
    torch.testing.assert_close(norm(x), expected, atol=1e-5, rtol=1e-5)
    for axis in ("token", "sequence"):  # the wrong variants: the other readings
        other = LayerNorm(width=6, eps=0.0, affine=False, axis=axis)
        assert not torch.allclose(other(x), expected, atol=1e-2)
    padded = torch.cat((x, torch.full((2, 3, 6), 99.0)), dim=1)
    valid = torch.tensor([[True] * 5 + [False] * 3] * 2)
    torch.testing.assert_close(norm(padded, valid)[:, :5], expected, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(norm(padded)[:, :5], expected, atol=1e-2)


@pytest.mark.parametrize("eps_place", ["inside", "outside"])
def test_L2_8_layer_norm_guards_against_shifts(eps_place: str) -> None:
    """L2.8: LN(ax + b) = LN(x) for a > 0; a negative a turns the sign, so it must not be equal."""
    norm = LayerNorm(width=8, eps=1e-12, affine=False, eps_place=eps_place)  # type: ignore[arg-type]
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(norm(3 * x + 7), norm(x), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(norm(-3 * x + 7), norm(x), atol=1e-2)


def test_L2_8_the_place_of_epsilon_shows_at_small_values() -> None:
    """L2.8: (x − μ)/(σ + ε) against (x − μ)/√(σ² + ε): far apart at x ~ 1e-3, alike at x ~ 1."""
    inside = LayerNorm(width=8, eps=1e-5, affine=False)
    outside = LayerNorm(width=8, eps=1e-5, affine=False, eps_place="outside")
    x = torch.randn(1, 4, 8)
    small = 1e-3 * x
    sigma = small.std(-1, keepdim=True, correction=0)
    torch.testing.assert_close(outside(small), (small - small.mean(-1, keepdim=True)) / (sigma + 1e-5))
    assert float(outside(small).std(correction=0)) == pytest.approx(1, abs=0.05)
    assert float(inside(small).std(correction=0)) < 0.5
    torch.testing.assert_close(outside(x), inside(x), atol=1e-3, rtol=1e-3)


@pytest.mark.parametrize("eps_place", ["inside", "outside"])
@pytest.mark.parametrize("axis", ["token", "sequence", "all"])
def test_a_constant_row_has_no_nan(eps_place: str, axis: str) -> None:
    """Edge case of L2.8: √0 has no derivative; the output is 0 and the gradient finite."""
    norm = LayerNorm(width=4, eps_place=eps_place, axis=axis)  # type: ignore[arg-type]
    x = torch.full((1, 4, 4), 2.0, requires_grad=True)  # shares of 1/4 and 1/16 are exact
    out = norm(x)
    assert (out == 0).all()
    out.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


def test_layer_norm_is_torchs() -> None:
    """Reference: torch.nn.LayerNorm."""
    reference, norm = torch.nn.LayerNorm(6, eps=1e-6), LayerNorm(width=6, eps=1e-6)
    torch.nn.init.normal_(reference.weight)
    torch.nn.init.normal_(reference.bias)
    assert norm.gain is not None
    assert norm.shift is not None
    norm.gain.data, norm.shift.data = reference.weight.data, reference.bias.data
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(norm(x), reference(x))
    slow = LayerNorm(width=6, eps=1e-6, axis="token", eps_place="outside")
    slow.gain, slow.shift = norm.gain, norm.shift
    torch.testing.assert_close(slow(x), reference(x), atol=1e-4, rtol=1e-4)


def test_rms_norm_is_t5s() -> None:
    """Reference: transformers' T5LayerNorm; unlike layer norm it keeps the mean."""
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    reference, norm = T5LayerNorm(6, eps=1e-6), RmsNorm(width=6, eps=1e-6)
    torch.nn.init.normal_(reference.weight)
    assert norm.gain is not None
    norm.gain.data = reference.weight.data
    x = torch.randn(2, 5, 6) + 3
    torch.testing.assert_close(norm(x), reference(x))
    assert not torch.allclose(LayerNorm(width=6, affine=False)(x), norm(x), atol=1e-2)


def test_rms_norm_with_an_offset_is_gemmas_bit_for_bit() -> None:
    """Reference: transformers' GemmaRMSNorm; 1 added to the stored gain before it is kept would round it once more."""
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm

    reference, norm = GemmaRMSNorm(64, eps=1e-6), RmsNorm(width=64, eps=1e-6, unit_offset=True)
    torch.nn.init.normal_(reference.weight, std=0.1)
    assert norm.gain is not None
    norm.gain.data = reference.weight.data
    x = torch.randn(2, 5, 64) + 3
    assert torch.equal(norm(x), reference(x))
    assert not torch.equal((1 + reference.weight) - 1, reference.weight)


def test_a_head_norm_with_an_offset_is_gemmas_bit_for_bit() -> None:
    """Reference: transformers' Gemma3RMSNorm, for queries and keys of each head."""
    from transformers.models.gemma3.modeling_gemma3 import Gemma3RMSNorm

    module: Any = MultiHeadAttention(
        width=32, heads=2, qk_norm="rmsnorm", qk_norm_eps=1e-6, qk_norm_unit_offset=True
    ).eval()
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    reference, x = Gemma3RMSNorm(16, eps=1e-6), torch.randn(2, 5, 32)
    for norm, found in ((module.query_norm, module.queries(x)), (module.key_norm, module.candidates(x)[0])):
        reference.weight.data = norm.weight.data
        joined = module.query(x) if norm is module.query_norm else module.key(x)
        assert torch.equal(found, reference(joined.unflatten(-1, (2, 16))).transpose(1, 2))


def test_rms_norm_with_an_offset_starts_as_the_other_one() -> None:
    x = torch.randn(2, 5, 6)
    assert torch.equal(RmsNorm(width=6, unit_offset=True)(x), RmsNorm(width=6)(x))
    assert "1 + gain" in repr(RmsNorm(width=6, unit_offset=True))


@pytest.mark.parametrize(
    "norm",
    [
        LayerNorm(width=3),
        LayerNorm(width=3, eps_place="outside"),
        LayerNorm(width=3, axis="sequence"),
        LayerNorm(width=3, axis="sequence", eps_place="outside"),
        LayerNorm(width=3, axis="all"),
        RmsNorm(width=3),
        RmsNorm(width=3, unit_offset=True),
    ],
)
def test_gradients_in_float64(norm: torch.nn.Module) -> None:
    x = torch.randn(2, 4, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(norm.double(), (x,))
