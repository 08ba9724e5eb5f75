"""Encoders with narrow tables: ALBERT, all of whose layers have the same weights, and ELECTRA."""

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.bert import bert_model, bert_plan, with_token_head
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, pairs

_ALBERT_LAYER = {
    "attention.query": "attention.query",
    "attention.key": "attention.key",
    "attention.value": "attention.value",
    "attention.output": "attention.dense",
    "around_attention.norm": "attention.LayerNorm",
    "feedforward.up": "ffn",
    "feedforward.down": "ffn_output",
    "around_feedforward.norm": "full_layer_layer_norm",
}


def plan_albert(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """ALBERT: one layer, used many times; a classification head reads the pooler's output."""
    weights.drop_prefix("albert.")
    config.only("num_hidden_groups", 1)
    config.only("inner_group_num", 1)
    config.only("net_structure_type", 0)
    for unused in ("gap_size", "num_memory_blocks", "down_scale_factor"):
        config.take(unused, None)  # of an older version, and never read
    narrow = config.take("embedding_size", 128)
    rate = config.take("classifier_dropout_prob", 0.1)
    model = bert_model(config, vocabulary=30000, pad=0, bos=2, eos=3, activation="gelu_new", width=4096, heads=64)
    if narrow == model["width"]:
        raise UnsupportedModel(f"{config.path}: embedding_size = hidden_size: ALBERT maps the embedding all the same")
    model |= {"shared": True, "head_dropout": rate}
    model["position"] = {"kind": "learned", "size": config.take("max_position_embeddings", 512)}
    model["embedding"]["width"] = narrow
    left_behind = ("embeddings.position_ids", r"(predictions|sop_classifier)\..*")
    plan = bert_plan(config, model, weights, head="classifier", pooler="pooler", left_behind=left_behind)
    names = plan.names | pairs("encoder.", "", {"embedding.project": "encoder.embedding_hidden_mapping_in"})
    names |= pairs("encoder.layers.0.", "encoder.albert_layer_groups.0.albert_layers.0.", _ALBERT_LAYER)
    plan = Plan(plan.model, names, plan.left_behind, plan.copies)
    parts = {"map": "predictions.dense", "norm": "predictions.LayerNorm"}
    return with_token_head(plan, weights, parts, bias="predictions.bias", decoder="predictions.decoder")


def plan_electra(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """ELECTRA: BERT without a pooler, whose tables may be narrow; the head that tells tokens apart is left behind."""
    weights.drop_prefix("electra.")
    if "classifier.dense.weight" in weights:
        raise UnsupportedModel(f"{weights.folder}: ELECTRA with a classification head is not supported")
    for head in ("type", "use_proj", "activation", "last_dropout"):
        config.take(f"summary_{head}", None)  # heads for other tasks
    narrow = config.take("embedding_size", 128)
    model = bert_model(config, vocabulary=30522, pad=0, bos=None, eos=None, width=256, heads=4, hidden=1024)
    model["position"] = {"kind": "learned", "size": config.take("max_position_embeddings", 512)}
    if narrow != model["width"]:
        model["embedding"]["width"] = narrow
    left_behind = ("embeddings.position_ids", r"(generator|discriminator)_.*")
    plan = bert_plan(config, model, weights, head="classifier", pooler="pooler.dense", left_behind=left_behind)
    names = plan.names | pairs("encoder.", "", {"embedding.project": "embeddings_project"})
    plan = Plan(plan.model, names, plan.left_behind, plan.copies)
    parts = {"map": "generator_predictions.dense", "norm": "generator_predictions.LayerNorm"}
    return with_token_head(
        plan, weights, parts, bias="generator_lm_head.bias", decoder="generator_lm_head", activation="gelu"
    )
