"""Writes a model as a Hugging Face folder, by the plans of the import, read backwards.

An architecture describes the model (``describing``); its plan, which the import uses, reads that description. If what
it would import is not the very same model, this architecture cannot express it, and the differences are the reasons. If
it is, the plan also says where each weight comes from: it is asked with numbered entries instead of weights, and every
number that comes back is the place that a weight of ours goes to. So import and export cannot disagree.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from clearhead.data import SPECIALS, Codec
from clearhead.errors import RecipeError, UnsupportedModel
from clearhead.interop.exporting.sample import codecs_in, reading_of
from clearhead.interop.exporting.torch_export import quiet
from clearhead.interop.huggingface.config import ForeignConfig
from clearhead.interop.huggingface.describing import DESCRIPTIONS, IMAGES, Description
from clearhead.interop.huggingface.describing_decoders import DECODERS
from clearhead.interop.huggingface.describing_encoders import ENCODERS, albert
from clearhead.interop.huggingface.generation import written_generation
from clearhead.interop.huggingface.sentence_vectors import write_pooling
from clearhead.interop.huggingface.tokenizer_files import MADE_BY, written_files
from clearhead.interop.huggingface.weights import ForeignWeights, Plan
from clearhead.models import SavedModel, stored_tensors
from clearhead.models.tensor_file import write_tensors
from clearhead.recipe import ModelSpec, MultiHeadSpec, recipe_from

_TRAINING = ("dropout", "init", "head_dropout", "trained_length")
"""Settings that change training alone, or nothing; those that an architecture has no word for are left out."""
_NAMES = ("unk", "mask")
"""Ids that only tokenizers know."""


@dataclass(frozen=True)
class _Candidate:
    """One architecture as a form of the model: what it would hold, and what it cannot express."""

    description: Description
    config: Any
    shapes: dict[str, Tensor]
    plan: Plan | None
    weights: ForeignWeights | None
    differences: list[str]


def write_huggingface(saved: SavedModel, folder: Path, *, banned: list[int]) -> tuple[str, tuple[str, ...]]:
    """Write ``config.json``, ``model.safetensors``, the generation settings and the tokenizer.

    Args:
        saved: the model with its recipe and its tokenizers.
        folder: an empty folder.
        banned: special tokens that are never generated.

    Returns the class that loads it, and notes. A model that no architecture expresses exactly is refused.
    """
    best, tensors = _best_candidate(saved)
    with quiet():
        best.config.dtype = torch.float32
        best.config.architectures = [best.description.form]
        best.config.save_pretrained(folder)
        if saved.recipe.model.family in ("seq2seq", "lm"):
            _generation(saved, banned).save_pretrained(folder)
    write_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    spec: Any = saved.recipe.model
    if spec.family == "encoder" and saved.tokenizers:
        (_, codec), *_ = codecs_in(saved.tokenizers)
        write_pooling(folder, saved.recipe.decoding, width=spec.encoder.width, room=codec.room)
    return best.description.form, tuple(_write_tokenizers(saved, folder))


def _best_candidate(saved: SavedModel) -> tuple[_Candidate, dict[str, Tensor]]:
    """The first architecture that expresses the model exactly, with its tensors."""
    spec = saved.recipe.model
    descriptions = IMAGES if getattr(spec, "patches", None) is not None else DESCRIPTIONS.get(spec.family, ())
    descriptions += {"lm": DECODERS, "encoder": ENCODERS, "classifier": (albert,)}.get(spec.family, ())
    if not descriptions:
        raise UnsupportedModel(f"Hugging Face has no architecture for the family {spec.family} that clearhead knows")
    nearest: _Candidate | None = None
    for describe in descriptions:
        candidate = _candidate(saved, describe(spec))
        if not candidate.differences:
            try:
                return candidate, _foreign_tensors(saved, candidate)
            except UnsupportedModel as error:
                candidate.differences.append(str(error))
        if nearest is None or _distance(candidate) < _distance(nearest):
            nearest = candidate
    assert nearest is not None
    reasons = "; ".join(nearest.differences[:6])
    raise UnsupportedModel(
        f"no architecture of Hugging Face that clearhead knows computes this; the nearest, {nearest.description.kind}, "
        f"differs: {reasons}"
    )


def _distance(candidate: _Candidate) -> int:
    """How many settings differ; an architecture that cannot even be described is the farthest."""
    return len(candidate.differences) if candidate.plan is not None else 1000


def _candidate(saved: SavedModel, description: Description) -> _Candidate:
    import transformers

    from clearhead.interop.huggingface import PLANS

    spec = saved.recipe.model
    try:
        with quiet(), torch.device("meta"):
            config = getattr(transformers, description.config)(**description.settings)
            foreign = getattr(transformers, description.form)(config)
    except (ValueError, TypeError, RuntimeError, ZeroDivisionError) as error:  # sizes that it refuses
        return _Candidate(description, None, {}, None, None, [str(error).splitlines()[0][:200]])
    shapes = {name: tensor for name, tensor in _stored(foreign) if _wanted(name, spec, description.kind)}
    numbered = {
        name: torch.arange(1, tensor.numel() + 1, dtype=torch.float64).view(tensor.shape)
        for name, tensor in shapes.items()
    }
    weights = ForeignWeights(numbered, Path("the export"))
    settings = json.loads(config.to_json_string(use_diff=False))
    try:
        read = ForeignConfig(settings, Path("the export"))
        read.take("model_type", "")
        plan = PLANS[description.kind](read, weights)
        read.finish()
        theirs = recipe_from({"model": plan.model}, name=description.kind).model
    except (UnsupportedModel, RecipeError) as error:
        return _Candidate(description, config, shapes, None, None, [str(error).removeprefix("the export: ")])
    differences = list(_differences(spec, theirs, description.kind))
    return _Candidate(description, config, shapes, plan, weights, differences)


def _stored(foreign: Any) -> Iterator[tuple[str, Tensor]]:
    """The weights that the library stores, under the names that it stores them by: tied ones once."""
    from transformers.core_model_loading import revert_weight_conversion

    kept = foreign.state_dict().keys()
    buffers = {name: buffer for name, buffer in foreign.named_buffers() if name in kept}
    yield from revert_weight_conversion(foreign, dict(foreign.named_parameters()) | buffers).items()


def _wanted(name: str, spec: ModelSpec, kind: str) -> bool:
    """Whether a weight that is optional there belongs to the model."""
    if name.endswith("embed_positions.weight"):
        return kind not in ("marian", "pegasus")  # sinusoids are computed
    if name.endswith("final_logits_bias"):
        return spec.embedding.output_bias
    if "pooler.dense" in name:
        return spec.family == "classifier" or bool(getattr(spec, "pooler", False))  # BERT classifies with it alone
    return "mask_token" not in name


def _foreign_tensors(saved: SavedModel, candidate: _Candidate) -> dict[str, Tensor]:
    """Their tensors by name, filled with our weights: each goes to the place that its number says."""
    plan, weights = candidate.plan, candidate.weights
    assert plan is not None
    assert weights is not None
    original = {id(tensor): name for name, tensor in _numbers(candidate, weights)}
    named = {name: original[id(tensor)] for name, tensor in weights.tensors.items() if id(tensor) in original}
    filled = {name: torch.full(tuple(shape.shape), torch.nan) for name, shape in candidate.shapes.items()}
    for name, tensor in stored_tensors(saved.model).items():
        take = plan.names[name]
        places = take.change(weights.tensors[take.name]).flatten().long() - 1
        ours = tensor.detach().cpu().float().flatten()
        if bool((places < 0).all()):
            if bool((ours != 0).any()):
                raise UnsupportedModel(f"{candidate.description.kind} has no place for {name}, which is not 0")
            continue
        filled[named[take.name]].view(-1)[places] = ours
    for copy, source in plan.copies.items():
        if copy in named and source in named:
            filled[named[copy]] = filled[named[source]].clone()
    empty = [name for name, tensor in filled.items() if bool(tensor.isnan().any())]
    if empty:
        raise UnsupportedModel(f"{candidate.description.kind} has weights that the model lacks: {', '.join(empty[:5])}")
    return filled


def _numbers(candidate: _Candidate, weights: ForeignWeights) -> Iterator[tuple[str, Tensor]]:
    """The numbered tensors under their own names; the plan renames them but keeps their order."""
    yield from zip(candidate.shapes, weights.tensors.values(), strict=True)


def _differences(ours: ModelSpec, theirs: ModelSpec, kind: str) -> Iterator[str]:
    mine, other = _settings(ours), _settings(theirs)
    tables = {name.removesuffix(".kind") for name in mine if name.endswith(".kind") and mine[name] != other.get(name)}
    for name in sorted(mine.keys() | other.keys()):
        table, _, last = name.rpartition(".")
        if table in tables and last != "kind":
            continue  # another kind has other settings
        if name == "labels" and name not in mine:
            continue  # nobody named the classes: any names will do
        if mine.get(name) != other.get(name):
            yield f"model.{name} is {_shown(mine.get(name))}, {kind} has {_shown(other.get(name))}"


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _settings(spec: ModelSpec) -> dict[str, Any]:
    """Every setting that changes what the network computes, by its full name, with defaults written out."""
    table = spec.model_dump()
    vocabulary = table.pop("vocabulary")
    wanted = {"pad", *(("eos",) if spec.family == "seq2seq" else ()), *spec.sides}
    vocabulary = {name: value for name, value in vocabulary.items() if name in wanted and name not in _NAMES}
    if spec.family == "seq2seq":
        vocabulary["first"] = spec.vocabulary.first
    if table["embedding"]["tie"] == "auto":
        table["embedding"]["tie"] = _tied(spec)
    if not table.get("labels"):
        table.pop("labels", None)
    for name in ("encoder", "decoder", "cross"):
        part, holder = table.get(name), getattr(spec, name, None)
        attention: Any = getattr(holder, "attention", None)
        if part and hasattr(attention, "sizes"):
            stack: Any = spec.decoder if name == "cross" else holder  # type: ignore[attr-defined]
            part["attention"]["query_size"], part["attention"]["value_size"] = attention.sizes(stack.width)
            if isinstance(attention, MultiHeadSpec):  # what stands there, whether it is written or not
                part["attention"]["kv_heads"] = attention.kv_heads or attention.heads
                bias = attention.bias if attention.output_bias is None else attention.output_bias
                part["attention"]["output_bias"] = bias
    return dict(_flat(table | {"vocabulary": vocabulary}))


def _tied(spec: ModelSpec) -> str:
    """What ``auto`` means: the output matrix is the target embedding."""
    return "output" if spec.family in ("seq2seq", "lm") else "none"


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in table.items():
        if name in _TRAINING:
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", list(value) if isinstance(value, tuple) else value


def _generation(saved: SavedModel, banned: list[int]) -> Any:
    import transformers

    vocabulary, family, decoding = saved.recipe.model.vocabulary, saved.recipe.model.family, saved.recipe.decoding
    banned = sorted({*banned, *decoding.banned})
    settings = {
        "pad_token_id": vocabulary.pad,
        "bos_token_id": vocabulary.bos,
        "eos_token_id": vocabulary.eos,
        "decoder_start_token_id": vocabulary.first if family == "seq2seq" else None,
        "suppress_tokens": banned or None,
        "max_length": decoding.max_length or 256,
        "num_beams": 1,
        "do_sample": False,
    }
    if decoding.target_language is not None and saved.tokenizers:
        *_, (_, codec) = codecs_in(saved.tokenizers)
        language = codec.languages.get(decoding.target_language)
        place = "decoder_start_token_id" if vocabulary.first in codec.languages.values() else "forced_bos_token_id"
        settings |= {} if language is None else {place: language}
    if not decoding.ban_specials:  # it was imported, and answers by the settings that it came with
        settings |= written_generation(decoding, family=family)
    return transformers.GenerationConfig(**settings)


def _write_tokenizers(saved: SavedModel, folder: Path) -> Iterator[str]:
    """Write each tokenizer: an imported one as it came, ours as ``tokenizer.json`` with what stands around a line.

    Yields notes.
    """
    if not saved.tokenizers:
        if getattr(saved.recipe.model, "patches", None) is None:
            yield "there is no tokenizer: the model has none"
        return
    around = reading_of(saved)
    for name, text in saved.tokenizers.items():
        codec = Codec.from_json(text)
        if codec.imported is not None:
            written_files(codec, folder, name)
            continue
        place = folder if name == "shared" else folder / f"{name}_tokenizer"
        place.mkdir(exist_ok=True)
        inner = json.loads(text)
        if codec.own:
            inner["post_processor"] = _template(around["before"], around["after"] if name != "target" else [])
        (place / "tokenizer.json").write_text(json.dumps(inner, ensure_ascii=False), encoding="utf-8")
        settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        settings |= {"made_by": MADE_BY}
        if codec.own:
            settings |= dict(zip(("pad_token", "bos_token", "eos_token", "unk_token"), SPECIALS, strict=True))
            settings |= {"mask_token": codec.mask_name} if codec.mask is not None else {}
        (place / "tokenizer_config.json").write_text(json.dumps(settings, indent=1), encoding="utf-8")
        if place != folder:
            yield f"AutoTokenizer.from_pretrained reads the tokenizer of the {name} from {place.name}/"


def _template(before: list[int], after: list[int]) -> dict[str, Any]:
    """What ``tokenizers`` calls a template: the tokens before a line, the line, the tokens after it."""

    def token(index: int) -> dict[str, Any]:
        return {"SpecialToken": {"id": SPECIALS[index], "type_id": 0}}

    line = [*map(token, before), {"Sequence": {"id": "A", "type_id": 0}}, *map(token, after)]
    second = [*map(token, before), {"Sequence": {"id": "B", "type_id": 1}}, *map(token, after)]
    used = {*before, *after}
    specials = {SPECIALS[index]: {"id": SPECIALS[index], "ids": [index], "tokens": [SPECIALS[index]]} for index in used}
    return {"type": "TemplateProcessing", "single": line, "pair": [*line, *second], "special_tokens": specials}
