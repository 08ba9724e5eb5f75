"""Small models of every family and mechanism: the contracts run over all of them."""

from typing import Any

import torch

from clearhead.models import build
from clearhead.recipe import kinds, read_recipe

SIZES = [
    "model.layers=2",
    "model.width=16",
    "model.heads=2",
    "model.feedforward.width=20",
    "model.vocabulary.source=40",
    "model.vocabulary.target=40",
]
SINGLE = [size for size in SIZES if "feedforward" not in size]

VARIANTS: dict[str, list[str]] = {
    "plain": [],
    "post norm, √d": ["model.norm.place=post", "model.embedding.scale=sqrt"],
    "embedding norm": ["model.embedding.norm=true", "model.norm.place=post"],
    "ε outside, no gain": ["model.norm.eps_place=outside", "model.norm.affine=false"],
    "hard": ["model.attention.choice=hard"],
    "additive": ["model.attention.score=additive"],
    "multiplicative": ["model.attention.score=multiplicative"],
    "no projections, no W_O": ["model.attention.projections=false", "model.attention.output=false"],
    "free sizes": ["model.attention.query_size=6", "model.attention.value_size=10"],
    "unscaled": ["model.attention.scale=none", "model.attention.bias=false"],
}
# a mechanism is tested by being registered
VARIANTS |= {f"position {kind}": [f"model.position.kind={kind}"] for kind in kinds("position")}
VARIANTS |= {f"feedforward {kind}": [f"model.feedforward.kind={kind}"] for kind in kinds("feedforward")}
VARIANTS |= {f"norm {kind}": [f"model.norm.kind={kind}"] for kind in kinds("norm")}
VARIANTS |= {f"attention {kind}": [f"model.attention.kind={kind}"] for kind in kinds("attention")}

RELATIVE = ["position none", "position t5", "position rope"]
ABSOLUTE = ["position sinusoidal", "position learned"]


def make(family: str, variant: str, *more: str) -> Any:
    """A model in eval mode whose weights are large enough for every part to matter."""
    overrides = VARIANTS[variant]
    sizes = SINGLE if "model.feedforward.kind=single" in overrides else SIZES
    model = build(read_recipe(None, f"model.family={family}", *sizes, *overrides, *more), seed=5).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3, generator=generator)
    return model
