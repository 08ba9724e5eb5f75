"""What a predictor hands to inspection: a text and its answer, as ids and as words."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from clearhead.data import Codec, pixels_of
from clearhead.errors import DataError
from clearhead.inspection import Picture, Subject, View, require_room_to_read
from clearhead.models import ClassifierModel, EncoderModel, LanguageModel, Model, Writer
from clearhead.recipe import DecodingSpec

if TYPE_CHECKING:
    from clearhead.predictor.filler import Filler
    from clearhead.predictor.labeller import ImageLabeller, Labeller
    from clearhead.predictor.writer import TextWriter


def written(writer: "TextWriter", text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
    """A text and the answer that a writer generates, or the ``target`` that is given."""
    require_room_to_read(writer.model, len(writer._ids([text])[0]))
    (line,), (cut,), _ = writer._encode([text], spec)
    if target is None:
        answers = writer.answers([text], spec, n_best=min(n_best, spec.beam_size))[0]
        best = answers[0]
        tokens, answer_text = best.tokens, best.text
        ended = [*tokens, writer.engine.eos] if best.finished else list(tokens)
        ranked = tuple((answer.text, answer.log_probability) for answer in answers)
    else:
        tokens, answer_text, ranked = writer.target.encode([target])[0], target, ()
        ended = [*tokens, writer.engine.eos]
    codec = writer.target
    if not ended:
        raise DataError("the answer is empty: there is nothing to look at")
    common: dict[str, Any] = {
        **_common(writer, text, codec),
        "answer_text": answer_text,
        "n_best": ranked,
        "notes": (f"all of the text after {len(line):,} tokens (decoding.max_source)",) if cut else (),
    }
    if isinstance(writer.model, LanguageModel):
        start = writer.model.spec.vocabulary.start
        whole = [*line, *ended]
        given = len(line) - (start is not None)
        answer = whole if start is None else whole[1:]
        rows = [None, *range(len(whole) - 1)] if start is None else list(range(len(answer)))
        inputs = whole[:-1]
        return Subject(
            **common,
            inputs=torch.tensor([inputs]),
            input_tokens=tuple(codec.shown(inputs)),
            answer=tuple(answer),
            answer_tokens=tuple(codec.shown(answer)),
            rows=tuple(rows),
            given=given,
        )
    inputs = [writer.engine.first, *ended[:-1]]
    return Subject(
        **common,
        source=torch.tensor([line]),
        source_tokens=tuple(writer.source.shown(line)),
        inputs=torch.tensor([inputs]),
        input_tokens=tuple(codec.shown(inputs)),
        answer=tuple(ended),
        answer_tokens=tuple(codec.shown(ended)),
        rows=tuple(range(len(ended))),
    )


def filled(filler: "Filler", text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
    """A text and the tokens at its masks; without a mask, all its tokens as they are."""
    codec = filler.source
    longest = min(spec.max_source, filler.reach - 2)
    ids = filler._read([text], gaps=True)[0][0]
    require_room_to_read(filler.model, len(ids))
    line = codec.wrapped(ids, longest)
    common: dict[str, Any] = {
        **_common(filler, text, codec),
        "source": torch.tensor([line]),
        "source_tokens": tuple(codec.shown(line)),
    }
    if filler.model.output is None or codec.mask is None:
        return Subject(**common)
    gaps = [place for place, index in enumerate(line) if index == codec.mask]
    if gaps and target is None:
        answers = filler.answers([text], spec, n_best=n_best)[0]
        chosen, answer_text = answers[0].tokens, answers[0].text
        ranked = tuple((answer.text, answer.log_probability) for answer in answers)
    elif gaps:
        chosen, answer_text, ranked = codec.encode([target or ""])[0], target or "", ()
        if len(chosen) != len(gaps):
            raise DataError(
                f"the text has {len(gaps)} masks, but the target has {len(chosen)} tokens: give one for each"
            )
    else:
        gaps = [place for place, index in enumerate(line) if index not in codec.specials]
        chosen, answer_text, ranked = [line[place] for place in gaps], text, ()
    return Subject(
        **common,
        answer=tuple(chosen),
        answer_tokens=tuple(codec.shown(chosen)),
        rows=tuple(gaps),
        answer_text=answer_text,
        n_best=ranked,
    )


def labelled(labeller: "Labeller", text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
    """A text and its label."""
    codec = labeller.source
    ids = labeller._ids([text])[0]
    require_room_to_read(labeller.model, len(ids))
    line = codec.wrapped(ids, min(spec.max_source, labeller.reach - 2))
    return Subject(
        **_labelled(labeller, text, target, spec, n_best),
        source=torch.tensor([line]),
        source_tokens=tuple(codec.shown(line)),
        unknown=(labeller.model.spec.vocabulary.unk, None),
        specials=(codec.specials, frozenset()),
    )


def pictured(labeller: "ImageLabeller", text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
    """An image and its label."""
    patches = labeller.model.spec.patches
    assert patches is not None
    pixels = torch.from_numpy(pixels_of(text, patches))
    rows, columns = patches.height // patches.size, patches.width // patches.size
    names = [f"r{row}c{column}" for row in range(1, rows + 1) for column in range(1, columns + 1)]
    return Subject(
        **_labelled(labeller, text, target, spec, n_best),
        source=pixels[None],
        source_tokens=("<class>", *names) if patches.class_token else tuple(names),
        picture=Picture(rows, columns, patches.size, pixels, patches.class_token),
    )


def _labelled(labeller: "Labeller", text: str, target: str | None, spec: DecodingSpec, n_best: int) -> dict[str, Any]:
    answers = labeller.answers([text], spec, n_best=n_best)[0]
    label = answers[0].text if target is None else target
    numbers = {name: number for number, name in enumerate(labeller.labels)}
    if label not in numbers:
        raise DataError(f"label {label!r} is unknown to the model")
    return {
        "family": labeller.model.spec.family,
        "name": type(labeller.model).__name__,
        "text": text,
        "answer": (numbers[label],),
        "answer_tokens": (label,),
        "rows": (0,),
        "answer_text": label,
        "n_best": tuple((answer.text, answer.log_probability) for answer in answers),
        "word": labeller.labels.__getitem__,
        "number": numbers.get,
    }


def _common(predictor: Any, text: str, codec: Codec) -> dict[str, Any]:
    unknown = predictor.model.spec.vocabulary.unk
    sources: Codec = predictor.source
    return {
        "family": predictor.model.spec.family,
        "name": type(predictor.model).__name__,
        "text": text,
        "word": lambda index: codec.shown([index])[0],
        "number": codec.number,
        "unknown": (unknown, unknown),
        "specials": (sources.specials, codec.specials),
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


def _inputs(ids: list[int]) -> dict[str, Any]:
    return {"inputs": torch.tensor([ids]), "input_tokens": tuple(map(str, ids))}


def _answer(ids: list[int], rows: Iterable[int | None]) -> dict[str, Any]:
    return {"answer": tuple(ids), "answer_tokens": tuple(map(str, ids)), "rows": tuple(rows)}


def _numbers(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))
