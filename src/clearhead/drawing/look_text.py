"""The document of a view in letters, for a terminal: the answer, its alternatives, where it comes from, and why."""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unicodedata import east_asian_width

from clearhead.drawing.look_document import (
    Document,
    Weighed,
    keys_of,
    measure_of,
    parts_at,
    reasons,
    row_of,
    stack_read,
    totals,
    visible,
    where_from,
)
from clearhead.drawing.text import SHADES

MOST_TOKENS = 40
"""Answer tokens that are listed; of longer answers the first."""
Styled = tuple[str, str]
"""A line, and what it is: title, head, row or note."""


def look_lines(document: Document, width: int = 80) -> list[Styled]:
    """Tell what a document holds in lines of at most this many columns."""
    lines = [*_title(document, width)]
    one_sided = stack_read(document) == "encoder"
    lines += _labels(document, width) if one_sided else []
    if document["answer"]:
        lines += [("", "row"), *_tokens(document, width)]
    lines += _picture(document) if document.get("image") else _alignment(document, width)
    lines += _notes(document, width)
    return [(text.rstrip(), role) for text, role in lines]


def _title(document: Document, width: int) -> Iterator[Styled]:
    text = "a picture" if document.get("image") else document["text"]
    answer = document["answer_text"]
    line = f"{text} → {answer}" if answer != text else text
    for part in textwrap.wrap(line, width) or [""]:
        yield part, "title"
    model = document["model"]
    facts = [document["family"], str(model["name"]), f"{model['parameters']:,} parameters"]
    logs = document.get("log_probabilities", [])
    known = [value for value in logs[document.get("given", 0) :] or logs if value is not None]
    if known:
        facts.append(f"log p {sum(known):.4f}".replace("-", "−"))
    off = document.get("without")
    if off:
        facts.append(f"without {', '.join(off)}")
    for part in textwrap.wrap(" · ".join(facts), width):
        yield part, "note"
    listed = [] if stack_read(document) == "encoder" else document.get("n_best", [])[1:4]  # labels have bars
    for number, other in enumerate(listed, start=2):
        text = _cut(f"  {number}. {other['text']}", width - 12)
        yield f"{_padded(text, width - 12)}{other['log_probability']:>10.4f}".replace("  -", "  −"), "row"


def _tokens(document: Document, width: int) -> Iterator[Styled]:
    """Two lines for each token: how probable it is and what else was, and where it comes from and why."""
    answer = [visible(token) for token in document["answer"]]
    total = totals(document, stack_read(document))
    begin = min(document.get("given", 0), len(answer) - 1)
    chosen = document.get("at")
    shown = range(begin, min(len(answer), begin + MOST_TOKENS)) if chosen is None else range(chosen, chosen + 1)
    widest = min(14, max(_columns(answer[at]) for at in shown))
    indent = " " * 5
    for at in shown:
        log_p = document["log_probabilities"][at]
        p = "  –  " if log_p is None else f"{_percent(math.exp(log_p)):>5}"
        others = [one for one in document["alternatives"][at] if visible(one["token"]) != answer[at]]
        alternatives = ", ".join(f"{visible(one['token'])} {_percent(one['probability'])}" for one in others[:4])
        head = f"{at + 1:>3}  {_padded(_cut(answer[at], widest), widest)} {p}"
        yield _cut(f"{head}   or {alternatives}" if alternatives else head, width), "head"
        sources = ", ".join(f"{one.token} {_percent(one.value)}" for one in where_from(document, total, at))
        if sources:
            yield _cut(f"{indent}from {sources}", width), "row"
        for line in _because(document, at, in_full=chosen is not None):
            yield _cut(indent + line, width), "row"
    left = len(answer) - shown.stop
    if left > 0 and chosen is None:
        yield f"     … and {left} more tokens: --json or -o look.html", "note"


def _because(document: Document, at: int, *, in_full: bool) -> Iterator[str]:
    """The reasons for one token; ``in_full``, also what each layer would have written."""
    for name, words in (("inputs", "integrated gradients"), ("occlusion", "lost without")):
        for one in document.get(name, []):
            if one["at"] == at:
                yield f"{words}: {_signed_list(_strongest_inputs(document, one))}{_of(one)}"
    why = reasons(document, at)
    if why:
        parts = parts_at(document, at) or {}
        over = f" over {visible(parts['against'])}" if parts.get("against") else ""
        yield f"logit{over} {_signed(parts['logit'])}: {_signed_list(why)}"
    row = row_of(document, at)
    if in_full and row is not None:
        for layers in document.get("lens", {}).values():
            for number, places in enumerate(layers):
                found = ", ".join(f"{visible(one['token'])} {_percent(one['probability'])}" for one in places[row])
                yield f"after {f'layer {number}' if number else 'embedding'}: {found}"


def _strongest_inputs(document: Document, one: Mapping[str, Any], most: int = 3) -> list[Weighed]:
    """The input tokens with the largest attributions, of source and prefix."""
    prefix = one.get("prefix", ())
    source = document.get("source", document.get("inputs_of", {}).get("decoder", []))
    tokens = [*source, *(document.get("inputs_of", {}).get("decoder", ()) if prefix else ())]
    values = [*one["source"], *prefix] if document.get("source") else [*(prefix or one["source"])]
    found = [
        Weighed(visible(token), value, place) for place, (token, value) in enumerate(zip(tokens, values, strict=False))
    ]
    return sorted(found, key=lambda weighed: -abs(weighed.value))[:most]


def _of(one: Mapping[str, Any]) -> str:
    """What attributions add up to, and how exactly."""
    if "delta" not in one:
        return ""
    return f"  (sum {_signed(one['delta'])}, error {100 * abs(one['error']):.2f} %)"


def _labels(document: Document, width: int) -> Iterator[Styled]:
    """Bars of labels, or of the candidates of each gap."""
    for at, found in enumerate(document["alternatives"][:MOST_TOKENS]):
        yield "", "row"
        if len(document["alternatives"]) > 1:
            yield f"gap {at + 1}", "head"
        widest = min(24, max((_columns(visible(one["token"])) for one in found), default=0))
        room = width - widest - 12
        for one in found:
            bar = "█" * round(room * one["probability"])
            name = _padded(_cut(visible(one["token"]), widest), widest)
            yield f"  {name} {_percent(one['probability']):>5}  {bar}", "row"


def _alignment(document: Document, width: int) -> Iterator[Styled]:
    """Which source tokens each answer token reads, as shades; where these do not fit, the strongest of each."""
    total = totals(document, "cross")
    if total is None or document.get("at") is not None:
        return
    answer, keys = [visible(token) for token in document["answer"]], keys_of(document, "cross")
    widest = max(map(_columns, answer), default=1)
    cell = max(2, max(map(_columns, keys), default=1) + 1)
    yield "", "row"
    yield f"alignment: what each token reads ({measure_of(document)})", "note"
    if len(keys) * cell + widest + 4 > width or len(answer) > MOST_TOKENS:
        pairs = " ".join(f"{token}←{keys[int(total[at].argmax())]}" for at, token in enumerate(answer))
        for line in textwrap.wrap(pairs, width - 2):
            yield f"  {line}", "row"
        return
    yield f"  {'':{widest}} {''.join(_padded(key, cell) for key in keys)}", "row"
    for at, token in enumerate(answer):
        row = total[at] / max(total.max(), 1e-12)
        shades = "".join(
            _padded(SHADES[min(len(SHADES) - 1, round(4 * float(value)))] * max(1, cell - 1), cell) for value in row
        )
        yield f"  {' ' * (widest - _columns(token))}{token} {shades}", "row"


def _picture(document: Document) -> Iterator[Styled]:
    """Patches as shades of what they weigh."""
    image, total = document["image"], totals(document, "encoder")
    if total is None:
        return
    weights = total.mean(0)[-image["rows"] * image["columns"] :]
    weights = (weights - weights.min()) / max(float(weights.max() - weights.min()), 1e-12)
    yield "", "row"
    yield f"what each patch weighs ({measure_of(document)})", "note"
    for row in range(image["rows"]):
        cells = weights[row * image["columns"] : (row + 1) * image["columns"]]
        yield "  " + "".join(SHADES[round(4 * float(value))] * 2 for value in cells), "row"


def _notes(document: Document, width: int) -> Iterator[Styled]:
    refused: Mapping[str, str] = document.get("refused", {})
    pairs = document["family"] in ("seq2seq", "recurrent")  # of others, they make no sense
    reasons_why = [reason for name, reason in refused.items() if pairs or name not in ("alignment", "decoder_lens")]
    notes = [*(f"left out: {words}" for words in document.get("left_out", [])), *reasons_why]
    if notes:
        yield "", "row"
    for note in notes:
        for line in textwrap.wrap(note, width):
            yield line, "note"


def _percent(share: float) -> str:
    return "<1 %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def _signed_list(found: Sequence[Weighed]) -> str:
    return ", ".join(f"{one.token} {_signed(one.value)}" for one in found)


def _columns(text: str) -> int:
    """Columns of a terminal that a text takes."""
    return sum(2 if east_asian_width(letter) in "WF" else 1 for letter in text)


def _cut(text: str, width: int) -> str:
    if _columns(text) <= width:
        return text
    while _columns(text) > width - 1:
        text = text[:-1]
    return text + "…"


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _columns(text))
