"""Tokenizers of other libraries, as a model file keeps them: one JSON text with all that they need, nothing pickled.

The text holds what the tokenizer does (``tokenizer``: the content of a ``tokenizer.json``, or a SentencePiece model
with its vocabulary), the content of ``tokenizer_config.json`` (``config``), from which the folder can be written again,
and the tokens that stand for languages (``languages``), if there are any.
"""

import json
from dataclasses import dataclass, field
from typing import Any, Literal

from tokenizers import Tokenizer

from clearhead.data.library import library
from clearhead.data.piece_tokenizer import PieceTokenizer
from clearhead.errors import DataError

_BEGINNING = '{"imported": '
"""What the text of an imported tokenizer begins with, and no ``tokenizer.json`` does."""
Library = Literal["tokenizers", "sentencepiece"]
Ids = tuple[int, ...]
_PROBES = ("a", "e", "1", ".", "一")
"""Texts of which one becomes some token by any tokenizer."""


@dataclass(frozen=True)
class ImportedTokenizer:
    """A tokenizer of another library, and how it is used there.

    Args:
        tokenizer: a ``tokenizers.Tokenizer``, or a ``PieceTokenizer``, which has the methods of one that are used here.
        config: the content of ``tokenizer_config.json``.
        languages: the tokens that stand for languages, by the names that users give them.
    """

    tokenizer: Any
    config: dict[str, Any] = field(default_factory=dict)
    languages: dict[str, int] = field(default_factory=dict)

    @property
    def library(self) -> Library:
        """The library that cuts the text."""
        return "sentencepiece" if isinstance(self.tokenizer, PieceTokenizer) else "tokenizers"

    @property
    def splits_specials(self) -> bool:
        """Whether the name of a special token inside a text is only text; usually it is that token."""
        return bool(self.config.get("split_special_tokens", False))

    @property
    def mask_name(self) -> str | None:
        """How a hidden token is written in a text; None if ``config`` does not say it."""
        named = self.config.get("mask_token")
        name = named.get("content") if isinstance(named, dict) else named
        return name if isinstance(name, str) else None

    def tidied(self, text: str) -> str:
        """A decoded text without spaces before punctuation marks, if the tokenizer is to take them away."""
        if not self.config.get("clean_up_tokenization_spaces", False):
            return text
        # as transformers: what was designed for WordPiece is not done to BPE
        if self.library == "tokenizers" and type(self.tokenizer.model).__name__ == "BPE":
            return text
        for mark in (".", "?", "!", ","):
            text = text.replace(f" {mark}", mark)
        text = text.replace(" ' ", "'")
        for end in ("n't", "'m", "'s", "'ve", "'re"):
            text = text.replace(f" {end}", end)
        return text

    def to_json(self) -> str:
        """The text that ``imported_from`` reads."""
        inner = self.tokenizer.to_str()
        rest = json.dumps({"config": self.config, "languages": self.languages}, ensure_ascii=False)
        return f'{_BEGINNING}"{self.library}", "tokenizer": {inner}, {rest[1:]}'


def is_imported(text: str) -> bool:
    """Whether a stored text is that of an imported tokenizer."""
    return text.startswith(_BEGINNING)


def imported_from(text: str) -> ImportedTokenizer:
    """The tokenizer that ``ImportedTokenizer.to_json`` wrote; anything else is a ``DataError``."""
    try:
        table = json.loads(text)
        kind, inner, config, languages = (table[key] for key in ("imported", "tokenizer", "config", "languages"))
        sound = isinstance(config, dict) and all(type(index) is int and index >= 0 for index in languages.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound or kind not in ("tokenizers", "sentencepiece"):
        raise DataError("is not an imported tokenizer")
    if kind == "sentencepiece":
        return ImportedTokenizer(PieceTokenizer.from_table(inner), config, languages)
    with library("is not a tokenizer"):
        return ImportedTokenizer(Tokenizer.from_str(json.dumps(inner)), config, languages)


def frame_of(tokenizer: Any) -> tuple[Ids, Ids]:
    """What a tokenizer puts before and after every text: the ids that stand there beside those of the text itself."""
    for probe in _PROBES:
        plain = tokenizer.encode(probe, add_special_tokens=False).ids
        if plain:
            framed = tokenizer.encode(probe, add_special_tokens=True).ids
            for place in range(len(framed) - len(plain) + 1):
                if framed[place : place + len(plain)] == plain:
                    return tuple(framed[:place]), tuple(framed[place + len(plain) :])
    return (), ()
