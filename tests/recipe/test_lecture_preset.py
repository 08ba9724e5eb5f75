"""`presets lecture` is what the notes print: every setting on its own, in the recipe and in the model that is built."""

import re
import tomllib
from typing import Any

import pytest
import torch
from torch import nn

from clearhead.attention import MultiHeadAttention
from clearhead.blocks import LayerNorm, OuterFeedForward
from clearhead.models import build
from clearhead.positions import ShawPosition
from clearhead.recipe import Recipe, preset_text, read_recipe

PRINTED: dict[str, tuple[Any, str, Any]] = {
    "model.family": ("seq2seq", "L0.1", "lm"),
    "model.heads": (4, "L0.7", 1),
    "model.residual": (True, "L2.7", False),
    "model.attention.kind": ("multihead", "L0.7", "local"),
    "model.attention.score": ("dot", "L0.2", "additive"),
    "model.attention.scale": ("dim", "L2.9", "sqrt"),
    "model.attention.choice": ("soft", "L0.3", "hard"),
    "model.attention.projections": (True, "L2.4", False),
    "model.attention.output": (True, "L0.7", False),
    "model.attention.bias": (False, "L2.4", True),
    "model.position.kind": ("shaw", "L2.12", "sinusoidal"),
    "model.position.relative": ("values", "L2.12", "both"),
    "model.feedforward.kind": ("outer", "L0.12", "standard"),
    "model.feedforward.width": (1024, "L4.4", 512),
    "model.feedforward.activation": ("relu", "L0.12", "gelu"),
    "model.feedforward.bias": (True, "L0.12", False),
    "model.norm.kind": ("layernorm", "L0.10", "rmsnorm"),
    "model.norm.place": ("post", "L0.11", "pre"),
    "model.norm.affine": (False, "L0.10", True),
    "model.norm.eps_place": ("outside", "L2.8", "inside"),
    "model.encoder.norm.axis": ("all", "L0.10", "token"),
    "model.decoder.norm.axis": ("token", "L1.9", "sequence"),
    "model.dropout.residual": (0.0, "L0.11", 0.1),
    "model.dropout.embedding": (0.0, "L1.4", 0.1),
    "model.embedding.scale": ("none", "L1.4", "sqrt"),
    "model.embedding.tie": ("none", "L1.4", "output"),
    "training.label_smoothing": (0.0, "L0.1", 0.1),
}
"""Each setting: what the notes print, one claim that says so, and what they do not print."""
SIZES = {"model.layers", "model.width", "model.vocabulary.source", "model.vocabulary.target"}
SMALL = ["model.layers=1", "model.width=16", "model.feedforward.width=64", "model.heads=2"]


def _flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in table.items():
        flat |= _flat(value, f"{before}{name}.") if isinstance(value, dict) else {f"{before}{name}": value}
    return flat


def _lines() -> dict[str, str]:
    """The comment behind every setting of the file."""
    section, comments = "", {}
    for line in preset_text("lecture").splitlines():
        if found := re.fullmatch(r"\[(.+)\]", line):
            section = found[1]
        elif found := re.match(r"(\w+) = [^#]+(?:# (.*))?$", line):
            comments[f"{section}.{found[1]}"] = found[2] or ""
    return comments


def test_every_setting_is_printed_and_every_line_names_its_claim() -> None:
    """The file sets what is listed here, nothing more and nothing less."""
    written = _flat(tomllib.loads(preset_text("lecture")))
    assert set(written) - SIZES == set(PRINTED)
    comments = _lines()
    assert set(comments) == set(written)
    for name, (value, claim, _) in PRINTED.items():
        assert written[name] == value
        assert claim in comments[name], name


@pytest.mark.parametrize("name", [name for name in PRINTED if name not in ("model.family",)])
def test_each_setting_reaches_every_part_that_takes_it(name: str) -> None:
    """In the recipe as it is read, and not another value; what the notes do not print would be another recipe."""
    value, _, other = PRINTED[name]
    recipe = read_recipe("lecture")
    found = _everywhere(recipe, name)
    assert found
    assert set(map(str, found)) == {str(value)}
    assert str(other) not in set(map(str, found))


def _everywhere(recipe: Recipe, name: str) -> list[Any]:
    section, *path = name.split(".")
    if section == "training" or path[0] in ("encoder", "decoder", "embedding"):
        return [_get(recipe, name)]
    path = ["attention", "heads"] if path == ["heads"] else path
    parts = ("encoder", "decoder", "cross") if path[0] == "attention" else ("encoder", "decoder")
    return [_get(recipe, ".".join(("model", part, *path))) for part in parts]


def _get(thing: Any, name: str) -> Any:
    for part in name.split("."):
        thing = getattr(thing, part)
    return thing


def test_the_model_that_is_built_has_nothing_else() -> None:
    """No bias in attention, no gain, no dropout, no √d, one table of relative positions, for values, in each layer."""
    model = build(read_recipe("lecture", *SMALL), seed=1)
    attentions = [part for part in model.modules() if isinstance(part, MultiHeadAttention)]
    assert len(attentions) == 3
    for attention in attentions:
        assert all(part.bias is None for part in attention.modules() if isinstance(part, nn.Linear))
        assert (attention.scale, attention.choice) == ("dim", "soft")
    schemes = [part for part in model.modules() if isinstance(part, ShawPosition)]
    assert len(schemes) == 2
    assert all(scheme.keys is None and scheme.values is not None for scheme in schemes)
    norms = [part for part in model.modules() if isinstance(part, LayerNorm)]
    assert all(norm.gain is None and norm.shift is None and norm.eps_place == "outside" for norm in norms)
    assert [norm.axis for norm in norms] == ["all"] * 2 + ["token"] * 3
    nets = [part for part in model.modules() if isinstance(part, OuterFeedForward)]
    assert all(net.up.bias is not None and net.down.bias is not None for net in nets)
    assert all(part.p == 0 for part in model.modules() if isinstance(part, nn.Dropout))
    assert model.encoder.embedding.scale == 1.0  # type: ignore[union-attr]
    assert model.output.weight is not model.decoder.embedding.tokens.weight  # type: ignore[union-attr]


def test_keys_and_values_come_from_the_same_x_with_other_rows() -> None:
    """L0.2: N queries from one X, K and V from another X with M rows: cross-attention of the lecture's own model."""
    model = build(read_recipe("lecture", *SMALL), seed=1).eval()
    cross = model.decoder.layers[0].cross  # type: ignore[union-attr,index]
    seen: dict[str, tuple[int, ...]] = {}
    for name in ("query", "key", "value"):
        getattr(cross, name).register_forward_hook(
            lambda _m, given, _o, name=name: seen.update({name: tuple(given[0].shape), f"{name} id": id(given[0])})  # type: ignore[misc]
        )
    shown: list[torch.Tensor] = []
    cross.weights.register_forward_hook(lambda _m, _i, out: shown.append(out))  # type: ignore[union-attr]
    with torch.no_grad():
        model(torch.randint(4, 200, (1, 7)), torch.randint(4, 200, (1, 5)))  # M = 7, N = 5
    assert seen["query"] == (1, 5, 16)
    assert seen["key"] == seen["value"] == (1, 7, 16)
    assert seen["key id"] == seen["value id"] != seen["query id"]
    assert shown[0].shape == (1, 2, 5, 7)
