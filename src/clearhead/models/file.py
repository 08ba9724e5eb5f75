"""The model file: one ``.safetensors`` with weights, recipe, tokenizers and a fingerprint. Nothing is unpickled.

The layout is that of the safetensors format: eight bytes with the length of a JSON header, the header, the tensors. Our
part of the header, ``__metadata__``, holds ``format`` and ``format_version``, ``recipe`` and ``tokenizers`` as JSON,
and ``fingerprint``, a SHA-256 over all of them and every tensor. Weights that are tied are stored once.
"""

import hashlib
import json
import os
import re
import struct
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors
from safetensors.torch import save as save_tensors
from torch import Tensor, nn

from clearhead.errors import DamagedFile, ForeignFile, ModelFileError, NewerFile, RecipeError, TruncatedFile
from clearhead.models.base import Model
from clearhead.models.build import build
from clearhead.recipe import Recipe, recipe_from, recipe_table

FORMAT = "clearhead"
VERSION = 1
_LARGEST_HEADER = 100_000_000  # the safetensors format's own bound


@dataclass(frozen=True)
class SavedModel:
    """What a model file holds."""

    model: Model
    recipe: Recipe
    tokenizers: Mapping[str, str] = field(default_factory=dict)
    """``tokenizer.json`` texts by side: ``source`` and ``target``, or ``shared``."""


def save_model(saved: SavedModel, path: str | Path) -> None:
    """Write a model file, whole or not at all."""
    if saved.model.spec != saved.recipe.model:
        raise ModelFileError(f"{path}: not written: the model was not built from this recipe")
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in stored_tensors(saved.model).items()}
    metadata = {
        "format": FORMAT,
        "format_version": str(VERSION),
        "clearhead": version("clearhead"),
        "recipe": json.dumps(recipe_table(saved.recipe), ensure_ascii=False),
        "tokenizers": json.dumps(dict(saved.tokenizers), ensure_ascii=False),
    }
    metadata["fingerprint"] = _fingerprint(metadata, tensors)
    write_whole(Path(path), save_tensors(tensors, metadata))


def load_model(path: str | Path, *, device: str = "cpu") -> SavedModel:
    """Read a model file; one that is damaged, truncated, foreign or newer is named as such."""
    path = Path(path)
    content, metadata = _read(path)
    try:
        tensors = load_tensors(content)
    except (SafetensorError, ValueError) as error:
        raise DamagedFile(f"{path}: is damaged ({error}): fetch or train it again") from None
    if metadata.get("fingerprint") != _fingerprint(metadata, tensors):
        raise DamagedFile(f"{path}: is damaged (its content does not match its checksum): fetch or train it again")
    try:
        table, tokenizers = json.loads(metadata["recipe"]), json.loads(metadata["tokenizers"])
    except (KeyError, ValueError, RecursionError):
        table, tokenizers = None, None
    if not isinstance(table, dict) or not isinstance(tokenizers, dict):
        raise DamagedFile(f"{path}: has no readable recipe: fetch or train it again")
    try:
        recipe = recipe_from(table, name=str(path))
    except RecipeError as error:
        raise ModelFileError(f"{path}: was written by clearhead {metadata.get('clearhead')}; {error}") from None
    model = build(recipe, device=device)
    _fill(model, tensors, path)
    return SavedModel(model.eval(), recipe, tokenizers)


def stored_tensors(model: nn.Module) -> dict[str, Tensor]:
    """The tensors that make up a model, by name; those that are tied appear once, under their first name."""
    saved_names = model.state_dict().keys()  # leaves out what can be computed again
    buffers = {name: buffer for name, buffer in model.named_buffers() if name in saved_names}
    return dict(model.named_parameters()) | buffers


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a reader, or a crash, sees all of it or the old one: temporary, fsync, rename."""
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _read(path: Path) -> tuple[bytes, dict[str, str]]:
    """The bytes of a model file and its metadata, after checking that it is one and that it is whole."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror}") from None
    header, start = _header(path, content)
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != FORMAT:
        raise ForeignFile(
            f"{path}: is a safetensors file, but not a clearhead model; "
            "a Hugging Face folder becomes one with `clearhead import`"
        )
    written = str(metadata.get("format_version"))
    if not re.fullmatch(r"\d{1,9}", written):
        raise DamagedFile(f"{path}: is damaged (its format version reads {written!r}): fetch or train it again")
    if int(written) > VERSION:
        raise NewerFile(
            f"{path}: was written in format {written} by a newer clearhead; this one reads up to format {VERSION}: "
            "upgrade clearhead"
        )
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    if len(content) < start + max(ends, default=0):
        raise TruncatedFile(
            f"{path}: is truncated ({len(content):,} of {start + max(ends):,} bytes): fetch or copy it again"
        )
    return content, metadata


def _header(path: Path, content: bytes) -> tuple[dict[str, Any], int]:
    """The JSON header and where the tensors start."""
    if not content:
        raise TruncatedFile(f"{path}: is empty: fetch or copy it again")
    foreign = ForeignFile(f"{path}: is not a clearhead model (not a safetensors file)")
    if len(content) < 9:
        raise foreign
    (size,) = struct.unpack("<Q", content[:8])
    if not 2 <= size <= _LARGEST_HEADER or content[8:9] != b"{":
        raise foreign
    if len(content) < 8 + size:
        raise TruncatedFile(f"{path}: is truncated (it ends inside its header): fetch or copy it again")
    try:
        header = json.loads(content[8 : 8 + size])
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):
        raise DamagedFile(f"{path}: is damaged (its header cannot be read): fetch or train it again") from None
    if not all(type(end) is int for end in ends):
        raise DamagedFile(f"{path}: is damaged (its header cannot be read): fetch or train it again")
    return header, 8 + size


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
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().data)


def _fill(model: Model, tensors: Mapping[str, Tensor], path: Path) -> None:
    expected = stored_tensors(model)
    for problem, names in (
        ("lacks", expected.keys() - tensors.keys()),
        ("has too many", tensors.keys() - expected.keys()),
    ):
        if names:
            raise DamagedFile(f"{path}: {problem} weights: {', '.join(sorted(names)[:5])}")
    with torch.no_grad():
        for name, tensor in tensors.items():
            if expected[name].shape != tensor.shape:
                raise DamagedFile(
                    f"{path}: {name} has shape {tuple(tensor.shape)}, its recipe says {tuple(expected[name].shape)}"
                )
            expected[name].copy_(tensor)
