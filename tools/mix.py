"""Mixes the weights of networks that began as the same one: the mean of each number, by shares.

    python -m tools.mix mixed.safetensors runs/taught 0.7 first.safetensors 0.3

Networks that were trained on from the same weights often lie in one valley: on a straight line between them the loss
is no higher, and a point of it may know more new lines than either end (Wortsman et al. 2022, model soups). Which
shares are best is a question for dev data: ``clearhead eval mixed.safetensors dev.tsv``. Recipe and tokenizers are
those of the first network; the result costs what one of them costs.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from clearhead.models import SavedModel, save_model
from clearhead.verbs.naming import saved_named


def mixed(models: Sequence[SavedModel], shares: Sequence[float]) -> SavedModel:
    """The first model with the weighted mean of all models' weights.

    Raises ``ValueError`` for models that are not of one kind, or whose tokens are not the same.
    """
    first = models[0]
    parts = [dict(model.model.named_parameters()) for model in models]
    shapes = [{name: weight.shape for name, weight in part.items()} for part in parts]
    if any(shape != shapes[0] for shape in shapes) or any(model.tokenizers != first.tokenizers for model in models):
        raise ValueError("these models are not of one kind: their weights or their tokens differ")
    means: dict[str, Tensor] = {
        name: torch.stack([share * part[name].detach().double() for part, share in zip(parts, shares, strict=True)])
        .sum(0)
        .div(sum(shares))
        .float()
        for name in parts[0]
    }
    with torch.no_grad():
        for name, weight in first.model.named_parameters():
            weight.copy_(means[name])
    return SavedModel(first.model.eval(), first.recipe, first.tokenizers, first.origin)


def main() -> None:
    """Write the mixture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("parts", nargs="+", metavar="MODEL SHARE", help="models, each with its share")
    asked = parser.parse_args()
    names, shares = asked.parts[::2], [float(share) for share in asked.parts[1::2]]
    if len(names) != len(shares):
        parser.error("every model needs a share")
    save_model(mixed([saved_named(name) for name in names], shares), asked.output)


if __name__ == "__main__":
    main()
