"""Rotary positions in a foreign configuration: in the words of transformers 5, and of the versions before it."""

from typing import Any

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig

_LLAMA3 = {
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "original": "original_max_position_embeddings",
}


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
    given |= config.take("rope_scaling", {})
    given |= config.take("rope_parameters", {})
    return rotary(config, given, base=base, head_size=head_size, partial=share is not None)


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
    if kind in ("linear", "llama3") and "factor" in left:
        position |= {"scaling": kind, "factor": _number(config, left, "factor")}
    elif kind != "default":
        raise UnsupportedModel(
            f"{config.path}: rope_type = {kind!r} is not supported (supported: 'default', 'linear', 'llama3')"
        )
    if kind == "llama3":
        if lacking := [name for name in _LLAMA3.values() if name not in left]:
            raise UnsupportedModel(f"{config.path}: rope_type = 'llama3' lacks {', '.join(lacking)}")
        position |= {name: _number(config, left, _LLAMA3[name]) for name in ("low", "high")}
        position["original"] = left.pop(_LLAMA3["original"])
    if left:
        raise UnsupportedModel(f"{config.path}: clearhead does not know the settings of its rotation: {left}")
    return position


def _number(config: ForeignConfig, left: dict[str, Any], name: str, default: float | None = None) -> float:
    value = left.pop(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -1e30 < value < 1e30:
        raise UnsupportedModel(f"{config.path}: {name} = {value!r} should be a number")
    return float(value)
