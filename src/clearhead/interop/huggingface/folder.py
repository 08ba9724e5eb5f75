"""The files of a Hugging Face folder."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from clearhead.errors import DataError, UnsupportedModel


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json``."""
    if not folder.is_dir():
        raise DataError(f"{folder}: {'is a file, not a folder' if folder.exists() else 'no such folder'}")
    config = read_json(folder / "config.json")
    if not isinstance(config, dict):
        raise DataError(f"{folder / 'config.json'}: is not a table of settings")
    return config


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Read all tensors of ``model.safetensors``, or of the shards that its index lists; pickles are refused."""
    whole, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    if whole.is_file():
        files = [whole]
    elif index.is_file():
        try:
            files = [folder / Path(name).name for name in sorted(set(read_json(index)["weight_map"].values()))]
        except (KeyError, TypeError, AttributeError):
            raise DataError(f"{index}: has no weight_map that names the shards") from None
    elif list(folder.glob("*.bin")):
        raise UnsupportedModel(
            f"{folder}: has only pickled weights (*.bin), which could run any code and are never opened; "
            "save the model again with safe_serialization=True"
        )
    else:
        raise DataError(f"{folder}: has no model.safetensors")
    tensors: dict[str, Tensor] = {}
    for file in files:
        try:
            tensors |= load_file(file)
        except (SafetensorError, OSError) as error:
            raise DataError(f"{file}: cannot be read: {error}") from None
    return tensors


def read_json(path: Path) -> Any:
    """The content of a JSON file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not valid JSON: {error}") from None
