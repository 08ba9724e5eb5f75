"""Generates token ids from token ids: makes batches, chooses the stepper, runs the search that the recipe asks for."""

import sys
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from clearhead.blocks import Layer
from clearhead.decoding import (
    FIRST,
    Allowed,
    GuardedStepper,
    Hypothesis,
    LeanDecoder,
    ModelStepper,
    Repetitions,
    Rules,
    Sampler,
    SearchTree,
    SingleDecoder,
    Stepper,
    beam_search,
    each_token,
    greedy,
    lean_decoder,
    single_decoder,
)
from clearhead.errors import ClearheadError, Problem, RecipeError
from clearhead.machine import require_memory
from clearhead.models import LanguageModel, Model, Seq2Seq, evaluating
from clearhead.predictor.forced import padded, spans
from clearhead.recipe import DecodingSpec

_SMALL = 64 * 2**20
"""Bytes below which free memory is not checked."""
_FAR = 2**40
"""More tokens than any answer has."""


def _share(ratio: float, line: Sequence[int]) -> int:
    """``ratio`` times the tokens of the line, at most ``_FAR``."""
    return int(min(ratio * len(line), _FAR))


class Engine:
    """Runs a model that generates text: an encoder-decoder on sources, a language model on prompts.

    Args:
        model: a ``Seq2Seq`` or a ``LanguageModel``.
    """

    name = "native"
    streams = True
    """Whether ``stream`` gives an answer token by token."""
    beside: Sequence[Model] = ()
    """Models whose probabilities are averaged with those of this one."""
    where: tuple[Any, ...] | None = None
    """Of another engine: what it is opened with, beside the model."""

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Seq2Seq | LanguageModel):
            raise ClearheadError(f"a model of family {model.spec.family} does not generate text")
        first, eos = model.spec.vocabulary.first, model.spec.vocabulary.eos
        if first is None or eos is None:
            raise ClearheadError("the recipe's model.vocabulary does not say how answers begin and end")
        self.model, self.first, self.eos = model, first, eos
        self.reach, self._write_reach = _reaches(model)
        """The most tokens that the model can read and write, where its positions are limited."""
        vocabulary = model.spec.vocabulary
        specials = {vocabulary.pad, vocabulary.bos, vocabulary.unk} - {None, eos}
        self.banned = sorted(index for index in specials if index is not None)
        """Special tokens that are never generated, unless ``decoding.ban_specials`` is false."""
        self._lean: LeanDecoder | None = None
        self._single: SingleDecoder | None = None
        self._size: int = getattr(vocabulary, model.spec.sides[-1])
        """The size of the target vocabulary."""
        self._width: int = model.output.weight.shape[-1]
        self._layers = max(1, sum(isinstance(part, Layer) for part in model.decoder.modules()))

    @property
    def described(self) -> str:
        """The name of what answers, with what makes its answers different."""
        return self.name

    def search(
        self,
        lines: Sequence[list[int]],
        spec: DecodingSpec,
        *,
        scored: bool = False,
        numbers: Sequence[int] | None = None,
        prefixes: Sequence[list[int]] | None = None,
        allowed: Allowed | None = None,
        tree: SearchTree | None = None,
        first: int | None = None,
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of every line, in order, the best first.

        Lines are sorted by length and decoded in batches; the result does not depend on the batches. A beam search for
        one line records its hypotheses in ``tree``. ``first`` is the decoder's first token, if not the usual one.
        """
        self._refuse(spec)
        numbers = range(len(lines)) if numbers is None else numbers
        order = sorted(range(len(lines)), key=lambda index: (len(lines[index]), lines[index]))
        found: list[list[Hypothesis]] = [[] for _ in lines]
        budget = spec.budget
        for rows in spans([len(lines[index]) for index in order], max(1, budget // spec.beam_size)):
            batch = [order[row] for row in rows]
            with self._evaluating(spec):
                writing = self._writing(
                    [lines[index] for index in batch],
                    spec,
                    numbers=[numbers[index] for index in batch],
                    prefixes=() if prefixes is None else [prefixes[index] for index in batch],
                    allowed=allowed,
                    first=first,
                )
                hypotheses = writing.run(spec, scored=scored, tree=tree)
            for index, ways in zip(batch, hypotheses, strict=True):
                found[index] = ways
        return found

    def stream(
        self,
        line: list[int],
        spec: DecodingSpec,
        number: int = 0,
        *,
        first: int | None = None,
        prefix: Sequence[int] = (),
    ) -> Generator[int, None, bool]:
        """Yield the tokens of one answer while it is generated; greedy, or sampled. Returns whether it ended by itself.

        Sampling draws by ``number``, as for a line of that number in a search. The answer begins with ``prefix``, and
        ``first`` is the decoder's first token, if not the usual one.

        Between two tokens the model is not locked, so that the caller may pause or stop at any time.
        """
        self._refuse(spec)
        with self._evaluating(spec):
            prefixes = [list(prefix)] if prefix else []
            tokens = self._writing([line], spec, numbers=[number], prefixes=prefixes, first=first).tokens()
        while True:
            with self._evaluating(spec):
                try:
                    token = next(tokens)
                except StopIteration as end:
                    return bool(end.value)
            yield token

    @contextmanager
    def _evaluating(self, spec: DecodingSpec) -> Iterator[None]:
        """Lock what computes, for as long as it does."""
        with evaluating(self.model, spec.attention):
            yield

    def _writing(
        self,
        lines: list[list[int]],
        spec: DecodingSpec,
        *,
        numbers: Sequence[int] = (),
        prefixes: Sequence[list[int]] = (),
        allowed: Allowed | None = None,
        first: int | None = None,
    ) -> "_Writing":
        longest, shortest = self._lengths(lines, spec)
        sampler = Sampler(spec.seed, spec.temperature, spec.top_k, spec.top_p) if spec.sample else None
        if sampler is not None and allowed is None:  # lines of several requests may have the same number
            sampler.numbers, numbers = numbers, range(len(numbers))
        # the token that begins an answer, or the last one of a prompt
        start = self.first if first is None else first
        reads = isinstance(self.model, Seq2Seq)
        fed = [start if reads else line[-1] for line in lines]
        rules = Rules(
            longest=longest,
            shortest=shortest if any(shortest) else (),
            prefixes=prefixes,
            banned=self.never_written(spec),
            allowed=allowed,
            repetitions=self._repetitions([[start]] * len(lines) if reads else lines, lines, spec)
            if spec.looks_back
            else None,
            numbers=numbers,
        )
        beams = 1 if spec.sample else spec.beam_size
        tokens = max(map(len, lines))

        def check(rows: int, length: int) -> None:
            self._require_memory(rows, beams, tokens, length)

        check(len(lines), min(FIRST, max(rules.longest)))
        check(len(lines), max(rules.shortest, default=1))
        self._require_memory(1, 1, tokens, max(rules.longest))  # do not begin an answer that cannot be finished
        return _Writing(GuardedStepper(self._stepper(lines), check), rules, fed, self.eos, sampler)

    def _repetitions(self, read: list[list[int]], sources: list[list[int]], spec: DecodingSpec) -> Repetitions:
        return Repetitions(
            read=read,
            sources=sources,
            ngram=spec.no_repeat_ngram_size,
            source_ngram=spec.encoder_no_repeat_ngram_size,
            sequences=spec.banned_sequences,
            penalty=spec.repetition_penalty,
        )

    def never_written(self, spec: DecodingSpec) -> list[int]:
        """The tokens that no answer has: those that the settings ban, and special ones."""
        return sorted({*spec.banned, *(self.banned if spec.ban_specials else ())})

    def _lengths(self, lines: Sequence[list[int]], spec: DecodingSpec) -> tuple[list[int], list[int]]:
        """The most and the fewest tokens of the answer to each line."""
        shortest = [max(spec.min_length, _share(spec.min_ratio, line)) for line in lines]
        # the longest answer follows from the source, unless the shortest one is longer
        usual = [_share(spec.max_ratio, line) + spec.max_extra for line in lines]
        longest = [spec.max_length or max(pair) for pair in zip(usual, shortest, strict=True)]
        # a language model's answer follows its prompt, and both take up positions
        rooms = [self._write_reach - (0 if isinstance(self.model, Seq2Seq) else len(line)) for line in lines]
        return [max(1, min(length, room)) for length, room in zip(longest, rooms, strict=True)], shortest

    def _refuse(self, spec: DecodingSpec) -> None:
        """Refuse settings that this model cannot follow, whatever the lines are."""
        problems = []
        for name in ("banned", "prefix"):
            strange = [token for token in getattr(spec, name) if token >= self._size]
            if strange:
                shown = ", ".join(map(str, strange[:5]))
                problems.append((name, f"there is no token {shown}: ids range from 0 to {self._size - 1:,}"))
        strange = sorted({token for words in spec.banned_sequences for token in words if token >= self._size})
        if strange:
            shown = ", ".join(map(str, strange[:5]))
            problems.append(("banned_sequences", f"there is no token {shown}: ids range from 0 to {self._size - 1:,}"))
        if spec.encoder_no_repeat_ngram_size and not isinstance(self.model, Seq2Seq):
            problems.append(("encoder_no_repeat_ngram_size", "a language model has no encoder"))
        if not problems and len({*self.never_written(spec), self.eos}) >= self._size:
            problems.append(("banned", "leaves no token to write an answer with"))
        if spec.min_length > self._write_reach:
            most = f"the model writes at most {self._write_reach:,} tokens"
            problems.append(("min_length", f"is {spec.min_length:,}, but {most}"))
        if problems:
            raise RecipeError([Problem("", f"decoding.{key}", message) for key, message in problems])

    def _memory(self, lines: int, beams: int, tokens: int, length: int) -> int:
        """The bytes that a batch takes."""
        rows = lines * beams
        reading = 4 * lines * tokens * self._width * (12 + 2 * self._layers)
        writing = 4 * rows * length * (2 * self._width * self._layers + 2 * (beams if beams > 1 else 0))
        choosing = 4 * rows * self._size * 3
        return reading + writing + choosing

    def _require_memory(self, lines: int, beams: int, tokens: int, length: int) -> None:
        """Refuse a batch that does not fit into memory."""
        needed = self._memory(lines, beams, tokens, length)
        if needed > _SMALL:
            way_out = "lower decoding.beam_size, decoding.batch_tokens, decoding.max_source or decoding.max_length"
            size = f"{lines:,} × {beams:,} beams, up to {tokens:,} tokens to read and {length:,} to write"
            what = f"answering ({size})"
            require_memory(needed, what, way_out)

    def _stepper(self, lines: list[list[int]]) -> Stepper:
        if isinstance(self.model, LanguageModel):
            return ModelStepper.prompted(self.model, lines)
        ids, valid = padded(lines)
        if self._lean is None or not self._lean.current():
            self._lean = lean_decoder(self.model)
            self._single = None if self._lean is None else single_decoder(self._lean)
        if self._lean is None:
            return ModelStepper.reading(self.model, ids, valid)
        if self._single is not None and len(lines) == 1:
            return self._single.reading(ids)
        return self._lean.reading(ids, valid)


def _reaches(model: Seq2Seq | LanguageModel) -> tuple[int, int]:
    """The most tokens that a model can read and write, as limited by its positions and attentions."""
    across = [part.cross for part in model.decoder.modules() if isinstance(part, Layer) and part.cross is not None]
    cross_parts = {part for cross in across for part in cross.modules()}
    write = reach(part for part in model.decoder.modules() if part not in cross_parts)
    if not isinstance(model, Seq2Seq):
        return write, write
    return reach([*model.encoder.modules(), *cross_parts]), write


def reach(parts: Iterable[nn.Module]) -> int:
    """The most tokens that all these modules can take."""
    ends = (getattr(part, "most_tokens", None) for part in parts)
    return min((end for end in ends if isinstance(end, int)), default=sys.maxsize)


@dataclass(frozen=True)
class _Writing:
    """One batch, ready to be decoded."""

    stepper: Stepper
    rules: Rules
    first: list[int]
    eos: int
    sampler: Sampler | None

    def run(self, spec: DecodingSpec, *, scored: bool, tree: SearchTree | None = None) -> list[list[Hypothesis]]:
        """Return the hypotheses of every line, the best first."""
        if spec.beam_size > 1 and not spec.sample:
            return beam_search(
                self.stepper,
                self.rules,
                width=spec.beam_size,
                first=self.first,
                eos=self.eos,
                alpha=spec.length_penalty,
                tree=tree,
            )
        found = greedy(self.stepper, self.rules, first=self.first, eos=self.eos, scored=scored, pick=self.sampler)
        return [[hypothesis] for hypothesis in found]

    def tokens(self) -> Generator[int, None, bool]:
        """Yield the tokens of the only line while they are generated."""
        return each_token(self.stepper, self.rules, first=self.first, eos=self.eos, pick=self.sampler)
