"""Encoders that are not quite BERT in the words of Hugging Face: ALBERT, ELECTRA, ModernBERT."""

from typing import Any

from clearhead.interop.huggingface.describing import (
    Description,
    at,
    bert_settings,
    form_of,
    named_classes,
    rate,
    their_activation,
    token_ids,
)
from clearhead.interop.huggingface.llama import FULL, SLIDING
from clearhead.recipe import ModelSpec


def _narrow(spec: ModelSpec) -> dict[str, Any]:
    """Post-LN with learned positions, and tables that may be narrower than the layers."""
    return bert_settings(spec) | {
        "max_position_embeddings": at(spec, "encoder.position.size", 64),
        "embedding_size": at(spec, "embedding.width", at(spec, "encoder.width", 8)),
        "type_vocab_size": max(1, spec.embedding.segments),
    }


def albert(spec: ModelSpec) -> Description:
    """ALBERT: all layers have the same weights."""
    settings = _narrow(spec) | named_classes(spec)
    settings.pop("classifier_dropout", None)
    settings["classifier_dropout_prob"] = rate(at(spec, "head_dropout", 0.1))
    return Description("albert", "AlbertConfig", form_of(spec, "Albert"), settings)


def electra(spec: ModelSpec) -> Description:
    """ELECTRA: no pooler."""
    return Description("electra", "ElectraConfig", form_of(spec, "Electra"), _narrow(spec))


def modernbert(spec: ModelSpec) -> Description:
    """ModernBERT: pre-LN, rotations, gated nets, windows in some layers."""
    layers, window = at(spec, "encoder.layers", 1), at(spec, "encoder.attention.window", None)
    whole = range(1, layers + 1) if window is None else at(spec, "encoder.attention.whole", [])
    base = at(spec, "encoder.position.base", 10_000.0)
    transform = at(spec, "head_transform", "none")
    bases = {FULL: base, SLIDING: at(spec, "encoder.position.window_base", base)}
    settings = {
        "vocab_size": spec.vocabulary.source,
        "hidden_size": at(spec, "encoder.width", 8),
        "num_hidden_layers": layers,
        "num_attention_heads": at(spec, "encoder.attention.heads", 1),
        "intermediate_size": at(spec, "encoder.feedforward.width", 8),
        "hidden_activation": their_activation(at(spec, "encoder.feedforward.activation", "gelu")),
        "attention_bias": at(spec, "encoder.attention.bias", False),
        "mlp_bias": at(spec, "encoder.feedforward.bias", False),
        "norm_bias": at(spec, "encoder.norm.shift", True),
        "norm_eps": at(spec, "encoder.norm.eps", 1e-5),
        "layer_types": [FULL if number in whole else SLIDING for number in range(1, layers + 1)],
        "local_attention": 2 if window is None else window - 1,
        "rope_parameters": {kind: {"rope_type": "default", "rope_theta": base} for kind, base in bases.items()},
        "classifier_activation": their_activation("gelu" if transform == "none" else transform),
        "classifier_bias": at(spec, "head_bias", False),
        "embedding_dropout": rate(at(spec, "encoder.dropout.embedding", 0.0)),
        "attention_dropout": rate(at(spec, "encoder.dropout.attention", 0.0)),
        "mlp_dropout": rate(at(spec, "encoder.dropout.activation", 0.0)),
        "initializer_range": spec.init.std,
        "cls_token_id": spec.vocabulary.bos,
        "sep_token_id": spec.vocabulary.eos,
    } | token_ids(spec)
    if (length := at(spec, "encoder.position.trained_length", None)) is not None:
        settings["max_position_embeddings"] = length
    every = whole[1] - whole[0] if len(whole) > 1 else layers
    if list(whole) == list(range(1, layers + 1, every)):
        settings["global_attn_every_n_layers"] = every
    return Description("modernbert", "ModernBertConfig", form_of(spec, "ModernBert"), settings)


ENCODERS = (albert, electra, modernbert)
"""In the order in which they are tried."""
