"""``clearhead.merge_adapters``: adapters and the model that they were trained for become one model file."""

from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.errors import ClearheadError
from clearhead.verbs.naming import start_named
from clearhead.verbs.outputs import model_file

if TYPE_CHECKING:
    from clearhead.models import SavedModel


def merge_adapters(
    base: str | Path, adapters: str | Path, output: str | Path | None = None, *, force: bool = False
) -> "SavedModel":
    """Merge adapters into the model that they belong to; every command takes the result like any model.

    Args:
        base: The model that they were trained for, by any name; another one is refused.
        adapters: ``adapters.safetensors`` of a run with ``training.adapters``, or the run.
        output: The model file to write, called something.safetensors; without it none is written.
        force: Replace the file if it exists.
    """
    path = None if output is None else model_file(output, force=force)
    from clearhead.models import save_model
    from clearhead.training import ADAPTERS, adapted_model

    start = start_named(base)
    file = Path(adapters) / ADAPTERS if Path(adapters).is_dir() else Path(adapters)
    saved = adapted_model(start.saved, start.fingerprint, file)
    if path is not None:
        try:
            save_model(saved, path)
        except OSError as error:
            raise ClearheadError(f"{path}: cannot be written: {error.strerror}") from None
    return saved
