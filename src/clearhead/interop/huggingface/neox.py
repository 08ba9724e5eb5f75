"""Decoders whose attention and net stand side by side: GPT-NeoX (Pythia), with two norms, and Phi, with one."""

from functools import partial
from typing import Any

from torch import Tensor

from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.llama import take_vocabulary
from clearhead.interop.huggingface.rotary import take_rotary
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs

_NEOX = {
    "attention.output": "attention.dense",
    "feedforward.up": "mlp.dense_h_to_4h",
    "feedforward.down": "mlp.dense_4h_to_h",
    "around_attention.norm": "input_layernorm",
    "around_feedforward.norm": "post_attention_layernorm",
}
_PHI = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.dense",
    "feedforward.up": "mlp.fc1",
    "feedforward.down": "mlp.fc2",
    "around_attention.norm": "input_layernorm",
}


def plan_gpt_neox(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """GPT-NeoX: q, k and v of each head lie together; a quarter of each head is turned."""
    weights.drop_prefix("gpt_neox.")
    bias = config.take("attention_bias", True)
    share = config.take("rotary_pct", 0.25)
    base = float(config.take("rotary_emb_base", 10_000.0))
    config.take("classifier_dropout", None)  # belongs to heads for other tasks
    dropout = config.take("hidden_dropout", 0.0)
    model = _decoder(config, width=6144, layers=44, heads=64, hidden=24576, activation="gelu", share=share, base=base)
    model["attention"]["bias"] = bias
    model["parallel"] = "two-norms" if config.take("use_parallel_residual", True) else "no"
    model["dropout"] |= {"residual": dropout, "embedding": dropout}
    model["embedding"]["tie"] = "output" if config.take("tie_word_embeddings", False) else "none"
    model["vocabulary"] = take_vocabulary(config, size=50432, bos=0, eos=2)
    names = {
        "decoder.embedding.tokens.weight": Take("embed_in.weight"),
        "output.weight": Take("embed_out.weight"),
    } | pairs("decoder.", "", {"final_norm": "final_layer_norm"})
    for index in range(model["layers"]):
        ours, theirs = f"decoder.layers.{index}.", f"layers.{index}."
        names |= pairs(ours, theirs, _NEOX)
        for part, name in enumerate(("query", "key", "value")):
            change = partial(_of_each_head, part=part, heads=model["attention"]["heads"])
            for what in ("weight", "bias"):
                names[f"{ours}attention.{name}.{what}"] = Take(f"{theirs}attention.query_key_value.{what}", change)
    # masks and frequencies were once stored with the weights
    left_behind = (r"layers\.\d+\.attention\.(bias|masked_bias|rotary_emb\.inv_freq)",)
    copies = {"embed_out.weight": "embed_in.weight"} if model["embedding"]["tie"] == "output" else {}
    return Plan(model, names, left_behind, copies)


def plan_phi(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """Phi 1 and 2: one norm for attention and net, a bias on the logits, half of each head is turned."""
    weights.drop_prefix("model.")
    normed = config.take("qk_layernorm", False)
    groups = config.take("num_key_value_heads", 0)
    residual, embedding = config.take("resid_pdrop", 0.0), config.take("embd_pdrop", 0.0)
    model = _decoder(config, width=2048, layers=24, heads=32, hidden=8192, activation="gelu_new", share=0.5)
    model["parallel"] = "one-norm"
    model["dropout"] |= {"residual": residual, "embedding": embedding}
    if groups not in (0, model["attention"]["heads"]):
        model["attention"]["kv_heads"] = groups
    if normed:
        model["attention"] |= {"qk_norm": "layernorm", "qk_norm_eps": model["norm"]["eps"]}
    config.only("tie_word_embeddings", False)
    model["embedding"] |= {"tie": "none", "output_bias": True}
    model["vocabulary"] = take_vocabulary(config, size=51200, bos=1, eos=2)
    names = {"decoder.embedding.tokens.weight": Take("embed_tokens.weight")}
    names |= pairs("", "", {"output": "lm_head"}) | pairs("decoder.", "", {"final_norm": "final_layernorm"})
    for index in range(model["layers"]):
        ours, theirs = f"decoder.layers.{index}.", f"layers.{index}."
        names |= pairs(ours, theirs, _PHI)
        for name, letter in (("query", "q"), ("key", "k")):
            for what in ("weight", "bias"):
                names[f"{ours}attention.{name}_norm.{what}"] = Take(f"{theirs}self_attn.{letter}_layernorm.{what}")
    return Plan(model, names)


def _decoder(
    config: ForeignConfig,
    *,
    width: int,
    layers: int,
    heads: int,
    hidden: int,
    activation: str,
    share: float,
    base: float = 10_000.0,
) -> dict[str, Any]:
    """The recipe's ``model`` that both share; the arguments are transformers' defaults."""
    width = config.take("hidden_size", width)
    heads = config.positive("num_attention_heads", heads)
    return {
        "family": "lm",
        "layers": config.take("num_hidden_layers", layers),
        "width": width,
        "attention": {"heads": heads},
        "feedforward": {
            "width": config.take("intermediate_size", hidden),
            "activation": config.activation("hidden_act", activation),
        },
        "norm": {"kind": "layernorm", "place": "pre", "eps": config.take("layer_norm_eps", 1e-5)},
        "position": take_rotary(config, base=base, head_size=width // heads, share=share),
        "embedding": {"scale": "none"},
        "dropout": {"attention": config.take("attention_dropout", 0.0)},
        "init": {"kind": "normal", "std": config.take("initializer_range", 0.02)},
    }


def _of_each_head(joined: Tensor, part: int, heads: int) -> Tensor:
    """One of q, k, v from (h·3·q, d) or (h·3·q,)."""
    return joined.view(heads, 3, -1, *joined.shape[1:])[:, part].flatten(0, 1)
