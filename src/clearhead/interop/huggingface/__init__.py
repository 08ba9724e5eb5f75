"""Imports Hugging Face folders: configuration, safetensors weights, tokenizer and the settings of ``generate``.

A setting that clearhead does not know, or cannot represent exactly, is an error: nothing that could change what the
network computes is ignored, unless it is listed in ``ignore``. Heads of other tasks, settings of ``generate`` that have
no counterpart, and a tokenizer that cannot be read are not imported, and reported. Imported networks agree with
transformers to 1e-5 per layer, imported tokenizers give the same ids (tests/interop).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from clearhead.interop.huggingface.folder import read_config, read_weights
from clearhead.interop.huggingface.generation import read_generation
from clearhead.interop.huggingface.sentence_vectors import longest_text, model_folder, read_pooling
from clearhead.interop.huggingface.tokenizer_files import read_tokenizers
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
    outside, folder = Path(folder), model_folder(Path(folder))
    settings = read_config(folder)
    config = ForeignConfig(settings, folder / "config.json", ignore)
    kind = config.take("model_type", "")
    if kind not in PLANS:
        raise UnsupportedModel(f"{config.path}: model_type {kind!r} is not supported (supported: {', '.join(PLANS)})")
    weights = ForeignWeights(read_weights(folder), folder)
    plan = PLANS[kind](config, weights)
    config.finish()
    generation = read_generation(folder, settings, plan.model["family"])
    vocabulary = plan.model.setdefault("vocabulary", {})
    vocabulary |= generation.vocabulary
    pooling, unpooled = read_pooling(outside)
    decoding = generation.decoding | pooling
    sizes = {side: vocabulary[side] for side in ("source", "target") if side in vocabulary}
    tokenizers, unread = read_tokenizers(folder, kind, sizes) if sizes else ({}, [])
    if tokenizers:
        codec = Codec.from_json(next(iter(tokenizers.values())))
        vocabulary |= _marks(codec, plan.model)
        decoding = _reading(codec, decoding, vocabulary, longest_text(outside))
    try:
        recipe = recipe_from({"model": plan.model, "decoding": decoding}, name=str(config.path))
    except RecipeError as error:
        raise UnsupportedModel(str(error)) from None
    model = build(recipe).eval()
    weights_left = [f"weight {name}" for name in fill(model, weights, plan)]
    left_behind = [*config.left_behind, *generation.notes, *unpooled, *unread, *weights_left]
    return Imported(SavedModel(model, recipe, tokenizers), list(dict.fromkeys(left_behind)))


def _marks(codec: Codec, model: dict[str, Any]) -> dict[str, int]:
    """Special tokens that only the tokenizer knows: <mask>, and what a language model reads before every text."""
    found: dict[str, int] = {}
    if "source" in model["vocabulary"] and codec.mask is not None:
        found["mask"] = codec.mask
    before, _ = codec.frame()
    if model["family"] == "lm" and len(before) == 1:
        found["start"] = before[0]
    return found


def _reading(codec: Codec, decoding: dict[str, Any], vocabulary: dict[str, Any], longest: int | None) -> dict[str, Any]:
    """Settings of ``[decoding]`` that follow from the tokenizer: languages, and how much of a text is read."""
    if longest is not None and longest > codec.room:
        decoding["max_source"] = longest - codec.room
    if codec.imported is None or not codec.languages:
        return decoding
    names = {index: name for name, index in codec.languages.items()}
    source = codec.imported.config.get("src_lang")
    if source in codec.languages:
        decoding["source_language"] = source
    if vocabulary.get("start") in names:
        return decoding  # the language is the decoder's first input
    forced, target = decoding.get("prefix"), codec.imported.config.get("tgt_lang")
    if forced and forced[0] in names:
        decoding["target_language"] = names[forced[0]]
        del decoding["prefix"]
    elif target in codec.languages and not forced:
        decoding["target_language"] = target
    return decoding


__all__ = ["PLANS", "Imported", "import_huggingface", "load_huggingface"]
