"""Gemma 1, 2 and 3 (texts): embeddings times √d, gains stored as γ − 1; from 2 on norms on both sides and windows."""

import math
from typing import Any

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.llama import (
    FULL,
    HEAD_NORMS,
    SLIDING,
    decoder,
    plan_decoder,
    take_vocabulary,
    windows,
)
from clearhead.interop.huggingface.rotary import rotary, take_rotary, trained_length
from clearhead.interop.huggingface.weights import ForeignWeights, Plan

_BOTH = {
    "around_attention.after": "post_attention_layernorm",
    "around_feedforward.norm": "pre_feedforward_layernorm",
    "around_feedforward.after": "post_feedforward_layernorm",
}


def plan_gemma(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Gemma 1: Llama with √d, a gated GELU and heads of their own size."""
    given = config.take("hidden_activation", "")  # the newer name; the older one meant the same
    activation = config.activation("hidden_activation" if given else "hidden_act", "gelu_pytorch_tanh")
    config.take("hidden_act", "")
    model = _gemma(config, weights, vocabulary=256000, width=3072, hidden=24576, heads=16, layers=28)
    model["feedforward"]["activation"] = "gelu-tanh" if activation == "gelu" and not given else activation
    model["position"] = take_rotary(config, base=10_000.0, head_size=model["attention"]["query_size"])
    return plan_decoder(model)


def plan_gemma2(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Gemma 2: norms on both sides, windows in every other layer, caps on scores and logits."""
    model = _gemma2(config, weights, vocabulary=256000)
    model["attention"] |= {"cap": config.take("attn_logit_softcapping", 0.0)}
    if not model["attention"]["cap"]:
        del model["attention"]["cap"]
    every_other = [(SLIDING, FULL)[number % 2] for number in range(model["layers"])]
    model["attention"] |= _taken_windows(config, every_other)
    model["position"] = take_rotary(config, base=10_000.0, head_size=model["attention"]["query_size"])
    return plan_decoder(model, parts=_BOTH)


def plan_gemma3(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Gemma 3: queries and keys are normalised, five layers of six see a window, whose rotations are faster."""
    model = _gemma2(config, weights, vocabulary=262208)
    config.only("attn_logit_softcapping", None)
    size = model["attention"]["query_size"]
    model["attention"] |= {"qk_norm": "rmsnorm", "qk_norm_eps": model["norm"]["eps"], "qk_norm_unit_offset": True}
    every = config.positive("sliding_window_pattern", config.positive("_sliding_window_pattern", 6))
    model["attention"] |= _taken_windows(
        config, [FULL if (number + 1) % every == 0 else SLIDING for number in range(model["layers"])]
    )
    model["position"] = two_rotations(config, whole=1_000_000.0, window=10_000.0, head_size=size, slowed=True)
    if model["attention"].get("kind") != "local":
        model["position"].pop("window_base", None)
    return plan_decoder(model, parts=_BOTH | HEAD_NORMS)


def two_rotations(
    config: ForeignConfig, *, whole: float, window: float, head_size: int, slowed: bool = False
) -> dict[str, Any]:
    """The recipe's ``position`` if layers with a window turn by another base.

    Args:
        config: the configuration.
        whole: transformers' default of the base in layers that see everything.
        window: the same in layers that see a window.
        head_size: features of a query in one head.
        slowed: whether rotations of layers that see everything may be slowed down, those of windows never. Default: no.
    """
    given: dict[str, Any] = config.take("rope_parameters", {})
    bases = {FULL: config.take("rope_theta", whole), SLIDING: config.take("rope_local_base_freq", window)}
    if given.keys() - bases.keys() or not all(isinstance(table or {}, dict) for table in given.values()):
        raise UnsupportedModel(f"{config.path}: rope_parameters should be two tables, {FULL} and {SLIDING}")
    if slowed:
        given = given | {FULL: (given.get(FULL) or {}) | (config.take("rope_scaling", {}) or {})}
    else:
        config.only("rope_scaling", None)
    found = {
        kind: rotary(config, given.get(kind) or {}, base=base, head_size=head_size) for kind, base in bases.items()
    }
    for kind, position in found.items():
        if "scaling" in position and not (slowed and kind == FULL):
            raise UnsupportedModel(
                f"{config.path}: rope_type = {position['scaling']!r} of {kind} is not supported (supported: 'default')"
            )
    far, near = found[FULL], found[SLIDING]
    alike = near["base"] == far["base"] and "scaling" not in far
    return far | ({} if alike else {"window_base": near["base"]}) | trained_length(config)


def _taken_windows(config: ForeignConfig, types: list[str]) -> dict[str, Any]:
    return windows(config, config.listed("layer_types", ",") or types, config.take("sliding_window", 4096))


def _gemma2(config: ForeignConfig, weights: ForeignWeights, *, vocabulary: int) -> dict[str, Any]:
    """What Gemma 2 and 3 share."""
    activation = config.activation("hidden_activation", "gelu_pytorch_tanh")
    config.take("hidden_act", "")  # an older name, which is not read
    model = _gemma(config, weights, vocabulary=vocabulary, width=2304, hidden=9216, heads=8, groups=4, layers=26)
    model["feedforward"]["activation"] = activation
    model["norm"]["place"] = "both"
    scale = math.sqrt(config.positive("query_pre_attn_scalar", 256.0))
    if scale != math.sqrt(model["attention"]["query_size"]):
        model["attention"]["scale"] = scale
    if cap := config.take("final_logit_softcapping", 0.0):
        model["embedding"]["output_cap"] = cap
    return model


def _gemma(config: ForeignConfig, weights: ForeignWeights, **defaults: Any) -> dict[str, Any]:
    """What all of them share."""
    bias = config.take("attention_bias", False)
    config.only("use_bidirectional_attention", None, False)
    tied = config.take("tie_word_embeddings", True)
    vocabulary = take_vocabulary(config, size=defaults["vocabulary"], pad=0, bos=2, eos=1)
    model = decoder(config, weights, tokens=(2, 1), head_size=256, rotates=False, **defaults)
    model["vocabulary"] = vocabulary
    model["attention"]["bias"] = bias
    model["norm"]["unit_offset"] = True
    model["embedding"] = {"tie": "output" if tied else "none", "scale": "sqrt"}
    return model
