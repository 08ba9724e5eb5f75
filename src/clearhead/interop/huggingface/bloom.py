"""Bloom: a pre-LN decoder with ALiBi and a norm after the embedding; rows are ordered by head, then q, k, v."""

from functools import partial
from typing import Any

from torch import Tensor

from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs


def plan_bloom(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Bloom with its language-model head, which is tied to the embedding."""
    weights.drop_prefix("transformer.")
    width = config.take("n_embed", config.take("hidden_size", 64))
    heads = config.take("num_attention_heads", config.take("n_head", 8))
    config.only("apply_residual_connection_post_layernorm", False)
    config.only("slow_but_exact", False)  # it would leave out two biases where pretraining_tp is more than 1
    config.only("n_inner", None, 4 * width)
    config.only("tie_word_embeddings", True)
    for name in ("pretraining_tp", "seq_length", "offset_alibi", "skip_bias_add", "skip_bias_add_qkv"):
        config.take(name, None)  # how it was trained; an offset of all scores of a row changes no softmax
    for name in ("attention_softmax_in_fp32", "bias_dropout_fusion", "masked_softmax_fusion"):
        config.take(name, None)  # the same mathematics in other kernels
    model: dict[str, Any] = {
        "family": "lm",
        "layers": config.take("n_layer", 2),
        "width": width,
        "heads": heads,
        "feedforward": {"width": 4 * width, "activation": "gelu-tanh"},
        "norm": {"kind": "layernorm", "place": "pre", "eps": config.take("layer_norm_epsilon", 1e-5)},
        "position": {"kind": "alibi"},
        "embedding": {"tie": "output", "scale": "none", "norm": True},
        "dropout": {
            "residual": config.take("hidden_dropout", 0.0),
            "embedding": 0.0,
            "attention": config.take("attention_dropout", 0.0),
        },
        "init": {"kind": "normal", "std": config.take("initializer_range", 0.02)},
        "vocabulary": {
            "target": config.take("vocab_size", 250880),
            "pad": config.token("pad_token_id", None),
            "bos": config.token("bos_token_id", 1),
            "eos": config.token("eos_token_id", 2),
            "unk": config.token("unk_token_id", None),
        },
    }
    names = {"decoder.embedding.tokens.weight": Take("word_embeddings.weight")}
    names |= pairs("decoder.", "", {"embedding.norm": "word_embeddings_layernorm", "final_norm": "ln_f"})
    for index in range(model["layers"]):
        names |= _layer(f"decoder.layers.{index}.", f"h.{index}.", heads)
    return Plan(model, names, (), {"lm_head.weight": "word_embeddings.weight"})


def _layer(ours: str, theirs: str, heads: int) -> dict[str, Take]:
    norms = {"around_attention.norm": "input_layernorm", "around_feedforward.norm": "post_attention_layernorm"}
    maps = {
        "attention.output": "self_attention.dense",
        "feedforward.up": "mlp.dense_h_to_4h",
        "feedforward.down": "mlp.dense_4h_to_h",
    }
    names = pairs(ours, theirs, norms | maps)
    for part, name in enumerate(("query", "key", "value")):
        change = partial(_part, part=part, heads=heads)
        for what in ("weight", "bias"):
            names[f"{ours}attention.{name}.{what}"] = Take(f"{theirs}self_attention.query_key_value.{what}", change)
    return names


def _part(joined: Tensor, part: int, heads: int) -> Tensor:
    """One of q, k, v from rows that are ordered by head, then part, then feature."""
    return joined.reshape(heads, 3, -1, *joined.shape[1:])[:, part].flatten(0, 1)
