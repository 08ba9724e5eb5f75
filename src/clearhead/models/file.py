"""The model file: one ``.safetensors`` with weights, recipe, tokenizers and a fingerprint. Nothing is unpickled.

``clearhead.recipe.stored`` describes the layout and reads the header. The fingerprint is a SHA-256 over format, recipe,
tokenizers and every tensor. Weights that are tied are stored once.
"""

import copy
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from torch import Tensor, nn

from clearhead.errors import DamagedFile, ModelFileError
from clearhead.machine import require_memory
from clearhead.models.base import Model
from clearhead.models.build import build
from clearhead.models.outline import outline
from clearhead.models.tensor_file import raw_bytes, write_tensors
from clearhead.recipe import (
    FORMAT,
    VERSION,
    Header,
    JointSpec,
    Recipe,
    Seq2SeqSpec,
    StackSpec,
    read_header,
    recipe_of_header,
    recipe_table,
)

_FLOATS = ("F64", "F32", "F16", "BF16")


@dataclass(frozen=True)
class SavedModel:
    """The content of a model file."""

    model: Model
    recipe: Recipe
    tokenizers: Mapping[str, str] = field(default_factory=dict)
    """``tokenizer.json`` texts by side: ``source`` and ``target``, or ``shared``."""
    origin: Mapping[str, str] = field(default_factory=dict)
    """Of a model that was tuned: ``name`` and ``fingerprint`` of the model that it started from."""


def save_model(saved: SavedModel, path: str | Path) -> None:
    """Write a model file atomically."""
    if saved.model.spec != saved.recipe.model:
        raise ModelFileError(f"{path}: not written: the model was not built from this recipe")
    tensors, metadata = _content(saved)
    write_tensors(Path(path), tensors, metadata)


def without_joint(saved: SavedModel) -> SavedModel:
    """The network alone, for what knows no joint n-grams; the same model if it has none."""
    spec = saved.recipe.model
    if not isinstance(spec, Seq2SeqSpec) or not spec.joint.order:
        return saved
    recipe = saved.recipe.updated(model=spec.replaced(joint=JointSpec()))
    model: Any = copy.deepcopy(saved.model)
    model.spec, model.joint = recipe.model, None
    return replace(saved, model=model, recipe=recipe)


def fingerprint_of(saved: SavedModel) -> str:
    """The fingerprint that a file of this model would have, or has."""
    return _content(saved)[1]["fingerprint"]


def _content(saved: SavedModel) -> tuple[dict[str, Tensor], dict[str, str]]:
    """The tensors and the metadata of a model file."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in stored_tensors(saved.model).items()}
    metadata = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "clearhead": version("clearhead"),
        "recipe": json.dumps(recipe_table(saved.recipe), ensure_ascii=False),
        "tokenizers": json.dumps(dict(saved.tokenizers), ensure_ascii=False),
    }
    if saved.origin:
        metadata["origin"] = json.dumps(dict(saved.origin), ensure_ascii=False)
    metadata["fingerprint"] = _fingerprint(metadata, tensors)  # of what it is, not of where it comes from
    return tensors, metadata


def load_model(path: str | Path, *, device: str = "cpu") -> SavedModel:
    """Read a model file; one that is damaged, truncated, foreign or newer raises an error that says so.

    The model is built only after header, recipe and file size were found to agree, so that no file can cause more
    memory to be allocated than a few times its size.
    """
    path = Path(path)
    header = read_header(path)
    tensors = _tensors(header)
    if header.metadata.get("fingerprint") != _fingerprint(header.metadata, tensors):
        raise DamagedFile(f"{path}: is damaged (its content does not match its checksum): fetch or train it again")
    recipe, tokenizers = recipe_of_header(header), header.tokenizers()
    _check_outline(recipe, header)
    model = build(recipe, seed=0, device=device)  # a seed, so that no number is drawn from the global state
    expected = stored_tensors(model)
    with torch.no_grad():
        for name, tensor in tensors.items():
            if not bool(tensor.isfinite().all()):
                raise DamagedFile(f"{path}: {name} contains weights that are not finite: train it again")
            expected[name].copy_(tensor)
    return SavedModel(model.eval(), recipe, tokenizers, header.origin())


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model, by name; tied ones appear once, under their first name."""
    saved_names = model.state_dict().keys()  # without buffers that can be computed again
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved_names}
    return dict(model.named_parameters()) | buffers


def _check_outline(recipe: Recipe, header: Header) -> None:
    """Check, without any weights, that the header lists exactly the tensors of the recipe, with their shapes."""
    path = header.path
    stacks = [getattr(recipe.model, name) for name in type(recipe.model).model_fields]
    layers = sum(part.layers for part in stacks if isinstance(part, StackSpec) and not getattr(part, "shared", False))
    if layers > len(header.tensors):  # checked before a module is made for each of them
        raise DamagedFile(f"{path}: lacks weights: {len(header.tensors):,} for {layers:,} layers")
    expected = stored_tensors(outline(recipe.model))
    for problem, names in (
        ("lacks", expected.keys() - header.tensors.keys()),
        ("has too many", header.tensors.keys() - expected.keys()),
    ):
        if names:
            raise DamagedFile(f"{path}: {problem} weights: {', '.join(sorted(names)[:5])[:200]}")
    for name, entry in header.tensors.items():
        shape = tuple(expected[name].shape)
        if shape != entry.shape:
            raise DamagedFile(f"{path}: {name} has shape {entry.shape}, its recipe says {shape}")
        if expected[name].dtype.is_floating_point != (entry.dtype in _FLOATS):
            raise DamagedFile(f"{path}: {name} holds numbers of type {entry.dtype}, its recipe asks for another")


def _tensors(header: Header) -> dict[str, Tensor]:
    path = header.path
    require_memory(2 * header.file_size, str(path), "free some memory, or take a larger machine")
    try:
        return load_tensors(path.read_bytes())
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    except (SafetensorError, ValueError, KeyError) as error:
        raise DamagedFile(f"{path}: is damaged ({error}): fetch or train it again") from None


def _fingerprint(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in ("format", "format_version", "recipe", "tokenizers"):
        digest.update(f"{name}={metadata.get(name)}\n".encode())
    add_tensors(digest, tensors)
    return digest.hexdigest()


def add_tensors(digest: "hashlib._Hash", tensors: Mapping[str, Tensor]) -> None:
    """Add names, types, shapes and every byte of tensors to a checksum."""
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(raw_bytes(tensor.contiguous()))
