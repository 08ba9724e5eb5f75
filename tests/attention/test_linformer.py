"""Linformer (L2.14): against full attention, plain einsum, and the public package."""

from typing import Any

import linformer
import pytest
import torch
from torch import Tensor

from clearhead.attention import AttentionContext, KeyValues, LinformerAttention, MultiHeadAttention
from clearhead.errors import RecipeError, TooLong
from clearhead.models import build, count_parameters
from clearhead.recipe import read_recipe

B, N, M, H, D = 2, 5, 7, 2, 8


def make(**settings: Any) -> LinformerAttention:
    module = LinformerAttention(width=D, heads=H, **{"rank": 3, "length": 10} | settings)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.5)
    return module


def test_L2_14_with_E_the_identity_it_is_full_attention() -> None:
    """L2.14: k = n and E = F = I leave every key in its own slot; any other E does not."""
    full = MultiHeadAttention(width=D, heads=H)
    module = make(rank=M, length=M, sharing="key-value")
    module.load_state_dict(full.state_dict(), strict=False)
    x, memory = torch.randn(B, N, D), torch.randn(B, M, D)
    with torch.no_grad():
        module.shrink_keys.weight.copy_(torch.eye(M))
        torch.testing.assert_close(module(x, memory), full(x, memory), atol=1e-6, rtol=1e-5)
        module.shrink_keys.weight.copy_(torch.eye(M).roll(1, 0))  # another order of the slots changes nothing
        torch.testing.assert_close(module(x, memory), full(x, memory), atol=1e-6, rtol=1e-5)
        module.shrink_keys.weight[0, 0, 0] = 0.5
        assert not torch.allclose(module(x, memory), full(x, memory), atol=1e-3)


@pytest.mark.parametrize("sharing", ["none", "headwise", "key-value", "layerwise"])
@pytest.mark.parametrize("path", ["fused", "explicit"])
def test_L2_14_every_sharing_against_einsum(sharing: Any, path: Any) -> None:
    """softmax(Q(EK)ᵀ/√d)(FV) with one E for each head, or for all."""
    module = make(sharing=sharing)
    module.path = path
    x, memory = torch.randn(B, N, D), torch.randn(B, M, D)
    q, k, v = (
        part(tokens).view(B, -1, H, D // H)
        for part, tokens in ((module.query, x), (module.key, memory), (module.value, memory))
    )
    e, f = (part.weight[..., :M].expand(H, -1, -1) for part in (module.shrink_keys, module.shrink_values))
    k, v = torch.einsum("hsm,bmhd->bshd", e, k), torch.einsum("hsm,bmhd->bshd", f, v)
    weights = torch.einsum("bnhd,bshd->bhns", q, k).div((D // H) ** 0.5).softmax(-1)
    expected = module.output(torch.einsum("bhns,bshd->bnhd", weights, v).flatten(2))
    torch.testing.assert_close(module(x, memory), expected, atol=1e-5, rtol=1e-5)
    assert (module.shrink_keys is module.shrink_values) == (sharing in ("key-value", "layerwise"))
    assert len(module.shrink_keys.weight) == (H if sharing == "none" else 1)


@pytest.mark.parametrize("length", [6, 10])
def test_L2_14_it_is_the_public_packages(length: int) -> None:
    """Reference: PyPI linformer, also for sequences shorter than its length."""
    theirs = linformer.LinformerSelfAttention(dim=D, seq_len=10, k=3, heads=H)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.5)
    mine = make()
    zero = torch.zeros(D)
    with torch.no_grad():
        for name, their in (("query", theirs.to_q), ("key", theirs.to_k), ("value", theirs.to_v)):
            mine.get_submodule(name).load_state_dict({"weight": their.weight, "bias": zero})
        mine.output.load_state_dict(theirs.to_out.state_dict())
        mine.shrink_keys.weight.copy_(theirs.proj_k.T[None])
        mine.shrink_values.weight.copy_(theirs.proj_v.T[None])
    x = torch.randn(3, length, D)
    assert (mine(x) - theirs(x)).abs().max() < 1e-5
    mine.shrink_values = mine.shrink_keys
    assert (mine(x) - theirs(x)).abs().max() > 1e-2


@pytest.mark.parametrize("left", [False, True])
def test_padding_is_zero_before_it_is_mixed_in(left: bool) -> None:
    """Edge case: with their projections' biases, padded tokens would reach every slot."""
    module = make()
    x = torch.randn(1, 5, D)
    pad = torch.randn(1, 3, D)
    padded = torch.cat((pad, x) if left else (x, pad), dim=1)
    valid = torch.arange(8)[None] >= 3 if left else torch.arange(8)[None] < 5
    keys = (valid.long().cumsum(1) - 1).clamp(min=0) if left else torch.arange(8)
    rows = slice(3, 8) if left else slice(0, 5)
    out = module(padded, context=AttentionContext(valid=valid, keys=keys))[:, rows]
    torch.testing.assert_close(out, module(x), atol=1e-6, rtol=1e-5)
    assert not torch.allclose(module(padded)[:, rows], module(x), atol=1e-3)  # the wrong variant: nobody hides them


def test_a_source_of_padding_alone_gives_nothing() -> None:
    """Edge case: 0, not NaN, with finite gradients."""
    module = make(output=False)
    out = module(
        torch.randn(1, 2, D),
        torch.randn(1, 4, D),
        context=AttentionContext(valid=torch.zeros(1, 4, dtype=torch.bool)),
    )
    assert torch.equal(out, torch.zeros_like(out))
    out.sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters() if p.grad is not None)


def test_the_memory_is_summed_up_once() -> None:
    module, cache = make(), KeyValues()
    x, memory = torch.randn(2, 4, D), torch.randn(2, 6, D)
    with torch.no_grad():
        steps = [module(x[:, [t]], memory, cache=cache) for t in range(4)]
    assert cache.length == 3  # slots
    torch.testing.assert_close(torch.cat(steps, 1), module(x, memory), atol=1e-6, rtol=1e-5)


def test_it_is_refused_where_it_would_see_the_future() -> None:
    """Edge case: causal use is impossible, and refused when the recipe is read."""
    with pytest.raises(RecipeError, match="linformer attention mixes positions and would see the future in a decoder"):
        read_recipe("tiny", "model.decoder.attention.kind=linformer")
    read_recipe("tiny", "model.encoder.attention.kind=linformer", "model.cross.attention.kind=linformer")


def test_a_sequence_past_its_length_is_an_error() -> None:
    module = make(length=4)
    module(torch.randn(1, 4, D))
    with pytest.raises(TooLong, match="5 tokens are more than"):
        module(torch.randn(1, 5, D))


def test_layers_share_one_map_only_if_asked() -> None:
    """Parameters: none 2hkN a layer, headwise 2kN, key-value kN, layerwise kN a stack."""
    base = ["model.family=encoder", "model.layers=3", "model.width=8", "model.heads=2"]
    sizes = ["model.attention.kind=linformer", "model.attention.rank=4", "model.attention.length=10"]
    plain = count_parameters(build(read_recipe(None, *base)))

    def more(sharing: str) -> int:
        return count_parameters(build(read_recipe(None, *base, *sizes, f"model.attention.sharing={sharing}"))) - plain

    counts = [more(sharing) for sharing in ("none", "headwise", "key-value", "layerwise")]
    assert counts == [3 * 2 * 2 * 40, 3 * 2 * 40, 3 * 40, 40]


def test_gradients_in_float64() -> None:
    module = make().double()
    valid = torch.tensor([[True, True, True, False]])

    def run(x: Tensor, *_: Tensor) -> Tensor:
        out: Tensor = module(x, context=AttentionContext(valid=valid))
        return out

    x = torch.randn(1, 4, D, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(run, (x, module.shrink_keys.weight, module.shrink_values.weight))
