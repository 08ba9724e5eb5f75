"""Post-LN encoders: BERT, RoBERTa, DistilBERT; bare, with a head for masked tokens, or one for classifying lines."""

from typing import Any

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs

_BERT_LAYER = {
    "attention.query": "attention.self.query",
    "attention.key": "attention.self.key",
    "attention.value": "attention.self.value",
    "attention.output": "attention.output.dense",
    "around_attention.norm": "attention.output.LayerNorm",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "around_feedforward.norm": "output.LayerNorm",
}
_DISTILBERT_LAYER = {
    "attention.query": "attention.q_lin",
    "attention.key": "attention.k_lin",
    "attention.value": "attention.v_lin",
    "attention.output": "attention.out_lin",
    "around_attention.norm": "sa_layer_norm",
    "feedforward.up": "ffn.lin1",
    "feedforward.down": "ffn.lin2",
    "around_feedforward.norm": "output_layer_norm",
}


def plan_bert(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """BERT; a classification head reads the pooler's output."""
    weights.drop_prefix("bert.")
    model = bert_model(config, vocabulary=30522, pad=0, bos=None, eos=None)
    model["position"] = {"kind": "learned", "size": config.take("max_position_embeddings", 512)}
    left_behind = ("embeddings.position_ids", r"cls\..*")
    plan = bert_plan(config, model, weights, head="classifier", pooler="pooler.dense", left_behind=left_behind)
    parts = {"map": "cls.predictions.transform.dense", "norm": "cls.predictions.transform.LayerNorm"}
    return with_token_head(plan, weights, parts, bias="cls.predictions.bias", decoder="cls.predictions.decoder")


def plan_roberta(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """RoBERTa: positions start at pad + 1; its classification head has its own pooler."""
    weights.drop_prefix("roberta.")
    model = bert_model(config, vocabulary=50265, pad=1, bos=0, eos=2)
    pad = model["vocabulary"]["pad"]
    if not isinstance(pad, int):
        raise UnsupportedModel(f"{config.path}: pad_token_id = null: RoBERTa's positions are counted from it")
    offset = pad + 1
    rows = config.take("max_position_embeddings", 512)
    model["position"] = {"kind": "learned", "size": rows - offset, "offset": offset}
    left_behind = ("embeddings.position_ids", r"lm_head\..*")
    classifies = "classifier.out_proj.weight" in weights
    plan = bert_plan(
        config,
        model,
        weights,
        head="classifier.out_proj",
        pooler="classifier.dense" if classifies else "pooler.dense",
        left_behind=left_behind,
    )
    parts = {"map": "lm_head.dense", "norm": "lm_head.layer_norm"}
    return with_token_head(plan, weights, parts, bias="lm_head.bias", decoder="lm_head.decoder", activation="gelu")


def plan_distilbert(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """DistilBERT: no segments and no pooler."""
    weights.drop_prefix("distilbert.")
    config.only("sinusoidal_pos_embds", False, True)  # only how the learned table was first filled
    config.only("tie_weights_", True)
    config.take("tie_word_embeddings", True)  # concerns the head for masked tokens
    config.take("qa_dropout", None)
    config.take("seq_classif_dropout", None)
    model = _encoder(
        layers=config.take("n_layers", 6),
        width=config.take("dim", 768),
        heads=config.take("n_heads", 12),
        hidden=config.take("hidden_dim", 3072),
        activation=config.activation("activation", "gelu"),
        eps=1e-12,
        dropout=config.take("dropout", 0.1),
        attention_dropout=config.take("attention_dropout", 0.1),
        std=config.take("initializer_range", 0.02),
    )
    model["position"] = {"kind": "learned", "size": config.take("max_position_embeddings", 512)}
    model["vocabulary"] = _vocabulary(config, vocabulary=30522, pad=0, bos=None, eos=None)
    left_behind = ("embeddings.position_ids", r"vocab_(transform|layer_norm|projector)\..*")
    names = _embedding_names() | _layer_names(model, "transformer.layer.", _DISTILBERT_LAYER)
    parts = {"map": "vocab_transform", "norm": "vocab_layer_norm"}
    plan = Plan(model, names, left_behind)
    return with_token_head(plan, weights, parts, bias="vocab_projector.bias", decoder="vocab_projector")


def with_token_head(
    plan: Plan,
    weights: ForeignWeights,
    parts: dict[str, str],
    *,
    bias: str,
    decoder: str,
    activation: str | None = None,
) -> Plan:
    """Add the head for masked tokens to a plan, if the weights have it: norm(act(xW + b))Eᵀ + c.

    E is the embedding; without ``activation``, act is that of the layers.
    """
    if f"{parts['map']}.weight" not in weights or plan.model["family"] != "encoder":
        return plan
    names = plan.names | pairs("output.transform.", "", parts) | {"output.bias": Take(bias)}
    copies = {f"{decoder}.weight": "embeddings.word_embeddings.weight"}
    if f"{decoder}.bias" != bias:
        copies[f"{decoder}.bias"] = bias
    head = {"head": "tokens", "head_transform": activation or plan.model["feedforward"]["activation"]}
    return Plan(plan.model | head, names, plan.left_behind, {**plan.copies, **copies})


def bert_model(
    config: ForeignConfig,
    *,
    vocabulary: int,
    pad: int,
    bos: int | None,
    eos: int | None,
    activation: str = "gelu",
    width: int = 768,
    heads: int = 12,
    hidden: int | None = None,
) -> dict[str, Any]:
    """The recipe's ``model`` that BERT and its relatives share; the arguments are transformers' defaults."""
    config.only("position_embedding_type", "absolute")
    config.take("tie_word_embeddings", True)  # concerns the head for masked tokens
    model = _encoder(
        layers=config.take("num_hidden_layers", 12),
        width=config.take("hidden_size", width),
        heads=config.take("num_attention_heads", heads),
        hidden=config.take("intermediate_size", hidden or 4 * width),
        activation=config.activation("hidden_act", activation),
        eps=config.take("layer_norm_eps", 1e-12),
        dropout=(rate := config.take("hidden_dropout_prob", 0.1)),
        attention_dropout=config.take("attention_probs_dropout_prob", 0.1),
        std=config.take("initializer_range", 0.02),
    )
    model["embedding"]["segments"] = config.take("type_vocab_size", 2)
    model["vocabulary"] = _vocabulary(config, vocabulary=vocabulary, pad=pad, bos=bos, eos=eos)
    model["head_dropout"] = config.take("classifier_dropout", rate)
    return model


def _encoder(
    *,
    layers: int,
    width: int,
    heads: int,
    hidden: int,
    activation: str,
    eps: float,
    dropout: float,
    attention_dropout: float,
    std: float,
) -> dict[str, Any]:
    return {
        "family": "encoder",
        "layers": layers,
        "width": width,
        "heads": heads,
        "feedforward": {"width": hidden, "activation": activation},
        "norm": {"kind": "layernorm", "place": "post", "eps": eps},
        "dropout": {"residual": dropout, "embedding": dropout, "attention": attention_dropout},
        "embedding": {"norm": True, "scale": "none"},
        "init": {"kind": "normal", "std": std},
    }


def _vocabulary(
    config: ForeignConfig, *, vocabulary: int, pad: int, bos: int | None, eos: int | None
) -> dict[str, Any]:
    return {
        "source": config.take("vocab_size", vocabulary),
        "pad": config.token("pad_token_id", pad),
        "bos": config.token("bos_token_id", bos),
        "eos": config.token("eos_token_id", eos),
        "unk": "none",
    }


def bert_plan(
    config: ForeignConfig,
    model: dict[str, Any],
    weights: ForeignWeights,
    *,
    head: str,
    pooler: str,
    left_behind: tuple[str, ...],
) -> Plan:
    """Where each weight comes from; a classifier if there is a head of this name."""
    weights.rename(r"LayerNorm\.gamma$", "LayerNorm.weight")  # as the first checkpoints call them
    weights.rename(r"LayerNorm\.beta$", "LayerNorm.bias")
    names = _embedding_names() | _layer_names(model, "encoder.layer.", _BERT_LAYER)
    names |= pairs("", "", {"pooler": pooler, "head": head})
    model["pooler"] = f"{pooler}.weight" in weights
    dropout = model.pop("head_dropout")
    if f"{head}.weight" in weights and not model["pooler"]:
        raise UnsupportedModel(f"{weights.folder}: a head that labels every token is not supported")
    if f"{head}.weight" in weights:
        classes = len(weights.tensors[f"{head}.weight"])
        model |= {"family": "classifier", "classes": classes, "pooling": "first", "head_dropout": dropout}
        model["labels"] = config.labels(classes)
    return Plan(model, names, left_behind)


def _embedding_names() -> dict[str, Take]:
    theirs = {
        "tokens": "word_embeddings",
        "position.table": "position_embeddings",
        "segments": "token_type_embeddings",
    }
    names = {f"encoder.embedding.{our}.weight": Take(f"embeddings.{their}.weight") for our, their in theirs.items()}
    return names | pairs("encoder.", "", {"embedding.norm": "embeddings.LayerNorm"})


def _layer_names(model: dict[str, Any], prefix: str, parts: dict[str, str]) -> dict[str, Take]:
    names: dict[str, Take] = {}
    for index in range(model["layers"]):
        names |= pairs(f"encoder.layers.{index}.", f"{prefix}{index}.", parts)
    return names
