"""DeBERTa: post-LN encoders with disentangled attention (L4.9); v1, and v2 with its buckets and shared projections."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.bert import with_token_head
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs

_LAYER = {
    "attention.output": "attention.output.dense",
    "around_attention.norm": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "around_feedforward.norm": "output.LayerNorm",
}


def plan_deberta(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Version 1: one matrix holds q, k and v of each head in turn, and keys have no bias."""
    weights.drop_prefix("deberta.")
    config.only("talking_head", False)
    model = _model(config, vocabulary=50265)
    heads = model["heads"]
    names = _names(model, {})
    for index in range(model["layers"]):
        ours, theirs = f"encoder.layers.{index}.attention.", f"encoder.layer.{index}.attention.self."
        for number, part in enumerate(("query", "key", "value")):
            names[f"{ours}{part}.weight"] = Take(f"{theirs}in_proj.weight", partial(_third, number, heads))
        names[f"{ours}query.bias"] = Take(f"{theirs}q_bias")
        names[f"{ours}key.bias"] = Take(f"{theirs}q_bias", torch.zeros_like)
        names[f"{ours}value.bias"] = Take(f"{theirs}v_bias")
        names[f"{ours}place_key.weight"] = Take(f"{theirs}pos_proj.weight")
        names[f"{ours}place_key.bias"] = Take(f"{theirs}q_bias", torch.zeros_like)
        names |= pairs(ours, theirs, {"place_query": "pos_q_proj"})
    return _with_head(Plan(model, names, _LEFT_BEHIND), weights)


def plan_deberta_v2(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Versions 2 and 3: logarithmic buckets, a normalised table, projections shared by content and positions."""
    weights.drop_prefix("deberta.")
    config.only("conv_kernel_size", 0, None)
    model = _model(config, vocabulary=128_100)
    attention = model["attention"]
    if (buckets := config.take("position_buckets", -1)) > 0:
        attention["buckets"] = buckets
    norm = config.take("norm_rel_ebd", "none")
    if norm not in ("none", "layer_norm"):
        raise UnsupportedModel(f"{config.path}: norm_rel_ebd = {norm!r} is not supported (supported: layer_norm)")
    attention["normalised"] = norm == "layer_norm"
    attention["shared_projections"] = config.take("share_att_key", False)
    parts = {
        "attention.query": "attention.self.query_proj",
        "attention.key": "attention.self.key_proj",
        "attention.value": "attention.self.value_proj",
        "attention.place_key": "attention.self.pos_key_proj",
        "attention.place_query": "attention.self.pos_query_proj",
    }
    return _with_head(Plan(model, _names(model, parts), _LEFT_BEHIND), weights)


def _with_head(plan: Plan, weights: ForeignWeights) -> Plan:
    """The head for masked tokens, under its old names or its new ones."""
    if "lm_predictions.lm_head.dense.weight" in weights:
        place = "lm_predictions.lm_head."
        parts = {"map": f"{place}dense", "norm": f"{place}LayerNorm"}
        return with_token_head(plan, weights, parts, bias=f"{place}bias", decoder=f"{place}decoder")
    place = "cls.predictions."
    parts = {"map": f"{place}transform.dense", "norm": f"{place}transform.LayerNorm"}
    return with_token_head(plan, weights, parts, bias=f"{place}bias", decoder=f"{place}decoder")


_LEFT_BEHIND = (r"cls\..*", r"lm_predictions\..*", r"mask_predictions\..*", r"embeddings\.position_ids")


def _third(number: int, heads: int, joined: Tensor) -> Tensor:
    """Queries, keys or values of all heads, from a matrix that holds all three of each head in turn."""
    return joined.view(heads, 3, -1, joined.shape[1])[:, number].reshape(-1, joined.shape[1])


def _model(config: ForeignConfig, *, vocabulary: int) -> dict[str, Any]:
    if not config.take("relative_attention", False):
        raise UnsupportedModel(f"{config.path}: relative_attention = false: DeBERTa without its attention")
    width = config.take("hidden_size", 768)
    config.only("embedding_size", width, None)
    for head in ("legacy", "pooler_dropout", "pooler_hidden_act", "pooler_hidden_size", "tie_word_embeddings"):
        config.take(head, None)  # heads of other tasks
    positions = config.take("max_position_embeddings", 512)
    span = config.take("max_relative_positions", -1)
    biased = config.take("position_biased_input", True)
    rate = config.take("hidden_dropout_prob", 0.1)
    return {
        "family": "encoder",
        "layers": config.take("num_hidden_layers", 12),
        "width": width,
        "heads": config.take("num_attention_heads", 12),
        "attention": {"kind": "disentangled", "terms": _terms(config), "span": span if span > 0 else positions},
        "feedforward": {
            "width": config.take("intermediate_size", 3072),
            "activation": config.activation("hidden_act", "gelu"),
        },
        "norm": {"kind": "layernorm", "place": "post", "eps": config.take("layer_norm_eps", 1e-7)},
        "position": {"kind": "learned", "size": positions} if biased else {"kind": "none"},
        "dropout": {
            "residual": rate,
            "embedding": rate,
            "attention": config.take("attention_probs_dropout_prob", 0.1),
        },
        "embedding": {"norm": True, "scale": "none", "segments": config.take("type_vocab_size", 0)},
        "init": {"kind": "normal", "std": config.take("initializer_range", 0.02)},
        "vocabulary": {
            "source": config.take("vocab_size", vocabulary),
            "pad": config.token("pad_token_id", 0),
            "bos": config.token("bos_token_id", None),
            "eos": config.token("eos_token_id", None),
            "unk": "none",
        },
    }


def _terms(config: ForeignConfig) -> list[str]:
    """The terms of the score; they write ``c2p|p2c``, or a list."""
    given = config.listed("pos_att_type", "|")
    if unknown := set(given) - {"c2p", "p2c"}:
        raise UnsupportedModel(f"{config.path}: pos_att_type has {', '.join(sorted(unknown))} (known: c2p, p2c)")
    return ["c2c", *(term for term in ("c2p", "p2c") if term in given)]


def _names(model: dict[str, Any], parts: dict[str, str]) -> dict[str, Take]:
    theirs = {
        "tokens": "word_embeddings",
        "position.table": "position_embeddings",
        "segments": "token_type_embeddings",
    }
    names = {f"encoder.embedding.{our}.weight": Take(f"embeddings.{their}.weight") for our, their in theirs.items()}
    names |= pairs("encoder.", "", {"embedding.norm": "embeddings.LayerNorm"})
    places = "encoder.layers.0.attention.places."  # all layers share the table
    names[f"{places}table.weight"] = Take("encoder.rel_embeddings.weight")
    names[f"{places}norm.weight"] = Take("encoder.LayerNorm.weight")
    names[f"{places}norm.bias"] = Take("encoder.LayerNorm.bias")
    for index in range(model["layers"]):
        names |= pairs(f"encoder.layers.{index}.", f"encoder.layer.{index}.", _LAYER | parts)
    return names
