"""Text with gaps in, text without them out: encoders that were trained to fill in hidden tokens.

Shapes: b lines, n tokens, r hidden tokens, V tokens of the vocabulary.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clearhead.data import MASK, PAD, Codec, Masker, Text, pieces
from clearhead.errors import ClearheadError, DataError
from clearhead.models import EncoderModel
from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.engine import batch_budget, reach
from clearhead.predictor.forced import Forced, batches, device_of, evaluating, joined, padded
from clearhead.recipe import Decoding, Recipe


class Filler(Predictor):
    """Answers with the line in which every <mask> is replaced by the most probable token."""

    model: EncoderModel

    def __init__(self, model: EncoderModel, recipe: Recipe, codecs: tuple[Codec, ...]) -> None:
        super().__init__(model, recipe, codecs)
        if model.output is None or self.source.mask is None:
            raise ClearheadError("this encoder gives vectors only: it was not trained to fill in <mask>")
        self.output, self.mask, self.reach = model.output, self.source.mask, reach(model.encoder.modules())

    def answers(
        self,
        texts: Sequence[str],
        spec: Decoding | None = None,
        *,
        n_best: int = 1,
        scored: bool = False,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Answer]]:
        """The most probable fillings of each text; the tokens of several gaps do not know of each other."""
        del scored, numbers
        spec = spec or self.recipe.decoding
        longest = min(spec.max_source, self.reach - 2)
        try:
            lines = self.source.encode_gaps(texts)
        except (TypeError, UnicodeEncodeError):
            raise DataError("a text holds half of a surrogate pair, which is no character") from None
        rows = [pieces(line, longest)[0] for line in lines]
        hidden = [[place for place, index in enumerate(row) if index == self.mask] for row in rows]
        found: list[list[Answer]] = [[] for _ in texts]
        for line, gaps in self._gaps(rows, hidden, spec):
            found[line] = self._fillings(texts[line], gaps, n_best, cut=len(lines[line]) > longest)
        return found

    def table(self, best: Answer) -> dict[str, Any]:
        """The filled line."""
        return {"filled": best.text, "log_probability": best.log_probability}

    def forced(self, examples: Sequence[Text]) -> list[Forced]:
        """There is none: hidden tokens have a probability, lines do not."""
        del examples
        raise ClearheadError("an encoder gives hidden tokens a probability, not lines: `clearhead eval` scores it")

    def hidden(self, examples: Sequence[Text]) -> list[Forced]:
        """log p of tokens that are hidden in each line: the share that training hides, all of them by <mask>.

        Which ones follows from the line alone. Long lines are read in pieces, as in training.
        """
        masker = Masker(self.recipe.training.masking, self.mask, len(self.source))
        size = min(self.recipe.data.max_length, self.reach - 2)
        lines = [pieces(ids, size) for ids in self._ids([example.text for example in examples])]
        given = [masker.hidden(np.array(piece)) for line in lines for piece in line]
        places = [np.flatnonzero(labels != PAD).tolist() for _, labels in given]
        judged = [Forced([], 0)] * len(given)
        for piece, gaps in self._gaps([inputs.tolist() for inputs, _ in given], places, self.recipe.decoding):
            truth = torch.from_numpy(given[piece][1][places[piece]])
            values = gaps.gather(1, truth[:, None])[:, 0].tolist()
            judged[piece] = Forced(values, int((gaps.argmax(1) == truth).sum()))
        found = iter(judged)
        return [joined([next(found) for _ in line]) for line in lines]

    def _fillings(self, text: str, gaps: Tensor, n_best: int, *, cut: bool) -> list[Answer]:
        """The most probable choices for all gaps together, which are independent: the best of each suffice."""
        gaps[:, : self.mask + 1] = -torch.inf  # specials are no text
        chosen: list[tuple[float, list[int]]] = [(0.0, [])]
        for gap in gaps:
            best = gap.topk(min(n_best, len(gap) - self.mask - 1))
            options = list(zip(best.values.tolist(), best.indices.tolist(), strict=True))
            longer = [(total + value, [*ids, index]) for total, ids in chosen for value, index in options]
            chosen = sorted(longer, key=lambda choice: -choice[0])[:n_best]
        return [Answer(self._filled(text, ids), total, total, True, ids, cut) for total, ids in chosen]

    def _filled(self, text: str, ids: list[int]) -> str:
        """The text itself, with what stands for each <mask> that was read."""
        words = self.source.decode([[index] for index in ids])
        for word in words:
            text = text.replace(MASK, word, 1)
        return text

    def _gaps(self, rows: list[list[int]], places: list[list[int]], spec: Decoding) -> Iterator[tuple[int, Tensor]]:
        """The number of each line, and the (r, V) log-probabilities of the tokens at its places."""
        with evaluating(self.model, spec.attention):
            for batch in batches([len(row) for row in rows], batch_budget(spec)):
                ids, there = padded([rows[index] for index in batch])
                device = device_of(self.model)
                states = self.model.states(ids.to(device), None if there is None else there.to(device))
                for line, index in enumerate(batch):
                    logits = self.output(states[line, places[index]]).cpu()
                    yield index, logits.double().log_softmax(-1)
