"""BART and its relatives: Marian (sinusoidal, post-LN), Pegasus (sinusoidal, pre-LN), BART (learned, post-LN), mBART
(learned, pre-LN), M2M100 (sinusoidal, pre-LN).

A model of ours with interleaved sinusoids becomes one of theirs, whose sines come before the cosines, by putting the
features of every vector into another order, which changes no result. The setting ``clearhead_sinusoids`` of such a
``config.json`` says so, and the order is restored when it is imported.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.rotary import trained_length
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs
from clearhead.positions import sinusoids

_SELF = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.out_proj",
    "around_attention.norm": "self_attn_layer_norm",
    "feedforward.up": "fc1",
    "feedforward.down": "fc2",
    "around_feedforward.norm": "final_layer_norm",
}
_CROSS = {
    "cross.query": "encoder_attn.q_proj",
    "cross.key": "encoder_attn.k_proj",
    "cross.value": "encoder_attn.v_proj",
    "cross.output": "encoder_attn.out_proj",
    "around_cross.norm": "encoder_attn_layer_norm",
}


def plan_marian(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """MarianMT: sinusoidal positions in the layout ``halves``; its stored tables are computed here."""
    model = _model(config, weights, vocabulary=58101, tokens={"pad": 58100, "bos": None, "eos": 0, "start": 58100})
    shared = config.take("share_encoder_decoder_embeddings", True)
    model["vocabulary"]["target"] = config.take("decoder_vocab_size", model["vocabulary"]["source"])
    layout = _sinusoids(config, model)
    config.only("static_position_embeddings", True)
    config.only("normalize_embedding", False)
    config.only("add_final_layer_norm", False)
    config.only("normalize_before", False)
    tables = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
    _check_sinusoids(weights, tables)
    if shared:
        return _reordered(_plan(model, weights, left_behind=tables), layout)
    model["embedding"]["tie"] = "output"
    names = {"source": "encoder.embed_tokens", "target": "decoder.embed_tokens"}
    return _reordered(_plan(model, weights, left_behind=tables, **names), layout)


def plan_pegasus(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Pegasus: Marian with pre-LN, and a final norm in each stack."""
    model = _model(config, weights, vocabulary=50265, tokens={"pad": 0, "bos": None, "eos": 1, "start": 0})
    layout = _sinusoids(config, model)
    model["norm"]["place"] = "pre"
    config.only("static_position_embeddings", True)
    config.only("normalize_embedding", False)
    config.only("normalize_before", True)
    config.only("add_final_layer_norm", True)
    config.only("extra_pos_embeddings", 0, 1)  # never used
    tables = ("encoder.embed_positions.weight", "decoder.embed_positions.weight")
    _check_sinusoids(weights, tables)
    return _reordered(_plan(model, weights, left_behind=tables), layout)


def plan_m2m100(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """M2M100 and NLLB: mBART with sinusoids, counted from pad + 1, in the layout of tensor2tensor."""
    defaults: dict[str, int | None] = {"pad": 1, "bos": 0, "eos": 2, "start": 2}
    model = _model(config, weights, vocabulary=128112, tokens=defaults, activation="relu", dropped_layers=True)
    pad = model["vocabulary"]["pad"]
    if not isinstance(pad, int):
        raise UnsupportedModel(f"{config.path}: pad_token_id = null: M2M100's positions are counted from it")
    model["position"] = {"kind": "sinusoidal", "layout": "tensor2tensor", "offset": pad + 1} | trained_length(config)
    model["norm"]["place"] = "pre"
    model["embedding"]["scale"] = "sqrt" if config.take("scale_embedding", True) else "none"
    tables = ("encoder.embed_positions.weights", "decoder.embed_positions.weights")
    return _plan(model, weights, left_behind=tables)


def _sinusoids(config: ForeignConfig, model: dict[str, Any]) -> str:
    layout = config.take("clearhead_sinusoids", "halves")
    if layout not in ("halves", "interleaved"):
        raise UnsupportedModel(f"{config.path}: clearhead_sinusoids = {layout!r} is not supported")
    model["position"] = {"kind": "sinusoidal", "layout": layout} | trained_length(config)
    return layout


def _reordered(plan: Plan, layout: str) -> Plan:
    """The plan for features in our order, sines and cosines in turn, if the layout says so."""
    if layout == "halves":
        return plan
    names = {
        name: Take(take.name, partial(_in_turn, before=take.change, axes=_feature_axes(name)))
        for name, take in plan.names.items()
    }
    return Plan(plan.model, names, plan.left_behind, plan.copies)


def _in_turn(tensor: Tensor, before: Callable[[Tensor], Tensor], axes: tuple[int, ...]) -> Tensor:
    """Put the first and the second half of the features in turn."""
    tensor = before(tensor)
    for axis in axes:
        half = tensor.shape[axis] // 2
        order = torch.arange(2 * half).view(2, half).T.flatten()  # 0, d/2, 1, d/2 + 1 …
        tensor = tensor.index_select(axis, order)
    return tensor


def _feature_axes(name: str) -> tuple[int, ...]:
    """The axes of one of our tensors that run over the features of a token."""
    part, _, what = name.rpartition(".")
    if what in ("gain", "shift") or part.endswith(("attention.output", "cross.output", "feedforward.down")):
        return (0,)
    return (1,) if what == "weight" else ()


def _check_sinusoids(weights: ForeignWeights, tables: tuple[str, ...]) -> None:
    """Check that the stored tables, which transformers uses, equal ours, which are computed."""
    for name in tables:
        if name in weights:
            table = weights.tensors[name].float()
            if not torch.allclose(table, sinusoids(*table.shape, layout="halves"), atol=1e-5):
                raise UnsupportedModel(f"{weights.folder}: {name} is not a table of sinusoids")


def plan_bart(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """BART: learned positions with an offset of 2, and normalised embeddings."""
    model = _model(config, weights, vocabulary=50265, tokens={"pad": 1, "bos": 0, "eos": 2, "start": 2})
    _learned_positions(config, model)
    config.only("normalize_before", False)
    config.only("add_final_layer_norm", False)
    return _plan(model, weights)


def plan_mbart(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """mBART: BART with pre-LN, and a final norm in each stack."""
    model = _model(config, weights, vocabulary=50265, tokens={"pad": 1, "bos": 0, "eos": 2, "start": None})
    _learned_positions(config, model)
    model["norm"]["place"] = "pre"
    config.only("normalize_before", True)
    config.only("add_final_layer_norm", True)
    return _plan(model, weights)


def _learned_positions(config: ForeignConfig, model: dict[str, Any]) -> None:
    model["position"] = {"kind": "learned", "size": config.take("max_position_embeddings", 1024), "offset": 2}
    model["embedding"]["norm"] = True
    config.only("static_position_embeddings", False)
    config.only("normalize_embedding", True)
    config.only("extra_pos_embeddings", 2)


def _model(
    config: ForeignConfig,
    weights: ForeignWeights,
    *,
    vocabulary: int,
    tokens: dict[str, int | None],
    activation: str = "gelu",
    dropped_layers: bool = False,
) -> dict[str, Any]:
    """The plan that all of them share; ``dropped_layers`` if training may leave layers out."""
    weights.drop_prefix("model.")
    config.only("is_encoder_decoder", True)
    for side in ("encoder", "decoder"):
        config.take(f"{side}_layerdrop", 0.0) if dropped_layers else config.only(f"{side}_layerdrop", 0, 0.0)
    config.only("add_bias_logits", False)
    config.only("tie_word_embeddings", True)
    config.only("num_hidden_layers", config.take("encoder_layers", 12))  # another name for it
    config.take("classifier_dropout", None)  # belongs to heads for other tasks
    activation = config.activation("activation_function", activation)
    size = config.take("vocab_size", vocabulary)
    return {
        "family": "seq2seq",
        "width": config.take("d_model", 1024),
        "norm": {"kind": "layernorm", "place": "post", "eps": 1e-5},
        "embedding": {
            "scale": "sqrt" if config.take("scale_embedding", False) else "none",
            "tie": "all",
            "output_bias": "final_logits_bias" in weights,
        },
        "init": {"kind": "normal", "std": config.take("init_std", 0.02)},
        "dropout": {
            "residual": (rate := config.take("dropout", 0.1)),
            "embedding": rate,
            "attention": config.take("attention_dropout", 0.0),
            "activation": config.take("activation_dropout", 0.0),
        },
        "vocabulary": {
            "source": size,
            "target": size,
            "pad": config.token("pad_token_id", tokens["pad"]),
            "bos": config.token("bos_token_id", tokens["bos"]),
            "eos": config.token("eos_token_id", tokens["eos"]),
            "unk": config.token("unk_token_id", None),
            "start": config.token("decoder_start_token_id", tokens["start"]),
        },
        "cross": {"heads": config.take("decoder_attention_heads", 16)},
    } | {side: _stack(config, side, activation) for side in ("encoder", "decoder")}


def _stack(config: ForeignConfig, side: str, activation: str) -> dict[str, Any]:
    return {
        "layers": config.take(f"{side}_layers", 12),
        "heads": config.take(f"{side}_attention_heads", 16),
        "feedforward": {"width": config.take(f"{side}_ffn_dim", 4096), "activation": activation},
    }


def _plan(
    model: dict[str, Any],
    weights: ForeignWeights,
    *,
    left_behind: tuple[str, ...] = (),
    source: str = "shared",
    target: str = "shared",
) -> Plan:
    if "classification_head.dense.weight" in weights:
        raise UnsupportedModel(f"{weights.folder}: BART with a classification head is not supported")
    names = {
        "encoder.embedding.tokens.weight": Take(f"{source}.weight"),
        "decoder.embedding.tokens.weight": Take(f"{target}.weight"),
        "output.bias": Take("final_logits_bias", lambda bias: bias.flatten()),
    }
    for side in ("encoder", "decoder"):
        names[f"{side}.embedding.position.table.weight"] = Take(f"{side}.embed_positions.weight")
        names |= pairs(f"{side}.", f"{side}.", {"embedding.norm": "layernorm_embedding", "final_norm": "layer_norm"})
        parts = _SELF if side == "encoder" else _SELF | _CROSS
        for index in range(model[side]["layers"]):
            names |= pairs(f"{side}.layers.{index}.", f"{side}.layers.{index}.", parts)
    copies = {
        "encoder.embed_tokens.weight": f"{source}.weight",
        "decoder.embed_tokens.weight": f"{target}.weight",
        "lm_head.weight": f"{target}.weight",
    }
    return Plan(model, names, left_behind, {copy: original for copy, original in copies.items() if copy != original})
