"""The files of a Hugging Face folder."""

import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor

from clearhead.data.library import library
from clearhead.errors import DataError, UnsupportedModel


def read_config(folder: Path) -> dict[str, Any]:
    """Read ``config.json``."""
    if not folder.is_dir():
        raise DataError(f"{folder}: {'is a file, not a folder' if folder.exists() else 'no such folder'}")
    config = _json(folder / "config.json")
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
            files = [folder / Path(name).name for name in sorted(set(_json(index)["weight_map"].values()))]
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


def read_tokenizer(folder: Path) -> dict[str, str]:
    """Read and check ``tokenizer.json``, as text; an empty table if the folder has none."""
    path = folder / "tokenizer.json"
    if not path.is_file():
        return {}
    with library(f"{path}: is not a tokenizer"):
        return {"shared": Tokenizer.from_file(str(path)).to_str()}


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: is not valid JSON: {error}") from None
