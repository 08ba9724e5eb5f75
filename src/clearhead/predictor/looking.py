"""What a predictor hands to inspection: a text and its answer, as ids and as words."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from clearhead.data import Codec, pixels_of
from clearhead.decoding import SearchTree
from clearhead.errors import DataError
from clearhead.inspection import BeamNode, PatchedImage, Subject, View
from clearhead.models import ClassifierModel, EncoderModel, LanguageModel, Model, Seq2Seq, Writer
from clearhead.predictor.base import Answer
from clearhead.recipe import PatchesSpec

Shown = Callable[[Sequence[int]], Sequence[str]]
"""From ids to words."""
Ranked = Sequence[Answer]
"""The best answers, the best first."""


def written(
    model: Writer,
    text: str,
    codecs: tuple[Codec, Codec],
    line: list[int],
    answer: list[int],
    *,
    first: int,
    **rest: Any,
) -> Subject:
    """A text and an answer that was generated, or given.

    Args:
        model: an encoder-decoder or a language model.
        text: the text.
        codecs: the tokenizers of source and target.
        line: the ids that the model reads.
        answer: the ids of the answer, its end token included.
        first: the first token that a decoder reads.
        rest: ``answer_text``, ``n_best``, ``beam``, ``notes``.
    """
    if not answer:
        raise DataError("the answer is empty: there is nothing to look at")
    source, target = codecs
    known = _words(model, text, source, target) | rest
    vocabulary = model.spec.vocabulary
    if isinstance(model, Seq2Seq):
        inputs, rows, given = [first, *answer[:-1]], range(len(answer)), 0
        known |= {"source": torch.tensor([line]), "source_tokens": tuple(source.shown(line))}
        return Subject(**known, **_inputs(inputs, target.shown), **_answer(answer, rows, target.shown))
    whole = [*line, *answer]
    begins = vocabulary.start is not None  # then the first token is no text, and predicts the first of the text
    shown = whole[1:] if begins else whole
    places = range(len(shown)) if begins else [None, *range(len(whole) - 1)]
    given = len(line) - begins
    return Subject(**known, **_inputs(whole[:-1], target.shown), **_answer(shown, places, target.shown), given=given)


def filled(model: EncoderModel, text: str, codec: Codec, line: list[int], **rest: Any) -> Subject:
    """A text with gaps and what fills them.

    Args:
        model: an encoder.
        text: the text.
        codec: its tokenizer.
        line: the ids that the model reads.
        rest: ``answer`` and ``rows``, the ids of the fillings and their places; ``answer_text``, ``n_best``.
    """
    known = _words(model, text, codec, codec) | rest
    known |= {"source": torch.tensor([line]), "source_tokens": tuple(codec.shown(line))}
    return Subject(**known, answer_tokens=tuple(codec.shown(known.get("answer", ()))))


def labelled(
    model: ClassifierModel, text: str, labels: Sequence[str], target: str | None, answers: Ranked, **rest: Any
) -> Subject:
    """A text or a picture and its label.

    Args:
        model: a classifier.
        text: the text.
        labels: the names of the classes.
        target: the label to look at. Default: the most probable one.
        answers: the most probable labels.
        rest: ``source``, ``source_tokens``, ``specials``, ``picture``.
    """
    label = answers[0].text if target is None else target
    numbers = {name: number for number, name in enumerate(labels)}
    if label not in numbers:
        raise DataError(f"label {label!r} is unknown to the model")
    return Subject(
        **_names(model, text),
        **rest,
        answer=(numbers[label],),
        answer_tokens=(label,),
        rows=(0,),
        answer_text=label,
        n_best=ranked(answers),
        word=labels.__getitem__,
        number=numbers.get,
    )


def pictured(text: str, patches: PatchesSpec) -> dict[str, Any]:
    """A picture as what a model reads, its patches by row and column."""
    pixels = torch.from_numpy(pixels_of(text, patches))
    rows, columns = patches.height // patches.size, patches.width // patches.size
    names = [f"r{row}c{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
    return {
        "source": pixels[None],
        "source_tokens": ("<class>", *names) if patches.class_token else tuple(names),
        "picture": PatchedImage(rows, columns, patches.size, pixels, patches.class_token),
    }


def ranked(answers: Ranked) -> tuple[tuple[str, float], ...]:
    """Answers with their log p."""
    return tuple((answer.text, answer.log_probability) for answer in answers)


def beam_nodes(tree: SearchTree, shown: Shown) -> tuple[BeamNode, ...]:
    """The tree of a search in words."""
    return tuple(
        BeamNode(node.parent, shown([node.token])[0], node.log_probability, node.score, node.fate, node.rank)
        for node in tree.nodes
    )


def _names(model: Model, text: str) -> dict[str, Any]:
    return {"family": model.spec.family, "name": type(model).__name__, "text": text}


def _words(model: Model, text: str, source: Codec, target: Codec) -> dict[str, Any]:
    unknown = model.spec.vocabulary.unk
    return _names(model, text) | {
        "word": lambda index: target.shown([index])[0],
        "number": target.number,
        "unknown": (unknown, unknown),
        "specials": (source.specials, target.specials),
    }


def look_at_ids(
    model: Model, source: Sequence[int] = (), target: Sequence[int] = (), *, without: Sequence[str] = ()
) -> View:
    """Look into a model that has no tokenizer, such as one imported without its own; words are then numbers.

    Args:
        model: a model of any family.
        source: the ids that an encoder reads, or the text of a language model.
        target: the ids of the answer, its end token included, of an encoder-decoder; the class of a classifier.
        without: names of heads to switch off.
    """
    return View(model, _by_ids(model, list(source), list(target)), off=tuple(without))


def _by_ids(model: Model, source: list[int], target: list[int]) -> Subject:
    family, vocabulary = model.spec.family, model.spec.vocabulary
    special = frozenset(
        index for index in (vocabulary.pad, vocabulary.bos, vocabulary.eos, vocabulary.start) if index is not None
    )
    given: dict[str, Any] = {
        "family": family,
        "name": type(model).__name__,
        "text": _numbers(source or target),
        "answer_text": _numbers(target or source),
        "specials": (special, special),
    }
    if not source:
        raise DataError("give the ids that the model reads")
    largest = getattr(vocabulary, model.spec.sides[0])
    if strange := [index for index in (*source, *target) if not 0 <= index < largest]:
        raise DataError(f"there is no token {strange[0]}: ids range from 0 to {largest - 1:,}")
    if isinstance(model, LanguageModel):
        return Subject(
            **given,
            **_inputs(source),
            **_answer(source, [None, *range(len(source) - 1)]),
            given=len(source),
        )
    given |= {"source": torch.tensor([source]), "source_tokens": tuple(map(str, source))}
    if isinstance(model, Writer):
        if not target or vocabulary.first is None:
            raise DataError("without a tokenizer, give the ids of the answer as target")
        return Subject(**given, **_inputs([vocabulary.first, *target[:-1]]), **_answer(target, range(len(target))))
    if isinstance(model, ClassifierModel):
        return Subject(**given, **_answer(target[:1] or [0], [0]))
    if not isinstance(model, EncoderModel) or model.output is None:
        return Subject(**given)
    return Subject(**given, **_answer(source, range(len(source))))


def _as_numbers(ids: Sequence[int]) -> list[str]:
    return [str(index) for index in ids]


def _inputs(ids: list[int], shown: Shown = _as_numbers) -> dict[str, Any]:
    return {"inputs": torch.tensor([ids]), "input_tokens": tuple(shown(ids))}


def _answer(ids: list[int], rows: Iterable[int | None], shown: Shown = _as_numbers) -> dict[str, Any]:
    return {"answer": tuple(ids), "answer_tokens": tuple(shown(ids)), "rows": tuple(rows)}


def _numbers(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))
