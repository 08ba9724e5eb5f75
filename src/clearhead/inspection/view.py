"""A view into a model while it answers one text: what ``model.look(…)`` returns.

Shapes: n source tokens, m answer tokens, h heads, V entries of the vocabulary.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.drawing import look_lines
from clearhead.drawing.html import fragment
from clearhead.errors import ClearheadError, DataError
from clearhead.inspection.alignment import Link, Shift, links
from clearhead.inspection.contributions import norms
from clearhead.inspection.gradients import Attribution, integrated
from clearhead.inspection.lens import DecoderGuess, Guess, decoder_logits, layer_logits, lens_stack, why_no_decoder_lens
from clearhead.inspection.maps import HeadMaps, Maps
from clearhead.inspection.occlusion import occluded
from clearhead.inspection.parts import Part, Parts, parts_of
from clearhead.inspection.record import AttentionRecord, Record
from clearhead.inspection.recorder import record
from clearhead.inspection.replaying import replaying
from clearhead.inspection.rollout import rollout
from clearhead.inspection.saving import as_dict
from clearhead.inspection.showing import document, save
from clearhead.inspection.sizes import require_room
from clearhead.inspection.subject import Subject
from clearhead.models import AttentionChoice, Model

_ALTERNATIVES = 5
"""Tokens listed for every place of the answer."""


class View:
    """What a model did to give one answer.

        view = model.look("lovely")
        view.attention["cross"]        # matrices by layer and head
        view.norms["cross"]            # ‖α v W_O‖ instead of α

    The answer was generated as ``model("lovely")`` does it, then replayed: the model reads it once more, all tokens at
    once, on the explicit path of attention, and everything it computes is recorded. So nothing here depends on beams,
    caches or kernels. Everything else is computed from the record when it is asked for.

    Args:
        model: the model, of any family.
        subject: the text and its answer, as ids and as words.
        attention: soft or hard attention. Default: as the model was trained.
        off: names of heads that are switched off.
    """

    def __init__(
        self, model: Model, subject: Subject, *, attention: AttentionChoice = "trained", off: tuple[str, ...] = ()
    ) -> None:
        self.model, self.subject, self._choice = model, subject, attention
        source = len(subject.source_tokens)
        self.memory = require_room(model, source, len(subject.input_tokens))
        """Bytes that the look takes, roughly; too many are refused before they are taken."""
        self.record: Record = record(model, subject.source, subject.inputs, attention=attention, off=off)

    # ---- what went in and came out ----

    @property
    def source(self) -> list[str]:
        """The tokens that the encoder read."""
        return list(self.subject.source_tokens)

    @property
    def answer(self) -> list[str]:
        """The tokens of the answer."""
        return list(self.subject.answer_tokens)

    @property
    def answer_text(self) -> str:
        """The answer as text."""
        return self.subject.answer_text

    @property
    def off(self) -> tuple[str, ...]:
        """The heads that are switched off."""
        return self.record.off

    @cached_property
    def _log_p(self) -> Float[Tensor, "rows V"]:
        """Log-probabilities at every place that has logits."""
        logits = self.record.logits
        return (logits[0] if logits.dim() == 3 else logits).double().log_softmax(-1)

    @cached_property
    def log_probabilities(self) -> list[float | None]:
        """log p of every token of the answer; None where nothing predicts it."""
        places = zip(self.subject.answer, self.subject.rows, strict=True)
        return [None if row is None else self._log_p[row, token].item() for token, row in places]

    @cached_property
    def alternatives(self) -> list[list[tuple[str, float]]]:
        """For every token of the answer the most probable tokens at its place, with their probabilities."""
        return [[] if row is None else self._likely(self._log_p[row], _ALTERNATIVES) for row in self.subject.rows]

    def _likely(self, log_p: Float[Tensor, "V"], most: int) -> list[tuple[str, float]]:
        best = log_p.topk(min(most, len(log_p)))
        chosen = zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
        return [(self.subject.word(token), probability) for token, probability in chosen]

    # ---- attention ----

    @cached_property
    def attention(self) -> Maps:
        """The weights of every head: ``view.attention["cross"][layer, head]`` is (queries, keys).

        The queries of ``decoder`` and ``cross`` are the decoder's inputs: the start token, then the answer. A Linformer
        attends to slots; here are its weights on the tokens in them, whose rows need not sum to 1.
        """
        return self._maps(lambda part: part.weights)

    @cached_property
    def norms(self) -> Maps:
        """‖α v W_O‖: the length of what each head takes from each token, as ``attention`` is laid out."""
        return self._maps(norms)

    def _maps(self, compute: Any) -> Maps:
        found: dict[str, list[tuple[int, Tensor]]] = {}
        for stack, layer, parts in self.record.attentions():
            found.setdefault(stack, []).append((layer, _of_first(compute, parts)))
        made = []
        for name, layers in found.items():
            by_layer: list[Tensor | None] = [None] * layers[-1][0]
            for layer, heads in layers:
                by_layer[layer - 1] = heads
            queries, keys = self._labels(name)
            made.append(HeadMaps(name, tuple(by_layer), queries, keys))
        return Maps(made)

    def _labels(self, stack: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        source, inputs = self.subject.source_tokens, self.subject.input_tokens
        return {"encoder": (source, source), "decoder": (inputs, inputs), "cross": (inputs, source)}[stack]

    # ---- where an answer comes from ----

    def rollout(self) -> dict[str, Float[Tensor, "r c"]]:
        """How much of each token could come from each token, through all layers; rows sum to 1.

        ``encoder`` is (source, source); ``decoder`` is (inputs, source + inputs), of a language model (inputs, inputs).
        """
        return rollout(self.model, self.record)

    def parts(self, at: int, against: str | None = None) -> Parts:
        """The logit of an answer token as a sum: embedding, heads, feed-forward nets, biases, norm shifts.

        Args:
            at: the place in the answer, from 0; negative places count from the end.
            against: another token: then the parts of the difference of the two logits, "why this and not that".
        """
        return self._parts([self.place(at)], against)[0]

    def _parts(self, places: Sequence[int], against: str | None = None) -> list[Parts]:
        subject = self.subject
        rows = torch.tensor([subject.rows[place] for place in places])
        tokens = torch.tensor([subject.answer[place] for place in places])
        other = None if against is None else torch.full_like(tokens, self._number(against))
        with replaying(self.model, self._choice, self.off):
            named = parts_of(self.model, self.record, rows, tokens, other)
        logits = self.record.logits[0] if self.record.logits.dim() == 3 else self.record.logits
        values = logits[rows, tokens].double()
        if other is not None:
            values = values - logits[rows, other].double()
        table = [(name, part.tolist()) for name, part in reversed(named)]
        return [
            Parts(
                place,
                subject.answer_tokens[place],
                value,
                against,
                tuple(Part(name, part[number]) for name, part in table),
            )
            for number, (place, value) in enumerate(zip(places, values.tolist(), strict=True))
        ]

    def inputs(self, at: int, against: str | None = None, *, most_steps: int = 512) -> Attribution:
        """What every input token adds to log p of an answer token, by integrated gradients; warns if they are inexact.

        Args:
            at: the place in the answer, from 0.
            against: another token: then the difference of the two logits is attributed.
            most_steps: where to stop if the sum is not right to 1 %. Default 512.
        """
        return integrated(
            self.model,
            self.subject,
            self.place(at),
            against=against,
            against_token=None if against is None else self._number(against),
            attention=self._choice,
            off=self.off,
            most=most_steps,
        )

    def occlusion(self) -> Float[Tensor, "a n"]:
        """How much log p of each answer token drops if input token j becomes <unk>, (answer, source).

        Of a language model: (answer, inputs). Takes a forward pass for each token.
        """
        return occluded(self.model, self.subject, attention=self._choice, off=self.off)

    # ---- when ----

    def lens(self, most: int = 3) -> dict[str, list[list[Guess]]]:
        """The most probable tokens after the embedding and after each layer, [stack][layer][place]."""
        name = lens_stack(self.model) or "decoder"
        answered = dict(zip(self.subject.rows, self.subject.answer, strict=True))
        layers = []
        with replaying(self.model, self._choice, self.off):
            for logits in layer_logits(self.model, self.record):
                log_p = (logits[0] if logits.dim() == 3 else logits).log_softmax(-1)
                best = log_p.topk(min(most, log_p.shape[-1]))
                layers.append(
                    [
                        Guess(
                            tuple(
                                (self.subject.word(token), value) for token, value in zip(tokens, values, strict=True)
                            ),
                            log_p[place, answered[place]].item() if place in answered else None,
                        )
                        for place, (tokens, values) in enumerate(
                            zip(best.indices.tolist(), best.values.exp().tolist(), strict=True)
                        )
                    ]
                )
        return {name: layers}

    def decoder_lens(self) -> list[DecoderGuess]:
        """What the decoder answers over the encoder's embedding and over each of its layers, teacher-forced."""
        subject, found = self.subject, []
        if (reason := why_no_decoder_lens(self.model)) is not None:
            raise ClearheadError(f"no DecoderLens: {reason}")
        below = range(len(self.record.stacks["encoder"].layers))
        places = list(zip(subject.answer, subject.rows, strict=True))
        with replaying(self.model, self._choice, self.off):
            # over the last layer, the decoder has been run already
            for logits in (*decoder_logits(self.model, self.record, below), self.record.logits):
                log_p = logits[0].log_softmax(-1)
                best = log_p.argmax(-1).tolist()
                found.append(
                    DecoderGuess(
                        tuple("" if row is None else subject.word(best[row]) for _, row in places),
                        tuple(None if row is None else log_p[row, token].item() for token, row in places),
                    )
                )
        return found

    # ---- which word is which ----

    def align(
        self, head: str | None = None, *, shift: Shift = 1, by: Literal["norms", "attention"] = "norms"
    ) -> list[Link]:
        """The source token of every answer token: (source, answer), both from 0; special tokens have none.

        Args:
            head: the cross-attention head to read, as ``cross.2.5``. Default: the mean of all.
            shift: 1 reads an answer token where the decoder reads it (the default), 0 where it is put out.
            by: ``norms`` (the default) or ``attention``.
        """
        maps = self.norms if by == "norms" else self.attention
        if "cross" not in maps:
            raise ClearheadError(f"no alignment: {self._no_alignment()}")
        matrix = maps["cross"].mean() if head is None else maps.head(head)
        return links(matrix, shift=shift, sources=self._words(0), answers=self._words(1))

    def _no_alignment(self) -> str:
        if self.subject.inputs is None or self.subject.source is None:
            return f"a model of family {self.subject.family} has no source and answer to align"
        return "the decoder does not attend to the source"

    def alignments(self, by: Literal["norms", "attention"] = "norms") -> dict[tuple[str, Shift], list[Link]]:
        """The links of every cross-attention head at both shifts, to choose from with ``choose``."""
        heads = (self.norms if by == "norms" else self.attention)["cross"].names
        shifts: tuple[Shift, ...] = (0, 1)
        return {(head, shift): self.align(head, shift=shift, by=by) for head in heads for shift in shifts}

    def _words(self, side: Literal[0, 1]) -> list[int]:
        """The places of tokens that are text, in the source or in the answer."""
        source = self.subject.source
        assert source is not None
        ids = self.subject.answer if side else source[0].tolist()
        return [place for place, index in enumerate(ids) if index not in self.subject.specials[side]]

    def place(self, at: int) -> int:
        """A place in the answer, from 0: negative ones count from the end. Refused if nothing predicts the token."""
        count = len(self.subject.answer)
        if not -count <= at < count:
            raise DataError(f"at: {at} is no place in the answer, which has {count} tokens: 0 to {count - 1}")
        place = at % count
        if self.subject.rows[place] is None:
            raise DataError(f"at: nothing predicts token {place}, the first of the text")
        return place

    def _number(self, word: str) -> int:
        number = self.subject.number(word)
        if number is None:
            raise DataError(f"against: the model has no token {word!r}")
        return number

    # ---- other views of the same ----

    def named(self, name: str) -> "View":
        """The same view, of a model that people know by another name."""
        other = object.__new__(type(self))
        other.__dict__ |= self.__dict__ | {"subject": replace(self.subject, name=name)}
        return other

    def without(self, *heads: str) -> "View":
        """The same answer, replayed with these heads switched off: compare its ``log_probabilities``.

        ``model.look(text, without=[…])`` generates an answer without them instead.
        """
        return View(self.model, self.subject, attention=self._choice, off=(*self.off, *heads))

    # ---- for people and files ----

    def as_dict(self, *, inputs: Sequence[int] = (), occlusion: bool = False) -> dict[str, Any]:
        """Everything as numbers, lists and texts, for JSON; the guide lists the keys.

        Args:
            inputs: places of the answer for which integrated gradients are computed, which takes a while.
            occlusion: whether occlusion is computed, which takes a forward pass for each token.
        """
        return as_dict(self, inputs=inputs, occlusion=occlusion)

    def document(
        self,
        show: Sequence[str] | None = None,
        *,
        at: int | None = None,
        against: str | None = None,
        rivals: bool = False,
        switched: bool = False,
    ) -> dict[str, Any]:
        """``as_dict`` with chosen contents: what the command line prints as JSON and in letters.

        Args:
            show: what to show, of attention, norms, rollout, lens, parts, inputs, occlusion. Default: all but the last
                two, which take a while.
            at: the place in the answer that is meant, from 0. Default: all.
            against: another token; with ``at``, the parts of the difference of the two logits.
            rivals: whether every token gets its parts against the most probable other one, as on the page.
            switched: whether every head is switched off in turn, as on the page; takes a forward pass for each.
        """
        return document(self, show, at=at, against=against, rivals=rivals, switched=switched)

    def lines(
        self, width: int = 80, show: Sequence[str] | None = None, *, at: int | None = None, against: str | None = None
    ) -> list[tuple[str, str]]:
        """The view in letters: lines of at most ``width`` columns, each with its role (title, head, row, note).

        The other arguments are those of ``document``.
        """
        return look_lines(self.document(show, at=at, against=against), width)

    def save(
        self,
        path: str | Path,
        show: Sequence[str] | None = None,
        *,
        at: int | None = None,
        against: str | None = None,
    ) -> Path:
        """Write a file: a page (``.html``), a figure (``.svg``), everything (``.json``), the numbers alone (``.npz``).

        The page has everything in one file and needs no network. The other arguments are those of ``document``.
        """
        save(self, Path(path), show, at=at, against=against)
        return Path(path)

    def __str__(self) -> str:
        return "\n".join(text for text, _ in self.lines())

    def __repr__(self) -> str:
        asked = self.subject.text if len(self.subject.text) <= 40 else self.subject.text[:37] + "…"
        known = [value for value in self.log_probabilities if value is not None]
        parts = [f"{asked!r} → {self.answer_text!r}"]
        if known:
            parts.append(f"log p {sum(known):.3f}")
        heads = sum(len(maps.names) for maps in self.attention.values())
        parts.append(f"{heads} heads" + (f", without {', '.join(self.off)}" if self.off else ""))
        return f"View({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """The answer with its probabilities, for a notebook."""
        rows = []
        for token, value, place in zip(self.answer, self.log_probabilities, self.alternatives, strict=True):
            others = ", ".join(f"{escape(word)} {probability:.2f}" for word, probability in place[:3])
            shown = "" if value is None else f"{math.exp(value):.3f}"
            rows.append(f"<tr><td>{escape(token)}</td><td>{shown}</td><td>{others}</td></tr>")
        header = "<tr><th>token</th><th>p</th><th>most probable</th></tr>"
        return fragment(f"<p>{escape(repr(self))}</p><table>{header}{''.join(rows)}</table>")


def _of_first(compute: Any, parts: tuple[AttentionRecord, ...]) -> Float[Tensor, "h n m"]:
    """The matrices of the first line, those of all parts of an attention side by side."""
    return torch.cat([compute(part)[0] for part in parts])
