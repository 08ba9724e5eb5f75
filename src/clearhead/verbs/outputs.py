"""Where a result may be written: checked before the work, not after it."""

from pathlib import Path

from clearhead.errors import ClearheadError

EXISTS = "exists already; add --force to replace it (in Python, force=True)"


def model_file(output: str | Path, *, force: bool) -> Path:
    """The file that a model may be written to."""
    path = Path(output)
    if path.suffix != ".safetensors":
        raise ClearheadError(f"-o {path}: a model file is called something.safetensors")
    return free_file(path, force=force)


def free_file(path: Path, *, force: bool) -> Path:
    """A file that does not exist, unless ``force`` replaces it, in a folder that does."""
    if not path.parent.is_dir():
        raise ClearheadError(f"-o {path}: the folder {path.parent} does not exist")
    if path.exists() and not force:
        raise ClearheadError(f"{path}: {EXISTS}")
    return path
