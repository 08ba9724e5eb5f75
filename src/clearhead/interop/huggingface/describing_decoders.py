"""Language models with rotations in the words of Hugging Face: Llama, Mistral, Qwen2, Qwen3, GPT-NeoX, Phi, Gemma."""

from typing import Any

from clearhead.interop.huggingface.describing import Description, at, rate, their_activation, token_ids
from clearhead.interop.huggingface.llama import FULL, SLIDING
from clearhead.recipe import ModelSpec


def _rotation(spec: ModelSpec) -> dict[str, Any]:
    position = at(spec, "decoder.position", None)
    kind = getattr(position, "scaling", "none")
    found: dict[str, Any] = {"rope_type": "default", "rope_theta": getattr(position, "base", 10_000.0)}
    if kind != "none":
        found |= {"rope_type": kind, "factor": position.factor}
    if kind == "llama3":
        found |= {"low_freq_factor": position.low, "high_freq_factor": position.fast}
    if kind == "yarn":
        given = {
            "beta_slow": position.low if position.low != 1.0 else None,
            "beta_fast": position.high,
            "truncate": None if position.rounded else False,
            "attention_factor": position.magnitude,
        }
        found |= {name: value for name, value in given.items() if value is not None}
    if kind in ("llama3", "yarn"):
        found |= {"original_max_position_embeddings": position.original}
    return found


def _turned(spec: ModelSpec, head_size: int) -> float:
    """The share of each head that is turned, for the architectures that can turn less than all."""
    features = getattr(at(spec, "decoder.position", None), "features", None)
    return 1.0 if features is None else features / head_size


def _sizes(spec: ModelSpec) -> tuple[dict[str, Any], int]:
    """The settings that all of them share, and the size of a head."""
    width, heads = at(spec, "decoder.width", 8), at(spec, "decoder.attention.heads", 1)
    attention = at(spec, "decoder.attention", None)
    size = attention.sizes(width)[0] if attention is not None else width // heads
    settings = {
        "vocab_size": spec.vocabulary.target,
        "hidden_size": width,
        "num_hidden_layers": at(spec, "decoder.layers", 1),
        "num_attention_heads": heads,
        "intermediate_size": at(spec, "decoder.feedforward.width", 4 * width),
        "hidden_act": their_activation(at(spec, "decoder.feedforward.activation", "silu")),
        "attention_dropout": rate(at(spec, "decoder.dropout.attention", 0.0)),
        "initializer_range": spec.init.std,
        "rope_parameters": _rotation(spec),
        "tie_word_embeddings": spec.embedding.tie != "none",
    }
    length = at(spec, "decoder.position.trained_length", None)
    return settings | token_ids(spec) | ({} if length is None else {"max_position_embeddings": length}), size


def _llama_like(spec: ModelSpec) -> dict[str, Any]:
    settings, size = _sizes(spec)
    groups = at(spec, "decoder.attention.kv_heads", settings["num_attention_heads"])
    eps = at(spec, "decoder.norm.eps", 1e-6)
    return settings | {"num_key_value_heads": groups, "head_dim": size, "rms_norm_eps": eps}


def _window(spec: ModelSpec) -> int | None:
    window: int | None = at(spec, "decoder.attention.window", None)
    return window


def _layer_types(spec: ModelSpec) -> list[str]:
    layers = range(1, at(spec, "decoder.layers", 1) + 1)
    whole = layers if _window(spec) is None else at(spec, "decoder.attention.whole", [])
    return [FULL if number in whole else SLIDING for number in layers]


def _late_windows(spec: ModelSpec) -> dict[str, Any]:
    window, types = _window(spec), _layer_types(spec)
    if window is None:
        return {"use_sliding_window": False}
    late = {"layer_types": types, "max_window_layers": types.count(FULL)}
    return {"use_sliding_window": True, "sliding_window": window} | late


def llama(spec: ModelSpec) -> Description:
    """Llama: no windows, biases everywhere in attention or nowhere."""
    own = {
        "attention_bias": at(spec, "decoder.attention.bias", False),
        "mlp_bias": at(spec, "decoder.feedforward.bias", False),
    }
    return Description("llama", "LlamaConfig", "LlamaForCausalLM", _llama_like(spec) | own)


def mistral(spec: ModelSpec) -> Description:
    """Mistral: a window in every layer."""
    settings = _llama_like(spec) | {"sliding_window": _window(spec)}
    return Description("mistral", "MistralConfig", "MistralForCausalLM", settings)


def qwen2(spec: ModelSpec) -> Description:
    """Qwen2: biases of queries, keys and values."""
    settings = _llama_like(spec) | _late_windows(spec)
    del settings["head_dim"]
    return Description("qwen2", "Qwen2Config", "Qwen2ForCausalLM", settings)


def qwen3(spec: ModelSpec) -> Description:
    """Qwen3: norms of queries and keys."""
    own = {"attention_bias": at(spec, "decoder.attention.bias", False)}
    return Description("qwen3", "Qwen3Config", "Qwen3ForCausalLM", _llama_like(spec) | _late_windows(spec) | own)


def _gemma_like(spec: ModelSpec) -> dict[str, Any]:
    settings = _llama_like(spec)
    activation = settings.pop("hidden_act")
    settings["hidden_activation"] = "gelu_pytorch_tanh" if activation == "gelu_new" else activation
    return settings | {"attention_bias": at(spec, "decoder.attention.bias", False)}


def gemma(spec: ModelSpec) -> Description:
    """Gemma: embeddings times √d, gains stored without 1."""
    settings = _gemma_like(spec)
    settings["hidden_act"] = settings.pop("hidden_activation")
    return Description("gemma", "GemmaConfig", "GemmaForCausalLM", settings)


def _gemma2_like(spec: ModelSpec) -> dict[str, Any]:
    settings, scale = _gemma_like(spec), at(spec, "decoder.attention.scale", "sqrt")
    window = _window(spec)
    settings |= {
        "query_pre_attn_scalar": round(scale**2) if isinstance(scale, float) else settings["head_dim"],
        "attn_logit_softcapping": at(spec, "decoder.attention.cap", None),
        "final_logit_softcapping": spec.embedding.output_cap,
        "layer_types": _layer_types(spec),
    }
    return settings | ({} if window is None else {"sliding_window": window})


def gemma2(spec: ModelSpec) -> Description:
    """Gemma 2: norms on both sides, windows, caps."""
    return Description("gemma2", "Gemma2Config", "Gemma2ForCausalLM", _gemma2_like(spec))


def gemma3(spec: ModelSpec) -> Description:
    """Gemma 3: norms of queries and keys, and another rotation where a layer sees a window."""
    settings, far = _gemma2_like(spec), _rotation(spec)
    base = at(spec, "decoder.position.window_base", far["rope_theta"])
    settings["rope_parameters"] = {FULL: far, SLIDING: {"rope_type": "default", "rope_theta": base}}
    return Description("gemma3_text", "Gemma3TextConfig", "Gemma3ForCausalLM", settings)


def _layer_norm(spec: ModelSpec) -> dict[str, Any]:
    return {"layer_norm_eps": at(spec, "decoder.norm.eps", 1e-5)}


def gpt_neox(spec: ModelSpec) -> Description:
    """GPT-NeoX: attention and net side by side, with two norms, or one after the other."""
    settings, size = _sizes(spec)
    settings["rope_parameters"]["partial_rotary_factor"] = _turned(spec, size)
    own = {
        "attention_bias": at(spec, "decoder.attention.bias", True),
        "hidden_dropout": rate(at(spec, "decoder.dropout.residual", 0.0)),
        "use_parallel_residual": at(spec, "decoder.parallel", "no") != "no",
    }
    return Description("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", settings | _layer_norm(spec) | own)


def phi(spec: ModelSpec) -> Description:
    """Phi: attention and net side by side, with one norm."""
    settings, size = _sizes(spec)
    settings["rope_parameters"]["partial_rotary_factor"] = _turned(spec, size)
    own = {
        "num_key_value_heads": at(spec, "decoder.attention.kv_heads", settings["num_attention_heads"]),
        "qk_layernorm": at(spec, "decoder.attention.qk_norm", "none") == "layernorm",
        "resid_pdrop": rate(at(spec, "decoder.dropout.residual", 0.0)),
        "embd_pdrop": rate(at(spec, "decoder.dropout.embedding", 0.0)),
    }
    return Description("phi", "PhiConfig", "PhiForCausalLM", settings | _layer_norm(spec) | own)


DECODERS = (llama, mistral, qwen2, qwen3, gpt_neox, phi, gemma, gemma2, gemma3)
"""In the order in which they are tried."""
