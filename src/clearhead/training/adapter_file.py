"""Adapters as a file of their own: small, of use only together with the model that they were trained for.

``adapters.safetensors`` holds A and B of every adapted map (``….query.lora_A.weight``), the parts that were trained
beside them as a whole, and in its metadata the recipe, the tokenizers, and name and fingerprint of the base.
"""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from clearhead.errors import DamagedFile, ForeignFile, ModelFileError
from clearhead.models import Model, SavedModel, add_tensors, stored_tensors
from clearhead.models.tensor_file import write_tensors
from clearhead.recipe import Recipe, recipe_from, recipe_table
from clearhead.training.adapters import merged
from clearhead.training.start import begun
from clearhead.training.tuning import trained_names, tuned

ADAPTERS = "adapters.safetensors"
"""The adapters of a run's best model, in its folder."""
_FORMAT = "clearhead-adapters"


def save_adapters(
    model: Model, path: Path, recipe: Recipe, tokenizers: Mapping[str, str], origin: Mapping[str, str]
) -> None:
    """Write what was trained of an adapted model, atomically.

    Args:
        model: the model with its adapters in place, or its average.
        path: the file.
        recipe: the recipe of the run.
        tokenizers: as a model file keeps them.
        origin: name and fingerprint of the model that the adapters belong to.
    """
    trained = _trained(recipe, model)
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in trained.items()}
    metadata = {
        "format": _FORMAT,
        "clearhead": version("clearhead"),
        "recipe": json.dumps(recipe_table(recipe), ensure_ascii=False),
        "tokenizers": json.dumps(dict(tokenizers), ensure_ascii=False),
        "base": json.dumps(dict(origin), ensure_ascii=False),
    }
    metadata["checksum"] = _checksum(metadata, tensors)
    write_tensors(path, tensors, metadata)


def adapted_model(base: SavedModel, fingerprint: str, path: str | Path) -> SavedModel:
    """The model that adapters make of their base, merged.

    Args:
        base: the model that they were trained for.
        fingerprint: its fingerprint; another base is refused.
        path: the file of the adapters.
    """
    metadata, tensors = _read(Path(path))
    try:
        origin, tokenizers = json.loads(metadata["base"]), json.loads(metadata["tokenizers"])
        recipe = recipe_from(json.loads(metadata["recipe"]), name=str(path))
    except (KeyError, ValueError, RecursionError):
        raise DamagedFile(f"{path}: is damaged: train the adapters again") from None
    if origin.get("fingerprint") != fingerprint:
        raise ModelFileError(
            f"{path}: belongs to {origin.get('name')} ({str(origin.get('fingerprint'))[:12]}), "
            f"not to this model ({fingerprint[:12]})"
        )
    with torch.random.fork_rng(devices=[]):
        model = tuned(begun(base, recipe)[0], recipe.training)
    expected = _trained(recipe, model)
    if expected.keys() != tensors.keys() or any(expected[name].shape != tensors[name].shape for name in tensors):
        raise DamagedFile(f"{path}: is damaged (its weights do not fit its recipe): train the adapters again")
    with torch.no_grad():
        for name, tensor in tensors.items():
            expected[name].copy_(tensor)
    return SavedModel(merged(model).eval(), recipe, tokenizers, origin)


def _trained(recipe: Recipe, model: Model) -> dict[str, Tensor]:
    """The weights that adapters consist of: all that ``tuned`` leaves to train."""
    names = trained_names(model, recipe.training)
    return {name: tensor for name, tensor in stored_tensors(model).items() if name in names}


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(path, "pt") as stream:
            metadata = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name).clone() for name in stream.keys()}  # noqa: SIM118 - not a dict
    except FileNotFoundError:
        raise ModelFileError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise DamagedFile(f"{path}: cannot be read ({error})") from None
    if metadata.get("format") != _FORMAT:
        raise ForeignFile(f"{path}: holds no adapters; a run with training.adapters writes {ADAPTERS}")
    if metadata.get("checksum") != _checksum(metadata, tensors):
        raise DamagedFile(f"{path}: is damaged (it does not match its checksum): copy or train it again")
    return metadata, tensors


def _checksum(metadata: Mapping[str, str], tensors: Mapping[str, Tensor]) -> str:
    digest = hashlib.sha256()
    for name in sorted(metadata.keys() - {"checksum"}):
        digest.update(f"{name}={metadata[name]}\n".encode())
    add_tensors(digest, tensors)
    return digest.hexdigest()
