"""Imports Hugging Face folders: ``config.json``, safetensors weights and ``tokenizer.json`` become a clearhead model.

A setting that clearhead does not know, or cannot represent exactly, is an error: nothing that could change what the
network computes is ignored, unless it is listed in ``ignore``. The settings of transformers' ``generate`` (beams,
banned and forced tokens) are not part of the network and are not imported; neither are heads of other tasks, which are
reported. Imported networks agree with transformers to 1e-5 per layer (tests/interop).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from clearhead.data import Codec
from clearhead.errors import RecipeError, UnsupportedModel
from clearhead.interop.huggingface import (
    albert,
    bart,
    bert,
    bloom,
    deberta,
    gemma,
    gpt2,
    llama,
    modernbert,
    neox,
    t5,
    vit,
)
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.folder import read_config, read_tokenizer, read_weights
from clearhead.interop.huggingface.weights import ForeignWeights, Plan, fill
from clearhead.models import SavedModel, build
from clearhead.recipe import recipe_from

PLANS: dict[str, Callable[[ForeignConfig, ForeignWeights], Plan]] = {
    "marian": bart.plan_marian,
    "bart": bart.plan_bart,
    "mbart": bart.plan_mbart,
    "pegasus": bart.plan_pegasus,
    "m2m_100": bart.plan_m2m100,
    "albert": albert.plan_albert,
    "bert": bert.plan_bert,
    "electra": albert.plan_electra,
    "modernbert": modernbert.plan_modernbert,
    "roberta": bert.plan_roberta,
    "distilbert": bert.plan_distilbert,
    "bloom": bloom.plan_bloom,
    "deberta": deberta.plan_deberta,
    "deberta-v2": deberta.plan_deberta_v2,
    "gemma": gemma.plan_gemma,
    "gemma2": gemma.plan_gemma2,
    "gemma3_text": gemma.plan_gemma3,
    "gpt2": gpt2.plan_gpt2,
    "gpt_neox": neox.plan_gpt_neox,
    "llama": llama.plan_llama,
    "mistral": llama.plan_mistral,
    "phi": neox.plan_phi,
    "qwen2": llama.plan_qwen2,
    "qwen3": llama.plan_qwen3,
    "t5": t5.plan_t5,
    "vit": vit.plan_vit,
}
"""The plan for each ``model_type``."""


@dataclass(frozen=True)
class Imported:
    """An imported model, and what was not imported."""

    saved: SavedModel
    left_behind: list[str]
    """Settings, names and weights that were not imported, with reasons."""


def load_huggingface(folder: str | Path, *, ignore: Sequence[str] = ()) -> SavedModel:
    """Import a folder saved by ``save_pretrained`` (or downloaded from the hub) as a clearhead model in float32.

    Args:
        folder: the folder.
        ignore: unknown settings of ``config.json`` that do not change what the network computes.
    """
    return import_huggingface(folder, ignore=ignore).saved


def import_huggingface(folder: str | Path, *, ignore: Sequence[str] = ()) -> Imported:
    """The same, with a list of what was not imported."""
    folder = Path(folder)
    config = ForeignConfig(read_config(folder), folder / "config.json", ignore)
    kind = config.take("model_type", "")
    if kind not in PLANS:
        raise UnsupportedModel(f"{config.path}: model_type {kind!r} is not supported (supported: {', '.join(PLANS)})")
    weights = ForeignWeights(read_weights(folder), folder)
    plan = PLANS[kind](config, weights)
    config.finish()
    tokenizers = read_tokenizer(folder)
    if tokenizers and "source" in plan.model["vocabulary"]:
        mask = Codec.from_json(tokenizers["shared"]).mask
        plan.model["vocabulary"] |= {} if mask is None else {"mask": mask}
    try:
        recipe = recipe_from({"model": plan.model}, name=str(config.path))
    except RecipeError as error:
        raise UnsupportedModel(str(error)) from None
    model = build(recipe).eval()
    weights_left = fill(model, weights, plan)
    left_behind = [*config.left_behind, *(f"weight {name}" for name in weights_left)]
    return Imported(SavedModel(model, recipe, tokenizers), left_behind)


__all__ = ["PLANS", "Imported", "import_huggingface", "load_huggingface"]
