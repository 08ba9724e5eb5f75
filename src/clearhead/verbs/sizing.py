"""A model of pairs that nobody described: rotary positions, gated nets, and sizes that suit the budget.

An hour is spent best on a small model, which sees the data often; more hours on a larger one. Chosen on dev data:
``python -m benchmarks.learning``, docs/evidence/quality.md. Nothing here imports torch.
"""

from dataclasses import dataclass

from clearhead.machine import cores, processes
from clearhead.recipe import (
    DEFAULT_MINUTES,
    GatedSpec,
    Recipe,
    RotarySpec,
    Seq2SeqSpec,
    Settings,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
)

_NOT_SHAPE = {"family", "vocabulary", "embedding", "init", "joint"}
"""Tables of ``[model]`` that say nothing about its layers, but for dropout."""


@dataclass(frozen=True)
class Size:
    """A model of pairs for a budget.

    Args:
        until: the budget up to which it is chosen, in minutes times cores.
        width: of all layers.
        hidden: of the gated nets; with about 8/3 of the width they are as large as usual ones with 4 times the width.
        layers: of the encoder, and of the decoder.
    """

    until: float
    width: int
    hidden: int
    layers: int


SIZES = (Size(300.0, 192, 512, 3), Size(float("inf"), 256, 672, 4))


def sized_by_budget(recipe: Recipe, stated: Settings) -> tuple[Recipe, str]:
    """The recipe with rotary positions, gated nets and the sizes for its budget, and a line that says so.

    It stays as it is if the model is not one of pairs, or if anything was stated about its layers. A budget in steps or
    epochs, whose time is not known, gets the smallest sizes.
    """
    training, model = recipe.training, recipe.model
    if not isinstance(model, Seq2SeqSpec):
        return recipe, ""
    if not isinstance(model.encoder, TransformerEncoderSpec) or not isinstance(
        model.decoder, TransformerDecoderSpec
    ):  # recurrent
        return recipe, ""
    if any(key[0] == "model" and key[1] not in _NOT_SHAPE and "dropout" not in key for key in stated):
        return recipe, ""
    size, budget = SIZES[0], ""
    if training.steps is None and training.epochs is None:
        minutes, here = training.minutes or DEFAULT_MINUTES, processes() * (training.threads or cores())
        size = next(size for size in SIZES if minutes * here <= size.until)
        budget = f", for {minutes:g} minutes on {here} core{'s' * (here > 1)}"
    encoder, decoder = (
        stack.replaced(
            width=size.width,
            layers=size.layers,
            position=RotarySpec(),
            feedforward=GatedSpec(width=size.hidden, activation="relu"),
        )
        for stack in (model.encoder, model.decoder)
    )
    found = recipe.updated(model=model.replaced(encoder=encoder, decoder=decoder))
    return found, (
        f"{size.layers}+{size.layers} layers of width {size.width}, gated nets, rotary positions (for symbols and "
        f"characters across too, and n-grams){budget}; model.width, model.layers … choose otherwise"
    )
