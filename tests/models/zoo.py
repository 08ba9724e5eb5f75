"""Small models of every family and mechanism: the contracts run over all of them."""

from typing import Any

import torch

from clearhead.errors import RecipeError
from clearhead.models import build
from clearhead.recipe import Recipe, kinds, read_recipe, recipe_from, recipe_table

SIZES = [
    "model.layers=2",
    "model.width=16",
    "model.heads=2",
    "model.feedforward.width=20",
    "model.vocabulary.source=40",
    "model.vocabulary.target=40",
]
SINGLE = [size for size in SIZES if "feedforward" not in size]


def planar(slot: str, kind: str) -> bool:
    """Whether this kind needs a grid: then it stands in GRID_VARIANTS."""
    return bool(getattr(kinds(slot)[kind].spec, "planar", False))


def accepted(family: str, *overrides: str) -> bool:
    """Whether a recipe can be read."""
    try:
        read_recipe(None, f"model.family={family}", *SIZES, *overrides)
    except RecipeError:
        return False
    return True


def attention_overrides(kind: str) -> list[str]:
    """Name this attention in every part that does not refuse it."""
    parts = [
        part for part in ("encoder", "decoder", "cross") if accepted("seq2seq", f"model.{part}.attention.kind={kind}")
    ]
    assert parts, f"{kind} is refused everywhere"
    return [f"model.{part}.attention.kind={kind}" for part in parts]


VARIANTS: dict[str, list[str]] = {
    "plain": [],
    "post norm": ["model.norm.place=post"],
    "embedding norm": ["model.embedding.norm=true", "model.norm.place=post"],
    "ε outside, no gain": ["model.norm.eps_place=outside", "model.norm.affine=false"],
    "no √d": ["model.embedding.scale=none"],
    "statistics over the sequence": ["model.encoder.norm.axis=sequence", "model.embedding.norm=true"],
    "statistics over everything": ["model.encoder.norm.axis=all", "model.embedding.norm=true"],
    "another width out": ["model.feedforward.out_width=12", "model.embedding.tie=none", "model.norm.place=post"],
    "another width out, pre": ["model.feedforward.out_width=12", "model.embedding.tie=none"],
    "hard": ["model.attention.choice=hard"],
    "additive": ["model.attention.score=additive"],
    "multiplicative": ["model.attention.score=multiplicative"],
    "no projections, no W_O": ["model.attention.projections=false", "model.attention.output=false"],
    "free sizes": ["model.attention.query_size=6", "model.attention.value_size=10"],
    "other heads across": ["model.cross.attention.heads=4"],
    "Shaw keys": ["model.position.kind=shaw", "model.position.relative=keys", "model.position.farthest=2"],
    "Shaw values": ["model.position.kind=shaw", "model.position.relative=values", "model.position.farthest=2"],
    "grouped queries": ["model.attention.heads=4", "model.attention.kv_heads=2", "model.attention.output_bias=false"],
    "multi-query": ["model.attention.kv_heads=1", "model.attention.qk_norm=layernorm"],
    "capped scores, norms on both sides": ["model.attention.cap=1.5", "model.norm.place=both"],
    "rope of some features": [
        "model.position.kind=rope",
        "model.position.features=4",
        "model.attention.qk_norm=rmsnorm",
    ],
    "rope slowed down": [
        "model.position.kind=rope",
        "model.position.scaling=yarn",
        "model.position.factor=4",
        "model.position.original=16",
    ],
    "rope across": ["model.cross.position.kind=rope"],
    "n-grams": ["model.encoder.ngrams.reach=2", "model.encoder.ngrams.buckets=50", "model.encoder.ngrams.width=6"],
    "rope in neighbours, and across": [
        "model.position.kind=rope",
        "model.position.layout=interleaved",
        "model.cross.position.kind=rope",
        "model.cross.position.base=100.0",
        "model.cross.attention.heads=4",
    ],
    "RMS norm times 1 + w": ["model.norm.kind=rmsnorm", "model.norm.unit_offset=true"],
    "norms of q and k times 1 + w": [
        *("model.attention.qk_norm=rmsnorm", "model.attention.qk_norm_unit_offset=true"),
    ],
    "no first norm, no shifts": ["model.norm.first=false", "model.norm.shift=false", "model.embedding.norm=true"],
    "shared layers": ["model.shared=true"],
    "unscaled": ["model.attention.scale=none", "model.attention.bias=false"],
}
# a mechanism is tested by being registered
VARIANTS |= {
    f"position {kind}": [f"model.position.kind={kind}"] for kind in kinds("position") if not planar("position", kind)
}
VARIANTS |= {f"feedforward {kind}": [f"model.feedforward.kind={kind}"] for kind in kinds("feedforward")}
VARIANTS |= {f"norm {kind}": [f"model.norm.kind={kind}"] for kind in kinds("norm")}
VARIANTS |= {
    f"attention {kind}": attention_overrides(kind) for kind in kinds("attention") if not planar("attention", kind)
}
for sharing in ("none", "headwise", "key-value", "layerwise"):
    small = [f"attention.{setting}" for setting in ("rank=3", "length=16", f"sharing={sharing}")]
    parts = [f"model.{part}.{setting}" for part in ("encoder", "cross") for setting in small]
    VARIANTS[f"Linformer {sharing}"] = VARIANTS["attention linformer"] + parts
PLACED = ["model.position.kind=none", "model.attention.kind=disentangled", "model.attention.span=3"]
VARIANTS["disentangled alone"] = PLACED
VARIANTS["disentangled and sinusoids"] = [*attention_overrides("disentangled"), "model.position.kind=sinusoidal"]
VARIANTS["disentangled v2"] = [
    *PLACED,
    "model.attention.span=6",
    "model.attention.buckets=4",
    "model.attention.normalised=true",
    "model.attention.shared_projections=true",
]

LOCAL = [
    f"model.{part}.attention.{setting}" for part in ("encoder", "decoder") for setting in ("kind=local", "window=3")
]
VARIANTS["local, window of 3"] = LOCAL
VARIANTS["local, one side"] = [*LOCAL, "model.encoder.attention.sides=one", "model.encoder.attention.window=4"]
VARIANTS |= {
    f"local, {kind}": [*LOCAL, f"model.position.kind={kind}"] for kind in ("none", "t5", "alibi", "shaw", "rope")
}

VARIANTS["local and whole, grouped queries"] = [
    *LOCAL,
    *(
        f"model.{part}.attention.{setting}"
        for part in ("encoder", "decoder")
        for setting in ("whole=[2]", "kv_heads=1")
    ),
    *("model.position.kind=rope", "model.position.window_base=10.0"),
]
SIDE_BY_SIDE = {
    "side by side, capped logits": ["model.parallel=two-norms", "model.embedding.output_cap=2.0"],
    "side by side, one norm": ["model.parallel=one-norm", "model.position.kind=rope"],
}
"""Without cross-attention, which stands between attention and net."""

BOTH = "model.family=recurrent"
ALONE = ["model.family=lm", "model.decoder.kind=recurrent", "model.decoder.attention.kind=none"]
RECURRENT: dict[str, list[str]] = {
    "bahdanau": [BOTH, "model.decoder.attention.kind=bahdanau"],
    "luong": [BOTH, "model.cell=lstm"],
    "luong, no feeding": [BOTH, "model.decoder.attention.input_feeding=false"],
    "luong, no feeding, concat, lstm": [
        *(BOTH, "model.cell=lstm", "model.decoder.start=mean"),
        'model.decoder.attention={kind="luong", score="concat", input_feeding=false}',
    ],
    "bahdanau, hard, lstm, tanh": [
        *(BOTH, "model.cell=lstm", "model.encoder.bidirectional=false"),
        'model.decoder.attention={kind="bahdanau", choice="hard", readout="tanh", size=6}',
    ],
    "luong, dot, elman": [
        *(BOTH, "model.cell=elman", "model.encoder.bidirectional=false", "model.state=12"),
        *("model.decoder.attention.score=dot", "model.decoder.start=zero"),
    ],
    "no attention": [BOTH, "model.decoder.attention.kind=none", "model.state=20"],
    "Transformer to recurrent": ["model.decoder.kind=recurrent", "model.decoder.attention.kind=bahdanau"],
    "recurrent to Transformer": ["model.encoder.kind=recurrent", "model.encoder.cell=lstm"],
    "convolutional": ["model.encoder.kind=convolutional", "model.decoder.kind=convolutional"],
    "convolutional, not dilated, post norm": [
        *("model.encoder.kind=convolutional", "model.decoder.kind=convolutional", "model.norm.place=post"),
        *("model.dilation=1", "model.decoder.kernel=4", "model.activation=gelu"),
    ],
    "convolutional to recurrent": [
        *("model.encoder.kind=convolutional", "model.decoder.kind=recurrent", "model.decoder.attention.kind=luong"),
    ],
    "local to convolutional": [
        *("model.encoder.attention.kind=local", "model.decoder.kind=convolutional"),
        "model.cross.position.kind=rope",
    ],
}
"""Encoder-decoders with a recurrent or a convolutional part."""
RECURRENT_LM = {f"{cell} alone": [*ALONE, f"model.cell={cell}"] for cell in ("gru", "lstm", "elman")}
RECURRENT_LM["convolutional alone"] = ["model.family=lm", "model.decoder.kind=convolutional"]

RELATIVE = [f"position {kind}" for kind in ("none", "t5", "alibi", "shaw", "rope")] + ["Shaw keys", "Shaw values"]
RELATIVE += [
    "disentangled alone",
    "disentangled v2",
    "rope of some features",
    "rope slowed down",
    "rope in neighbours, and across",
]
ABSOLUTE = ["position sinusoidal", "position learned"]
ORDERED = [name for name in VARIANTS if any(word in name for word in ("informer", "isentangled", "local", "n-grams"))]
"""Models that know the order of their tokens by themselves."""

# images of 16 × 8 pixels of two numbers, cut into 8 × 4 patches
IMAGES = [*("model.patches.height=16", "model.patches.width=8"), *("model.patches.channels=2", "model.patches.size=2")]
CLASS_TOKEN = ["model.patches.class_token=true", "model.pooling=first"]
GRID_VARIANTS: dict[str, list[str]] = {
    "plain": [],
    "class token": CLASS_TOKEN,
    "class token, sinusoidal-2d": [*CLASS_TOKEN, "model.position.kind=sinusoidal-2d"],
    "embedding norm": ["model.embedding.norm=true", "model.norm.place=post"],
    "statistics over the sequence": [*CLASS_TOKEN, "model.norm.axis=sequence"],
}
for _kind in kinds("attention"):
    for _name, _position in (("", "none"), (" with relative-2d", "relative-2d"), (" with rope", "rope")):
        _overrides = [f"model.attention.kind={_kind}", f"model.position.kind={_position}"]
        if accepted("classifier", *IMAGES, *_overrides):
            GRID_VARIANTS[f"attention {_kind}{_name}"] = _overrides
GRID_VARIANTS |= {
    f"{_kind}, hard": [f"model.attention.kind={_kind}", "model.attention.choice=hard"]
    for _kind in ("grid", "axial", "window")
}
GRID_VARIANTS |= {f"position {kind}": [f"model.position.kind={kind}"] for kind in kinds("position")}


def make(family: str, variant: str, *more: str) -> Any:
    """A model in eval mode whose weights are large enough for every part to matter."""
    return _with_large_weights(build(_recipe(family, variant, *more), seed=5).eval())


def _recipe(family: str, variant: str, *more: str) -> Recipe:
    if variant in RECURRENT or variant in RECURRENT_LM:
        # the sizes as a level of its own, of which other kinds keep what they know
        return recipe_from(recipe_table(read_recipe(None, *SIZES)), *(RECURRENT | RECURRENT_LM)[variant], *more)
    parts = {"lm": ("decoder",), "encoder": ("encoder",), "classifier": ("encoder",)}.get(family)
    overrides = [
        override
        for override in (VARIANTS | SIDE_BY_SIDE)[variant]
        if parts is None
        or override.split(".")[1] not in ("encoder", "decoder", "cross")
        or override.split(".")[1] in parts
    ]
    sizes = SINGLE if "model.feedforward.kind=single" in overrides else SIZES
    return read_recipe(None, f"model.family={family}", *sizes, *overrides, *more)


def make_grid(family: str, variant: str, *more: str) -> Any:
    """The same for images: a classifier, or an encoder."""
    overrides = [o for o in GRID_VARIANTS[variant] if family == "classifier" or "pooling" not in o]
    recipe = read_recipe(None, f"model.family={family}", *SIZES, *IMAGES, *overrides, *more)
    return _with_large_weights(build(recipe, seed=5).eval())


def _with_large_weights(model: Any) -> Any:
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3, generator=generator)
    return model
