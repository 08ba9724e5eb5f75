"""What is trained: the closed forms count the parameters, gradients, optimizer states and averages that torch has."""

from itertools import chain

import pytest
import torch

from clearhead.costing import cost
from clearhead.errors import RecipeError
from clearhead.models import build, outline
from clearhead.recipe import Recipe, address_of, read_recipe
from clearhead.training import merged, trained_names, tuned
from clearhead.training.optimizer import make_optimizers
from tests.costing.mechanisms import named, wrong_variants

CASES = [
    *("seq2seq: linformer", "seq2seq: disentangled across", "lm: untied, output bias", "lm: position shaw"),
    *("encoder: transformed head over tokens", "encoder: position t5", "classifier: pooler"),
]


def of_torch(recipe: Recipe) -> int:
    """Parameters that are trained in the model itself."""
    model = outline(recipe.model)
    names = trained_names(model, recipe.training)
    return sum(weight.numel() for name, weight in model.named_parameters() if name in names)


@pytest.mark.parametrize("name", CASES)
def test_every_part_can_be_frozen_and_the_formula_knows(name: str) -> None:
    """Each block of the model by its name; with every weight counted at least once, no name is a wrong one."""
    recipe = named(name).recipe("model.layers=2")
    whole = outline(recipe.model)
    addresses = [address_of(weight) for weight, _ in whole.named_parameters(remove_duplicate=False)]
    parts = {word for word in chain(*addresses) if not word.isdigit()} - {"weight", "bias"}
    everything, stored = cost(recipe).trained.at(), [address_of(weight) for weight, _ in whole.named_parameters()]
    for part in sorted(part for part in parts if not all(part in address for address in stored)):
        frozen = recipe.updated(training=recipe.training.replaced(freeze=[part]))
        assert cost(frozen).trained.at() == of_torch(frozen) < everything, part


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize(
    "settings",
    [
        ["training.freeze=encoder"],
        ["training.freeze=encoder.2-3,embedding,decoder.1.cross"],
        ["training.freeze=output"],
        ["training.adapters=lora"],
        [
            *("training.adapters.rank=3", "training.adapters.targets=cross,decoder.1-2.feedforward.up"),
            *("training.adapters.also=embedding,final_norm", "training.freeze=decoder.2"),
        ],
    ],
    ids=lambda settings: settings[0].split(".", 1)[1],
)
def test_gradients_optimizer_and_average_are_exact_to_the_byte(settings: list[str], kind: str) -> None:
    recipe = _recipe(*settings, f"training.optimizer.kind={kind}")
    model, formula = tuned(build(recipe, seed=1), recipe.training), cost(recipe)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    held = _optimizer_bytes(model, recipe)
    assert formula.trained.at() == sum(parameter.numel() for parameter in trained)
    assert formula.gradients.at() == sum(parameter.numel() * parameter.element_size() for parameter in trained)
    assert formula.optimizer.at() == held
    assert formula.average.at() == formula.gradients.at()
    assert formula.parameters.at() + formula.adapters.at() == sum(weight.numel() for weight in model.parameters())
    assert formula.parameters.at() == sum(weight.numel() for weight in merged(model).parameters())
    assert all(int(wrong) != held for wrong in wrong_variants(formula.optimizer.numbers))


def test_frozen_layers_stand_apart_and_whole_stacks_do_not() -> None:
    split = cost(_recipe("training.freeze=encoder.1-2"))
    assert [part.name for part in split["encoder"].parts if part.name.startswith("layers")] == ["layers.0", "layers.2"]
    assert [part.name for part in split["decoder"].parts if part.name.startswith("layers")] == ["layers"]
    assert split.macs.at(n=5, m=4, B=2) == cost(_recipe()).macs.at(n=5, m=4, B=2)


def test_a_name_that_means_nothing_is_refused() -> None:
    with pytest.raises(RecipeError, match="no such part of this model"):
        cost(_recipe("training.freeze=encodr"))


def _recipe(*settings: str) -> Recipe:
    return read_recipe("tiny", "model.layers=3", "model.width=16", "model.heads=2", *settings)


def _optimizer_bytes(model: torch.nn.Module, recipe: Recipe) -> int:
    optimizers = make_optimizers(model, recipe.training.optimizer)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter) if parameter.requires_grad else None
    for optimizer in optimizers:
        optimizer.step()
    states = [state for optimizer in optimizers for state in optimizer.state.values()]
    values = [value for state in states for value in state.values() if isinstance(value, torch.Tensor)]
    return sum(value.numel() * value.element_size() for value in values)
