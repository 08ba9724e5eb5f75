"""Hugging Face folders: ``config.json``, safetensors weights and ``tokenizer.json`` become a clearhead model.

A setting that clearhead does not know, or cannot represent exactly, is an error: nothing is ignored that could change
what the network computes. How transformers' generate would search (beams, banned and forced tokens) is no part of the
network and stays behind. The networks that come out agree with transformers to 1e-5 a layer (tests/interop).
"""

from collections.abc import Callable
from pathlib import Path

from clearhead.errors import RecipeError, UnsupportedModel
from clearhead.interop.huggingface import bart, bert, bloom, deberta, gpt2, t5, vit
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.folder import read_config, read_tokenizer, read_weights
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, fill
from clearhead.models import SavedModel, build
from clearhead.recipe import recipe_from

PLANS: dict[str, Callable[[ForeignConfig, ForeignWeights], Plan]] = {
    "marian": bart.plan_marian,
    "bart": bart.plan_bart,
    "mbart": bart.plan_mbart,
    "bert": bert.plan_bert,
    "roberta": bert.plan_roberta,
    "distilbert": bert.plan_distilbert,
    "bloom": bloom.plan_bloom,
    "deberta": deberta.plan_deberta,
    "deberta-v2": deberta.plan_deberta_v2,
    "gpt2": gpt2.plan_gpt2,
    "t5": t5.plan_t5,
    "vit": vit.plan_vit,
}
"""How to read each ``model_type``."""


def load_huggingface(folder: str | Path) -> SavedModel:
    """Read a folder saved by ``save_pretrained`` (or downloaded from the hub) as a clearhead model in float32."""
    folder = Path(folder)
    config = ForeignConfig(read_config(folder), folder / "config.json")
    kind = config.take("model_type", "")
    if kind not in PLANS:
        raise UnsupportedModel(f"{config.path}: model_type {kind!r} is not supported (supported: {', '.join(PLANS)})")
    weights = ForeignWeights(read_weights(folder), folder)
    plan = PLANS[kind](config, weights)
    config.finish()
    try:
        recipe = recipe_from({"model": plan.model}, name=str(config.path))
    except RecipeError as error:
        raise UnsupportedModel(str(error)) from None
    model = build(recipe).eval()
    fill(model, weights, plan)
    return SavedModel(model, recipe, read_tokenizer(folder))


__all__ = ["PLANS", "load_huggingface"]
