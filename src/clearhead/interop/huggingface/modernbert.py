"""ModernBERT: a pre-LN encoder with rotations, gated nets, and windows in two layers of three."""

from functools import partial
from typing import Any

from torch import Tensor

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.gemma import two_rotations
from clearhead.interop.huggingface.llama import FULL, SLIDING, windows
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs

_LAYER = {
    "attention.output": "attn.Wo",
    "feedforward.down": "mlp.Wo",
    "around_attention.norm": "attn_norm",
    "around_feedforward.norm": "mlp_norm",
}
_JOINED = {
    "attention.query": ("attn.Wqkv", 0, 3),
    "attention.key": ("attn.Wqkv", 1, 3),
    "attention.value": ("attn.Wqkv", 2, 3),
    "feedforward.gate": ("mlp.Wi", 0, 2),
    "feedforward.up": ("mlp.Wi", 1, 2),
}
_ELSEWHERE = (
    *("initializer_cutoff_factor", "deterministic_flash_attn", "sparse_prediction", "sparse_pred_ignore_index"),
    *("reference_compile", "repad_logits_with_grad", "cls_token_id", "sep_token_id", "layer_norm_eps"),
    *("classifier_pooling", "classifier_dropout", "position_embedding_type"),
)
"""Settings of its first weights, of its training, of other heads: none of them changes the encoder."""


def plan_modernbert(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """ModernBERT, bare or with its head for masked tokens."""
    weights.drop_prefix("model.")
    if "classifier.weight" in weights:
        raise UnsupportedModel(f"{weights.folder}: ModernBERT with a classification head is not supported")
    for name in _ELSEWHERE:
        config.take(name, None)
    config.only("decoder_bias", True)
    config.take("tie_word_embeddings", True)  # concerns the head for masked tokens
    model = _model(config)
    head = "head.dense.weight" in weights
    head_bias, activation = config.take("classifier_bias", False), config.activation("classifier_activation", "gelu")
    if head:
        model |= {"head": "tokens", "head_transform": activation, "head_bias": head_bias}
    table = Take("embeddings.tok_embeddings.weight")
    names = {"encoder.embedding.tokens.weight": table, "output.bias": Take("decoder.bias")}
    names |= pairs("encoder.", "", {"embedding.norm": "embeddings.norm", "final_norm": "final_norm"})
    names |= pairs("output.transform.", "", {"map": "head.dense", "norm": "head.norm"})
    for index in range(model["layers"]):
        ours, theirs = f"encoder.layers.{index}.", f"layers.{index}."
        names |= pairs(ours, theirs, _LAYER)
        for mine, (joined, part, parts) in _JOINED.items():
            for what in ("weight", "bias"):
                names[f"{ours}{mine}.{what}"] = Take(f"{theirs}{joined}.{what}", partial(_part, part=part, parts=parts))
    return Plan(model, names, copies={"decoder.weight": table.name} if head else {})


def _model(config: ForeignConfig) -> dict[str, Any]:
    width, heads = config.take("hidden_size", 768), config.positive("num_attention_heads", 12)
    layers = config.take("num_hidden_layers", 22)
    every = config.positive("global_attn_every_n_layers", 3)
    types = config.listed("layer_types", ",") or [SLIDING if number % every else FULL for number in range(layers)]
    side = config.take("local_attention", 128) // 2
    config.only("sliding_window", None, side)  # half of local_attention, under another name
    far, near = config.take("global_rope_theta", 160_000.0), config.take("local_rope_theta", 10_000.0)
    position = two_rotations(config, whole=far, window=near, head_size=width // heads)
    window = windows(config, types, 2 * side + 1)
    if not window:
        position.pop("window_base", None)
    return {
        "family": "encoder",
        "layers": layers,
        "width": width,
        "attention": {"heads": heads, "bias": config.take("attention_bias", False)} | window,
        "feedforward": {
            "kind": "gated",
            "width": config.take("intermediate_size", 1152),
            "activation": config.activation("hidden_activation", "gelu"),
            "bias": config.take("mlp_bias", False),
        },
        "norm": {
            "kind": "layernorm",
            "place": "pre",
            "first": False,
            "shift": config.take("norm_bias", False),
            "eps": config.take("norm_eps", 1e-5),
        },
        "position": position,
        "embedding": {"norm": True, "scale": "none"},
        "dropout": {
            "residual": 0.0,
            "embedding": config.take("embedding_dropout", 0.0),
            "attention": config.take("attention_dropout", 0.0),
            "activation": config.take("mlp_dropout", 0.0),
        },
        "init": {"kind": "normal", "std": config.take("initializer_range", 0.02)},
        "vocabulary": {
            "source": config.take("vocab_size", 50368),
            "pad": config.token("pad_token_id", 50283),
            "bos": config.token("bos_token_id", 50281),
            "eos": config.token("eos_token_id", 50282),
            "unk": "none",
        },
    }


def _part(joined: Tensor, part: int, parts: int) -> Tensor:
    """One of several maps that are stored one below the other."""
    return joined.chunk(parts)[part]
