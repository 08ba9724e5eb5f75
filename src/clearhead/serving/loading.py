"""Loads a model in a worker, and says what the front has to know of it. Needs torch: the front never imports this."""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.data import format_of
from clearhead.errors import ClearheadError, ModelFileError
from clearhead.events import ignore
from clearhead.models import SavedModel, add_tensors, count_parameters, load_model, stored_tensors
from clearhead.predictor import Filler, Labeller, Predictor, TextWriter, ready
from clearhead.recipe import read_header, recipe_table

_DESCRIPTORS = Path("/proc/self/fd")
"""Where the system has it, an open file is a path of its own, whatever happens to its name."""


@dataclass(frozen=True)
class Loaded:
    """A model and the checksum of what was loaded."""

    predictor: Predictor
    fingerprint: str


def loaded(path: Path, shown: str, *, foreign: bool) -> Loaded:
    """Load a model file, or a Hugging Face folder; nothing depends on the files afterwards. Messages name ``shown``.

    A file is opened once, so that model and fingerprint are of one file even if another one takes its name meanwhile.
    """
    if foreign:
        from clearhead.interop import load_huggingface  # most models are our own

        predictor = ready(load_huggingface(path), path)
        return Loaded(predictor, _fingerprint(predictor))
    try:
        stream = path.open("rb")
    except OSError as error:
        raise ModelFileError(f"{shown}: cannot be read: {error.strerror}") from None
    with stream:
        held = _DESCRIPTORS / str(stream.fileno()) if _DESCRIPTORS.is_dir() else path
        try:
            predictor = ready(load_model(held), held)
            return Loaded(predictor, read_header(held).metadata["fingerprint"])
        except ClearheadError as error:
            raise ModelFileError(str(error).replace(str(held), shown)) from None


def on_engine_of(found: Loaded, shown: str, engine: str, *, int8: bool) -> Loaded:
    """The same, answering with an engine: the conversion is beside the model, made by the first worker that needs it.

    A model that writes no text, such as a classifier among others, stays native.
    """
    predictor = found.predictor
    if engine == "native" or not isinstance(predictor, TextWriter):
        return found
    from clearhead.interop.engines import on_engine  # most servers are native

    saved = SavedModel(predictor.model, predictor.recipe, predictor.tokenizers)
    return replace(found, predictor=on_engine(predictor, saved, engine, ignore, int8=int8, beside=Path(shown)))


def _fingerprint(predictor: Predictor) -> str:
    """The checksum of a model that has no file of ours."""
    digest = hashlib.sha256(json.dumps([recipe_table(predictor.recipe), predictor.tokenizers], sort_keys=True).encode())
    add_tensors(digest, stored_tensors(predictor.model))
    return digest.hexdigest()


def described(found: Loaded) -> dict[str, Any]:
    """What the front keeps of a model: see ``ModelFacts``; and the recipe, by which settings are judged."""
    predictor = found.predictor
    spec, recipe = predictor.model.spec, predictor.recipe
    reads = "picture" if spec.learns == "pictures" else "text"
    sides = {side: getattr(predictor, side).kind for side in spec.sides} if reads == "text" else {}
    return {
        "recipe": recipe_table(recipe),
        "facts": {
            "family": spec.family,
            "fingerprint": found.fingerprint,
            "parameters": count_parameters(predictor.model),
            "reads": reads,
            "columns": [] if isinstance(predictor, Filler) else list(format_of(spec).columns),
            "sides": sides,
            "labels": list(predictor.labels) if isinstance(predictor, Labeller) else [],
            "mask": predictor.source.mask_name if isinstance(predictor, Filler) else None,
            "picture": _picture(spec),
            "streams": isinstance(predictor, TextWriter),
            "beam_size": recipe.decoding.beam_size,
            "decoding": recipe.decoding.model_dump(mode="json"),
        },
    }


def _picture(spec: Any) -> list[int] | None:
    """Height, width and channels of the pictures that a model reads."""
    patches = spec.patches if spec.learns == "pictures" else None
    return None if patches is None else [patches.height, patches.width, patches.channels]
