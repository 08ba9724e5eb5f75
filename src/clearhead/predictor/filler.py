"""Fills in masked tokens, with encoders trained for it.

Shapes: b lines, n tokens, r masked tokens, V entries of the vocabulary.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.blocks import Output
from clearhead.data import PAD, Codec, Masker, Text, pieces
from clearhead.errors import ClearheadError, DataError
from clearhead.inspection import Subject, require_room_to_read
from clearhead.models import EncoderModel, device_of, evaluating
from clearhead.predictor.asked import the_number, the_texts
from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.engine import reach
from clearhead.predictor.forced import ForcedLine, batches, joined, padded
from clearhead.predictor.looking import filled, ranked
from clearhead.predictor.vectors import text_vectors
from clearhead.recipe import DecodingSpec, Recipe

_LIKELY = 5
"""Fewest tokens listed for every <mask>."""


class Filler(Predictor):
    """Answers with the line in which every <mask> is replaced by the most probable token.

    Args:
        model: an encoder with a head over its vocabulary.
        recipe: the recipe that it was trained by.
        codecs: its tokenizer, twice.
    """

    model: EncoderModel

    def __init__(self, model: EncoderModel, recipe: Recipe, codecs: tuple[Codec, ...]) -> None:
        super().__init__(model, recipe, codecs)
        self.reach = reach(model.encoder.modules())

    @property
    def mask(self) -> int:
        """The id of <mask>."""
        return self._head()[1]

    def _head(self) -> tuple[Output, int]:
        """The head over the vocabulary and the id of <mask>, if the encoder has them."""
        if self.model.output is None or self.source.mask is None:
            raise ClearheadError(
                "this encoder gives vectors only (run --vectors): it was not trained to fill in <mask>"
            )
        return self.model.output, self.source.mask

    def answers(
        self,
        texts: Sequence[str],
        spec: DecodingSpec | None = None,
        *,
        n_best: int = 1,
        scored: bool = True,
        numbers: Sequence[int] | None = None,
        **settings: Any,
    ) -> list[list[Answer]]:
        """Return the most probable fillings of each text; several masks are filled independently of each other."""
        del scored, numbers
        n_best = the_number(n_best, "n_best")
        texts, spec = self._asked(texts, spec, settings)
        longest, mask = min(spec.max_source, self.reach - self.source.room), self.mask
        lines, unknown = self._read(texts, gaps=True)
        rows = [self.source.wrapped(line, longest) for line in lines]
        hidden = [[place for place, index in enumerate(row) if index == mask] for row in rows]
        found: list[list[Answer]] = [[] for _ in texts]
        for line, masked in self._masked(rows, hidden, spec):
            ways = self._fillings(texts[line], masked, n_best, cut=len(lines[line]) > longest)
            found[line] = [replace(way, unknown=unknown[line]) for way in ways]
        return found

    def vectors(self, texts: Sequence[str]) -> Tensor:
        spec = self.recipe.decoding
        lines = self._ids(the_texts(texts, "vectors"))
        rows = [self.source.wrapped(line, min(spec.max_source, self.reach - self.source.room)) for line in lines]
        return text_vectors(self.model, rows, self.model.states, spec)

    def _subject(self, text: str, target: str | None, spec: DecodingSpec, n_best: int) -> Subject:
        codec, longest = self.source, min(spec.max_source, self.reach - self.source.room)
        ids = self._read([text], gaps=True)[0][0]
        require_room_to_read(self.model, len(ids))
        line = codec.wrapped(ids, longest)
        if self.model.output is None or codec.mask is None:
            return filled(self.model, text, codec, line)
        gaps = [place for place, index in enumerate(line) if index == codec.mask]
        if not gaps:  # every token, as it is
            places = [place for place, index in enumerate(line) if index not in codec.specials]
            known = tuple(line[place] for place in places)
            return filled(self.model, text, codec, line, answer=known, rows=tuple(places), answer_text=text)
        answers = self.answers([text], spec, n_best=n_best)[0]
        chosen, answer_text = answers[0].tokens, answers[0].text
        if target is not None:
            chosen, answer_text = codec.encode([target])[0], target
        if len(chosen) != len(gaps):
            masks, tokens = (
                f"{count} {what}{'s' * (count != 1)}" for count, what in ((len(gaps), "mask"), (len(chosen), "token"))
            )
            raise DataError(f"the text has {masks}, but the target {tokens}: give one for each")
        found = {"answer": tuple(chosen), "rows": tuple(gaps), "answer_text": answer_text, "n_best": ranked(answers)}
        return filled(self.model, text, codec, line, **found)

    def table(self, best: Answer) -> dict[str, Any]:
        return {"filled": best.text, "log_probability": best.log_probability}

    def unmasked(self, best: Answer) -> str:
        if best.masks or not best.text:
            return ""
        read = ", as far as it was read" if best.cut else ""
        return f"there is no {self.source.mask_name} to fill in{read}; the text stays as it is"

    def forced(self, examples: Sequence[Text]) -> list[ForcedLine]:
        del examples
        self._head()  # one without a head cannot be scored at all
        raise ClearheadError("an encoder gives masked tokens a probability, not lines: `clearhead eval` scores it")

    def hidden(self, examples: Sequence[Text]) -> list[ForcedLine]:
        """Mask tokens of each line, as many as in training, and return their log-probabilities.

        The choice of tokens depends on the line alone. Long lines are read in pieces, as in training.
        """
        masker = Masker(self.recipe.training.masking, self.mask, len(self.source))
        size = min(self.recipe.data.max_length, self.reach - self.source.room)
        lines = [self._pieces(ids, size) for ids in self._ids([example.text for example in examples])]
        given = [masker.hidden(np.array(piece)) for line in lines for piece in line]
        places = [np.flatnonzero(labels != PAD).tolist() for _, labels in given]
        judged = [ForcedLine([], 0)] * len(given)
        for piece, masked in self._masked([inputs.tolist() for inputs, _ in given], places, self.recipe.decoding):
            truth = torch.from_numpy(given[piece][1][places[piece]])
            values = masked.gather(1, truth[:, None])[:, 0].tolist()
            judged[piece] = ForcedLine(values, int((masked.argmax(1) == truth).sum()))
        found = iter(judged)
        return [joined([next(found) for _ in line]) for line in lines]

    def _fillings(self, text: str, log_p: Tensor, n_best: int, *, cut: bool) -> list[Answer]:
        """The most probable joint choices for all masks; as masks are independent, the best of each suffice."""
        specials = sorted(self.source.specials)
        log_p = log_p.clone()  # (r, V)
        log_p[:, specials] = -torch.inf  # special tokens are not text
        chosen: list[tuple[float, list[int]]] = [(0.0, [])]
        likely: list[Mapping[str, float]] = []
        for row in log_p:
            best = row.topk(min(max(n_best, _LIKELY), len(row) - len(specials)))
            options = list(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            words = self.source.decode([[index] for _, index in options])
            likely.append({word: math.exp(value) for word, (value, _) in zip(words, options, strict=True)})
            # the n best sums: with the i-th best of one list goes at most the n/i-th best of the other
            longer = [
                (total + value, [*ids, index])
                for rank, (total, ids) in enumerate(chosen, start=1)
                for value, index in options[: n_best // rank]
            ]
            chosen = sorted(longer, key=lambda choice: -choice[0])[:n_best]
        alone = likely[0] if len(likely) == 1 else None
        return [
            Answer(self._filled(text, ids), total, total, True, ids, cut, alone, masks=tuple(likely))
            for total, ids in chosen
        ]

    def _filled(self, text: str, ids: list[int]) -> str:
        """The text with each <mask> that was read replaced."""
        words = self.source.decode([[index] for index in ids])
        for word in words:
            text = text.replace(self.source.mask_name, word if self.source.own else word.strip(), 1)
        return text

    def _pieces(self, ids: list[int], size: int) -> list[list[int]]:
        """The line in pieces, each between the tokenizer's special tokens."""
        return [self.source.wrapped(piece[1:-1], size) for piece in pieces(ids, size)]

    def _masked(
        self, rows: list[list[int]], places: list[list[int]], spec: DecodingSpec
    ) -> Iterator[tuple[int, Tensor]]:
        """Yield the number of each line and the (r, V) log-probabilities of the tokens at its places."""
        output, _ = self._head()
        for batch in batches([len(row) for row in rows], spec.budget):
            ids, valid = padded([rows[index] for index in batch])
            device = device_of(self.model)
            with evaluating(self.model, spec.attention):
                states = self.model.states(ids.to(device), None if valid is None else valid.to(device))
                logits = [output(states[line, places[index]]).cpu() for line, index in enumerate(batch)]
            for index, values in zip(batch, logits, strict=True):
                yield index, values.double().log_softmax(-1)
