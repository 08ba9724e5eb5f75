"""A model of ours in the words of a Hugging Face configuration: the reverse of the plans, as far as settings go.

Every architecture describes any model of its family as well as it can. Whether the description is exact is not judged
here: the plan of the architecture reads it, and what comes back is compared with the model (``exporting``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clearhead.interop.huggingface.config import ACTIVATIONS
from clearhead.recipe import ModelSpec

_THEIRS = {"relu": "relu", "gelu": "gelu", "gelu-tanh": "gelu_new", "silu": "silu"}
assert set(_THEIRS) == set(ACTIVATIONS.values())


@dataclass(frozen=True)
class Description:
    """What a model is called there, and its settings.

    Args:
        kind: its ``model_type``.
        config: the name of the configuration's class.
        form: the name of the model's class.
        settings: the settings.
    """

    kind: str
    config: str
    form: str
    settings: dict[str, Any]


def at(spec: Any, path: str, default: Any) -> Any:
    """A setting by its dotted name; the default if there is none."""
    for name in path.split("."):
        spec = getattr(spec, name, None)
    return default if spec is None else spec


def rate(value: Any) -> float:
    """A rate of dropout; ``auto`` is 0.1."""
    return float(value) if isinstance(value, int | float) else 0.1


def their_activation(name: str) -> str:
    """What they call an activation."""
    return _THEIRS[name]


def token_ids(spec: ModelSpec) -> dict[str, Any]:
    """The special tokens."""
    vocabulary = spec.vocabulary
    return {"pad_token_id": vocabulary.pad, "bos_token_id": vocabulary.bos, "eos_token_id": vocabulary.eos}


def _bart_like(spec: ModelSpec) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "vocab_size": spec.vocabulary.source,
        "d_model": at(spec, "encoder.width", 8),
        "activation_function": _THEIRS[at(spec, "encoder.feedforward.activation", "relu")],
        "scale_embedding": spec.embedding.scale == "sqrt",
        "dropout": rate(at(spec, "encoder.dropout.residual", 0.1)),
        "attention_dropout": rate(at(spec, "encoder.dropout.attention", 0.0)),
        "activation_dropout": rate(at(spec, "encoder.dropout.activation", 0.0)),
        "init_std": spec.init.std,
        "decoder_start_token_id": spec.vocabulary.first,
        "forced_eos_token_id": None,
        "is_encoder_decoder": True,
    }
    for side in ("encoder", "decoder"):
        settings[f"{side}_layers"] = at(spec, f"{side}.layers", 1)
        settings[f"{side}_attention_heads"] = at(spec, f"{side}.attention.heads", 1)
        settings[f"{side}_ffn_dim"] = at(spec, f"{side}.feedforward.width", 8)
    return settings | token_ids(spec)


def _sinusoids(spec: ModelSpec) -> dict[str, Any]:
    interleaved = at(spec, "encoder.position.layout", "halves") == "interleaved"
    note = {"clearhead_sinusoids": "interleaved"} if interleaved else {}
    return {"max_position_embeddings": at(spec, "encoder.position.trained_length", 1024)} | note


def marian(spec: ModelSpec) -> Description:
    """Marian: post-LN, sinusoids."""
    shared = spec.embedding.tie in ("all", "inputs")
    own = {
        "decoder_vocab_size": spec.vocabulary.target,
        "share_encoder_decoder_embeddings": shared,
    }
    return Description("marian", "MarianConfig", "MarianMTModel", _bart_like(spec) | _sinusoids(spec) | own)


def pegasus(spec: ModelSpec) -> Description:
    """Pegasus: pre-LN, sinusoids."""
    settings = _bart_like(spec) | _sinusoids(spec)
    return Description("pegasus", "PegasusConfig", "PegasusForConditionalGeneration", settings)


def bart(spec: ModelSpec) -> Description:
    """BART: post-LN, learned positions."""
    size = {"max_position_embeddings": at(spec, "encoder.position.size", 64)}
    return Description("bart", "BartConfig", "BartForConditionalGeneration", _bart_like(spec) | size)


def mbart(spec: ModelSpec) -> Description:
    """mBART: pre-LN, learned positions."""
    size = {"max_position_embeddings": at(spec, "encoder.position.size", 64)}
    return Description("mbart", "MBartConfig", "MBartForConditionalGeneration", _bart_like(spec) | size)


def m2m100(spec: ModelSpec) -> Description:
    """M2M100: pre-LN, sinusoids of tensor2tensor that begin after the padding's id."""
    settings = _bart_like(spec) | {"max_position_embeddings": at(spec, "encoder.position.trained_length", 1024)}
    return Description("m2m_100", "M2M100Config", "M2M100ForConditionalGeneration", settings)


def t5(spec: ModelSpec) -> Description:
    """T5, or T5 1.1 if it is gated."""
    attention = at(spec, "encoder.attention", None)
    width = at(spec, "encoder.width", 8)
    activation = _THEIRS[at(spec, "encoder.feedforward.activation", "relu")]
    gated = at(spec, "encoder.feedforward.kind", "standard") == "gated"
    tied = spec.embedding.tie == "all"
    scaled = spec.embedding.output_scale == "rsqrt"
    settings: dict[str, Any] = {
        "vocab_size": spec.vocabulary.source,
        "d_model": width,
        "d_kv": attention.sizes(width)[0] if attention is not None else 1,
        "d_ff": at(spec, "encoder.feedforward.width", 8),
        "num_layers": at(spec, "encoder.layers", 1),
        "num_decoder_layers": at(spec, "decoder.layers", 1),
        "num_heads": at(spec, "encoder.attention.heads", 1),
        "relative_attention_num_buckets": at(spec, "encoder.position.buckets", 32),
        "relative_attention_max_distance": at(spec, "encoder.position.max_distance", 128),
        "dropout_rate": rate(at(spec, "encoder.dropout.residual", 0.1)),
        "layer_norm_epsilon": at(spec, "encoder.norm.eps", 1e-6),
        "feed_forward_proj": ("gated-gelu" if activation == "gelu_new" else f"gated-{activation}")
        if gated
        else activation,
        "tie_word_embeddings": tied,
        "decoder_start_token_id": spec.vocabulary.first,
    } | token_ids(spec)
    if scaled != tied:
        settings["scale_decoder_outputs"] = scaled
    if settings["bos_token_id"] is None:
        del settings["bos_token_id"]  # as T5 knows no such token, its folders do not name it
    return Description("t5", "T5Config", "T5ForConditionalGeneration", settings)


def gpt2(spec: ModelSpec) -> Description:
    """GPT-2: pre-LN, learned positions."""
    width = at(spec, "decoder.width", 8)
    settings = {
        "vocab_size": spec.vocabulary.target,
        "n_embd": width,
        "n_layer": at(spec, "decoder.layers", 1),
        "n_head": at(spec, "decoder.attention.heads", 1),
        "n_inner": at(spec, "decoder.feedforward.width", 4 * width),
        "n_positions": at(spec, "decoder.position.size", 64),
        "activation_function": _THEIRS[at(spec, "decoder.feedforward.activation", "gelu-tanh")],
        "layer_norm_epsilon": at(spec, "decoder.norm.eps", 1e-5),
        "resid_pdrop": rate(at(spec, "decoder.dropout.residual", 0.1)),
        "embd_pdrop": rate(at(spec, "decoder.dropout.embedding", 0.1)),
        "attn_pdrop": rate(at(spec, "decoder.dropout.attention", 0.1)),
        "initializer_range": spec.init.std,
    } | token_ids(spec)
    return Description("gpt2", "GPT2Config", "GPT2LMHeadModel", settings)


def bloom(spec: ModelSpec) -> Description:
    """Bloom: pre-LN, ALiBi, a norm after the embedding."""
    settings = {
        "vocab_size": spec.vocabulary.target,
        "hidden_size": at(spec, "decoder.width", 8),
        "n_layer": at(spec, "decoder.layers", 1),
        "n_head": at(spec, "decoder.attention.heads", 1),
        "layer_norm_epsilon": at(spec, "decoder.norm.eps", 1e-5),
        "hidden_dropout": rate(at(spec, "decoder.dropout.residual", 0.0)),
        "attention_dropout": rate(at(spec, "decoder.dropout.attention", 0.0)),
        "initializer_range": spec.init.std,
    } | token_ids(spec)
    return Description("bloom", "BloomConfig", "BloomForCausalLM", settings)


def bert_settings(spec: ModelSpec) -> dict[str, Any]:
    """The settings that BERT and its relatives share."""
    return {
        "vocab_size": spec.vocabulary.source,
        "hidden_size": at(spec, "encoder.width", 8),
        "num_hidden_layers": at(spec, "encoder.layers", 1),
        "num_attention_heads": at(spec, "encoder.attention.heads", 1),
        "intermediate_size": at(spec, "encoder.feedforward.width", 8),
        "hidden_act": _THEIRS[at(spec, "encoder.feedforward.activation", "gelu")],
        "layer_norm_eps": at(spec, "encoder.norm.eps", 1e-12),
        "hidden_dropout_prob": rate(at(spec, "encoder.dropout.residual", 0.1)),
        "attention_probs_dropout_prob": rate(at(spec, "encoder.dropout.attention", 0.1)),
        "initializer_range": spec.init.std,
        "type_vocab_size": spec.embedding.segments,
    } | token_ids(spec)


def named_classes(spec: ModelSpec) -> dict[str, Any]:
    """The labels of a classifier, and its head's dropout if that is its own."""
    if spec.family != "classifier":
        return {}
    labels = getattr(spec, "labels", []) or [f"LABEL_{number}" for number in range(at(spec, "classes", 2))]
    found: dict[str, Any] = {
        "id2label": dict(enumerate(labels)),
        "label2id": {label: number for number, label in enumerate(labels)},
    }
    if (of_head := at(spec, "head_dropout", 0.0)) != rate(at(spec, "encoder.dropout.residual", 0.1)):
        found["classifier_dropout"] = of_head
    return found


def form_of(spec: ModelSpec, name: str, images: bool = False) -> str:
    """The class of a model with its head, if it has one."""
    if spec.family == "classifier":
        return f"{name}For{'Image' if images else 'Sequence'}Classification"
    return f"{name}ForMaskedLM" if getattr(spec, "head", "none") == "tokens" else f"{name}Model"


def _with_segments(spec: ModelSpec) -> dict[str, Any]:
    """BERT and RoBERTa fail without any segment."""
    return {"type_vocab_size": max(1, spec.embedding.segments)}


def bert(spec: ModelSpec) -> Description:
    """BERT: post-LN, learned positions."""
    size = {"max_position_embeddings": at(spec, "encoder.position.size", 64)}
    settings = bert_settings(spec) | size | _with_segments(spec) | named_classes(spec)
    return Description("bert", "BertConfig", form_of(spec, "Bert"), settings)


def roberta(spec: ModelSpec) -> Description:
    """RoBERTa: positions start after the padding's id."""
    rows = at(spec, "encoder.position.size", 64) + at(spec, "encoder.position.offset", 0)
    settings = bert_settings(spec) | {"max_position_embeddings": rows} | _with_segments(spec) | named_classes(spec)
    return Description("roberta", "RobertaConfig", form_of(spec, "Roberta"), settings)


def distilbert(spec: ModelSpec) -> Description:
    """DistilBERT: no segments, no pooler."""
    settings = {
        "vocab_size": spec.vocabulary.source,
        "dim": at(spec, "encoder.width", 8),
        "n_layers": at(spec, "encoder.layers", 1),
        "n_heads": at(spec, "encoder.attention.heads", 1),
        "hidden_dim": at(spec, "encoder.feedforward.width", 8),
        "activation": _THEIRS[at(spec, "encoder.feedforward.activation", "gelu")],
        "dropout": rate(at(spec, "encoder.dropout.residual", 0.1)),
        "attention_dropout": rate(at(spec, "encoder.dropout.attention", 0.1)),
        "initializer_range": spec.init.std,
        "max_position_embeddings": at(spec, "encoder.position.size", 64),
    } | token_ids(spec)
    return Description("distilbert", "DistilBertConfig", form_of(spec, "DistilBert"), settings)


def _deberta_settings(spec: ModelSpec) -> dict[str, Any]:
    terms = [term for term in ("c2p", "p2c") if term in at(spec, "encoder.attention.terms", ())]
    biased = at(spec, "encoder.position.kind", "none") == "learned"
    span = at(spec, "encoder.attention.span", 64)
    positions = at(spec, "encoder.position.size", 512) if biased else span
    return bert_settings(spec) | {
        "relative_attention": True,
        "pos_att_type": "|".join(terms),
        "max_relative_positions": -1 if span == positions else span,
        "max_position_embeddings": positions,
        "position_biased_input": biased,
    }


def deberta(spec: ModelSpec) -> Description:
    """DeBERTa, version 1."""
    return Description("deberta", "DebertaConfig", form_of(spec, "Deberta"), _deberta_settings(spec))


def deberta_v2(spec: ModelSpec) -> Description:
    """DeBERTa, versions 2 and 3."""
    own: dict[str, Any] = {}
    if (buckets := at(spec, "encoder.attention.buckets", None)) is not None:
        own["position_buckets"] = buckets
    if at(spec, "encoder.attention.normalised", False):
        own["norm_rel_ebd"] = "layer_norm"
    if at(spec, "encoder.attention.shared_projections", False):
        own["share_att_key"] = True
    return Description("deberta-v2", "DebertaV2Config", form_of(spec, "DebertaV2"), _deberta_settings(spec) | own)


def vit(spec: ModelSpec) -> Description:
    """ViT: pre-LN over patches."""
    height, width = at(spec, "patches.height", 8), at(spec, "patches.width", 8)
    settings = bert_settings(spec) | {
        "image_size": height if height == width else (height, width),
        "patch_size": at(spec, "patches.size", 1),
        "num_channels": at(spec, "patches.channels", 1),
    }
    for name in ("vocab_size", "type_vocab_size", "pad_token_id", "bos_token_id", "eos_token_id"):
        del settings[name]
    named = {name: value for name, value in named_classes(spec).items() if name != "classifier_dropout"}
    return Description("vit", "ViTConfig", form_of(spec, "ViT", images=True), settings | named)


DESCRIPTIONS: dict[str, tuple[Callable[[ModelSpec], Description], ...]] = {
    "seq2seq": (pegasus, marian, bart, mbart, m2m100, t5),
    "lm": (gpt2, bloom),
    "encoder": (bert, roberta, distilbert, deberta, deberta_v2),
    "classifier": (bert, roberta),
}
"""The architectures that a family is described as, in the order in which they are tried."""
IMAGES: tuple[Callable[[ModelSpec], Description], ...] = (vit,)
"""The same for models of images."""
