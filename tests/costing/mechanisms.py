"""Small recipes of every registered mechanism and option: the proofs run over all of them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import pytest
import torch
from sympy import Dummy, Expr, Integer, expand

from clearhead.costing import B, Cost, ModelCost, cost, m, n
from clearhead.costing.forms.letters import OPEN, least
from clearhead.costing.tracing import attention_path
from clearhead.errors import RecipeError
from clearhead.models import build
from clearhead.recipe import KindSpec, Recipe, Spec, kinds, read_recipe
from tests.models.zoo import GRID_VARIANTS, IMAGES, PLACED, RECURRENT, RECURRENT_LM, attention_overrides, planar

SIZES = [
    "model.layers=1",
    "model.width=16",
    "model.vocabulary.source=40",
    "model.vocabulary.target=40",
    "model.vocabulary.pad=none",
    "model.dropout.residual=0.0",
    "model.dropout.embedding=0.0",
]
HEADS = "model.heads=2"
TWO_LAYERS = "model.layers=2"

Reads = Literal["text", "pair", "image"]


@dataclass(frozen=True)
class Case:
    """A small recipe and what its model reads."""

    name: str
    overrides: tuple[str, ...]
    reads: Reads = "text"
    exports: bool = True
    """torch.export can trace it with open lengths."""

    def recipe(self, *more: str) -> Recipe:
        """The recipe, with changes."""
        families = [override for override in more if override.startswith("model.family=")]
        kept = [override for override in self.overrides if not (families and override.startswith("model.family="))]
        return read_recipe(None, *SIZES, *kept, *more)

    @cached_property
    def settings(self) -> dict[str, str]:
        """The values of what it overrides; of one that is set twice, the last."""
        return dict(override.split("=", 1) for override in self.overrides)

    def inputs(self, place: dict[str, int]) -> list[torch.Tensor]:
        """Something to read, of these lengths."""
        if self.reads == "image":
            return [torch.rand(place["B"], 16, 8, 2)]
        ids = [torch.randint(4, 40, (place["B"], place[length])) for length in ("n", "m")]
        return ids if self.reads == "pair" else ids[:1]

    @property
    def letters(self) -> list[tuple[Any, ...]]:
        """The open dimensions of the inputs."""
        if self.reads == "image":
            return [(B, None, None, None)]
        return [(B, n), (B, m)] if self.reads == "pair" else [(B, n)]

    def places(self, count: int = 3) -> list[dict[str, int]]:
        """Lengths to try; from two lines on, as a batch of one lets torch look at a tensor where it would copy it."""
        return [
            {"B": 2 + (3 * step) % 4, "n": 2 + (5 * step + 3) % 11, "m": 2 + (7 * step + 1) % 9}
            for step in range(count)
        ]


def make(recipe: Recipe, path: str = "explicit") -> Any:
    """The model in training mode, without dropout, whose attention takes this way."""
    model = build(recipe, seed=1)
    attention_path(model, path)
    return model


@cache
def priced(case: Case) -> tuple[Recipe, ModelCost]:
    """Two layers of a case, so that what layers share counts once, and its formulas, which take longer than a run."""
    recipe = case.recipe(TWO_LAYERS)
    return recipe, cost(recipe)


@cache
def _built(case: Case) -> Any:
    return build(priced(case)[0], seed=1)


def model_of(case: Case, path: str = "explicit") -> Any:
    """The model of ``priced``, as ``make`` returns it; the same one for all tests, which do not change its weights."""
    model = _built(case).train()
    model.zero_grad()
    attention_path(model, path)
    return model


def together(cases: Iterable[Case]) -> list[Case]:
    """As few cases as hold the settings of all: each joins the first of its family that it does not contradict."""
    return list(_together(tuple(cases)))


@cache
def _together(cases: tuple[Case, ...]) -> tuple[Case, ...]:
    """The same for a list that several tests ask for while they are collected."""
    joined: list[Case] = []
    for case in cases:
        for place, other in enumerate(joined):
            both = _joined(other, case)
            if both is not None:
                joined[place] = both
                break
        else:
            joined.append(case)
    return tuple(joined)


def _joined(one: Case, other: Case) -> Case | None:
    """Both cases in one, or None if they set something differently or cannot stand together."""
    (family, _, names), (kind, _, name) = one.name.partition(": "), other.name.partition(": ")
    clash = any(one.settings.get(key, value) != value for key, value in other.settings.items())
    if family != kind or one.reads != other.reads or clash:
        return None
    overrides = tuple(dict.fromkeys((*one.overrides, *other.overrides)))
    return Case(f"{family}: {names} + {name}", overrides, one.reads) if _possible(overrides) else None


@cache
def _possible(overrides: tuple[str, ...]) -> bool:
    """Whether there is a model with all of these settings."""
    try:
        Case("", overrides).recipe()
    except RecipeError:
        return False
    return True


GROUPED = ["model.attention.heads=4", "model.attention.kv_heads=2"]
MULTI_QUERY = "model.attention.kv_heads=1"
ROPED = ["model.position.kind=rope"]
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
    "grouped queries": [*GROUPED, "model.attention.output_bias=false"],
    "multi-query, rope, RMS of q and k": [MULTI_QUERY, *ROPED, "model.attention.qk_norm=rmsnorm"],
    "norm of q and k, part of rope": ["model.attention.qk_norm=layernorm", *ROPED, "model.position.features=4"],
    "rope slowed down": [*ROPED, "model.position.scaling=yarn", "model.position.factor=4"],
    "grouped queries, capped": [*GROUPED, "model.attention.cap=2.0"],
    "grouped queries, free sizes": [*GROUPED, "model.attention.query_size=6", "model.attention.value_size=10"],
    "grouped queries, t5": [*GROUPED, "model.position.kind=t5"],
    "grouped queries, alibi": [*GROUPED, "model.position.kind=alibi"],
    "grouped queries, Shaw": [*GROUPED, "model.position.kind=shaw", "model.position.farthest=2"],
    "norms on both sides": ["model.norm.place=both"],
    "norms on both sides, RMS, no shift": [
        *("model.norm.place=both", "model.norm.kind=rmsnorm", "model.norm.unit_offset=false"),
    ],
    "RMS times 1 + w": [
        *("model.norm.kind=rmsnorm", "model.norm.unit_offset=true"),
        *("model.attention.qk_norm=rmsnorm", "model.attention.qk_norm_unit_offset=true"),
    ],
    "no first norm": [TWO_LAYERS, "model.norm.first=false"],
    "shared layers": [TWO_LAYERS, "model.shared=true"],
    "no shift": ["model.norm.shift=false"],
    "side by side, one norm": ["model.parallel=one-norm"],
    "side by side, two norms": ["model.parallel=two-norms"],
    "no residual": ["model.residual=false"],
    "GELU": ["model.feedforward.activation=gelu"],
}
OPTIONS |= {
    f"position {kind}": [f"model.position.kind={kind}"] for kind in kinds("position") if not planar("position", kind)
}
OPTIONS |= {f"feedforward {kind}": [f"model.feedforward.kind={kind}"] for kind in kinds("feedforward")}
OPTIONS |= {f"norm {kind}": [f"model.norm.kind={kind}"] for kind in kinds("norm")}
OPTIONS |= {
    f"attention {kind}": [f"model.attention.kind={kind}"]
    for kind in kinds("attention")
    if not planar("attention", kind) and len(attention_overrides(kind)) == 3
}
V2 = ["span=6", "buckets=4", "normalised=true", "shared_projections=true"]
OPTIONS |= {
    "disentangled alone": PLACED,
    "disentangled, as the paper prints it": [*PLACED, "model.attention.p2c_index=paper"],
    "disentangled, two terms": [*PLACED, "model.attention.terms=['c2c', 'c2p']", "model.attention.choice=hard"],
    "disentangled v2": [*PLACED, *(f"model.attention.{setting}" for setting in V2)],
}
OUT = ["model.feedforward.out_width=12", "model.embedding.tie=none"]
OPTIONS |= {
    "another width out": [*OUT, "model.norm.place=post"],
    "another width out, gated, pre": [*OUT, "model.feedforward.kind=gated"],
    "another width out, no residual": [*OUT, "model.residual=false", "model.feedforward.kind=single"],
}
LOCAL = ["model.attention.kind=local", "model.attention.window=3"]
OPTIONS |= {
    "local": LOCAL,
    "local, one side, wider": [LOCAL[0], "model.attention.window=10", "model.attention.sides=one"],
    "local and whole": [
        TWO_LAYERS,
        *LOCAL,
        "model.attention.whole=[1]",
        "model.position.kind=rope",
        "model.position.window_base=50.0",
    ],
    "local, grouped queries": [*LOCAL, "model.attention.kv_heads=1"],
    "local, hard": [*LOCAL, "model.attention.choice=hard"],
    "local, additive": [*LOCAL, "model.attention.score=additive"],
    **{f"local, {kind}": [*LOCAL, f"model.position.kind={kind}"] for kind in ("t5", "alibi", "shaw", "rope")},
}
WRITERS = {
    "untied, output bias": [
        "model.embedding.tie=none",
        "model.embedding.output_bias=true",
        "model.embedding.scale=none",
    ],
    "logits capped": ["model.embedding.output_cap=3.0"],
    "output scaled": ["model.embedding.output_scale=rsqrt"],
}
LINFORMER = ["model.attention.kind=linformer", "model.attention.rank=3", "model.attention.length=200"]
READERS: dict[str, list[str]] = {
    **{
        f"linformer, {sharing}": [*LINFORMER, f"model.attention.sharing={sharing}"]
        for sharing in ("none", "headwise", "key-value", "layerwise")
    },
    "segments": ["model.embedding.segments=2"],
    "n-grams": ["model.encoder.ngrams.reach=2", "model.encoder.ngrams.buckets=50", "model.encoder.ngrams.width=6"],
    "head over tokens": ["model.head=tokens"],
    "narrow tables, head over tokens": [
        *("model.embedding.width=6", "model.embedding.norm=true", "model.embedding.segments=2"),
        *("model.head=tokens", "model.head_transform=gelu", "model.position.kind=learned"),
    ],
    "transformed head over tokens": ["model.head=tokens", "model.head_transform=gelu"],
    "statistics over the sequence": ["model.norm.axis=sequence"],
    "statistics over everything": ["model.norm.axis=all"],
    "statistics over everything, ε outside": ["model.norm.axis=all", "model.norm.eps_place=outside"],
    "statistics over the sequence, ε outside": ["model.norm.axis=sequence", "model.norm.eps_place=outside"],
}
# unfold wants a number where a length would stay open; disentangled attention asks for the largest position; whole
# blocks, which windows are cut into, divide a length
CLOSED = ("t5", "alibi", "isentangled", "local")


def _opens(name: str) -> bool:
    return not any(word in name for word in CLOSED)


CASES = [
    *(
        # what a decoder shows is traced there; that it sees everything here makes no difference to the graph but masks
        Case(
            f"encoder: {name}", ("model.family=encoder", HEADS, *overrides), exports=name in READERS or name == "plain"
        )
        for name, overrides in {**OPTIONS, **READERS}.items()
    ),
    *(
        Case(f"lm: {name}", ("model.family=lm", HEADS, *overrides), exports=_opens(name))
        for name, overrides in {**OPTIONS, **WRITERS}.items()
    ),
    *(
        Case(f"seq2seq: {name}", ("model.family=seq2seq", HEADS, *overrides), "pair", exports=_opens(name))
        for name, overrides in {
            **{name: OPTIONS[name] for name in ("plain", "free sizes", "position t5", "disentangled alone")},
            "disentangled across": [*PLACED, "model.cross.attention.kind=disentangled"],
            "rope across": ["model.cross.position.kind=rope", "model.cross.position.features=4", *ROPED],
            "linformer": attention_overrides("linformer"),
            "another encoder": ["model.encoder.width=32", "model.encoder.heads=4", "model.decoder.layers=2"],
        }.items()
    ),
    Case("classifier: mean", ("model.family=classifier", HEADS)),
    Case("classifier: pooler", ("model.family=classifier", HEADS, "model.pooling=first", "model.pooler=true")),
    *(
        Case(f"image: {name}", ("model.family=classifier", HEADS, *IMAGES, *overrides), "image", exports=False)
        for name, overrides in GRID_VARIANTS.items()
    ),
    *(Case(f"recurrent: {name}", tuple(overrides), "pair", exports=False) for name, overrides in RECURRENT.items()),
    *(Case(f"recurrent: {name}", tuple(overrides), exports=False) for name, overrides in RECURRENT_LM.items()),
]
"""Every mechanism where it sees everything and where it is causal; cross-attention; heads; grids; recurrent nets."""


def each(cases: Iterable[Case]) -> pytest.MarkDecorator:
    """A test's cases: plain models, and all others together, a few models with every setting; `make prove` takes all.

    What two settings cost hardly depends on each other, and where it does, a model with both shows it first.
    """
    cases = list(cases)
    plain = [case for case in cases if case.name.endswith(": plain")]
    few = [*plain, *together(case for case in cases if case not in plain)]
    alone = [pytest.param(case, marks=pytest.mark.prove) for case in cases if case not in few]
    return pytest.mark.parametrize("case", [*few, *alone], ids=lambda case: case.name)


def named(name: str) -> Case:
    """The case of this name."""
    (case,) = (case for case in CASES if case.name == name)
    return case


def as_family(name: str, family: str) -> Case:
    """The case of this name, or its settings in a model of another family that writes."""
    case = named(name)
    if f"model.family={family}" in case.overrides:
        return case
    settings = [override for override in case.overrides if not override.startswith("model.family=")]
    title = f"{family}: {name.partition(': ')[2]}"
    return Case(title, (f"model.family={family}", *settings), "pair" if family == "seq2seq" else "text")


def modules_of(cost: Cost, prefix: str = "") -> Iterator[tuple[str, Cost]]:
    """Every block below a model with the path of its module; of equal layers, the first."""
    for part in cost.parts:
        path = f"{prefix}{part.name}" + (".0" if part.name == "layers" else "")
        yield path, part
        yield from modules_of(part, f"{path}.")


def kinds_in(spec: object) -> set[tuple[str, str]]:
    """Slot and name of every kind in a recipe."""
    found = {(spec.slot, spec.name())} if isinstance(spec, KindSpec) else set()
    for field in type(spec).model_fields if isinstance(spec, Spec) else ():
        found |= kinds_in(getattr(spec, field))
    return found


def wrong_variants(formula: Expr) -> Iterator[Expr]:
    """The formula with each of its terms dropped, each doubled, and each letter's power changed.

    min(2, n) = min(2, n²) whatever n is, so that the smaller of a number and a length stays as it is.
    """
    formula = expand(formula)
    for term in formula.as_ordered_terms():
        yield formula - term
        yield formula + term
    bounds = {bound: Dummy(integer=True, positive=True) for bound in formula.atoms(least) if n in bound.args}
    bounded = formula.xreplace(bounds)
    for symbol in bounded.free_symbols - set(bounds.values()):
        powered = bounded.xreplace({symbol: symbol**2})
        yield expand(powered.xreplace({dummy: bound for bound, dummy in bounds.items()}))


def worth(formula: Expr, place: dict[str, int]) -> Expr:
    """What an expression is worth where n, m, B and t have these values."""
    return formula.xreplace({OPEN[name]: Integer(value) for name, value in place.items()})


def rejects(formula: Expr, places: list[dict[str, int]], measured: list[int]) -> bool:
    """Whether no wrong variant of a formula gives what was measured."""
    found = list(zip(places, measured, strict=True))
    return all(any(worth(wrong, place) != seen for place, seen in found) for wrong in wrong_variants(formula))
