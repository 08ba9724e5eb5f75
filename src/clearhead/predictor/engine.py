"""Token ids in, token ids out: batches of a size, the right stepper, the search that a recipe asks for."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from clearhead.blocks import Layer
from clearhead.decoding import (
    Allowed,
    Hypothesis,
    LeanDecoder,
    ModelStepper,
    Rules,
    Sampler,
    Stepper,
    beam_search,
    each_token,
    greedy,
    lean_decoder,
)
from clearhead.errors import ClearheadError
from clearhead.models import LanguageModel, Model, Seq2Seq
from clearhead.predictor.forced import evaluating, padded, spans
from clearhead.recipe import Decoding

AUTO_TOKENS = 2048
"""Source tokens that are answered together unless the recipe says otherwise."""


def batch_budget(spec: Decoding) -> int:
    """Tokens that are answered together."""
    return AUTO_TOKENS if spec.batch_tokens == "auto" else spec.batch_tokens


class Engine:
    """Drives a model that writes: an encoder-decoder over sources, a language model over prompts."""

    def __init__(self, model: Model) -> None:
        if not isinstance(model, Seq2Seq | LanguageModel):
            raise ClearheadError(f"a model of family {model.spec.family} writes no text")
        first, eos = model.spec.vocabulary.first, model.spec.vocabulary.eos
        if first is None or eos is None:
            raise ClearheadError("the recipe's model.vocabulary does not say how answers begin and end")
        self.model, self.first, self.eos = model, first, eos
        self.reach, self._write_reach = _reaches(model)
        """Tokens that the model can read, and write, if its positions end somewhere."""
        vocabulary = model.spec.vocabulary
        specials = {vocabulary.pad, vocabulary.bos, vocabulary.unk} - {None, eos}
        self._banned = sorted(index for index in specials if index is not None)
        """Specials that are no text: they are never written."""
        self._lean: LeanDecoder | None = None

    def search(
        self,
        lines: Sequence[list[int]],
        spec: Decoding,
        *,
        scored: bool = False,
        numbers: Sequence[int] | None = None,
        prefixes: Sequence[list[int]] | None = None,
        allowed: Allowed | None = None,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of every line, in order, the best first.

        Lines are sorted by length and answered together; which ones does not matter.
        """
        numbers = range(len(lines)) if numbers is None else numbers
        order = sorted(range(len(lines)), key=lambda index: (len(lines[index]), lines[index]))
        found: list[list[Hypothesis]] = [[] for _ in lines]
        budget = batch_budget(spec)
        with evaluating(self.model, spec.attention):
            for rows in spans([len(lines[index]) for index in order], max(1, budget // spec.beam_size)):
                batch = [order[row] for row in rows]
                writing = self._writing(
                    [lines[index] for index in batch],
                    spec,
                    numbers=[numbers[index] for index in batch],
                    prefixes=() if prefixes is None else [prefixes[index] for index in batch],
                    allowed=allowed,
                )
                for index, hypotheses in zip(batch, writing.run(spec, scored=scored), strict=True):
                    found[index] = hypotheses
        return found

    def stream(self, line: list[int], spec: Decoding) -> Iterator[int]:
        """The tokens of one answer, as they are written; greedy, or sampled."""
        with evaluating(self.model, spec.attention):
            yield from self._writing([line], spec).tokens()

    def _writing(
        self,
        lines: list[list[int]],
        spec: Decoding,
        *,
        numbers: Sequence[int] = (),
        prefixes: Sequence[list[int]] = (),
        allowed: Allowed | None = None,
    ) -> "_Writing":
        shortest = [max(spec.min_length, int(spec.min_ratio * len(line))) for line in lines]
        longest = [spec.max_length or int(spec.max_ratio * len(line)) + spec.max_extra for line in lines]
        # a language model's answer stands behind its prompt
        rooms = [self._write_reach - (0 if isinstance(self.model, Seq2Seq) else len(line)) for line in lines]
        rules = Rules(
            longest=[max(1, min(length, room)) for length, room in zip(longest, rooms, strict=True)],
            shortest=shortest if any(shortest) else (),
            prefixes=prefixes,
            banned=sorted({*spec.banned, *self._banned}),
            allowed=allowed,
            numbers=numbers,
        )
        # how answers begin, or the end of a prompt
        first = [self.first if isinstance(self.model, Seq2Seq) else line[-1] for line in lines]
        sampler = Sampler(spec.seed, spec.temperature, spec.top_k, spec.top_p) if spec.sample else None
        return _Writing(self._stepper(lines), rules, first, self.eos, sampler)

    def _stepper(self, lines: list[list[int]]) -> Stepper:
        if isinstance(self.model, LanguageModel):
            return ModelStepper.prompted(self.model, lines)
        ids, present = padded(lines)
        if self._lean is None or not self._lean.current():
            self._lean = lean_decoder(self.model)
        if self._lean is None:
            return ModelStepper.reading(self.model, ids, present)
        return self._lean.reading(ids, present)


def _reaches(model: Seq2Seq | LanguageModel) -> tuple[int, int]:
    """The most tokens that a model can read and write: positions, and some attentions, end somewhere."""
    across = [part.cross for part in model.decoder.modules() if isinstance(part, Layer) and part.cross is not None]
    looking_across = {part for cross in across for part in cross.modules()}
    write = reach(part for part in model.decoder.modules() if part not in looking_across)
    if not isinstance(model, Seq2Seq):
        return write, write
    return reach([*model.encoder.modules(), *looking_across]), write


def reach(parts: Iterable[nn.Module]) -> int:
    """The most tokens that all these parts can take."""
    ends = (getattr(part, "most_tokens", None) for part in parts)
    return min((end for end in ends if isinstance(end, int)), default=sys.maxsize)


@dataclass(frozen=True)
class _Writing:
    """One batch, ready to be written."""

    stepper: Stepper
    rules: Rules
    first: list[int]
    eos: int
    sampler: Sampler | None

    def run(self, spec: Decoding, *, scored: bool) -> list[list[Hypothesis]]:
        """The hypotheses of every line, the best first."""
        if spec.beam_size > 1 and not spec.sample:
            return beam_search(
                self.stepper,
                self.rules,
                width=spec.beam_size,
                first=self.first,
                eos=self.eos,
                alpha=spec.length_penalty,
            )
        found = greedy(self.stepper, self.rules, first=self.first, eos=self.eos, scored=scored, pick=self.sampler)
        return [[hypothesis] for hypothesis in found]

    def tokens(self) -> Iterator[int]:
        """The tokens of the only line, as they are written."""
        return each_token(self.stepper, self.rules, first=self.first, eos=self.eos, pick=self.sampler)
