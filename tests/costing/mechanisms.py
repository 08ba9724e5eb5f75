"""Small recipes of every registered mechanism and option: the proofs run over all of them."""

from collections.abc import Iterator
from typing import Any

import torch
from sympy import Expr, Integer, expand, preorder_traversal

from clearhead.costing import B, Cost, m, n
from clearhead.costing.forms.letters import OPEN
from clearhead.costing.tracing import attention_path
from clearhead.models import build
from clearhead.recipe import Recipe, kinds, read_recipe
from tests.models.zoo import attention_overrides

SIZES = [
    "model.layers=1",
    "model.width=16",
    "model.heads=2",
    "model.vocabulary.source=40",
    "model.vocabulary.target=40",
    "model.vocabulary.pad=none",
    "model.dropout.residual=0.0",
    "model.dropout.embedding=0.0",
]
OPTIONS: dict[str, list[str]] = {
    "plain": ["model.feedforward.width=20"],
    "post norm, embedding norm": ["model.norm.place=post", "model.embedding.norm=true"],
    "ε outside, no gain": ["model.norm.eps_place=outside", "model.norm.affine=false"],
    "no gain": ["model.norm.affine=false"],
    "hard": ["model.attention.choice=hard"],
    "additive": ["model.attention.score=additive"],
    "multiplicative": ["model.attention.score=multiplicative"],
    "no projections, no W_O": ["model.attention.projections=false", "model.attention.output=false"],
    "free sizes": ["model.attention.query_size=6", "model.attention.value_size=10"],
    "unscaled, no biases": ["model.attention.scale=none", "model.attention.bias=false", "model.feedforward.bias=false"],
    "Shaw keys": ["model.position.kind=shaw", "model.position.relative=keys", "model.position.farthest=2"],
    "Shaw values": ["model.position.kind=shaw", "model.position.relative=values", "model.position.farthest=2"],
    "no residual": ["model.residual=false"],
    "GELU": ["model.feedforward.activation=gelu"],
    "untied, output bias": [
        "model.embedding.tie=none",
        "model.embedding.output_bias=true",
        "model.embedding.scale=none",
    ],
    "output scaled": ["model.embedding.output_scale=rsqrt"],
}
OPTIONS |= {f"position {kind}": [f"model.position.kind={kind}"] for kind in kinds("position")}
OPTIONS |= {f"feedforward {kind}": [f"model.feedforward.kind={kind}"] for kind in kinds("feedforward")}
OPTIONS |= {f"norm {kind}": [f"model.norm.kind={kind}"] for kind in kinds("norm")}
OPTIONS |= {f"attention {kind}": attention_overrides(kind) for kind in kinds("attention")}
CAUSAL = [option for option in OPTIONS if option != "attention linformer"]

SHARINGS = ("none", "headwise", "key-value", "layerwise")
LINFORMER = ["model.attention.kind=linformer", "model.attention.rank=3", "model.attention.length=200"]
ONLY_ENCODERS: dict[str, list[str]] = {
    **{f"linformer, {sharing}": [*LINFORMER, f"model.attention.sharing={sharing}"] for sharing in SHARINGS},
    "segments": ["model.embedding.segments=2"],
    "statistics over the sequence": ["model.norm.axis=sequence"],
    "statistics over the sequence, ε outside": ["model.norm.axis=sequence", "model.norm.eps_place=outside"],
}
FAMILIES: dict[str, list[str]] = {
    "classifier": ["model.pooling=mean"],
    "classifier, pooler": ["model.pooling=first", "model.pooler=true"],
}


def recipe_of(family: str, option: str, *more: str) -> Recipe:
    """A small recipe."""
    overrides = {**OPTIONS, **ONLY_ENCODERS, **FAMILIES}[option]
    parts = {"lm": ("decoder",), "encoder": ("encoder",), "classifier": ("encoder",)}.get(family)
    fitting = [
        override
        for override in overrides
        if parts is None
        or override.split(".")[1] not in ("encoder", "decoder", "cross")
        or override.split(".")[1] in parts
    ]
    if family in ("encoder", "classifier"):
        fitting = [override for override in fitting if "embedding.tie" not in override and "output_" not in override]
    return read_recipe(None, f"model.family={family}", *SIZES, *fitting, *more)


CASES = [
    *(("encoder", option) for option in {**OPTIONS, **ONLY_ENCODERS} if option != "output scaled"),
    *(("lm", option) for option in CAUSAL),
    *(("seq2seq", option) for option in ("plain", "free sizes", "position t5", "attention linformer")),
    *(("classifier", option) for option in FAMILIES),
]
"""Every mechanism where it sees everything and where it is causal; cross-attention; the heads of classifiers."""


def make(recipe: Recipe, path: str = "explicit") -> Any:
    """The model in training mode, without dropout, whose attention takes this way."""
    model = build(recipe, seed=1)
    attention_path(model, path)
    return model


def inputs(family: str, batch: int = 3, source: int = 7, target: int = 5) -> list[torch.Tensor]:
    """Ids for a model of this family."""
    ids = [torch.randint(4, 40, (batch, source)), torch.randint(4, 40, (batch, target))]
    return ids if family == "seq2seq" else ids[:1]


def letters(family: str) -> list[tuple[Any, ...]]:
    """The open dimensions of these ids."""
    return [(B, n), (B, m)] if family == "seq2seq" else [(B, n)]


def modules_of(cost: Cost, prefix: str = "") -> Iterator[tuple[str, Cost]]:
    """Every block below a model with the path of its module; of equal layers, the first."""
    for part in cost.parts:
        path = f"{prefix}{part.name}" + (".0" if part.name == "layers" else "")
        yield path, part
        yield from modules_of(part, f"{path}.")


def wrong_variants(formula: Expr) -> Iterator[Expr]:
    """The formula with each of its terms dropped, each doubled, and each letter's power changed."""
    formula = expand(formula)
    for term in formula.as_ordered_terms():
        yield formula - term
        yield formula + term
    for symbol in formula.free_symbols:
        yield expand(formula.xreplace({symbol: symbol**2}))
    assert not any(part.is_Float for part in preorder_traversal(formula))


def worth(formula: Expr, place: dict[str, int]) -> Expr:
    """What an expression is worth where n, m, B and t have these values."""
    return formula.xreplace({OPEN[name]: Integer(value) for name, value in place.items()})
