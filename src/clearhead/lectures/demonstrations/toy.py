"""A model trained in a few seconds: it reads eight letters and writes them backwards."""

from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.models import Seq2Seq, build
from clearhead.recipe import read_recipe
from clearhead.training import token_loss

LETTERS, LENGTH = 10, 8
BOS, EOS, FIRST = 1, 2, 4
SETTINGS = [
    *("model.layers=1", "model.width=32", "model.heads=4", "model.feedforward.width=64"),
    *(f"model.vocabulary.source={FIRST + LETTERS}", f"model.vocabulary.target={FIRST + LETTERS}"),
    *("model.dropout.residual=0.0", "model.dropout.embedding=0.0"),
]


def rows(count: int, generator: torch.Generator) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]:
    """Sources and their targets, both with the end token."""
    letters = torch.randint(FIRST, FIRST + LETTERS, (count, LENGTH), generator=generator)
    end = torch.full((count, 1), EOS)
    return torch.cat((letters, end), dim=1), torch.cat((letters.flip(1), end), dim=1)


def fed(target: Int[Tensor, "b n"]) -> Int[Tensor, "b n"]:
    """The decoder's input for ``target``: the start token, then all tokens but the last."""
    return torch.cat((torch.full((len(target), 1), BOS), target[:, :-1]), dim=1)


def untrained(seed: int) -> Seq2Seq:
    """The untrained model."""
    model = build(read_recipe(None, *SETTINGS), seed=seed)
    assert isinstance(model, Seq2Seq)
    return model.eval()


@cache
def trained(seed: int, steps: int = 300) -> Seq2Seq:
    """The model after maximum-likelihood training on random rows; it is cached, so do not change it."""
    model, generator = untrained(seed).train(), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, betas=(0.9, 0.98))
    rate = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 30) * (1 - step / steps))
    with torch.enable_grad():
        for _ in range(steps):
            source, target = rows(64, generator)
            states = model.states(source, fed(target)).flatten(0, 1)
            loss = token_loss(states, model.output, target.flatten(), smoothing=0.0) / target.numel()
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            rate.step()
    return model.eval()
