"""Rotary positions in a foreign configuration: in the words of transformers 5, and of the versions before it."""

import math
from typing import Any

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig

_LLAMA3 = {"low": "low_freq_factor", "high": "high_freq_factor"}
_ORIGINAL = "original_max_position_embeddings"
_BY_LENGTH = {
    "dynamic": "its angles depend on the length of the whole text",
    "longrope": "its angles change once a text is longer than the original ones",
}
"""Rotations that are no function of the position alone."""


def take_rotary(config: ForeignConfig, *, base: float, head_size: int, share: float | None = None) -> dict[str, Any]:
    """Take what describes one rotation for all layers, and return the recipe's ``position``.

    Args:
        config: the configuration.
        base: transformers' default of the base.
        head_size: features of a query in one head.
        share: transformers' default of the share of them that is turned; None if it always turns all.
    """
    base = config.take("rope_theta", base)
    given: dict[str, Any] = {"partial_rotary_factor": config.take("partial_rotary_factor", share or 1.0)}
    older: dict[str, Any] = config.take("rope_scaling", {})
    newer: dict[str, Any] = config.take("rope_parameters", {})
    given |= older or newer  # with both names, transformers reads the older one alone
    found = rotary(config, given, base=base, head_size=head_size, partial=share is not None)
    return found | trained_length(config)


def trained_length(config: ForeignConfig) -> dict[str, int]:
    """The longest texts that a model was made for, where its positions are computed for any length."""
    length = config.take("max_position_embeddings", 0)
    return {"trained_length": length} if length else {}


def rotary(
    config: ForeignConfig, given: dict[str, Any], *, base: float, head_size: int, partial: bool = False
) -> dict[str, Any]:
    """The recipe's ``position`` for one table of ``rope_parameters``; what is not understood is an error."""
    left = dict(given)
    kind = left.pop("rope_type", left.pop("type", "default"))
    left.pop("type", None)
    position: dict[str, Any] = {"kind": "rope", "base": _number(config, left, "rope_theta", base)}
    share = _number(config, left, "partial_rotary_factor", 1.0)
    if share != 1 and not partial:
        raise UnsupportedModel(
            f"{config.path}: partial_rotary_factor = {share} is not supported: this architecture turns all features"
        )
    turned = int(head_size * share)
    if turned != head_size:
        position["features"] = turned
    if isinstance(kind, str) and kind in _BY_LENGTH:
        raise UnsupportedModel(
            f"{config.path}: rope_type = {kind!r} is not supported: {_BY_LENGTH[kind]}, so the keys of a cache would "
            "have to be turned anew as a text grows"
        )
    if kind in ("linear", "llama3", "yarn") and "factor" in left:
        position |= {"scaling": kind, "factor": _number(config, left, "factor")}
    elif kind != "default":
        raise UnsupportedModel(
            f"{config.path}: rope_type = {kind!r} is not supported (supported: 'default', 'linear', 'llama3', 'yarn')"
        )
    if kind == "llama3":
        if lacking := [name for name in (*_LLAMA3.values(), _ORIGINAL) if name not in left]:
            raise UnsupportedModel(f"{config.path}: rope_type = 'llama3' lacks {', '.join(lacking)}")
        position |= {name: _number(config, left, theirs) for name, theirs in _LLAMA3.items()}
        position["original"] = left.pop(_ORIGINAL)
    if kind == "yarn":
        position |= _yarn(config, left, position["factor"])
    if left:
        raise UnsupportedModel(f"{config.path}: clearhead does not know the settings of its rotation: {left}")
    return position


def _yarn(config: ForeignConfig, left: dict[str, Any], factor: float) -> dict[str, Any]:
    """The settings of YaRN alone; None, and 0 where transformers says so, stand for a default."""
    if _ORIGINAL not in left:
        raise UnsupportedModel(f"{config.path}: rope_type = 'yarn' lacks {_ORIGINAL}")
    found: dict[str, Any] = {"original": left.pop(_ORIGINAL)}
    for name, theirs in (("low", "beta_slow"), ("high", "beta_fast")):
        if value := left.pop(theirs, None):
            found[name] = _number(config, {theirs: value}, theirs)
    if not left.pop("truncate", True):
        found["rounded"] = False
    parts = {name: left.pop(name, None) for name in ("mscale", "mscale_all_dim")}
    if left.get("attention_factor") is not None:
        found["magnitude"] = _number(config, left, "attention_factor")
    elif all(parts.values()):
        growth = 0.1 * math.log(max(factor, 1.0))
        above, below = (growth * _number(config, parts, name) + 1.0 for name in tuple(parts))
        found["magnitude"] = above / below
    left.pop("attention_factor", None)
    return found


def _number(config: ForeignConfig, left: dict[str, Any], name: str, default: float | None = None) -> float:
    value = left.pop(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e30 < value < 1e30:
        raise UnsupportedModel(f"{config.path}: {name} = {value!r} should be a number")
    return float(value)
