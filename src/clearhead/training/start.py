"""The trained model that a run starts from: its weights wherever they fit, new ones where the data ask for more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.data import codecs_of
from clearhead.errors import ClearheadError
from clearhead.models import Model, SavedModel, build, stored_tensors
from clearhead.recipe import Recipe, StackSpec
from clearhead.training.known import KnownVocabulary

FILE = "start.safetensors"
"""In ``data/`` of a run: the model at step 0, so that nothing but the run folder is needed to resume it."""
_TABLES = ("tokens.weight", "output.weight", "output.bias")
"""Weights with a row for every token."""


@dataclass(frozen=True)
class Start:
    """A trained model, and what it is called.

    Args:
        saved: the model with its recipe and tokenizers.
        name: a run, a model file or a folder, as the user named it.
        fingerprint: of its recipe, tokenizers and weights.
    """

    saved: SavedModel
    name: str
    fingerprint: str

    def known(self) -> KnownVocabulary:
        """Its tokenizers and labels."""
        codecs = codecs_of(self.saved.tokenizers) if self.saved.tokenizers else ()
        return KnownVocabulary(codecs, self.saved.recipe.model, self.name)

    @property
    def origin(self) -> dict[str, str]:
        """What a model that was tuned from it says of where it comes from."""
        return {"name": self.name, "fingerprint": self.fingerprint}


def begun(start: SavedModel, recipe: Recipe) -> tuple[Model, list[str]]:
    """A model of this recipe with the weights of another, and the parts that are new in it.

    Stacks must fit. Tables of tokens may have more rows, which are drawn like those of any new model, as are heads that
    the start does not have. The rows of a classifier's head follow its labels.
    """
    model = build(recipe, seed=recipe.training.seed)
    old = _by_every_name(start.model)
    labels = [getattr(spec, "labels", []) for spec in (start.recipe.model, recipe.model)]
    stacks = [name for name in type(recipe.model).model_fields if isinstance(getattr(recipe.model, name), StackSpec)]
    new: dict[str, None] = {}
    with torch.no_grad():
        for name, tensor in stored_tensors(model).items():
            given, part = old.get(name), name.partition(".")[0]
            if part == "head" and given is not None:
                if _copy_rows(tensor, given, *labels) < len(tensor):
                    new["head"] = None
            elif given is not None and given.shape == tensor.shape:
                tensor.copy_(given)
            elif given is not None and name.endswith(_TABLES) and given.shape[1:] == tensor.shape[1:]:
                tensor[: len(given)] = given
                new[name.rpartition(".")[0]] = None
            elif part == "joint":
                continue  # counted anew, from other pairs
            elif given is None and part not in stacks:
                new[part] = None
            else:
                has = "nothing" if given is None else tuple(given.shape)
                raise ClearheadError(f"{name}: has shape {tuple(tensor.shape)}, and the start has {has} there")
    return model, list(new)


def _copy_rows(into: Tensor, given: Tensor, had: Sequence[str], labels: Sequence[str]) -> int:
    """Copy the rows of the labels that both know; how many these are. Without names, classes are the same by number."""
    if given.shape[1:] != into.shape[1:]:
        return 0
    if not had and not labels and given.shape == into.shape:
        into.copy_(given)
        return len(into)
    places = [(number, had.index(label)) for number, label in enumerate(labels) if label in had]
    for number, place in places:
        into[number] = given[place]
    return len(places)


def _by_every_name(model: nn.Module) -> dict[str, Any]:
    """Tensors by name; those that are tied by each of their names."""
    return dict(model.named_parameters(remove_duplicate=False)) | stored_tensors(model)
