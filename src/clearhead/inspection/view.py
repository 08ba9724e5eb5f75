"""A view into a model while it answers one text: what ``model.look(…)`` returns.

Shapes: n source tokens, m answer tokens, h heads, V entries of the vocabulary.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from clearhead.inspection.contributions import norms
from clearhead.inspection.maps import HeadMaps, Maps
from clearhead.inspection.record import AttentionRecord, Record
from clearhead.inspection.recorder import record
from clearhead.inspection.subject import Subject
from clearhead.models import AttentionChoice, Model, count_parameters

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
        for stack, layers in found.items():
            by_layer: list[Tensor | None] = [None] * layers[-1][0]
            for layer, heads in layers:
                by_layer[layer - 1] = heads
            queries, keys = self._labels(stack)
            made.append(HeadMaps(stack, tuple(by_layer), queries, keys))
        return Maps(made)

    def _labels(self, stack: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        source, inputs = self.subject.source_tokens, self.subject.input_tokens
        return {"encoder": (source, source), "decoder": (inputs, inputs), "cross": (inputs, source)}[stack]

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

    def as_dict(self) -> dict[str, Any]:
        """Everything as numbers, lists and texts, for JSON."""
        subject = self.subject
        table: dict[str, Any] = {
            "format": 1,
            "family": subject.family,
            "model": {"name": subject.name, "parameters": count_parameters(self.model)},
            "text": subject.text,
            "source": self.source,
            "answer": self.answer,
            "answer_text": subject.answer_text,
            "given": subject.given,
            "rows": list(subject.rows),
            "log_probabilities": self.log_probabilities,
            "alternatives": [
                [{"token": token, "probability": probability} for token, probability in place]
                for place in self.alternatives
            ],
            "n_best": [{"text": text, "log_probability": log_p} for text, log_p in subject.n_best],
            "attention": _lists(self.attention),
            "inputs_of": {"decoder": list(subject.input_tokens)},
            "norms": _lists(self.norms),
        }
        if subject.source is None:
            del table["source"]
        if subject.inputs is None:
            del table["inputs_of"]
        return table

    def __repr__(self) -> str:
        asked = self.subject.text if len(self.subject.text) <= 40 else self.subject.text[:37] + "…"
        known = [value for value in self.log_probabilities if value is not None]
        parts = [f"{asked!r} → {self.answer_text!r}"]
        if known:
            parts.append(f"log p {sum(known):.3f}")
        heads = sum(len(maps.names) for maps in self.attention.values())
        parts.append(f"{heads} heads" + (f", without {', '.join(self.off)}" if self.off else ""))
        return f"View({', '.join(parts)})"


def _of_first(compute: Any, parts: tuple[AttentionRecord, ...]) -> Float[Tensor, "h n m"]:
    """The matrices of the first line, those of all parts of an attention side by side."""
    return torch.cat([compute(part)[0] for part in parts])


def _lists(maps: Mapping[str, HeadMaps]) -> dict[str, Any]:
    return {name: stack.tolist() for name, stack in maps.items()}
