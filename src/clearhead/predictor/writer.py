"""Generates text, with encoder-decoders and language models."""

import copy
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor

from clearhead.data import Codec, Framing, windows
from clearhead.decoding import Allowed, Hypothesis, SearchTree
from clearhead.errors import ClearheadError
from clearhead.inspection import Subject, require_room_to_read
from clearhead.models import JointTable, LanguageModel, Model, Seq2Seq, device_of, evaluating
from clearhead.predictor.asked import the_number, the_text, the_texts
from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.engine import Engine
from clearhead.predictor.forced import ForcedLine, forced, forced_windows, joined
from clearhead.predictor.growing import GrowingText
from clearhead.predictor.looking import beam_nodes, ranked, written
from clearhead.predictor.unknown import warn_unknown
from clearhead.predictor.vectors import text_vectors
from clearhead.recipe import DecodingSpec, Recipe


@dataclass(frozen=True)
class TracedId:
    """A token with its probability."""

    token: int
    log_probability: float | None
    """None if nothing predicts it: the first token of a text without a start token."""
    top: list[tuple[int, float]]
    """The most probable tokens at its place, with log p."""
    given: bool
    """Whether it belongs to the text, and not to the answer."""


class TextWriter(Predictor):
    """Answers with generated text: the target of an encoder-decoder, or a language model's continuation.

    Args:
        model: a ``Seq2Seq`` or a ``LanguageModel``.
        recipe: the recipe that it was trained by.
        codecs: the tokenizers of source and target; those of a language model are the same.
    """

    def __init__(self, model: Model, recipe: Recipe, codecs: tuple[Codec, ...]) -> None:
        super().__init__(model, recipe, codecs)
        self.engine = Engine(model)
        """What answers are searched with; the inside of the model is always looked at as it is here."""
        self.framing = Framing(model.spec, self.source, self.target)

    def on_engine(self, engine: Engine) -> Self:
        """The same model, which answers with another engine; the weights are shared."""
        other = copy.copy(self)
        other.engine = engine
        return other

    def with_model(self, model: Model, recipe: Recipe) -> Predictor:
        self.require_alone("to move or change")
        return super().with_model(model, recipe)

    def __reduce__(self) -> tuple[Any, ...]:
        made, parts = super().__reduce__()
        where = self.engine.where
        return (made, parts) if where is None else (_on_engine, (made, parts, type(self.engine), where))

    def stream(self, text: str, **settings: Any) -> Iterator[str]:
        """Yield the answer to one text piece by piece; greedy or sampled, as a beam is decided only at the end."""
        spec = self.decoding(**settings)
        (line,), _, (unknown,) = self._encode([the_text(text)], spec)
        warn_unknown(self.source, [unknown], stacklevel=2)
        return self._stream(line, spec)

    def _stream(self, line: list[int], spec: DecodingSpec, number: int = 0) -> Iterator[str]:
        """The pieces of an answer; sampling draws them by ``number``."""
        text = GrowingText(self.target)
        for token in self._tokens(line, spec, number):
            if piece := text.add(token):
                yield piece
        if rest := text.rest():
            yield rest

    def each_token(self, text: str, spec: DecodingSpec) -> Generator[int, None, bool]:
        """Yield the tokens of an answer while it is generated; returns whether it ended by itself."""
        (line,), _, _ = self._encode([text], spec)
        return self._tokens(line, spec)

    def _tokens(self, line: list[int], spec: DecodingSpec, number: int = 0) -> Generator[int, None, bool]:
        framing = self.framing
        return self.engine.stream(line, spec, number, first=framing.first(spec), prefix=framing.prefix(spec))

    def in_pieces(self, text: str, spec: DecodingSpec) -> bool:
        """Whether the answer to a text can be given token by token."""
        del text, spec
        return self.engine.streams

    def reading(self, text: str, spec: DecodingSpec) -> tuple[bool, tuple[str, ...]]:
        """Whether a text is cut, and which of its characters are unknown."""
        _, (cut,), (unknown,) = self._encode([text], spec)
        return cut, unknown

    def trace(
        self, text: str, answer: Sequence[int], spec: DecodingSpec, *, finished: bool = False, top: int = 0
    ) -> list[TracedId]:
        """Every token of an answer with its log p, teacher-forced; of a language model, those of the text as well.

        Args:
            text: what was read.
            answer: the tokens of the answer.
            spec: how much of the text is read, and the choice of attention.
            finished: whether the end token follows, as the last row. Default: False.
            top: how many likely tokens to list at each place. Default: none.
        """
        self.require_alone("to trace")
        (line,), _, _ = self._encode([text], spec)
        after = [*answer, *([self.engine.eos] if finished else [])]
        if isinstance(self.model, LanguageModel):
            begins = self.model.spec.vocabulary.start is not None or not self._ids([text])[0]
            whole, given = [*line, *after], len(line)
        else:
            whole, given, begins = [self.framing.first(spec), *after], 1, True
        rows: list[TracedId] = [] if begins else [TracedId(whole[0], None, [], given=True)]
        if len(whole) < 2:
            return rows
        with evaluating(self.model, spec.attention):
            inputs = torch.tensor([whole[:-1]], device=device_of(self.model))
            if isinstance(self.model, LanguageModel):
                logits = self.model(inputs)
            else:
                assert isinstance(self.model, Seq2Seq)
                logits = self.model(torch.tensor([line], device=device_of(self.model)), inputs)
        log_p = logits[0].cpu().log_softmax(-1)  # (m, V)
        likely = log_p.topk(min(top, log_p.shape[-1])) if top else None
        for place, token in enumerate(whole[1:]):
            best = (
                [] if likely is None else list(zip(*(part[place].tolist() for part in reversed(likely)), strict=True))
            )
            rows.append(TracedId(token, log_p[place, token].item(), best, given=place + 1 < given))
        return rows

    def answers(
        self,
        texts: Sequence[str],
        spec: DecodingSpec | None = None,
        *,
        n_best: int = 1,
        scored: bool = True,
        numbers: Sequence[int] | None = None,
        prefixes: Sequence[str] | None = None,
        allowed: Allowed | None = None,
        **settings: Any,
    ) -> list[list[Answer]]:
        """Return the ``n_best`` best answers to each text, as ``Predictor.answers`` does.

        Several answers need a beam, which is made wide enough unless ``beam_size`` is given.

        Args:
            prefixes: for each text, how its answer must begin. Default: freely.
            allowed: called with the line's number and the tokens so far, returns the tokens that may follow.
        """
        n_best = the_number(n_best, "n_best")
        if spec is None and n_best > self.recipe.decoding.beam_size:
            settings = {"beam_size": max(4, n_best)} | settings
        texts, spec = self._asked(texts, spec, settings)
        if n_best > spec.beam_size:
            raise ClearheadError(f"{n_best} answers need decoding.beam_size ≥ {n_best}, but it is {spec.beam_size}")
        return self._found(
            texts, spec, n_best=n_best, scored=scored, numbers=numbers, prefixes=prefixes, allowed=allowed
        )

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
        """The answers to texts that were checked."""
        lines, cut, unknown = self._encode(texts, spec)
        given = [[] for _ in lines] if prefixes is None else self.target.encode(prefixes)
        starts = [[*self.framing.prefix(spec), *start] for start in given]
        scored = scored or n_best > 1  # several answers are shown with their scores
        found = self.engine.search(
            lines,
            spec,
            scored=scored,
            numbers=numbers,
            prefixes=starts if any(starts) else None,
            allowed=allowed,
            first=self.framing.first(spec),
        )
        found = self._ranked(texts, found, spec)
        return self._decode([hypotheses[:n_best] for hypotheses in found], cut, unknown)

    def _joint(self, spec: DecodingSpec) -> JointTable | None:
        """The joint n-grams, if they rank the answers."""
        if not isinstance(self.model, Seq2Seq) or not spec.joint_weight or spec.beam_size == 1 or spec.sample:
            return None
        return self.model.joint

    def _ranked(
        self, texts: Sequence[str], found: list[list[Hypothesis]], spec: DecodingSpec
    ) -> list[list[Hypothesis]]:
        """The answers of a beam as network and joint n-grams rank them together, the best first; else as they are."""
        joint = self._joint(spec)
        if joint is None:
            return found
        sources = [row[: spec.max_source] for row in self._ids(texts)]
        log_p = iter(
            joint.ngrams().score(
                [source for source, answers in zip(sources, found, strict=True) for _ in answers],
                [answer.tokens for answers in found for answer in answers],
            )
        )
        rescored = [
            [replace(answer, score=answer.score + spec.joint_weight * float(next(log_p))) for answer in answers]
            for answers in found
        ]
        return [sorted(answers, key=lambda answer: -answer.score) for answers in rescored]

    def require_alone(self, what: str) -> None:
        if self.engine.beside:
            raise ClearheadError(f"several models together have one answer and its log p: name one of them {what}")

    def vectors(self, texts: Sequence[str]) -> Tensor:
        self.require_alone("for vectors")
        if not isinstance(self.model, Seq2Seq):
            return super().vectors(texts)
        model, spec = self.model, self.recipe.decoding
        rows, _, _ = self._encode(the_texts(texts, "vectors"), spec)
        return text_vectors(model, rows, lambda ids, valid: model.encode(ids, valid).states, spec)

    def _subject(self, text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
        self.require_alone("to look into")
        require_room_to_read(self.model, len(self._ids([text])[0]))
        (line,), (cut,), unknown = self._encode([text], spec)
        tree = SearchTree()
        if target is None:
            first, start = self.framing.first(spec), self.framing.prefix(spec)
            (hypotheses,) = Engine(self.model).search(
                [line], spec, scored=True, tree=tree, first=first, prefixes=[start] if start else None
            )
            (hypotheses,) = self._ranked([text], [hypotheses], spec)
            (found,) = self._decode([hypotheses[: the_number(n_best, "n_best")]], [cut], unknown)
            tokens, answer_text, finished = found[0].tokens, found[0].text, found[0].finished
        else:
            tokens = self.framing.written(self.target.encode([target])[0], spec)[:-1]
            found, answer_text, finished = [], target, True
        notes = [f"the text after its first {len(line):,} tokens (decoding.max_source)"] if cut else []
        if found and self._joint(spec) is not None:
            notes.append("the joint n-grams, which ranked the answers beside the network (decoding.joint_weight)")
        answer = [*tokens, self.engine.eos] if finished else tokens
        codecs = self.source, self.target
        return written(
            self.engine.model,
            text,
            codecs,
            line,
            answer,
            first=self.framing.first(spec),
            answer_text=answer_text,
            n_best=ranked(found),
            beam=beam_nodes(tree, self.target.shown),
            notes=tuple(notes),
        )

    def table(self, best: Answer) -> dict[str, Any]:
        return {"target": best.text, "log_probability": best.log_probability, "finished": best.finished}

    def forced(self, examples: Sequence[Any]) -> list[ForcedLine]:
        """Return log p of every token of the targets given their sources, or of the texts themselves."""
        if isinstance(self.model, LanguageModel):
            return self._forced_texts(self.model, [example.text for example in examples])
        assert isinstance(self.model, Seq2Seq)
        spec = self.recipe.decoding
        left, cut, _ = self._encode([pair.source for pair in examples], spec)
        others = [other for other in self.engine.beside if isinstance(other, Seq2Seq)]
        rows, first = self.answer_rows(examples), self.framing.first(spec)
        found = forced(self.model, left, rows, spec.attention, first=first, others=others)
        return [replace(line, cut=was) if was else line for line, was in zip(found, cut, strict=True)]

    def forced_tokens(self, examples: Sequence[Any]) -> list[list[str]]:
        if isinstance(self.model, LanguageModel):
            rows = [[*ids, self.engine.eos] for ids in self._ids([example.text for example in examples])]
        else:
            rows = self.answer_rows(examples)
        return [self.target.shown(row) for row in rows]

    def answer_rows(self, examples: Sequence[Any]) -> list[list[int]]:
        """The tokens of the targets of pairs, each with the end token."""
        targets = self.target.encode([pair.target for pair in examples])
        return [self.framing.written(ids, self.recipe.decoding) for ids in targets]

    def _forced_texts(self, model: LanguageModel, texts: Sequence[str]) -> list[ForcedLine]:
        """Score texts; long ones are read in windows, as in training, and every token counts once."""
        size = min(self.recipe.data.max_length, self.engine.reach - 1)
        lines = [windows(ids, size, self.engine.first, self.engine.eos) for ids in self._ids(texts)]
        flat = [window for line in lines for window in line]
        others = [other for other in self.engine.beside if isinstance(other, LanguageModel)]
        found = iter(forced_windows(model, flat, self.recipe.decoding.attention, others=others))
        return [joined([next(found) for _ in line]) for line in lines]

    def _encode(
        self, texts: Sequence[str], spec: DecodingSpec
    ) -> tuple[list[list[int]], list[bool], list[tuple[str, ...]]]:
        """The ids of each text, whether it had to be cut, and its unknown characters."""
        rows, unknown = self._read(texts)
        longest = min(spec.max_source, self.engine.reach - self.framing.room(spec))
        cut = [len(row) > longest for row in rows]
        rows = [row[:longest] for row in rows]
        return [self.framing.read(row, spec) for row in rows], cut, unknown

    def _decode(
        self, found: list[list[Hypothesis]], cut: list[bool], unknown: list[tuple[str, ...]]
    ) -> list[list[Answer]]:
        # a line for which the rules allow no answer gets an empty one
        nothing = Hypothesis([], float("-inf"), float("-inf"), finished=False)
        found = [hypotheses or [nothing] for hypotheses in found]
        texts = iter(self.target.decode([hypothesis.tokens for hypotheses in found for hypothesis in hypotheses]))
        return [
            [
                Answer(next(texts), one.log_probability, one.score, one.finished, one.tokens, was, unknown=strange)
                for one in hypotheses
            ]
            for hypotheses, was, strange in zip(found, cut, unknown, strict=True)
        ]


def _on_engine(made: Any, parts: tuple[Any, ...], kind: type[Engine], where: tuple[Any, ...]) -> TextWriter:
    """Unpickle a predictor that answers with another engine."""
    predictor: TextWriter = made(*parts)
    return predictor.on_engine(kind(predictor.model, *where))
