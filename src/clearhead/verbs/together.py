"""``clearhead.together``: several models that write one answer."""

from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.recipe import weights_of
from clearhead.verbs.naming import model_named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clearhead.predictor import Predictor, TextWriter
    from clearhead.verbs.run import Run


def together(models: "Sequence[str | Path | Run | Predictor]", *, device: str | None = None) -> "TextWriter":
    """Several models as one that answers: at each token the mean of their probabilities decides.

        both = clearhead.together(["runs/one", "runs/two"])
        both("cabbage")
        clearhead.evaluate(both, "test.tsv")

    They must have the same tokens: two runs on the same data with other seeds (``training.seed=2``), say. Settings of
    ``[decoding]`` and joint n-grams are those of the first. An answer, and log p of a given one, costs what it costs
    all of them; looks and vectors are each model's own.

    Args:
        models: Models, runs, or the names of such.
        device: Where they compute, as for ``clearhead.load``; without it loaded models stay where they are.
    """
    for model in models:
        if isinstance(model, str | Path):
            weights_of(model)  # a mistake in a name is reported before anything is loaded

    loaded = [model_named(model, device=device) for model in models]
    from clearhead.predictor import together as one_of_all

    return one_of_all(loaded)
