"""Rotary positions in a foreign configuration: in the words of transformers 5, and of the versions before it."""

from typing import Any

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig

_LLAMA3 = {
    "low": "low_freq_factor",
    "high": "high_freq_factor",
    "original": "original_max_position_embeddings",
}


def take_rotary(config: ForeignConfig, *, base: float, head_size: int, share: float = 1.0) -> dict[str, Any]:
    """Take what describes one rotation for all layers, and return the recipe's ``position``.

    Args:
        config: the configuration.
        base: transformers' default of the base.
        head_size: features of a query in one head.
        share: transformers' default of the share of them that is turned.
    """
    base = config.take("rope_theta", base)
    share = config.take("partial_rotary_factor", share)
    given: dict[str, Any] = config.take("rope_scaling", {})
    given = given | config.take("rope_parameters", {})
    return rotary(config, given, base=base, head_size=head_size, share=share)


def rotary(
    config: ForeignConfig, given: dict[str, Any], *, base: float, head_size: int, share: float = 1.0
) -> dict[str, Any]:
    """The recipe's ``position`` for one table of ``rope_parameters``; what is not understood is an error."""
    left = dict(given)
    kind = left.pop("rope_type", left.pop("type", "default"))
    left.pop("type", None)
    position: dict[str, Any] = {"kind": "rope", "base": float(left.pop("rope_theta", base))}
    turned = int(head_size * left.pop("partial_rotary_factor", share))
    if turned != head_size:
        position["features"] = turned
    if kind in ("linear", "llama3") and "factor" in left:
        position |= {"scaling": kind, "factor": float(left.pop("factor"))}
    elif kind != "default":
        raise UnsupportedModel(
            f"{config.path}: rope_type = {kind!r} is not supported (supported: 'default', 'linear', 'llama3')"
        )
    if kind == "llama3":
        try:
            position |= {ours: left.pop(theirs) for ours, theirs in _LLAMA3.items()}
        except KeyError as error:
            raise UnsupportedModel(f"{config.path}: rope_type = 'llama3' lacks {error}") from None
        position |= {name: float(position[name]) for name in ("low", "high")}
    if left:
        raise UnsupportedModel(f"{config.path}: clearhead does not know the settings of its rotation: {left}")
    return position
