"""CTranslate2 searches by itself: greedy, or with beams whose answers are ranked as clearhead ranks them.

Its beams are clearhead's: in every step the 2·k best continuations of a line are considered, those among the first k
that end are finished, and the first k others continue. Three things differ, and are made equal here:

- It ranks by log p / |y|^α, we by GNMT's penalty: it is asked for the sums alone, and we rank them.
- It stops as soon as it has enough answers, we stop once no open beam is better than the worst of the best k. It is
  asked for half as many answers again, and our rule is followed on these, with the beams that ended later in place of
  the open ones.
- Special tokens that are never written are left out of its softmax, and stay in ours. So log p comes from its own
  scoring of finished answers, wherever log p is asked for or the first two answers are close. More that is left out,
  as ``decoding.banned``, is refused with beams.

So the best answers are the native ones, up to ties. In the lower ranks of a list of n best a hundredth may differ, by
what its softmax leaves out and by beams that were still open.

Shapes: k beams of a line.
"""

from collections.abc import Generator, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import torch

from clearhead.decoding import Allowed, Hypothesis, SearchTree, length_penalty
from clearhead.errors import ClearheadError, TooLong
from clearhead.interop.engines.foreign import ForeignEngine
from clearhead.interop.exporting.ctranslate2 import ROWS
from clearhead.models import Model, Seq2Seq
from clearhead.predictor.forced import spans
from clearhead.recipe import DecodingSpec

_REPEATS: dict[str, object] = {
    **{"no_repeat_ngram_size": 0, "encoder_no_repeat_ngram_size": 0, "repetition_penalty": 1.0},
    "banned_sequences": [],
}
"""Rules that look at the tokens so far, with the values that change nothing."""
_PATIENCE = 1.5
"""Answers that are waited for, as a multiple of the beams."""
_SUMS = 1e-30
"""A length penalty that changes no number, but unlike 0 makes CTranslate2 wait for all these answers."""
_NOTHING = 1e-7
"""A probability that changes no log p by more than rounding does."""
_SAFE = 4.0
"""How much more probable than was seen the tokens may be that are never written, for answers not to be close."""
_IMPOSSIBLE = -1e30
"""Sums below this stand for beams that do not exist."""
_TOKENS = 8192
"""Tokens that are scored at a time."""

Found = tuple[list[int], float]
"""The tokens of an answer, and the sum of their log p."""


class CTranslate2Search(ForeignEngine):
    """Answers with CTranslate2.

    Args:
        model: the model.
        folder: its conversion.
        kind: the type that it computes in, float32 or int8.
        names: the names of the tokens that are read, and of those that are written.
        left_out: the largest probability, seen in answers, of all tokens together that are never written.
    """

    name = "ctranslate2"
    streams = False

    def __init__(
        self, model: Model, folder: Path, kind: str, names: tuple[list[str], list[str]], left_out: float
    ) -> None:
        super().__init__(model, folder)
        self.kind, self.where = kind, (folder, kind, names, left_out)
        self._left_out = left_out if left_out > _NOTHING else 0.0
        self._read, self._write = names
        self._ids = {name: index for index, name in enumerate(self._write)}
        self._translates = isinstance(model, Seq2Seq)

    @property
    def described(self) -> str:
        """The name, and the type if it is not the usual one."""
        return f"{self.name} int8" if self.kind == "int8" else self.name

    def _open(self) -> Any:
        import ctranslate2

        make = ctranslate2.Translator if self._translates else ctranslate2.Generator
        threads = torch.get_num_threads()
        return make(str(self.folder), device="cpu", compute_type=self.kind, inter_threads=1, intra_threads=threads)

    def _cannot(self, spec: DecodingSpec) -> list[tuple[str, str]]:
        found = list(super()._cannot(spec))
        if spec.sample:
            found.append(("sample", "CTranslate2 draws for a batch, not by the seed of each line; --engine native can"))
        found += [
            (key, "CTranslate2 counts repetitions in another way; --engine native can")
            for key, harmless in _REPEATS.items()
            if getattr(spec, key) != harmless
        ]
        if spec.beam_size > 1:
            # what is left out of its softmax raises log p of all else, by far more than rounding
            found += [
                (key, "CTranslate2's beams would be ranked by other log p than clearhead's; --engine native can")
                for key in ("min_length", "min_ratio", "banned")
                if getattr(spec, key)
            ]
        if 2 * spec.beam_size > self._size - len(self.never_written(spec)):
            found.append(("beam_size", f"CTranslate2 needs more than {self._size} tokens for {spec.beam_size} beams"))
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
        """CTranslate2 gives whole answers."""
        del line, spec, number, first, prefix
        raise ClearheadError("CTranslate2 gives whole answers, not token by token; --engine native can")

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
        del numbers
        self._refuse(spec)
        for asked, what in (
            (prefixes, "prefixes (such as an answer's language)"),
            (allowed, "allowed tokens"),
            (tree, "a tree of the search"),
        ):
            if asked is not None:
                raise ClearheadError(f"CTranslate2 has no {what} as clearhead has them; --engine native can")
        if first not in (None, self.first):
            raise ClearheadError("CTranslate2 knows one first token of answers alone; --engine native can")
        longest, shortest = self._lengths(lines, spec)
        found: list[list[Hypothesis]] = [[] for _ in lines]
        empty = [at for at, line in enumerate(lines) if self._translates and len(line) == 1]
        if empty:  # a source of the end alone is none for CTranslate2, which does not ask the model about it
            native = super().search([lines[at] for at in empty], spec, scored=scored, first=first)
            for at, hypotheses in zip(empty, native, strict=True):
                found[at] = hypotheses
        # one batch has one shortest answer; a language model's prompts are all of one length
        keys = [(shortest[at], 0 if self._translates else len(line)) for at, line in enumerate(lines)]
        order = sorted(set(range(len(lines))) - set(empty), key=lambda at: (keys[at], len(lines[at]), lines[at]))
        for _, group in groupby(order, key=keys.__getitem__):
            alike = list(group)
            for rows in spans([len(lines[at]) for at in alike], max(1, spec.budget // spec.beam_size)):
                batch = [alike[row] for row in rows]
                limits = [longest[at] for at in batch]
                answers = self._answers([lines[at] for at in batch], limits, spec, shortest[batch[0]])
                for at, hypotheses in zip(batch, self._ranked(answers, spec, scored=scored), strict=True):
                    found[at] = hypotheses
        return found

    # ---- what CTranslate2 finds ----

    def _answers(self, lines: list[list[int]], limits: list[int], spec: DecodingSpec, shortest: int) -> list["_Line"]:
        """The finished answers to lines; those that a line's own limit concerns are searched again with that limit."""
        most = max(limits)
        found = [
            _Line(line, limit, answers)
            for line, limit, answers in zip(lines, limits, self._search(lines, most, spec, shortest), strict=True)
        ]
        for limit in {line.limit for line in found if line.limit < most}:
            again = [line for line in found if line.limit == limit and line.touches_limit]
            if again:
                answers = self._search([line.tokens for line in again], limit, spec, shortest)
                for line, own in zip(again, answers, strict=True):
                    line.found = own
        return found

    def _search(self, lines: list[list[int]], longest: int, spec: DecodingSpec, shortest: int) -> list[list[Found]]:
        room = ROWS if self._translates else ROWS - max(map(len, lines))
        read = max(map(len, lines))
        if room < 1 or read > ROWS:
            raise TooLong(f"a line of {read:,} tokens: its conversion for CTranslate2 has {ROWS:,} positions")
        beams = spec.beam_size
        wanted = 1 if beams == 1 else round(beams * _PATIENCE)
        settings: dict[str, Any] = {
            "beam_size": beams,
            "patience": _PATIENCE if beams > 1 else 1,
            "num_hypotheses": wanted,
            "length_penalty": _SUMS,
            "return_scores": beams > 1,
            "suppress_sequences": [[self._write[at]] for at in self.never_written(spec)],
        }
        limit = min(longest, room)
        if self._translates:
            results = self._library().translate_batch(
                self._named(lines, self._read),
                max_input_length=0,
                max_decoding_length=limit,
                min_decoding_length=min(shortest, limit),
                **settings,
            )
            texts = [result.hypotheses for result in results]
        else:
            results = self._library().generate_batch(
                self._named(lines, self._write),
                max_length=limit,
                min_length=min(shortest, limit),
                include_prompt_in_result=False,
                **settings,
            )
            texts = [result.sequences for result in results]
        found = [
            [
                (self._numbered(text), score)
                for text, score in zip(several, result.scores or [0.0] * len(several), strict=True)
                if score > _IMPOSSIBLE
            ]
            for several, result in zip(texts, results, strict=True)
        ]
        if limit < longest and any(len(tokens) >= limit for answers in found for tokens, _ in answers):
            raise TooLong(f"an answer of {limit:,} tokens: its conversion for CTranslate2 has {ROWS:,} positions")
        return found

    def _named(self, rows: Sequence[list[int]], names: list[str]) -> list[list[str]]:
        return [[names[index] for index in row] for row in rows]

    def _numbered(self, names: list[str]) -> list[int]:
        ids = self._ids
        return [ids[name] for name in names]

    # ---- how clearhead ranks it ----

    def _ranked(self, lines: list["_Line"], spec: DecodingSpec, *, scored: bool) -> list[list[Hypothesis]]:
        if spec.beam_size > 1:
            doubtful = [line for line in lines if self._left_out and (scored or self._close(line, spec))]
        else:
            doubtful = lines if scored else []
        for line, answers in zip(doubtful, self._scored(doubtful), strict=True):
            line.found = answers
        if spec.beam_size > 1:
            return [line.ranked(spec.beam_size, spec.length_penalty) for line in lines]
        return [
            [Hypothesis(tokens, value, value, finished=len(tokens) < line.limit)]
            for line in lines
            for tokens, value in ((tokens, log_p if scored else float("nan")) for tokens, log_p in line.found)
        ]

    def _close(self, line: "_Line", spec: DecodingSpec) -> bool:
        """Whether what the softmax leaves out may decide which of the first two answers is the best."""
        best, second, *_ = [*line.scores(spec.length_penalty), -1e9, -1e9]
        longest = max((len(tokens) for tokens, _ in line.found), default=0)
        return best - second < _SAFE * self._left_out * (longest + 1)

    def _scored(self, lines: list["_Line"]) -> Iterator[list[Found]]:
        """The answers to lines with log p, which CTranslate2 computes again with nothing left out."""
        asked = [(line.tokens, tokens, len(tokens) < line.limit) for line in lines for tokens, _ in line.found]
        if not asked:
            return
        sources, answers, ended = zip(*asked, strict=True)
        batch = {"max_batch_size": _TOKENS, "batch_type": "tokens"}
        if self._translates:
            results = self._library().score_batch(
                self._named(sources, self._read), self._named(answers, self._write), max_input_length=0, **batch
            )
            values = [
                sum(result.log_probs[: len(answer) + end])
                for result, answer, end in zip(results, answers, ended, strict=True)
            ]
        else:
            whole = [[*line, *answer, *([self.eos] if end else [])] for line, answer, end in asked]
            results = self._library().score_batch(self._named(whole, self._write), **batch)
            values = [sum(result.log_probs[len(source) - 1 :]) for result, source in zip(results, sources, strict=True)]
        each = iter(values)
        for line in lines:
            yield [(tokens, float(next(each))) for tokens, _ in line.found]


class _Line:
    """A line, and the answers that were found for it."""

    def __init__(self, tokens: list[int], limit: int, found: list[Found]) -> None:
        self.tokens, self.limit, self.found = tokens, limit, found

    @property
    def touches_limit(self) -> bool:
        """Whether an answer is as long as the line's own limit, which the search did not know."""
        return any(len(tokens) >= self.limit for tokens, _ in self.found)

    def _step(self, tokens: list[int]) -> int:
        """The step in which an answer ended: with its end token, or at the limit."""
        return min(len(tokens) + 1, self.limit)

    def _score(self, found: Found, alpha: float) -> float:
        return found[1] / length_penalty(self._step(found[0]), alpha)

    def scores(self, alpha: float) -> list[float]:
        """The scores of all answers, the best first."""
        return sorted((self._score(one, alpha) for one in self.found), reverse=True)

    def ranked(self, width: int, alpha: float) -> list[Hypothesis]:
        """The best ``width`` answers when clearhead's search would have stopped, the best first."""
        kept: list[Found] = []
        for step in sorted({self._step(tokens) for tokens, _ in self.found}):
            kept += [one for one in self.found if self._step(one[0]) == step]
            kept = sorted(kept, key=lambda one: -self._score(one, alpha))[:width]
            later = [value for tokens, value in self.found if self._step(tokens) > step]
            bar = self._score(kept[-1], alpha)
            if len(kept) == width and (not later or max(later) / length_penalty(step, alpha) <= bar):
                break
        return [
            Hypothesis(tokens, value, self._score((tokens, value), alpha), finished=len(tokens) < self.limit)
            for tokens, value in kept
        ]
