"""ViT: a pre-LN encoder of patches after a class token; bare, or with a head for classifying images.

Their images are channels × height × width, ours height × width × channels. The preprocessing of images
(``preprocessor_config.json``) is not part of the network.
"""

from typing import Any

from torch import Tensor

from clearhead.errors import UnsupportedModel
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, Take, pairs

_LAYER = {
    "attention.query": "attention.attention.query",
    "attention.key": "attention.attention.key",
    "attention.value": "attention.attention.value",
    "attention.output": "attention.output.dense",
    "around_attention.norm": "layernorm_before",
    "feedforward.up": "intermediate.dense",
    "feedforward.down": "output.dense",
    "around_feedforward.norm": "layernorm_after",
}


def plan_vit(config: ForeignConfig, weights: ForeignWeights) -> Plan:
    """ViT; its head reads the class token, and the pooler of the bare model applies tanh to it."""
    weights.drop_prefix("vit.")
    height, width = config.pair("image_size", 224)
    size, other_size = config.pair("patch_size", 16)
    if size != other_size:
        raise UnsupportedModel(f"{config.path}: patch_size = {[size, other_size]}: patches must be square")
    if size < 1 or height % size or width % size:
        raise UnsupportedModel(
            f"{config.path}: patch_size = {size}: must divide the image's height ({height}) and width ({width})"
        )
    model = _model(config)
    model["patches"] |= {"height": height, "width": width, "size": size}
    model["position"] = {"kind": "learned", "size": (height // size) * (width // size) + 1}
    if "classifier.weight" in weights:
        classes = len(weights.tensors["classifier.weight"])
        model |= {"family": "classifier", "classes": classes, "pooling": "first", "labels": config.labels(classes)}
    model["pooler"] = "pooler.dense.weight" in weights
    names = {
        "encoder.embedding.tokens.map.weight": Take(f"{_PATCHES}.weight", _as_linear),
        "encoder.embedding.tokens.map.bias": Take(f"{_PATCHES}.bias"),
        "encoder.embedding.tokens.class_token.weight": Take("embeddings.cls_token", _rows),
        "encoder.embedding.position.table.weight": Take("embeddings.position_embeddings", _rows),
    } | pairs("", "", {"encoder.final_norm": "layernorm", "pooler": "pooler.dense", "head": "classifier"})
    for index in range(model["layers"]):
        names |= pairs(f"encoder.layers.{index}.", f"encoder.layer.{index}.", _LAYER)
    # the mask token and the head for masked patches
    return Plan(model, names, (r"embeddings\.mask_token", r"decoder\..*"))


_PATCHES = "embeddings.patch_embeddings.projection"


def _model(config: ForeignConfig) -> dict[str, Any]:
    features = config.take("hidden_size", 768)
    config.only("qkv_bias", True)
    config.only("pooler_act", "tanh")
    config.only("pooler_output_size", features, None)
    config.take("encoder_stride", None)  # belongs to the head for masked patches
    rate = config.take("hidden_dropout_prob", 0.0)
    return {
        "family": "encoder",
        "layers": config.take("num_hidden_layers", 12),
        "width": features,
        "heads": config.take("num_attention_heads", 12),
        "feedforward": {
            "width": config.take("intermediate_size", 3072),
            "activation": config.activation("hidden_act", "gelu"),
        },
        "norm": {"kind": "layernorm", "place": "pre", "eps": config.take("layer_norm_eps", 1e-12)},
        "patches": {"channels": config.take("num_channels", 3), "class_token": True},
        "dropout": {
            "residual": rate,
            "embedding": rate,
            "attention": config.take("attention_probs_dropout_prob", 0.0),
        },
        "init": {"kind": "normal", "std": config.take("initializer_range", 0.02)},
    }


def _as_linear(kernel: Tensor) -> Tensor:
    """A convolution's kernel, (d, channels, rows, columns), as a linear map of a patch in our order."""
    return kernel.permute(0, 2, 3, 1).flatten(1)


def _rows(table: Tensor) -> Tensor:
    """A table stored with a batch of one: (1, n, d) → (n, d)."""
    return table.flatten(0, 1)
