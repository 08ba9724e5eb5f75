"""Models and inputs that the tests of inspection share."""

from typing import Any

import torch
from torch import Tensor

from tests.models.zoo import make

NORMS = {
    "pre": ["model.norm.place=pre"],
    "post": ["model.norm.place=post"],
    "pre, RMS": ["model.norm.place=pre", "model.norm.kind=rmsnorm"],
    "post, RMS": ["model.norm.place=post", "model.norm.kind=rmsnorm"],
    "the lecture's norm": ["model.norm.place=post", "model.norm.eps_place=outside", "model.norm.eps=0.01"],
    "post, embedding norm": ["model.norm.place=post", "model.embedding.norm=true", "model.embedding.output_bias=true"],
}
HEAD = ["model.head=tokens", "model.head_transform=gelu"]


def ids(rows: int, length: int, seed: int = 3) -> Tensor:
    """Token ids without specials."""
    return torch.randint(4, 40, (rows, length), generator=torch.Generator().manual_seed(seed))


def pixels(rows: int) -> Tensor:
    return torch.randn(rows, 16, 8, 2, generator=torch.Generator().manual_seed(3))


def shaken(model: Any) -> Any:
    """Biases, gains and shifts that matter: at their initial 0 and 1 they would hide what is forgotten."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def model_of(family: str, norm: str = "pre", variant: str = "plain", *more: str) -> Any:
    """A small model with this placing and kind of norm."""
    settings = [*NORMS[norm], *(HEAD if family == "encoder" else []), *more]
    if family in ("lm", "encoder", "classifier"):
        settings = [setting for setting in settings if "output_bias" not in setting or family == "lm"]
    return shaken(make(family, variant, *settings))


def apart(left: Tensor, right: Tensor) -> float:
    """max|Δ|."""
    return float((left.detach().double() - right.detach().double()).abs().max())
