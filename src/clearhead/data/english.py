"""The words of English text, as the CMU dictionary spells them: small letters, apostrophes, hyphens, full stops.

    Naïve café: «Don't pay 1,200!»    →    naive cafe don't pay one thousand two hundred

A word that the dictionary could list is left as it is, so that a list of words is read word for word.
"""

import re
import unicodedata
from dataclasses import dataclass

from clearhead.data.numerals import spoken

_LETTERS = str.maketrans(
    {
        **dict.fromkeys("’‘ʼʹ′`´＇", "'"),
        **dict.fromkeys("‐‑‒–—―−", "-"),
        **dict.fromkeys("æǽ", "ae"),
        **{"œ": "oe", "ø": "o", "ß": "ss", "đ": "d", "ð": "th", "þ": "th", "ł": "l", "ı": "i", "ŋ": "ng"},
    }
)
_SIGNS = {"&": "and", "%": "percent", "@": "at", "+": "plus", "=": "equals"}
_TOKEN = re.compile(
    r"(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+|st\b|nd\b|rd\b|th\b)?)"
    r"|(?P<word>[a-z'.-]+)"
    r"|(?P<other>.)",
    re.DOTALL,
)
_MARKS = "'.-"
_INITIALS = re.compile(r"(?:[a-z]\.)+(?:'?s)?|[a-z]\.[a-z](?:\.'?s?)?|ph\.d\.")
_CLIPPED = re.compile(r".*(?:[sxz]|sh|.in)'|ol?'")
"""Words that end in an apostrophe: a plural's or a name's genitive, runnin', o', ol'."""
_TITLES = frozenset(
    ["co", "corp", "dr", "etc", "inc", "jr", "ltd", "messrs", "mr", "mrs", "ms", "mssrs", "prof", "sr", "vs"]
)
_ALONE = _TITLES | frozenset(["al", "conn", "cr", "in", "jan", "mass", "rep"])
"""Abbreviations that keep their full stop; some of them only in a line of their own, as they are words as well."""
_ELISIONS = frozenset(
    [
        *("'bout", "'cause", "'course", "'cuse", "'em", "'frisco", "'gain", "'kay", "'m", "'n", "'round", "'s"),
        *("'til", "'tis", "'twas"),
    ]
)
"""Words that begin with an apostrophe; before others it is a quotation mark."""


@dataclass(frozen=True)
class EnglishWords:
    """What was read of a text."""

    words: tuple[str, ...]
    unknown: tuple[str, ...]
    """Characters, each once, that stand for no English sound and were left out; punctuation is not among them."""


def read_english(text: str) -> EnglishWords:
    """Find the words of a text: case and accents are dropped, numbers and a few signs are spelled out."""
    folded = unicodedata.normalize("NFKC", text).lower().translate(_LETTERS)
    plain = "".join(part for part in unicodedata.normalize("NFKD", folded) if not unicodedata.combining(part))
    alone = len(plain.split()) == 1
    words: list[str] = []
    unknown: dict[str, None] = {}
    for found in _TOKEN.finditer(plain):
        token = found.group()
        if found["number"]:
            words += spoken(token)
        elif found["word"]:
            words += [word] if (word := _trimmed(token, alone=alone)) else []
        elif token in _SIGNS:
            words.append(_SIGNS[token])
        elif not token.isspace() and unicodedata.category(token)[0] not in "PCZ":
            unknown[token] = None
    return EnglishWords(tuple(words), tuple(unknown))


def _trimmed(token: str, *, alone: bool) -> str:
    """A word without the quotation marks, dashes and full stops around it; empty if there are only these."""
    core = token.strip(_MARKS)
    before, _, after = token.partition(core) if core else ("", "", "")
    if before.endswith("'") and not after.startswith("'") and f"'{core}" in _ELISIONS:
        core = f"'{core}"
    elif after[:1] == "'" != after[1:2] and "'" not in before and _CLIPPED.fullmatch(f"{core}'"):
        return f"{core}'"
    stop = after.startswith(".") and (_INITIALS.fullmatch(f"{core}.") or core in (_ALONE if alone else _TITLES))
    return f"{core}." if stop else core
