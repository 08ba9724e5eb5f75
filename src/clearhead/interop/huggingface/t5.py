"""T5: RMS norm, bucketed relative positions shared by a stack, unscaled scores, no biases."""

from typing import Any

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ACTIVATIONS, ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs

_ATTENTION = {"query": "q", "key": "k", "value": "v", "output": "o"}


def plan_t5(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """T5 and T5 1.1 (gated, with an untied output matrix)."""
    feedforward = _feedforward(config)
    tied = "lm_head.weight" not in weights
    scaled = config.take("scale_decoder_outputs", config.take("tie_word_embeddings", True))
    config.only("is_encoder_decoder", True)
    config.take("n_positions", None)  # never used by the model
    config.take("classifier_dropout", None)  # belongs to heads for other tasks
    config.take("initializer_factor", None)  # concerns training from scratch
    layers = config.take("num_layers", 6)
    size = config.take("vocab_size", 32128)
    head = config.take("d_kv", 64)
    rate = config.take("dropout_rate", 0.1)
    model: dict[str, Any] = {
        "family": "seq2seq",
        "width": config.take("d_model", 512),
        "heads": config.take("num_heads", 8),
        "attention": {"query_size": head, "value_size": head, "scale": "none", "bias": False},
        "feedforward": feedforward,
        "norm": {"kind": "rmsnorm", "place": "pre", "eps": config.take("layer_norm_epsilon", 1e-6)},
        "position": {
            "kind": "t5",
            "buckets": config.take("relative_attention_num_buckets", 32),
            "max_distance": config.take("relative_attention_max_distance", 128),
        },
        "embedding": {
            "scale": "none",
            "tie": "all" if tied else "inputs",
            "output_scale": "rsqrt" if scaled else "none",
        },
        "dropout": {"residual": rate, "embedding": rate, "attention": rate, "activation": rate},
        "vocabulary": {
            "source": size,
            "target": size,
            "pad": config.token("pad_token_id", 0),
            "bos": config.token("bos_token_id", None),
            "eos": config.token("eos_token_id", 1),
            "unk": "none",
            "start": config.token("decoder_start_token_id", 0),
        },
        "encoder": {"layers": layers},
        "decoder": {"layers": config.take("num_decoder_layers", layers)},
    }
    names = {
        "encoder.embedding.tokens.weight": Take("shared.weight"),
        "decoder.embedding.tokens.weight": Take("shared.weight"),
        "output.weight": Take("lm_head.weight"),
    }
    for side in ("encoder", "decoder"):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        names[f"{side}.scheme.table.weight"] = Take(bias)
        names |= pairs(f"{side}.", f"{side}.", {"final_norm": "final_layer_norm"}, bias=False)
        for index in range(model[side]["layers"]):
            names |= _layer(side, index, gated=feedforward["kind"] == "gated")
    copies = {f"{side}.embed_tokens.weight": "shared.weight" for side in ("encoder", "decoder")}
    # an old bias of the cross-attention that no version uses
    left_behind = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)
    return Plan(model, names, left_behind, copies)


def _feedforward(config: ForeignConfig) -> dict[str, Any]:
    name = config.take("feed_forward_proj", "relu")
    activation = "gelu_new" if name == "gated-gelu" else name.removeprefix("gated-")
    config.only("dense_act_fn", activation)  # both follow from feed_forward_proj
    config.only("is_gated_act", name.startswith("gated-"))
    if activation not in ACTIVATIONS:
        raise UnsupportedModel(f"{config.path}: feed_forward_proj = {name!r} is not supported")
    return {
        "kind": "gated" if name.startswith("gated-") else "standard",
        "width": config.take("d_ff", 2048),
        "activation": ACTIVATIONS[activation],
        "bias": False,
    }


def _layer(side: str, index: int, *, gated: bool) -> dict[str, Take]:
    ours, theirs = f"{side}.layers.{index}.", f"{side}.block.{index}.layer."
    last = "1" if side == "encoder" else "2"
    parts = {f"attention.{mine}": f"0.SelfAttention.{foreign}" for mine, foreign in _ATTENTION.items()}
    parts["around_attention.norm"] = "0.layer_norm"
    if side == "decoder":
        parts |= {f"cross.{mine}": f"1.EncDecAttention.{foreign}" for mine, foreign in _ATTENTION.items()}
        parts["around_cross.norm"] = "1.layer_norm"
    parts["around_feedforward.norm"] = f"{last}.layer_norm"
    if gated:
        parts |= {
            "feedforward.gate": f"{last}.DenseReluDense.wi_0",
            "feedforward.up": f"{last}.DenseReluDense.wi_1",
        }
    else:
        parts["feedforward.up"] = f"{last}.DenseReluDense.wi"
    parts["feedforward.down"] = f"{last}.DenseReluDense.wo"
    return pairs(ours, theirs, parts, bias=False)
