"""Checks the arguments of the Python API before they reach a tokenizer; errors say what to pass instead."""

import operator
from collections.abc import Sequence
from typing import Any, SupportsIndex


def the_text(text: Any) -> str:
    """Check that ``text`` is one text."""
    if isinstance(text, str):
        return text
    if isinstance(text, list | tuple):
        raise TypeError("model(…) answers one text: for several use model.generate([…])")
    raise TypeError(f"model(…) answers one text, a str, not {_kind(text)}")


def the_texts(texts: Any, call: str = "generate", name: str = "texts") -> list[str]:
    """Check that ``texts`` is a sequence of texts; one str would be taken apart into its letters."""
    if isinstance(texts, str):
        alone = ", or model(…) for one text" if call == "generate" else ""
        raise TypeError(f"{name} must be a list of str, not one str: {call}([{_short(texts)}]){alone}")
    if isinstance(texts, bytes) or not hasattr(texts, "__iter__"):
        raise TypeError(f"{name} must be a list of str, not {_kind(texts)}")
    listed = list(texts)
    for index, text in enumerate(listed):
        if not isinstance(text, str):
            raise TypeError(f"{name}[{index}] must be a str, not {_kind(text)}")
    return listed


def the_number(number: Any, name: str) -> int:
    """Check that ``number`` is a whole number of at least 1."""
    if isinstance(number, bool) or not isinstance(number, SupportsIndex):
        raise TypeError(f"{name} must be a whole number, not {_kind(number)}")
    whole = operator.index(number)
    if whole < 1:
        raise ValueError(f"{name} must be 1 or more, not {whole}")
    return whole


def the_columns(columns: Sequence[Any], names: Sequence[str]) -> list[list[str]]:
    """Check the columns of examples to score: as many as there are names, all of one length."""
    plurals = [f"{name}s" for name in names]
    if len(columns) != len(names):
        wanted = "1 list" if len(names) == 1 else f"{len(names)} lists"
        raise TypeError(f"score takes {wanted}, score({', '.join(plurals)}), but was given {len(columns)}")
    checked = [the_texts(column, "score", name) for column, name in zip(columns, plurals, strict=True)]
    if len({len(column) for column in checked}) > 1:
        sizes = " and ".join(f"{len(column):,} {name}" for column, name in zip(checked, plurals, strict=True))
        raise ValueError(f"score was given {sizes}: give as many of each")
    return checked


def _kind(value: Any) -> str:
    return f"{type(value).__name__} ({_short(value)})"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else f"{shown[:37]}…"
