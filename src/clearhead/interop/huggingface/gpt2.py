"""GPT-2: a pre-LN decoder; its linear maps are stored as in × out, with q, k, v in one matrix."""

from functools import partial
from typing import Any

from torch import Tensor

from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs


def plan_gpt2(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """GPT-2 with its language-model head, which is tied to the embedding."""
    weights.drop_prefix("transformer.")
    width = config.take("n_embd", 768)
    config.only("scale_attn_weights", True)
    config.only("scale_attn_by_inverse_layer_idx", False)
    config.only("reorder_and_upcast_attn", False, True)  # the same mathematics in another order
    config.only("tie_word_embeddings", True)
    config.take("n_ctx", None)  # an old name for n_positions
    for head in ("type", "use_proj", "activation", "proj_to_labels", "first_dropout"):
        config.take(f"summary_{head}", None)  # a head for other tasks
    model: dict[str, Any] = {
        "family": "lm",
        "layers": config.take("n_layer", 12),
        "width": width,
        "heads": config.take("n_head", 12),
        "feedforward": {
            "width": config.take("n_inner", 4 * width),
            "activation": config.activation("activation_function", "gelu_new"),
        },
        "norm": {"kind": "layernorm", "place": "pre", "eps": config.take("layer_norm_epsilon", 1e-5)},
        "position": {"kind": "learned", "size": config.take("n_positions", 1024)},
        "embedding": {"tie": "output", "scale": "none"},
        "dropout": {
            "residual": config.take("resid_pdrop", 0.1),
            "embedding": config.take("embd_pdrop", 0.1),
            "attention": config.take("attn_pdrop", 0.1),
        },
        "init": {"kind": "normal", "std": config.take("initializer_range", 0.02), "residual": "depth"},
        "vocabulary": {
            "target": config.take("vocab_size", 50257),
            "pad": config.token("pad_token_id", None),
            "bos": config.token("bos_token_id", 50256),
            "eos": config.token("eos_token_id", 50256),
            "unk": "none",
        },
    }
    vocabulary = model["vocabulary"]
    if vocabulary["pad"] in (vocabulary["bos"], vocabulary["eos"]):
        vocabulary["pad"] = "none"  # often set so for fine-tuning: then a mask, not the id, says what is padding
    names = {
        "decoder.embedding.tokens.weight": Take("wte.weight"),
        "decoder.embedding.position.table.weight": Take("wpe.weight"),
    } | pairs("decoder.", "", {"final_norm": "ln_f"})
    for index in range(model["layers"]):
        names |= _layer(f"decoder.layers.{index}.", f"h.{index}.")
    # the causal mask was once stored with the weights
    return Plan(model, names, (r"h\.\d+\.attn\.(masked_)?bias",), {"lm_head.weight": "wte.weight"})


def _layer(ours: str, theirs: str) -> dict[str, Take]:
    names = pairs(ours, theirs, {"around_attention.norm": "ln_1", "around_feedforward.norm": "ln_2"})
    maps = {"attention.output": "attn.c_proj", "feedforward.up": "mlp.c_fc", "feedforward.down": "mlp.c_proj"}
    for mine, foreign in maps.items():
        names[f"{ours}{mine}.weight"] = Take(f"{theirs}{foreign}.weight", lambda weight: weight.T)
        names[f"{ours}{mine}.bias"] = Take(f"{theirs}{foreign}.bias")
    for part, name in enumerate(("query", "key", "value")):
        change = partial(_third, part=part)
        names[f"{ours}attention.{name}.weight"] = Take(f"{theirs}attn.c_attn.weight", change)
        names[f"{ours}attention.{name}.bias"] = Take(f"{theirs}attn.c_attn.bias", change)
    return names


def _third(joined: Tensor, part: int) -> Tensor:
    """One of q, k, v from (d, 3d) or (3d,), turned to out × in."""
    return joined.chunk(3, dim=-1)[part].T if joined.dim() == 2 else joined.chunk(3)[part]
