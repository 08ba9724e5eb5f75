"""Convolutions against torch's own, with padding, holes and a cache; how far a stack of them reaches."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import AttentionContext, RecentTokens
from clearhead.blocks import Convolution
from clearhead.costing.tracing import counted_macs
from clearhead.models import build
from clearhead.recipe import read_recipe

WIDTH = 6


def _reference(layer: Convolution, x: Tensor) -> Tensor:
    """F.conv1d with the same weights: (d, k·d) seen as (d, d, k)."""
    weight = layer.map.weight.view(WIDTH, layer.kernel, WIDTH).transpose(1, 2)
    padded = F.pad(x.transpose(1, 2), (layer.before, layer.after))
    return F.conv1d(padded, weight, layer.map.bias, dilation=layer.dilation).transpose(1, 2).relu()


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("kernel", "dilation"), [(3, 1), (3, 3), (5, 2), (3, 9)])
@pytest.mark.parametrize("length", [1, 4, 11])
def test_it_is_torchs_convolution(causal: bool, kernel: int, dilation: int, length: int) -> None:
    """Against F.conv1d; one that is shifted by a token is rejected."""
    layer = Convolution(width=WIDTH, kernel=kernel, dilation=dilation, causal=causal)
    x = torch.randn(2, length, WIDTH)
    torch.testing.assert_close(layer(x), _reference(layer, x))
    if length > 1:
        assert not torch.allclose(layer(x), _reference(layer, x.roll(1, 1)), atol=1e-4)


def test_padding_is_passed_by_wherever_it_stands() -> None:
    """A line is convolved as if its padding were not there: left, right, and between its tokens."""
    line = torch.randn(1, 5, WIDTH)
    for causal in (False, True):
        layer = Convolution(width=WIDTH, kernel=3, dilation=2, causal=causal)
        alone = layer(line)
        for places in ([0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [0, 1, 4, 5, 7]):
            x = torch.randn(1, 8, WIDTH).index_copy(1, torch.tensor(places), line)
            valid = torch.zeros(1, 8, dtype=torch.bool).index_fill(1, torch.tensor(places), True)
            torch.testing.assert_close(layer(x, context=AttentionContext(valid=valid))[:, places], alone)
        seen = layer(torch.randn(1, 8, WIDTH).index_copy(1, torch.tensor(places), line))[:, places]
        assert not torch.allclose(seen, alone, atol=1e-4)  # the wrong variant: padding that is read


def test_a_cache_keeps_what_the_kernel_reaches_and_passes_padding_by() -> None:
    """Steps of any size equal the whole line, also after a chunk that ends with padding; the cache does not grow."""
    layer, line = Convolution(width=WIDTH, kernel=3, dilation=2, causal=True), torch.randn(1, 7, WIDTH)
    whole = layer(line)
    cache = RecentTokens()
    with torch.no_grad():
        chunk = torch.cat((line[:, :3], torch.randn(1, 2, WIDTH)), dim=1)
        valid = torch.tensor([[True] * 3 + [False] * 2])
        got = [layer(chunk, context=AttentionContext(valid=valid), cache=cache)[:, :3]]
        got += [layer(line[:, place : place + 1], cache=cache) for place in range(3, 7)]
    torch.testing.assert_close(torch.cat(got, dim=1), whole)
    assert cache.nbytes == 4 * WIDTH * 4  # (k − 1)·δ inputs
    assert cache.length == 9


def test_work_is_k_n_d_squared() -> None:
    layer = Convolution(width=WIDTH, kernel=5)
    assert counted_macs(lambda: layer(torch.randn(2, 9, WIDTH))) == 2 * 5 * 9 * WIDTH**2


@pytest.mark.parametrize(
    ("kind", "settings", "length"),
    [("decoder", ["dilation=powers"], 27), ("encoder", ["dilation=powers"], 14), ("decoder", ["dilation=1"], 7)],
)
def test_L4_6_three_layers_join_as_many_tokens_as_the_path_says(kind: str, settings: list[str], length: int) -> None:
    """k^L tokens on one side, (k^L + 1)/2 on both, (k − 1)L + 1 without dilation: by derivative, and not one more."""
    family = "lm" if kind == "decoder" else "encoder"
    overrides = [f"model.family={family}", f"model.{kind}.kind=convolutional", "model.layers=3", "model.width=8"]
    model = build(read_recipe(None, *overrides, *(f"model.{kind}.{one}" for one in settings)), seed=1).double().eval()
    stack = getattr(model, kind)
    for tokens, joined in ((length, True), (length + 1, False)):
        embedded: list[Tensor] = []
        hook = stack.embedding.register_forward_hook(lambda _m, _i, out, embedded=embedded: embedded.append(out))
        out = stack(torch.full((1, tokens), 5))
        hook.remove()
        (gradient,) = torch.autograd.grad(out[0, -1].square().sum(), embedded)
        assert bool(gradient[0, 0].abs().max() > 0) == joined


def test_what_it_refuses() -> None:
    with pytest.raises(ValueError, match="odd, not 4"):
        Convolution(width=4, kernel=4)
