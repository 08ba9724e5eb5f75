"""Feed-forward nets: the standard one, and what the notes' variants do."""

from typing import Any

import pytest
import torch

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import GatedFeedForward, OuterFeedForward, SingleFeedForward, StandardFeedForward
from clearhead.models import build
from clearhead.recipe import read_recipe

NETS: dict[str, Any] = {
    "standard": lambda: StandardFeedForward(width=6, hidden=10, activation="gelu"),
    "outer": lambda: OuterFeedForward(width=6, hidden=10),
    "single": lambda: SingleFeedForward(width=6),
    "gated": lambda: GatedFeedForward(width=6, hidden=10),
}


def collapsed(net: Any, x: torch.Tensor) -> torch.Tensor:
    """ReLU(x(W₁W₂) + b₁W₂ + b₂): one linear map and a ReLU."""
    W1, W2 = net.up.weight.T, net.down.weight.T
    return torch.relu(x @ (W1 @ W2) + net.up.bias @ W2 + net.down.bias)


def test_L0_12_the_outer_relu_collapses_to_one_map() -> None:
    """L0.12: with ReLU outside, W₁ and W₂ are one matrix; the standard net does not collapse."""
    x = torch.randn(2, 5, 6)
    outer = OuterFeedForward(width=6, hidden=10)
    torch.testing.assert_close(outer(x), collapsed(outer, x), atol=1e-6, rtol=1e-5)
    standard = StandardFeedForward(width=6, hidden=10)
    standard.load_state_dict(outer.state_dict())
    assert not torch.allclose(torch.relu(standard(x)), collapsed(standard, x), atol=1e-3)


def test_the_standard_net_is_the_papers() -> None:
    """max(0, xW₁ + b₁)W₂ + b₂."""
    net = StandardFeedForward(width=6, hidden=10)
    x = torch.randn(2, 5, 6)
    expected = torch.relu(x @ net.up.weight.T + net.up.bias) @ net.down.weight.T + net.down.bias
    torch.testing.assert_close(net(x), expected)
    assert StandardFeedForward(width=6).up.out_features == 24  # d_ff = 4d (L4.4)


def test_the_gated_net_is_t5s() -> None:
    """Reference: transformers' T5DenseGatedActDense."""
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5DenseGatedActDense

    config = T5Config(d_model=6, d_ff=10, feed_forward_proj="gated-gelu", dropout_rate=0.0)
    reference = T5DenseGatedActDense(config)
    net = GatedFeedForward(width=6, hidden=10, activation="gelu-tanh", bias=False)
    net.gate.weight, net.up.weight, net.down.weight = reference.wi_0.weight, reference.wi_1.weight, reference.wo.weight
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(net(x), reference(x))
    net.gate.weight, net.up.weight = net.up.weight, net.gate.weight
    assert not torch.allclose(net(x), reference(x), atol=1e-4)


@pytest.mark.parametrize("kind", NETS)
def test_L0_13_every_token_on_its_own(kind: str) -> None:
    """L0.13: B×C×E → B×C×E point-wise: permuting tokens permutes the outputs; mixing tokens would not."""
    net = NETS[kind]()
    x = torch.randn(2, 7, 6)
    order = torch.randperm(7)
    torch.testing.assert_close(net(x[:, order]), net(x)[:, order])

    def mixing(x: torch.Tensor) -> torch.Tensor:
        """The wrong variant: the same net fed with running sums, so that tokens see each other."""
        out: torch.Tensor = net(x.cumsum(1))
        return out

    assert not torch.allclose(mixing(x[:, order]), mixing(x)[:, order], atol=1e-4)


def test_L2_6_attention_alone_is_linear_and_relu_is_not() -> None:
    """L2.6: with fixed weights two attention layers are one linear map; with a ReLU layer between they are not."""
    first, second = (MultiHeadAttention(width=6, heads=2, bias=False) for _ in range(2))
    fixed = [torch.rand(1, 2, 5, 5).softmax(-1) for _ in range(2)]
    for module, weights in zip((first, second), fixed, strict=True):
        module.weights.register_forward_hook(lambda _m, _i, _w, weights=weights: weights)
    single = SingleFeedForward(width=6, bias=False)
    x, y = torch.randn(1, 5, 6), torch.randn(1, 5, 6)

    def alone(z: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = second(first(z))
        return out

    def with_relu(z: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = second(single(first(z)))
        return out

    torch.testing.assert_close(alone(x + y), alone(x) + alone(y), atol=1e-6, rtol=1e-4)
    assert not torch.allclose(with_relu(x + y), with_relu(x) + with_relu(y), atol=1e-4)


def test_dropout_acts_between_the_maps() -> None:
    x = torch.randn(2, 5, 6)
    for kind in (StandardFeedForward, OuterFeedForward, GatedFeedForward):
        net = kind(width=6, hidden=10, dropout=0.5)
        assert not torch.equal(net(x), net(x))
        assert torch.equal(net.eval()(x), net(x))


@pytest.mark.parametrize("kind", NETS)
def test_gradients_in_float64(kind: str) -> None:
    net = NETS[kind]().double()
    x = torch.randn(1, 3, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(net, (x,))


@pytest.mark.parametrize("kind", NETS)
@pytest.mark.parametrize("place", ["pre", "post"])
@pytest.mark.parametrize("residual", [True, False])
def test_L0_13_a_net_may_put_out_another_width(kind: str, place: str, residual: bool) -> None:
    """L0.13: (B × C × E) → (B × C × V), token by token, at the end of a stack; x is projected where it is added."""
    sizes = [
        "model.family=encoder",
        "model.width=16",
        "model.layers=2",
        "model.heads=2",
        "model.feedforward.out_width=6",
    ]
    more = [f"model.feedforward.kind={kind}", f"model.norm.place={place}", f"model.residual={str(residual).lower()}"]
    model: Any = build(read_recipe(None, *sizes, *more), seed=1).eval()
    first, last = model.encoder.layers
    assert first.around_feedforward.project is None
    assert (last.around_feedforward.project is not None) is residual
    x = torch.randn(2, 5, 16)
    y = last.feedforward(x)
    assert y.shape == (2, 5, 6)
    order = torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(last.feedforward(x[:, order]), y[:, order])  # point-wise
    around = last.around_feedforward
    net = last.feedforward(around.norm(x)) if place == "pre" else y
    added = net + x @ around.project.weight.T if residual else net
    torch.testing.assert_close(around(x, last.feedforward), added if place == "pre" else around.norm(added))
    assert model(torch.randint(4, 40, (2, 5))).shape == (2, 5, 6)
