"""Pronounces English: any text in, the phones of its words out."""

import heapq
from collections.abc import Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

from clearhead.data import Codec, EnglishWords, Pair, pronunciations, read_english
from clearhead.decoding import Allowed
from clearhead.errors import ClearheadError
from clearhead.inspection import Subject
from clearhead.predictor.asked import the_text
from clearhead.predictor.base import Answer
from clearhead.predictor.unknown import warn_unknown
from clearhead.predictor.writer import TextWriter
from clearhead.recipe import DecodingSpec

BETWEEN_WORDS = " | "
_NEXT_WORD = 2**32
"""The random seeds of a line's words, for sampling, are so far apart: farther than any two lines of a file."""


class Pronouncer(TextWriter):
    """A model of the task ``g2p-en``: it reads English text, and answers with the phones of each word.

        model = clearhead.load("g2p-en")
        model("Transformers!")  # 'T R AE N S F AO R M ER Z'
        model("cabbage patch")  # 'K AE B IH JH | P AE CH'

    Case, accents and punctuation do not matter; numbers are read aloud; see ``clearhead.data.english``. With
    ``decoding.dictionary`` the words that the CMU dictionary lists are answered by it. The n best answers to several
    words are the n most probable combinations.
    """

    def _found(
        self,
        texts: Sequence[str],
        spec: DecodingSpec,
        *,
        n_best: int,
        scored: bool,
        numbers: Sequence[int] | None,
        prefixes: Sequence[str] | None = None,
        allowed: Allowed | None = None,
    ) -> list[list[Answer]]:
        """The answers to texts from those to their words; prefixes, and what is allowed, are about one word."""
        if prefixes is not None or allowed is not None:
            return super()._found(
                texts, spec, n_best=n_best, scored=scored, numbers=numbers, prefixes=prefixes, allowed=allowed
            )
        readings = [read_english(text) for text in texts]
        words = [word for reading in readings for word in reading.words]
        seeds = [
            line + place * _NEXT_WORD
            for line, reading in zip(numbers or range(len(texts)), readings, strict=True)
            for place in range(len(reading.words))
        ]
        found = iter(self._words(words, spec, n_best=n_best, scored=scored, numbers=seeds))
        return [_joined(reading, list(islice(found, len(reading.words))), n_best) for reading in readings]

    def _words(
        self, words: Sequence[str], spec: DecodingSpec, *, n_best: int, scored: bool, numbers: Sequence[int]
    ) -> list[list[Answer]]:
        """The answers to single words: from the dictionary, if it is asked for and lists them, and from the model."""
        listed = self._listed(spec)
        others = [place for place, word in enumerate(words) if word not in listed]
        by_model = super()._found(
            [words[place] for place in others],
            spec,
            n_best=n_best,
            scored=scored,
            numbers=[numbers[place] for place in others],
        )
        found = dict(zip(others, by_model, strict=True))
        known = [(place, text) for place in range(len(words)) if place not in found for text in listed[words[place]]]
        log_p = (
            [line.log_probability for line in self.forced([Pair(words[place], text, 0) for place, text in known])]
            if scored or n_best > 1
            else [float("nan")] * len(known)
        )
        for (place, text), value in zip(known, log_p, strict=True):
            tokens = self.target.encode([text])[0]
            found.setdefault(place, []).append(Answer(text, value, value, finished=True, tokens=tokens))
        return [found[place][:n_best] for place in range(len(words))]

    def _listed(self, spec: DecodingSpec) -> Mapping[str, tuple[str, ...]]:
        """The words that are looked up, with their pronunciations."""
        return _dictionary(stress=self.recipe.data.stress) if spec.dictionary else {}

    def unfamiliar(self, examples: Sequence[Any]) -> Iterator[tuple[str, Codec, list[tuple[str, ...]]]]:
        for name, codec, unknown in super().unfamiliar(examples):
            source = name == "source"
            yield name, codec, [read_english(pair.source).unknown for pair in examples] if source else unknown

    def in_pieces(self, text: str, spec: DecodingSpec) -> bool:
        words = read_english(text).words
        return self.engine.streams and len(words) == 1 and words[0] not in self._listed(spec)

    def stream(self, text: str, **settings: Any) -> Iterator[str]:
        """Yield the answer to a text piece by piece, word after word."""
        spec = self.decoding(**settings)
        reading = read_english(the_text(text))
        warn_unknown(self.source, [reading.unknown], stacklevel=2)
        return self._stream_words(reading.words, spec)

    def _stream_words(self, words: Sequence[str], spec: DecodingSpec) -> Iterator[str]:
        listed = self._listed(spec)
        for place, word in enumerate(words):
            if place:
                yield BETWEEN_WORDS
            if word in listed:
                yield listed[word][0]
            else:
                (line,), _, _ = self._encode([word], spec)
                yield from self._stream(line, spec, place * _NEXT_WORD)

    def each_token(self, text: str, spec: DecodingSpec) -> Generator[int, None, bool]:
        self._require_word(text)
        return super().each_token(text, spec)

    def reading(self, text: str, spec: DecodingSpec) -> tuple[bool, tuple[str, ...]]:
        cut, unknown = super().reading(text, spec)
        return cut, (*read_english(text).unknown, *unknown)

    def _subject(self, text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
        self._require_word(text)
        return super()._subject(read_english(text).words[0], target, spec, n_best)

    def _require_word(self, text: str) -> None:
        words = read_english(text).words
        if len(words) != 1:
            found = f"{len(words):,}: {' '.join(words)}" if words else "none"
            raise ClearheadError(f"one word at a time can be looked into; this text has {found[:100]}")

    def _read(self, texts: Sequence[str], *, gaps: bool = False) -> tuple[list[list[int]], list[tuple[str, ...]]]:
        return super()._read([" ".join(read_english(text).words) for text in texts], gaps=gaps)


def _joined(reading: EnglishWords, words: Sequence[Sequence[Answer]], n_best: int) -> list[Answer]:
    """The answers to a text from those to its words: the best combinations, by the sum of their scores."""
    if len(words) == 1 and not reading.unknown:
        return list(words[0])
    best: list[_Chosen] = [_Chosen(0.0, ())]
    for answers in words:
        best = heapq.nlargest(
            n_best,
            (_Chosen(before.score + answer.score, (before, answer)) for before in best for answer in answers),
            key=lambda chosen: chosen.score,
        )
    return [_whole(chosen, reading.unknown) for chosen in best]


class _Chosen(NamedTuple):
    """One answer to each of the words so far: those before, and the last; nothing at the beginning."""

    score: float
    link: "tuple[_Chosen, Answer] | tuple[()]"


def _whole(chosen: _Chosen, unknown: tuple[str, ...]) -> Answer:
    """The answer to a text from those to its words."""
    score, parts = chosen.score, []
    while chosen.link:
        chosen, part = chosen.link
        parts.append(part)
    parts.reverse()
    return Answer(
        BETWEEN_WORDS.join(part.text for part in parts),
        sum(part.log_probability for part in parts),
        score,
        finished=all(part.finished for part in parts),
        tokens=[token for part in parts for token in part.tokens],
        cut=any(part.cut for part in parts),
        unknown=tuple(dict.fromkeys([*unknown, *(sign for part in parts for sign in part.unknown)])),
    )


@lru_cache(maxsize=2)
def _dictionary(*, stress: bool) -> Mapping[str, tuple[str, ...]]:
    """The pronunciations of each word of the CMU dictionary, its first one first."""
    found: dict[str, list[str]] = {}
    for pair in pronunciations(stress=stress):
        found.setdefault(pair.source, []).append(pair.target)
    return {word: tuple(phones) for word, phones in found.items()}
