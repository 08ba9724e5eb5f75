"""Warnings about characters and symbols that are not in a model's vocabulary."""

import warnings
from collections.abc import Iterable, Sequence

from clearhead.data import Codec

_SHOWN = 10
"""Most unknown characters that a message lists."""


class UnknownCharacters(UserWarning):
    """A text contains characters or symbols that the model does not know; it reads them as <unk>."""


def unknown_words(codec: Codec, unknown: Sequence[str], *, side: str = "source") -> str:
    """Say what is unknown and what to do about it; ``data.case`` does not apply to targets."""
    shown = " ".join(part if part.isprintable() and part.strip() else repr(part) for part in unknown[:_SHOWN])
    more = f" and {len(unknown) - _SHOWN:,} more" if len(unknown) > _SHOWN else ""
    words = f"the model does not know {shown}{more}"
    small = [part.lower() for part in unknown if part.lower() != part]
    if side != "target" and small and any(not lacking for lacking in codec.read(small)[1]):
        words += "; train with data.case=lower, or lower-case the input"
    return words


def warn_unknown(codec: Codec, unknown: Iterable[Sequence[str]], stacklevel: int, *, side: str = "source") -> None:
    """Warn once per call: how many texts have unknown characters, and which ones."""
    rows = [parts for parts in unknown if parts]
    if rows:
        everything = list(dict.fromkeys(part for parts in rows for part in parts))
        texts = "1 text" if len(rows) == 1 else f"{len(rows):,} texts"
        words = unknown_words(codec, everything, side=side)
        warnings.warn(f"{texts}: {words}", UnknownCharacters, stacklevel + 1)
