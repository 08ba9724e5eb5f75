"""What heads attend to over a corpus: the weights of every attention, batch by batch, summed up by role and overlap.

Shapes: b lines, t tiles of a line, h heads, n queries, m keys.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.attention import Heads, LinformerAttention
from clearhead.inspection.forcing import ForcedBatch
from clearhead.inspection.gates import HeadedAttention, headed_attentions
from clearhead.inspection.roles import OverlapSums, Reading, RoleSums
from clearhead.models import LanguageModel, Model


@contextmanager
def watched_weights(attentions: list[HeadedAttention]) -> Iterator[dict[Heads, Float[Tensor, "bt h n m"]]]:
    """Attention weights of every forward pass inside the ``with`` block, by module; the last pass is kept."""
    seen: dict[Heads, Tensor] = {}

    def keep(part: Heads) -> Any:
        def hook(_module: nn.Module, _inputs: object, weights: Tensor) -> None:
            seen[part] = weights.detach()

        return hook

    with ExitStack() as stack:
        for attention in attentions:
            for part in attention.parts:
                stack.callback(part.weights.register_forward_hook(keep(part)).remove)
        yield seen


class Observations:
    """Sums over a corpus of what the heads of a model attend to.

    Args:
        model: the model.

    The slots of Linformer attention are no tokens, so its heads have no roles and no overlap.
    """

    def __init__(self, model: Model) -> None:
        self.attentions = headed_attentions(model)
        self._alone = isinstance(model, LanguageModel)
        self.roles = {part: RoleSums(part.heads) for one in self.attentions for part in one.parts if _has_tokens(part)}
        self._compared = {stack: self._comparable(stack) for stack in dict.fromkeys(a.stack for a in self.attentions)}
        self.overlaps = {stack: OverlapSums(sum(p.heads for p in parts)) for stack, parts in self._compared.items()}

    def _comparable(self, stack: str) -> list[Heads]:
        """The modules of a stack whose weights are over the same tokens: not axial attention's rows and columns."""
        own = [attention for attention in self.attentions if attention.stack == stack and len(attention.parts) == 1]
        return [part for attention in own for part in attention.parts if _has_tokens(part)]

    def add(self, batch: ForcedBatch, seen: dict[Heads, Tensor]) -> None:
        """Add the weights that ``watched_weights`` saw in a batch."""
        for attention in self.attentions:
            for part in attention.parts:
                reading = self._reading(attention, batch, seen[part])
                if part in self.roles and reading is not None:
                    self.roles[part].add(seen[part].cpu(), reading)
        for stack, parts in self._compared.items():
            weights = [seen[part].cpu() for part in parts]
            if weights and len({(one.shape[0], *one.shape[2:]) for one in weights}) == 1:
                first = next(attention for attention in self.attentions if attention.stack == stack)
                reading = self._reading(first, batch, weights[0])
                if reading is not None:
                    self.overlaps[stack].add(torch.cat(weights, dim=1), reading.queries)

    def _reading(self, attention: HeadedAttention, batch: ForcedBatch, weights: Tensor) -> Reading | None:
        rows, _, n, m = weights.shape
        if batch.inputs.is_floating_point():  # every patch of every tile is there
            return Reading(torch.full((rows,), n), torch.full((rows,), m))
        if attention.stack == "encoder" or self._alone:
            causal, ids, lengths = self._alone, batch.inputs, batch.lengths
            return _fitting(Reading(lengths, lengths, causal=causal, ids=ids), n, m, ids.shape[1], ids.shape[1])
        assert batch.answers is not None
        assert batch.answer_lengths is not None
        answers, lengths = batch.answers, batch.answer_lengths
        if attention.stack == "decoder":
            reading = Reading(lengths, lengths, causal=True, ids=answers)
            return _fitting(reading, n, m, answers.shape[1], answers.shape[1])
        reading = Reading(lengths, batch.lengths, cross=True)
        return _fitting(reading, n, m, answers.shape[1], batch.inputs.shape[1])

    def found(self) -> dict[str, tuple[str | None, float | None, dict[str, float]]]:
        """For every head by name: its role, the score of the role, and the scores of all roles."""
        result: dict[str, tuple[str | None, float | None, dict[str, float]]] = {}
        for attention in self.attentions:
            names = iter(attention.head_names)
            for part in attention.parts:
                if (sums := self.roles.get(part)) is None or not sums.counts["broad"]:
                    result |= {next(names): (None, None, {}) for _ in range(part.heads)}
                    continue
                for (role, score), scores in zip(sums.roles(), sums.scores(), strict=True):
                    result[next(names)] = (role, score, scores)
        return result

    def overlap(self) -> dict[str, tuple[list[str], list[list[float]]]]:
        """For every stack: the heads that can be compared, and the matrix of their overlaps."""
        result: dict[str, tuple[list[str], list[list[float]]]] = {}
        for stack, sums in self.overlaps.items():
            compared = set(self._compared[stack])
            own = [one for one in self.attentions if one.stack == stack and one.parts[0] in compared]
            names = [name for attention in own for name in attention.head_names]
            if sums.count:
                result[stack] = (names, sums.values().tolist())
        return result


def _has_tokens(part: Heads) -> bool:
    return not isinstance(part, LinformerAttention)


def _fitting(reading: Reading, n: int, m: int, queries: int, keys: int) -> Reading | None:
    """The reading, if weights are over all queries and keys; some attentions have other axes."""
    return reading if (n, m) == (queries, keys) else None
