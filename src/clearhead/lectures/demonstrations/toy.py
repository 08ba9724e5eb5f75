"""A model trained in a few seconds, by the product's own trainer: it reads eight letters and writes them backwards."""

from functools import cache

import torch
from jaxtyping import Int
from torch import Tensor

from clearhead.data import Batch, EncodedPairs
from clearhead.lectures.demonstrations.broken import damage
from clearhead.lectures.demonstrations.learning import learn, side
from clearhead.models import Model, Seq2Seq, build
from clearhead.predictor.forced import forced
from clearhead.recipe import Recipe, read_recipe
from clearhead.training import Objective, objective_of

LETTERS, LENGTH, STEPS = 10, 8, 200
BOS, EOS, FIRST = 1, 2, 4
SETTINGS = [
    *("model.layers=1", "model.width=32", "model.heads=4", "model.feedforward.width=64"),
    *(f"model.vocabulary.source={FIRST + LETTERS}", f"model.vocabulary.target={FIRST + LETTERS}"),
    *("model.dropout.residual=0.0", "model.dropout.embedding=0.0"),
    *("training.optimizer.rate=5e-3", "training.optimizer.betas=[0.9, 0.98]", "training.label_smoothing=0.0"),
    *("training.schedule.kind=linear", "training.schedule.warmup=30", "training.average=0.0"),
    f"training.batch_tokens={64 * (LENGTH + 1)}",
]


def recipe() -> Recipe:
    """The recipe of the model and of its training."""
    return read_recipe(None, *SETTINGS, f"training.steps={STEPS}")


def rows(count: int, generator: torch.Generator) -> tuple[Int[Tensor, "b n"], Int[Tensor, "b n"]]:
    """Sources and their targets, both with the end token."""
    letters = torch.randint(FIRST, FIRST + LETTERS, (count, LENGTH), generator=generator)
    end = torch.full((count, 1), EOS)
    return torch.cat((letters, end), dim=1), torch.cat((letters.flip(1), end), dim=1)


def pairs(source: Int[Tensor, "b n"], target: Int[Tensor, "b n"]) -> EncodedPairs:
    """The same rows as encoded examples, which have no end token: it is added when a batch is made."""
    return EncodedPairs(side(source[:, :-1]), side(target[:, :-1]), too_long=0)


def fed(target: Int[Tensor, "b n"]) -> Int[Tensor, "b n"]:
    """The decoder's input for ``target``: the start token, then all tokens but the last."""
    return torch.cat((torch.full((len(target), 1), BOS), target[:, :-1]), dim=1)


def untrained(seed: int) -> Seq2Seq:
    """The untrained model."""
    model = build(recipe(), seed=seed)
    assert isinstance(model, Seq2Seq)
    return model.eval()


def loss_of_a_token(model: Seq2Seq, source: Int[Tensor, "b n"], target: Int[Tensor, "b n"]) -> float:
    """The mean −log p of a target token."""
    scores = forced(model, source.tolist(), target.tolist())
    return -sum(line.log_probability for line in scores) / target.numel()


def objective() -> Objective[EncodedPairs, Seq2Seq, Batch]:
    """How the trainer makes batches and losses."""
    return objective_of(recipe())


def trained(seed: int) -> Seq2Seq:
    """The model after maximum-likelihood training on random rows; it is cached, so do not change it."""
    return _trained(seed, damage())


@cache
def _trained(seed: int, damage: tuple[int, ...]) -> Seq2Seq:
    """A model that was trained while the product was broken in one way is not taken for any other."""
    del damage
    model, generator = untrained(seed), torch.Generator().manual_seed(seed)
    examples, dev = pairs(*rows(64 * STEPS, generator)), rows(16, generator)

    def loss(average: Model) -> float:
        assert isinstance(average, Seq2Seq)
        return loss_of_a_token(average, *dev)

    learn(model, examples, objective(), recipe(), loss)
    return model
