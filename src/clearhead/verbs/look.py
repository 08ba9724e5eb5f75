"""``clearhead.look``: inside a model while it answers one text."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.recipe import weights_of
from clearhead.verbs.naming import Changes, model_named, saved_named

if TYPE_CHECKING:
    from clearhead.inspection import View
    from clearhead.models import Model
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run


def look(
    model: "str | Path | Run | Predictor | Model",
    text: str | Sequence[int],
    target: str | Sequence[int] | None = None,
    *,
    without: Sequence[str] = (),
    n_best: int = 5,
    device: str | None = None,
    settings: Changes = None,
) -> "View":
    """Answer one text and look inside: attention, where each token comes from, what each head did.

    view = clearhead.look("runs/demo", "lovely")
    view.parts(at=3)

    Args:
        model: A model, a run, or the name of one.
        text: The text to answer. A list of token ids looks into a model without a tokenizer.
        target: An answer to look at instead of the model's own; ids, if the text is given by ids.
        without: Names of heads to switch off, as ``["cross.2.5"]``.
        n_best: How many answers to list, if the beam is wide enough.
        device: Where the model computes, as for ``clearhead.load``; without it a loaded model stays where it is.
        settings: Settings of ``[decoding]``.
    """
    if not isinstance(text, str):
        if isinstance(target, str):
            raise TypeError("text is a list of ids, so target must be one too")
        from clearhead.predictor import look_at_ids

        bare = _bare(model, device)
        return look_at_ids(bare, text, target or (), without=without).named(_name(model, bare))
    if target is not None and not isinstance(target, str):
        raise TypeError("text is a str, so target must be one too")
    predictor = model_named(model, settings, device=device)  # type: ignore[arg-type]
    view = predictor.look(text, target=target, without=without, n_best=n_best)
    return view.named(_name(model, predictor.model))


def _name(model: Any, bare: "Model") -> str:
    """The name by which people know a model."""
    folder = getattr(model, "folder", model)
    return str(folder) if isinstance(folder, str | Path) else type(bare).__name__


def _bare(model: Any, device: str | None) -> "Model":
    """The model alone, without tokenizers."""
    if isinstance(model, str | Path):
        weights_of(model)
        from clearhead.models import pick_device

        there = pick_device(device or "auto")
        return saved_named(model).model.to(there)
    from clearhead.models import Model

    return model if isinstance(model, Model) else model_named(model, device=device).model
