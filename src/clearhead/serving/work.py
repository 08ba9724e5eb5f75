"""What a worker does with a model: answers, scores, traces, looks, and answers that are written token by token.

Each takes a message and returns the fields of its reply; see ``clearhead.serving.messages``. Needs torch: the front
never imports this.
"""

import json
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from clearhead.data import format_of
from clearhead.errors import ClearheadError, RecipeError
from clearhead.inspection import InexactAttribution
from clearhead.pages.packing import packed
from clearhead.predictor import (
    CUT,
    Answer,
    GrowingText,
    Predictor,
    TextWriter,
    answers_to_lines,
    unknown_words,
    warnings_about,
)
from clearhead.serving.faults import Refused, refused_settings
from clearhead.serving.messages import Message

Reply = dict[str, Any]


def refusal(error: ClearheadError) -> Reply:
    """What is wrong with a request, and where."""
    fault = refused_settings(error) if isinstance(error, RecipeError) else Refused("", str(error))
    return {"refused": {"where": fault.where, "message": fault.message}}


# ---- batches ----


def answer(predictor: Predictor, message: Message) -> Reply:
    """Answer lines."""
    lines, numbers = message["lines"], message["numbers"]
    spec = predictor.decoding(**message["settings"])
    asked = {"n_best": message["n_best"], "scored": message["details"]}

    def answers(part: Sequence[int]) -> list[list[Answer]]:
        texts, places = [lines[index] for index in part], [numbers[index] for index in part]
        if message["verbatim"]:
            return predictor.answers(texts, spec, numbers=places, **asked)
        return answers_to_lines(predictor, spec, texts, numbers=places, **asked)

    try:
        found = answers(range(len(lines)))
    except RecipeError:
        raise
    except ClearheadError as error:
        return _refused_line(error, answers, len(lines))
    warned = [[index, *_words(predictor, best)] for index, (best, *_) in enumerate(found)]
    return {
        "answers": _detailed(predictor, found)
        if message["details"]
        else [[one.text for one in ways] for ways in found],
        "warnings": [row for row in warned if len(row) > 1],
        "written": sum(len(one.tokens) for ways in found for one in ways),
        "ratio": _tokens_per_character(predictor, lines),
    }


def _refused_line(error: ClearheadError, answers: Callable[[Sequence[int]], Any], count: int) -> Reply:
    """The refusal of a batch, with the line that is to blame if it is refused alone as well."""
    reply = refusal(error)
    for index in range(count if count > 1 else 0):
        try:
            answers([index])
        except ClearheadError as own:
            reply = refusal(own)
            reply["refused"]["line"] = index
            break
    if count == 1:
        reply["refused"]["line"] = 0
    return reply


def _words(predictor: Predictor, best: Answer) -> list[str]:
    return [words for _, words in warnings_about(predictor, best)]


def _detailed(predictor: Predictor, found: Sequence[Sequence[Answer]]) -> list[list[dict[str, Any]]]:
    """Answers with everything that is known of them."""
    flat = [token for ways in found for one in ways for token in one.tokens]
    shown = iter(predictor.shown(flat))
    return [[_table(one, [next(shown) for _ in one.tokens]) for one in ways] for ways in found]


def _table(one: Answer, tokens: list[str]) -> dict[str, Any]:
    table: dict[str, Any] = {
        "text": one.text,
        "log_probability": _number(one.log_probability),
        "score": _number(one.score),
        "finished": one.finished,
        "ids": one.tokens,
        "tokens": tokens,
    }
    if one.probabilities is not None:
        table["probabilities"] = dict(one.probabilities)
    if one.masks:
        table["masks"] = [dict(mask) for mask in one.masks]
    return table


def _number(value: float) -> float | None:
    """A number that JSON has: log p of an answer that cannot be is −∞."""
    return value if math.isfinite(value) else None


def _tokens_per_character(predictor: Predictor, lines: Sequence[str]) -> float:
    """How many tokens a character makes, by the longest line: the front fills batches by it."""
    longest = max(lines, key=len)
    return predictor.tokens_of(longest) / max(1, len(longest))


def score(predictor: Predictor, message: Message) -> Reply:
    """Score rows: log p of each, token by token; space around a text does not count, as in a file."""
    rows = [[text.strip() for text in row] for row in message["rows"]]
    layout = format_of(predictor.model.spec)

    def scores(part: Sequence[int]) -> list[dict[str, Any]]:
        examples = [layout.make(*rows[index], line=index + 1) for index in part]
        words: list[list[str]] = [[] for _ in part]
        for side, codec, unknown in predictor.unfamiliar(examples):
            for row, parts in zip(words, unknown, strict=True):
                row.extend([unknown_words(codec, parts, side=side)] if parts else [])
        found = zip(predictor.forced(examples), predictor.forced_tokens(examples), words, strict=True)
        return [
            {
                "log_probability": line.log_probability,
                "tokens": tokens,
                "token_log_probabilities": line.log_probabilities,
                "warnings": [*([CUT] if line.cut else []), *warnings],
            }
            for line, tokens, warnings in found
        ]

    try:
        return {"scores": scores(range(len(rows)))}
    except ClearheadError as error:
        return _refused_line(error, scores, len(rows))


def trace(predictor: Predictor, message: Message) -> Reply:
    """Every token of a prompt and its answer, with log p and what else was likely."""
    writer = _writer(predictor)
    rows = writer.trace(message["prompt"], message["ids"], writer.recipe.decoding, top=message["top"])
    text, tokens = GrowingText(writer.target), []
    for place, row in enumerate(rows, start=1):
        piece = text.add(row.token) + (text.rest() if place == len(rows) else "")
        names = writer.shown([token for token, _ in row.top])
        tokens.append(
            {
                "text": piece,
                "log_probability": row.log_probability,
                "top": {name: value for name, (_, value) in zip(names, row.top, strict=True)},
                "given": row.given,
            }
        )
    return {"tokens": tokens}


def look(predictor: Predictor, message: Message) -> Reply:
    """Look inside; the document is JSON already, as nobody between here and the page has to read it."""
    view = predictor.look(
        message["line"],
        target=message["target"],
        without=message["without"],
        n_best=message["n_best"],
        **message["settings"],
    ).named(message["name"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InexactAttribution)  # the document has the error, which the page shows
        document = packed(
            view.document(
                message["show"],
                at=message["at"],
                against=message["against"],
                rivals=True,
                switched=message["heads"],
            )
        )
    return {"document": json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)}


# ---- streams ----


def _writer(predictor: Predictor) -> TextWriter:
    if not isinstance(predictor, TextWriter):
        raise ClearheadError(f"a model of family {predictor.model.spec.family} does not write text")
    return predictor


class Stream:
    """An answer that is being written.

    Args:
        predictor: the model.
        message: the line, and how it is to be answered.
    """

    def __init__(self, predictor: Predictor, message: Message) -> None:
        self._writer, verbatim = _writer(predictor), message["verbatim"]
        self._line: str = message["line"] if verbatim else message["line"].strip()
        self._spec = predictor.decoding(**message["settings"])
        self._text = GrowingText(self._writer.target)
        self._tokens = self._writer.each_token(self._line, self._spec) if self._has_pieces(verbatim=verbatim) else None

    def _has_pieces(self, *, verbatim: bool) -> bool:
        """Whether there is anything to answer, and token by token."""
        return bool(self._line or verbatim) and self._writer.in_pieces(self._line, self._spec)

    def advance(self) -> Reply:
        """Write one token: ``piece``, the text that is certain now; or ``done``, the answer as a whole."""
        if self._tokens is None:  # an empty line, or an answer that is no sequence of tokens: all at once
            ((best,),) = answers_to_lines(self._writer, self._spec, [self._line], numbers=[0], scored=True)
            warnings = _words(self._writer, best)
            return {"rest": best.text, "done": _table(best, self._writer.shown(best.tokens)), "warnings": warnings}
        try:
            return {"piece": self._text.add(next(self._tokens))}
        except StopIteration as end:
            return self._done(finished=bool(end.value))

    def _done(self, *, finished: bool) -> Reply:
        rest, ids = self._text.rest(), self._text.tokens
        traced = self._writer.trace(self._line, ids, self._spec, finished=finished)
        log_p = sum(row.log_probability or 0.0 for row in traced if not row.given)
        cut, unknown = self._writer.reading(self._line, self._spec)
        best = Answer(self._text.said, log_p, log_p, finished, ids, cut, unknown=unknown)
        return {
            "rest": rest,
            "done": _table(best, self._writer.shown(ids)),
            "warnings": _words(self._writer, best),
        }
