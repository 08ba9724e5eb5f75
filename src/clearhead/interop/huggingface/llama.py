"""Llama and its relatives: pre-norm decoders with rotations, gated nets and shared keys (Mistral, Qwen2, Qwen3)."""

from collections.abc import Mapping, Sequence
from typing import Any

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.rotary import take_rotary
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs

FULL, SLIDING = "full_attention", "sliding_attention"
_LAYER = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "feedforward.gate": "mlp.gate_proj",
    "feedforward.up": "mlp.up_proj",
    "feedforward.down": "mlp.down_proj",
    "around_attention.norm": "input_layernorm",
    "around_feedforward.norm": "post_attention_layernorm",
}
HEAD_NORMS = {"attention.query_norm": "self_attn.q_norm", "attention.key_norm": "self_attn.k_norm"}


def plan_llama(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Llama: biases everywhere or nowhere in attention, and in the net."""
    config.only("pretraining_tp", 1)
    bias = config.take("attention_bias", False)
    model = decoder(config, weights, vocabulary=32000, width=4096, hidden=11008, heads=32, tokens=(1, 2))
    model["attention"]["bias"] = bias
    model["feedforward"]["bias"] = config.take("mlp_bias", False)
    return plan_decoder(model)


def plan_mistral(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Mistral: all layers see a window, unless it is null."""
    model = decoder(config, weights, vocabulary=32000, width=4096, hidden=14336, heads=32, groups=8, tokens=(1, 2))
    window = config.nullable("sliding_window", 4096) or 0
    types = [SLIDING if window else FULL] * model["layers"]
    model["attention"] |= windows(config, config.listed("layer_types", ",") or types, window)
    return plan_decoder(model)


def plan_qwen2(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Qwen2: biases in W_Q, W_K and W_V alone; the last layers may see a window."""
    model = decoder(config, weights, vocabulary=151936, width=4096, hidden=22016, heads=32, tokens=(None, None))
    model["attention"] |= {"bias": True, "output_bias": False}
    model["attention"] |= _late_windows(config, model["layers"])
    return plan_decoder(model)


def plan_qwen3(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Qwen3: queries and keys are normalised in each head."""
    bias = config.take("attention_bias", False)
    model = decoder(
        config, weights, vocabulary=151936, width=4096, hidden=22016, heads=32, tokens=(None, None), head_size=128
    )
    model["attention"] |= {"bias": bias, "qk_norm": "rmsnorm", "qk_norm_eps": model["norm"]["eps"]}
    model["attention"] |= _late_windows(config, model["layers"])
    return plan_decoder(model, parts=HEAD_NORMS)


def decoder(
    config: ForeignConfig,
    weights: ForeignWeights,
    *,
    vocabulary: int,
    width: int,
    hidden: int,
    heads: int,
    tokens: tuple[int | None, int | None],
    groups: int | None = None,
    head_size: int | None = None,
    layers: int = 32,
    rotates: bool = True,
) -> dict[str, Any]:
    """The recipe's ``model`` that all of them share; the arguments are transformers' defaults.

    Without ``rotates`` the caller takes the activation and the rotation.
    """
    weights.drop_prefix("model.")
    width = config.take("hidden_size", width)
    heads = config.positive("num_attention_heads", heads)
    size = config.take("head_dim", head_size or width // heads)
    groups = config.nullable("num_key_value_heads", groups or heads)
    tied = config.take("tie_word_embeddings", False)
    model: dict[str, Any] = {
        "family": "lm",
        "layers": config.take("num_hidden_layers", layers),
        "width": width,
        "attention": {
            "heads": heads,
            "kv_heads": heads if groups is None else groups,
            "query_size": size,
            "value_size": size,
            "bias": False,
        },
        "feedforward": {
            "kind": "gated",
            "width": config.take("intermediate_size", hidden),
            "activation": config.activation("hidden_act", "silu") if rotates else "silu",
            "bias": False,
        },
        "norm": {"kind": "rmsnorm", "place": "pre", "eps": config.take("rms_norm_eps", 1e-6)},
        "position": take_rotary(config, base=10_000.0, head_size=size) if rotates else {"kind": "rope"},
        "embedding": {"tie": "output" if tied else "none", "scale": "none"},
        "dropout": {"residual": 0.0, "embedding": 0.0, "attention": config.take("attention_dropout", 0.0)},
        "init": {"kind": "normal", "std": config.take("initializer_range", 0.02)},
        "vocabulary": take_vocabulary(config, size=vocabulary, bos=tokens[0], eos=tokens[1]),
    }
    if model["attention"]["kv_heads"] == heads:
        del model["attention"]["kv_heads"]
    return model


def take_vocabulary(
    config: ForeignConfig, *, size: int, bos: int | None, eos: int | None, pad: int | None = None
) -> dict[str, Any]:
    """Size and special tokens of a language model; padding that is also another token is told apart by a mask alone."""
    found = {
        "target": config.take("vocab_size", size),
        "pad": config.token("pad_token_id", pad),
        "bos": config.token("bos_token_id", bos),
        "eos": config.token("eos_token_id", eos),
        "unk": "none",
    }
    if found["pad"] in (found["bos"], found["eos"]):
        found["pad"] = "none"
    return found


def windows(config: ForeignConfig, types: Sequence[str], window: int) -> dict[str, Any]:
    """Settings of attention for layers of these types: all alike, or some with a window and some without."""
    unknown = sorted(set(types) - {FULL, SLIDING})
    if unknown:
        raise UnsupportedModel(f"{config.path}: layer_types has {unknown}: only {FULL} and {SLIDING} are supported")
    if SLIDING not in types:
        return {}
    whole = [number for number, kind in enumerate(types, start=1) if kind == FULL]
    return {"kind": "local", "window": window} | ({"whole": whole} if whole else {})


def _late_windows(config: ForeignConfig, layers: int) -> dict[str, Any]:
    window = config.nullable("sliding_window", 4096) or 0
    window = window if config.take("use_sliding_window", False) else 0
    first = config.take("max_window_layers", 28)
    late = [SLIDING if window and number >= first else FULL for number in range(layers)]
    return windows(config, config.listed("layer_types", ",") or late, window)


def plan_decoder(
    model: dict[str, Any],
    *,
    parts: Mapping[str, str] | None = None,
    layer: Mapping[str, str] = _LAYER,
) -> Plan:
    """Where each weight comes from."""
    table = Take("embed_tokens.weight")
    names = {"decoder.embedding.tokens.weight": table, "output.weight": Take("lm_head.weight")}
    names["decoder.final_norm.gain"] = Take("norm.weight")
    for index in range(model["layers"]):
        names |= pairs(f"decoder.layers.{index}.", f"layers.{index}.", {**layer, **(parts or {})})
    for name, take in list(names.items()):  # norms inside of heads are torch's own modules
        if name.endswith(("query_norm.gain", "key_norm.gain")):
            names[name.removesuffix("gain") + "weight"] = take
    copies = {"lm_head.weight": table.name} if model["embedding"]["tie"] == "output" else {}
    # the frequencies of the rotation were once stored with the weights
    return Plan(model, names, (r"layers\.\d+\.self_attn\.rotary_emb\.inv_freq",), copies)
