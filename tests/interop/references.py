"""Tiny random models of transformers with odd sizes, saved as folders: the independent references."""

import importlib
import math
from functools import partial
from pathlib import Path
from typing import Any

import torch


class _Transformers:
    """transformers, imported when a class of it is first asked for: all workers collect these files, one uses it."""

    def __getattr__(self, name: str) -> Any:
        if not name[0].isupper():  # pytest asks everything in a file for marks
            raise AttributeError(name)
        return getattr(importlib.import_module("transformers"), name)


transformers: Any = _Transformers()
PAD = 49
SIZES: dict[str, Any] = {
    "d_model": 48,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 3,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 56,
}
ENCODER_SIZES: dict[str, Any] = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 3,
    "intermediate_size": 40,
    "vocab_size": 50,
    "max_position_embeddings": 40,
}


def marian(**settings: Any) -> Any:
    tokens = {"pad_token_id": PAD, "eos_token_id": 0, "decoder_start_token_id": PAD, "forced_eos_token_id": None}
    config = transformers.MarianConfig(
        **({"vocab_size": 50, "max_position_embeddings": 64} | tokens | SIZES | settings)
    )
    return transformers.MarianMTModel(config)


def bart(**settings: Any) -> Any:
    config = transformers.BartConfig(
        **({"vocab_size": 50, "max_position_embeddings": 64, "forced_eos_token_id": None} | SIZES | settings)
    )
    return transformers.BartForConditionalGeneration(config)


def mbart(**settings: Any) -> Any:
    config = transformers.MBartConfig(
        **(
            {"vocab_size": 50, "max_position_embeddings": 64, "forced_eos_token_id": None, "decoder_start_token_id": 2}
            | SIZES
            | settings
        )
    )
    return transformers.MBartForConditionalGeneration(config)


def m2m100(**settings: Any) -> Any:
    tokens = {"decoder_start_token_id": 2, "forced_eos_token_id": None}
    config = transformers.M2M100Config(
        **({"vocab_size": 50, "max_position_embeddings": 64} | tokens | SIZES | settings)
    )
    return transformers.M2M100ForConditionalGeneration(config)


def t5(**settings: Any) -> Any:
    sizes = {"vocab_size": 50, "d_model": 48, "d_kv": 10, "d_ff": 40, "num_heads": 3}
    depth = {
        "num_layers": 2,
        "num_decoder_layers": 3,
        "decoder_start_token_id": 0,
        "relative_attention_max_distance": 20,
    }
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**(sizes | depth | settings)))


def bert(**settings: Any) -> Any:
    return transformers.BertModel(transformers.BertConfig(**(ENCODER_SIZES | settings)))


def bert_classifier(**settings: Any) -> Any:
    config = transformers.BertConfig(**(ENCODER_SIZES | {"num_labels": 5} | settings))
    return transformers.BertForSequenceClassification(config)


def roberta(**settings: Any) -> Any:
    return transformers.RobertaModel(transformers.RobertaConfig(**(ENCODER_SIZES | settings)))


def roberta_classifier(**settings: Any) -> Any:
    config = transformers.RobertaConfig(**(ENCODER_SIZES | {"num_labels": 5} | settings))
    return transformers.RobertaForSequenceClassification(config)


def distilbert(**settings: Any) -> Any:
    sizes = {"dim": 48, "n_layers": 3, "n_heads": 3, "hidden_dim": 40, "vocab_size": 50, "max_position_embeddings": 40}
    return transformers.DistilBertModel(transformers.DistilBertConfig(**(sizes | settings)))


def encoder(name: str, head: str, **settings: Any) -> Any:
    """An encoder of the newer kinds, by the names of its classes."""
    config = getattr(transformers, f"{name}Config")(**(ENCODER_SIZES | settings))
    return getattr(transformers, f"{name}{head}")(config)


NARROW = {"embedding_size": 20}
MODERN: dict[str, Any] = {
    **{"local_attention": 4, "global_attn_every_n_layers": 2},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2},
}
albert = partial(encoder, "Albert", "ForMaskedLM", **NARROW)
albert_classifier = partial(encoder, "Albert", "ForSequenceClassification", **NARROW, num_labels=5)
electra = partial(encoder, "Electra", "Model", **NARROW)
modernbert = partial(encoder, "ModernBert", "ForMaskedLM", **MODERN)


RELATIVE: dict[str, Any] = {"relative_attention": True, "pos_att_type": "c2p|p2c", "position_biased_input": False}


def deberta(**settings: Any) -> Any:
    config = transformers.DebertaConfig(**(ENCODER_SIZES | RELATIVE | {"type_vocab_size": 0} | settings))
    return transformers.DebertaModel(config)


def deberta_v2(**settings: Any) -> Any:
    config = transformers.DebertaV2Config(**(ENCODER_SIZES | RELATIVE | {"type_vocab_size": 0} | settings))
    return transformers.DebertaV2Model(config)


def gpt2(**settings: Any) -> Any:
    sizes = {"n_embd": 48, "n_layer": 3, "n_head": 3, "n_inner": 40, "vocab_size": 50, "n_positions": 64}
    config = transformers.GPT2Config(**(sizes | {"bos_token_id": 1, "eos_token_id": 1} | settings))
    return transformers.GPT2LMHeadModel(config)


def bloom(**settings: Any) -> Any:
    sizes = {"hidden_size": 48, "n_layer": 3, "n_head": 3, "vocab_size": 50}
    return transformers.BloomForCausalLM(transformers.BloomConfig(**(sizes | settings)))


DECODER_SIZES: dict[str, Any] = {
    **{"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2},
    **{"intermediate_size": 40, "vocab_size": 50, "max_position_embeddings": 64},
    **{"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0},
}


def causal(name: str, **settings: Any) -> Any:
    """A language model of the Llama kind, by the name of its classes."""
    sizes = {key: size for key, size in DECODER_SIZES.items() if name != "GPTNeoX" or key != "num_key_value_heads"}
    config = getattr(transformers, f"{name}Config")(**(sizes | settings))
    return getattr(transformers, f"{name.removesuffix('Text')}ForCausalLM")(config)


llama = partial(causal, "Llama", head_dim=12, tie_word_embeddings=True)
mistral = partial(causal, "Mistral", head_dim=12, sliding_window=3)
qwen2 = partial(causal, "Qwen2", use_sliding_window=True, sliding_window=4, max_window_layers=1)
qwen3 = partial(causal, "Qwen3", head_dim=16)
YARN = {"rope_type": "yarn", "factor": 8.0, "rope_theta": 500.0, "original_max_position_embeddings": 64}
llama_yarn = partial(causal, "Llama", head_dim=12, rope_parameters=YARN)
qwen3_yarn = partial(
    causal, "Qwen3", rope_parameters=YARN | {"beta_fast": 6.0, "truncate": False, "attention_factor": 1.7}
)
phi = partial(causal, "Phi", hidden_act="gelu_new", qk_layernorm=True)
gemma = partial(causal, "Gemma", num_key_value_heads=1, head_dim=16)
gemma2 = partial(causal, "Gemma2", head_dim=16, sliding_window=3)
gemma3 = partial(causal, "Gemma3Text", head_dim=16, sliding_window=3)
gemma3_slow = partial(
    causal,
    "Gemma3Text",
    head_dim=16,
    sliding_window=3,
    query_pre_attn_scalar=20,
    final_logit_softcapping=3.0,
    attention_bias=True,
    layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    rope_parameters={
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 100.0},
        "sliding_attention": {"rope_type": "default", "rope_theta": 10.0},
    },
)
gpt_neox = partial(causal, "GPTNeoX", rotary_pct=0.5)


VIT_SIZES: dict[str, Any] = {
    **{"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 40},
    **{"image_size": (15, 25), "patch_size": 5, "num_channels": 2},
}


def vit(**settings: Any) -> Any:
    return transformers.ViTModel(transformers.ViTConfig(**(VIT_SIZES | settings)))


def vit_classifier(**settings: Any) -> Any:
    return transformers.ViTForImageClassification(transformers.ViTConfig(**(VIT_SIZES | {"num_labels": 5} | settings)))


def randomise(model: Any, seed: int = 3) -> Any:
    """Draw every weight from N(0, 0.3²), gains around 1: a comparison at 0 or at initialisation proves little.

    A gated net multiplies two such maps, which makes activations of several hundred, beyond what 1e-5 means in
    float32: there the weights are from N(0, 0.2²).
    """
    gated = getattr(model.config, "is_gated_act", False) or model.config.model_type == "modernbert"
    std = 0.2 if gated else 0.3
    model.set_attn_implementation("eager")  # explicit attention, unlike ours
    generator = torch.Generator().manual_seed(seed)
    tables = ("embed_positions.weight",) if model.config.model_type == "marian" else ()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(tables) and tables:
                continue  # computed, not learned
            parameter.normal_(0, std, generator=generator)
            if parameter.dim() == 1 and name.endswith("weight") and not model.config.model_type.startswith("gemma"):
                parameter.add_(1)  # Gemma does so itself
            if name.endswith("Attention.q.weight"):
                parameter.div_(math.sqrt(model.config.d_kv))  # T5 has its scale in W_Q, not in the score
        if hasattr(model, "final_logits_bias"):
            model.final_logits_bias.normal_(0, std, generator=generator)
    return model.eval()


def save(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder
