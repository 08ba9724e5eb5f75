"""Small models of every family and mechanism: the contracts run over all of them."""

from typing import Any

import torch

from clearhead.errors import RecipeError
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


def attention_overrides(kind: str) -> list[str]:
    """Name this attention in every part that does not refuse it."""

    def accepted(part: str) -> bool:
        try:
            read_recipe(None, *SIZES, f"model.{part}.attention.kind={kind}")
        except RecipeError:
            return False
        return True

    parts = [part for part in ("encoder", "decoder", "cross") if accepted(part)]
    assert parts, f"{kind} is refused everywhere"
    return [f"model.{part}.attention.kind={kind}" for part in parts]


VARIANTS: dict[str, list[str]] = {
    "plain": [],
    "post norm": ["model.norm.place=post"],
    "embedding norm": ["model.embedding.norm=true", "model.norm.place=post"],
    "ε outside, no gain": ["model.norm.eps_place=outside", "model.norm.affine=false"],
    "no √d": ["model.embedding.scale=none"],
    "statistics over the sequence": ["model.encoder.norm.axis=sequence", "model.embedding.norm=true"],
    "hard": ["model.attention.choice=hard"],
    "additive": ["model.attention.score=additive"],
    "multiplicative": ["model.attention.score=multiplicative"],
    "no projections, no W_O": ["model.attention.projections=false", "model.attention.output=false"],
    "free sizes": ["model.attention.query_size=6", "model.attention.value_size=10"],
    "other heads across": ["model.cross.attention.heads=4"],
    "Shaw keys": ["model.position.kind=shaw", "model.position.relative=keys", "model.position.farthest=2"],
    "Shaw values": ["model.position.kind=shaw", "model.position.relative=values", "model.position.farthest=2"],
    "unscaled": ["model.attention.scale=none", "model.attention.bias=false"],
}
# a mechanism is tested by being registered
VARIANTS |= {f"position {kind}": [f"model.position.kind={kind}"] for kind in kinds("position")}
VARIANTS |= {f"feedforward {kind}": [f"model.feedforward.kind={kind}"] for kind in kinds("feedforward")}
VARIANTS |= {f"norm {kind}": [f"model.norm.kind={kind}"] for kind in kinds("norm")}
VARIANTS |= {f"attention {kind}": attention_overrides(kind) for kind in kinds("attention")}
for sharing in ("none", "headwise", "key-value", "layerwise"):
    small = [f"attention.{setting}" for setting in ("rank=3", "length=16", f"sharing={sharing}")]
    parts = [f"model.{part}.{setting}" for part in ("encoder", "cross") for setting in small]
    VARIANTS[f"Linformer {sharing}"] = VARIANTS["attention linformer"] + parts
ALONE = ["model.position.kind=none", "model.attention.kind=disentangled", "model.attention.span=3"]
VARIANTS["disentangled alone"] = ALONE
    "model.attention.kind=disentangled",
    "model.attention.span=3",
    "model.position.kind=none",
]
VARIANTS["disentangled v2"] = [
    *ALONE,
    "model.attention.span=6",
    "model.attention.buckets=4",
    "model.attention.normalised=true",
    "model.attention.shared_projections=true",
]

RELATIVE = [f"position {kind}" for kind in ("none", "t5", "alibi", "shaw", "rope")] + ["Shaw keys", "Shaw values"]
RELATIVE += ["disentangled alone", "disentangled v2"]
ABSOLUTE = ["position sinusoidal", "position learned"]
ORDERED = [name for name in VARIANTS if "informer" in name or "isentangled" in name]
"""Attention that knows the order of its tokens by itself."""


def make(family: str, variant: str, *more: str) -> Any:
    """A model in eval mode whose weights are large enough for every part to matter."""
    parts = {"lm": ("decoder",), "encoder": ("encoder",), "classifier": ("encoder",)}.get(family)
    overrides = [
        override
        for override in VARIANTS[variant]
        if parts is None
        or override.split(".")[1] not in ("encoder", "decoder", "cross")
        or override.split(".")[1] in parts
    ]
    sizes = SINGLE if "model.feedforward.kind=single" in overrides else SIZES
    model = build(read_recipe(None, f"model.family={family}", *sizes, *overrides, *more), seed=5).eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3, generator=generator)
    return model
