"""What tokenizers are learnt from: texts in a list or on the disk, their words, and the kind of tokens that suits."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from tokenizers import normalizers

Kind = Literal["characters", "symbols", "bpe", "unigram"]
"""How a tokenizer cuts text."""
LARGEST_SIZE = 32_000
"""Subwords that are learnt at most, if the recipe does not say."""
_CHUNK = 10_000


class Texts(Protocol):
    """Texts to learn from, gone over as often as needed: a list, or what stands on the disk."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Iterator[str]: ...


def chunks(texts: Iterable[str]) -> Iterator[list[str]]:
    """The texts in order, many at once."""
    rest = iter(texts)
    while chunk := list(islice(rest, _CHUNK)):
        yield chunk


def words_of(texts: Sequence[str], whole_with: str = "") -> tuple[Sequence[str], NDArray[np.int64]]:
    """The words of all texts, one after the other, and (n,) how many each text has.

    A word is what stands between single spaces. A text with any other white space in it, at its ends, or with the
    character ``whole_with``, stays whole, as one word: what follows for words cut apart might not hold for it.
    """
    together = " ".join(texts)
    words = _single_spaced(together, whole_with)
    if words is not None:
        return words, np.fromiter((text.count(" ") + 1 for text in texts), dtype=np.int64, count=len(texts))
    rows = [_single_spaced(text, whole_with) or [text] for text in texts]
    return list(chain.from_iterable(rows)), np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))


def _single_spaced(text: str, without: str) -> list[str] | None:
    """The words of a text in which nothing but single spaces separates them; else None."""
    words, spaces = text.split(), text.count(" ")
    between = len(text) - sum(map(len, words))  # white space of any kind
    regular = len(words) == spaces + 1 and between == spaces
    return words if regular and not (without and without in text) else None


class _Lowered:
    """Texts in small letters, made while they are gone over."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __iter__(self) -> Iterator[str]:
        lower: Callable[[str], str] = normalizers.Lowercase().normalize_str
        return map(lower, self._texts)


class Joined:
    """Texts, and then others."""

    def __init__(self, *parts: Texts) -> None:
        self._parts = parts

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)


def lowered(texts: Texts) -> Texts:
    """Texts in small letters, as the tokenizer makes them."""
    return _Lowered(texts)


def suitable_kind(texts: Texts) -> Kind:
    """What suits these lines: symbols, characters, or subwords.

    Symbols: a small, closed set of words that come back again and again (phones, letters with spaces between).
    Characters: single words of a small alphabet. Everything else is sentences, and gets byte-level BPE.
    """
    sample = list(islice(texts, 0, None, max(1, len(texts) // 20_000)))
    words = Counter(word for text in sample for word in text.split())
    total = sum(words.values())
    if total >= 2 * len(sample) and len(words) <= max(20, min(500, total // 20)):
        return "symbols"
    alphabet = {character for text in sample for character in text}
    if total <= 1.2 * len(sample) and len(alphabet) <= 500:
        return "characters"
    return "bpe"


class DistinctWords:
    """How many different words there are: of letters and digits, whatever stands around them."""

    def __init__(self) -> None:
        self._words: set[str] = set()

    def add(self, texts: Iterable[str]) -> None:
        """Look into more texts; once there are enough words, nobody counts on."""
        if len(self._words) < 3 * LARGEST_SIZE:
            self._words.update(re.findall(r"\w+", " ".join(set(texts))))

    @property
    def suitable_size(self) -> int:
        """Subwords for this much text: about a third of its distinct words, between 500 and 32,000."""
        return max(500, min(LARGEST_SIZE, len(self._words) // 300 * 100))


def suitable_sharing(source: Texts, target: Texts) -> bool:
    """Whether one vocabulary suits both sides: their alphabets overlap."""
    left, right = (set().union(*islice(side, 20_000)) for side in (source, target))
    return len(left & right) >= 0.5 * min(len(left), len(right))
