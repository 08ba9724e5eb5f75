"""The answers of a model to lines of text, by the one decoding that dev scores, `eval` and `run` share."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from clearhead.data import EOS, PAD, Codec
from clearhead.decoding import greedy
from clearhead.models import Seq2Seq, State
from clearhead.recipe import Decoding


@torch.inference_mode()
def answer(model: Seq2Seq, source: Codec, target: Codec, texts: Sequence[str], spec: Decoding) -> list[str]:
    """One answer per text, in order. Lines are sorted by length and answered together; which ones does not matter."""
    lines = [[*ids, EOS] for ids in source.encode(texts)]
    order = sorted(range(len(lines)), key=lambda index: (len(lines[index]), lines[index]))
    device = next(model.parameters()).device
    answers: list[list[int]] = [[] for _ in lines]
    was_training = model.training
    model.eval()
    for rows in _batches([len(lines[index]) for index in order], spec.batch_tokens):
        batch = [order[row] for row in rows]
        longest = max(len(lines[index]) for index in batch)
        ids = torch.tensor([lines[index] + [PAD] * (longest - len(lines[index])) for index in batch], device=device)
        state = model.start(ids)
        limits = [int(spec.max_ratio * len(lines[index])) + spec.max_extra for index in batch]
        first = model.spec.vocabulary.first
        eos = model.spec.vocabulary.eos
        assert first is not None
        assert eos is not None

        def step(ids: Tensor, state: State = state) -> Tensor:
            return model.step(ids.to(device), state)

        def keep(rows: Tensor, state: State = state) -> None:
            state.select(rows.to(device))

        found = greedy(step, keep, first=first, eos=eos, limits=limits)
        for index, tokens in zip(batch, found, strict=True):
            answers[index] = tokens
    model.train(was_training)
    return target.decode(answers)


def _batches(lengths: Sequence[int], budget: int) -> Iterator[range]:
    """Cut sorted lines into batches of at most ``budget`` padded tokens."""
    cuts = [0]
    for index, length in enumerate(lengths):
        if length * (index - cuts[-1] + 1) > budget and index > cuts[-1]:
            cuts.append(index)
    for start, end in pairwise([*cuts, len(lengths)]):
        if start < end:
            yield range(start, end)
