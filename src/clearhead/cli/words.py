"""Words of a command line that may be files or settings."""

from collections.abc import Sequence
from pathlib import Path

from clearhead.errors import DataError


def files_and_settings(words: Sequence[str] | None) -> tuple[list[Path], list[str]]:
    """Files, and words of the form key=value; a file that is there may have such a name."""
    settings = [word for word in words or [] if "=" in word and not Path(word).exists()]
    return [Path(word) for word in words or [] if word not in settings], settings


def parallel_files(src: Path | None, tgt: Path | None) -> list[str]:
    """Both files, or none."""
    if (src is None) != (tgt is None):
        raise DataError("--src and --tgt come in twos")
    return [str(file) for file in (src, tgt) if file is not None]
