"""Add & Norm: the residual, and where the norm stands."""

from typing import Any

import pytest
import torch

from clearhead.blocks import AddNorm, LayerNorm
from clearhead.models import build
from clearhead.recipe import read_recipe


def test_L0_11_add_and_norm() -> None:
    """L0.11, L1.7: LN(X + Sublayer(X)) after, X + Sublayer(LN(X)) before."""
    norm, f = LayerNorm(width=6), torch.nn.Linear(6, 6)
    x = torch.randn(2, 5, 6)
    torch.testing.assert_close(AddNorm(norm, place="post")(x, f), norm(x + f(x)))
    torch.testing.assert_close(AddNorm(norm, place="pre")(x, f), x + f(norm(x)))
    assert not torch.allclose(AddNorm(norm, place="post")(x, f), norm(x) + f(x), atol=1e-3)


def test_L2_7_a_skip_connection_is_the_identity_for_no_change() -> None:
    """L2.7: x_l = F(x_{l−1}) + x_{l−1} is x_{l−1} when F = 0; without the skip it is 0."""
    x = torch.randn(2, 5, 6)
    assert torch.equal(AddNorm(LayerNorm(width=6), place="pre")(x, torch.zeros_like), x)
    assert (AddNorm(LayerNorm(width=6), place="pre", residual=False)(x, torch.zeros_like) == 0).all()


def deep_model(residual: bool, place: str = "pre") -> Any:
    off = ["model.dropout.residual=0.0", "model.dropout.embedding=0.0"]
    sizes = ["model.layers=24", "model.width=16", "model.heads=2", "model.vocabulary.source=10"]
    norm = [f"model.residual={str(residual).lower()}", f"model.norm.place={place}"]
    recipe = read_recipe(None, "model.family=encoder", *norm, *sizes, *off)
    return build(recipe, seed=0)


def gradient_that_tells_tokens_apart(residual: bool, place: str) -> float:
    """‖∂(y₀ − y₁)/∂x‖ after 24 layers: how much of what makes two tokens different comes through."""
    model = deep_model(residual, place).eval()
    inputs: list[torch.Tensor] = []
    model.encoder.embedding.register_forward_hook(lambda _module, _inputs, out: inputs.append(out))
    out = model(torch.tensor([[4, 5, 6, 7, 8, 9]]))
    (gradient,) = torch.autograd.grad((out[0, 0] - out[0, 1]) @ torch.ones(16).cumsum(0), inputs)
    return float(gradient.norm())


@pytest.mark.parametrize("place", ["pre", "post"])
def test_L1_8_the_residual_carries_the_gradient_through_24_layers(place: str) -> None:
    """L1.8: with residuals 24 layers still tell two tokens apart; without them attention has averaged them away."""
    assert gradient_that_tells_tokens_apart(residual=True, place=place) > 1e-2
    assert gradient_that_tells_tokens_apart(residual=False, place=place) < 1e-4
