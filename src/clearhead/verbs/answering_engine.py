"""Which library answers: a loaded model, on another engine."""

from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.events import Listener, ignore
from clearhead.recipe import weights_of
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run


def with_engine(
    predictor: "Predictor",
    model: "str | Path | Run | Predictor",
    engine: str,
    *,
    int8: bool = False,
    listener: Listener = ignore,
) -> "Predictor":
    """A loaded model, which answers with this engine; the conversion is kept beside what it was loaded from.

    Args:
        predictor: The model.
        model: What it was loaded from.
        engine: ``native``, ``ctranslate2`` or ``onnxruntime``.
        int8: For ``ctranslate2``: weights in eight bits.
        listener: Is told about a conversion.
    """
    predictor.require_alone("for another engine")
    import torch

    from clearhead.interop.engines import on_engine
    from clearhead.models import SavedModel

    folder = getattr(model, "folder", model)
    beside = weights_of(folder)[0] if isinstance(folder, str | Path) else None
    saved = SavedModel(predictor.model, predictor.recipe, predictor.tokenizers)
    with undisturbed():
        torch.set_num_threads(1)  # workers may be forked from this process, and threads do not survive that
        return on_engine(predictor, saved, engine, listener, int8=int8, beside=beside)
