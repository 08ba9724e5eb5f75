"""Warnings about texts: characters and symbols that are not in a model's vocabulary, and nothing to fill in."""

import warnings
from collections.abc import Iterable, Sequence

from clearhead.data import Codec

_SHOWN = 10
"""Most unknown characters that a message lists."""


class UnknownCharacters(UserWarning):
    """A text contains characters or symbols that the model does not know; it reads them as <unk>."""


class NothingMasked(UserWarning):
    """A text has no <mask> that an encoder could fill in; it is answered as it is."""


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
        words = unknown_words(codec, everything, side=side)
        warnings.warn(f"{_texts(len(rows))}: {words}", UnknownCharacters, stacklevel + 1)


def warn_unmasked(remarks: Sequence[str], stacklevel: int) -> None:
    """Warn once per call: how many texts have nothing to fill in; ``remarks`` has one for each of them."""
    if remarks:
        warnings.warn(f"{_texts(len(remarks))}: {remarks[0]}", NothingMasked, stacklevel + 1)


def _texts(count: int) -> str:
    return "1 text" if count == 1 else f"{count:,} texts"
