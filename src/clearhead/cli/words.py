"""Words of a command line that may be files or settings."""

from collections.abc import Sequence
from pathlib import Path


def files_and_settings(words: Sequence[str] | None) -> tuple[list[Path], list[str]]:
    """Files, and words of the form key=value; a file that is there may have such a name."""
    settings = [word for word in words or [] if "=" in word and not Path(word).exists()]
    return [Path(word) for word in words or [] if word not in settings], settings
