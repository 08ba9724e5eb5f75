"""``clearhead.import_model``: a Hugging Face folder becomes a model file."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.errors import ClearheadError
from clearhead.verbs.outputs import model_file

if TYPE_CHECKING:
    from clearhead.interop import Imported


def import_model(
    folder: str | Path, output: str | Path, *, ignore: Sequence[str] = (), force: bool = False
) -> "Imported":
    """Read a Hugging Face folder, tokenizer and generation settings included, and write it as one model file.

    Args:
        folder: A folder with config.json and model.safetensors.
        output: The model file to write, called something.safetensors.
        ignore: Unknown settings of config.json that do not change what the network computes.
        force: Replace the file if it exists.

    Returns the model, and what of the folder was left behind.
    """
    path = model_file(output, force=force)
    from clearhead.interop import import_huggingface
    from clearhead.models import save_model

    imported = import_huggingface(folder, ignore=ignore)
    try:
        save_model(imported.saved, path)
    except OSError as error:
        raise ClearheadError(f"{path}: cannot be written: {error.strerror}") from None
    return imported
