"""Sizes that depend on the budget: minutes are spent best on a small, fast model, hours on a larger one.

They were chosen on dev data: ``python -m benchmarks.learning``, docs/evidence/quality.md. Nothing here imports torch.
"""

from dataclasses import dataclass

from clearhead.machine import cores, processes
from clearhead.recipe import (
    DEFAULT_MINUTES,
    Recipe,
    RotarySpec,
    Seq2SeqSpec,
    Settings,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
)

_NOT_SHAPE = {"family", "vocabulary", "embedding", "init"}
"""Tables of ``[model]`` that say nothing about its layers, but for dropout."""


@dataclass(frozen=True)
class Size:
    """A model of pairs for a budget.

    Args:
        until: the budget up to which it is chosen, in minutes times cores.
        width: of all layers.
        encoder: layers of the encoder.
        decoder: layers of the decoder: it takes most of the time of an answer, and learns with fewer.
    """

    until: float
    width: int
    encoder: int
    decoder: int


SIZES = (Size(300.0, 128, 4, 2), Size(float("inf"), 256, 4, 2))


def sized_by_budget(recipe: Recipe, stated: Settings) -> tuple[Recipe, str]:
    """The recipe with the sizes for its budget in minutes, and a line that says so; as it is where others decide.

    Others decide if the budget is not one in minutes, if the model is not one of pairs, or if anything was stated about
    its layers.
    """
    training, model = recipe.training, recipe.model
    if training.steps is not None or training.epochs is not None or not isinstance(model, Seq2SeqSpec):
        return recipe, ""
    if not isinstance(model.encoder, TransformerEncoderSpec) or not isinstance(
        model.decoder, TransformerDecoderSpec
    ):  # recurrent
        return recipe, ""
    if any(key[0] == "model" and key[1] not in _NOT_SHAPE and "dropout" not in key for key in stated):
        return recipe, ""
    minutes, here = training.minutes or DEFAULT_MINUTES, processes() * (training.threads or cores())
    size = next(size for size in SIZES if minutes * here <= size.until)
    encoder, decoder = (
        stack.replaced(width=size.width, layers=layers, position=RotarySpec())
        for stack, layers in ((model.encoder, size.encoder), (model.decoder, size.decoder))
    )
    found = recipe.updated(model=model.replaced(encoder=encoder, decoder=decoder))
    many = f"{here} core" + "s" * (here > 1)
    return found, (
        f"{size.encoder}+{size.decoder} layers of width {size.width} with rotary positions, for {minutes:g} minutes on "
        f"{many}; model.width, model.layers … choose otherwise"
    )
