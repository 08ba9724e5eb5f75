"""What of a model is trained: everything, everything but frozen parts, or adapters and what is new."""

from collections.abc import Iterator

from torch import nn

from clearhead.blocks import Recurrence
from clearhead.errors import Problem, RecipeError
from clearhead.models import Model, outline
from clearhead.recipe import (
    AdaptersSpec,
    Address,
    Recipe,
    TrainingSpec,
    address_of,
    means_any,
    require_parts,
)
from clearhead.training.adapters import AdaptedLinear


def tuned(model: Model, spec: TrainingSpec) -> Model:
    """The model with frozen parts that have no gradient, and with adapters in place; the model itself is changed.

    The adapters' matrices are drawn from torch's random state.
    """
    _require_names(model, spec)
    if spec.adapters is not None:
        _adapt(model, spec.adapters, spec.freeze or [])
    trained = trained_names(model, spec)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in trained)
    return model


def trained_names(model: nn.Module, spec: TrainingSpec) -> set[str]:
    """The names of the parameters that are trained; one that is tied counts as frozen if any of its names is."""
    frozen, found = spec.freeze or [], set()
    for names in _names_of(model):
        addresses = [address_of(name) for name in names]
        adapter = any({"lora_A", "lora_B"} & set(address) for address in addresses)
        whole = spec.adapters is None or any(means_any(spec.adapters.also, address) for address in addresses)
        if adapter or (whole and not any(means_any(frozen, address) for address in addresses)):
            found.add(names[0])
    if not found:
        raise RecipeError([Problem("", "training.freeze", "nothing is left to train")])
    return found


def require_tunable(recipe: Recipe, *, started: bool) -> None:
    """Refuse names of parts that the model does not have, and adapters where there is nothing that they adapt."""
    if recipe.training.adapters is not None and not started:
        reason = "adapters change a trained model: name one with --from (in Python: start=)"
        raise RecipeError([Problem("", "training.adapters", reason)])
    if recipe.training.freeze or recipe.training.adapters is not None:
        _require_names(outline(recipe.model), recipe.training)


def _require_names(model: nn.Module, spec: TrainingSpec) -> None:
    """Refuse names that mean nothing in this model."""
    weights = [address_of(name) for name in _names(model)]
    require_parts("training.freeze", spec.freeze or [], weights, "part")
    if spec.adapters is not None:
        maps = [address for address, *_ in _linear_maps(model)]
        require_parts("training.adapters.targets", spec.adapters.targets, maps, "linear map of a layer")
        require_parts("training.adapters.also", spec.adapters.also, weights, "part")
        if len({id(getattr(parent, name).weight) for _, parent, name in _linear_maps(model)}) < len(maps):
            reason = "the layers of the model share their weights, which adapters beside each would tell apart"
            raise RecipeError([Problem("", "training.adapters", reason)])
    else:
        trained_names(model, spec)


def with_new_parts(recipe: Recipe, new: list[str]) -> Recipe:
    """The recipe in which parts that the start does not have are trained beside the adapters, if there are some."""
    adapters = recipe.training.adapters
    if adapters is None or not new:
        return recipe
    also = list(dict.fromkeys([*adapters.also, *new]))
    return recipe.updated(training=recipe.training.replaced(adapters=adapters.replaced(also=also)))


def frozen_though_new(spec: TrainingSpec, new: list[str]) -> list[str]:
    """A warning for each part that the start does not have and that is frozen nevertheless."""
    frozen = [part for part in new if means_any(spec.freeze or [], address_of(part))]
    return [f"warning: {part} is new, wholly or in part, and training.freeze keeps it at random" for part in frozen]


def _adapt(model: nn.Module, spec: AdaptersSpec, frozen: list[str]) -> None:
    """Put an adapter beside every linear map that is a target and in no frozen part."""
    for address, parent, name in list(_linear_maps(model)):
        if means_any(spec.targets, address) and not means_any(frozen, address):
            old = getattr(parent, name)
            setattr(parent, name, AdaptedLinear(old, rank=spec.rank, alpha=spec.alpha, dropout=spec.dropout))


def _linear_maps(model: nn.Module) -> Iterator[tuple[Address, nn.Module, str]]:
    """The linear maps inside of layers: their addresses, the modules that own them, and their names there.

    Recurrent nets are left out: they use the weights of several maps at once, and not the maps.
    """
    for path, parent in model.named_modules():
        for name, child in parent._modules.items():
            address = address_of(f"{path}.{name}")
            in_a_layer = any(word.isdigit() for word in address)
            if type(child) is nn.Linear and in_a_layer and not isinstance(parent, Recurrence):
                yield address, parent, name


def _names(model: nn.Module) -> list[str]:
    return [name for name, _ in model.named_parameters(remove_duplicate=False)]


def _names_of(model: nn.Module) -> list[list[str]]:
    """All names of every parameter, of which those that are tied have several; the first is the one it is stored by."""
    found: dict[int, list[str]] = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        found.setdefault(id(parameter), []).append(name)
    return list(found.values())
