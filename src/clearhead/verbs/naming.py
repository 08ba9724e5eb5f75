"""Recipes and models by any name that they have: see ``clearhead.recipe.naming`` for the rule.

Modules that need torch are imported when a model is loaded, so that a mistake in a name is reported at once.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import Problem, RecipeError
from clearhead.events import Listener, ignore
from clearhead.recipe import (
    Recipe,
    Settings,
    named,
    read_header,
    read_tuned,
    read_with_origins,
    settings_of_overrides,
    weights_of,
)

if TYPE_CHECKING:
    from clearhead.models import SavedModel
    from clearhead.predictor import Predictor
    from clearhead.training import Start
    from clearhead.verbs.run import Run

Changes = Mapping[str, Any] | Sequence[str] | None
"""Settings: Python objects by name, ``{"model.width": 64}``, or words, ``["model.width=64"]``."""


def stated_recipe(
    source: str | Path | Recipe | None,
    changes: Changes = None,
    *,
    more: Mapping[str, Any] | None = None,
    derived: Sequence[str] = (),
    anew: bool = False,
    start: "Start | None" = None,
) -> tuple[Recipe, Settings]:
    """The recipe that a name stands for, with changes, and every setting that somebody stated.

    Args:
        source: A preset, a TOML file, a model file, a run, a Hugging Face folder, a ``Recipe``; None for the defaults.
        changes: Settings that win over those of the source.
        more: The same, from other arguments of a call.
        derived: Words that only follow from the data: any other setting wins over them, and nobody stated them.
        anew: Leave out what training decided from its data, to train on others.
        start: The trained model that a run starts from, which decides the settings of the model.
    """
    if isinstance(source, str | Path) and named(source) == "huggingface":
        from clearhead.interop import load_huggingface

        source = load_huggingface(source).recipe
    table, words = split(changes)
    followed = {".".join(key): given.value for key, given in settings_of_overrides(derived).items()}
    given = dict(leaves(more or {})) | table
    if start is not None:
        # data with labels make a classifier of anything that reads; in all else the start decides
        labelled = followed.get("model.family") == "classifier" and hasattr(start.saved.recipe.model, "encoder")
        followed = {"model.family": "classifier"} if labelled else {}
        recipe, stated = read_tuned(start.saved.recipe, start.name, source, *words, settings=followed | given)
    else:
        recipe, stated = read_with_origins(source, *words, settings=followed | given, anew=anew)
    return recipe, {
        key: value
        for key, value in stated.items()
        if value.source != "settings" or value.key in given or value.key not in followed
    }


def recipe_named(source: str | Path | Recipe | None, changes: Changes = None) -> Recipe:
    """The recipe alone."""
    return stated_recipe(source, changes)[0]


def load(
    model: str | Path, *overrides: str, engine: str = "native", int8: bool = False, device: str = "auto"
) -> "Predictor":
    """A trained model, ready to answer: a model file, the best model of a run, a Hugging Face folder, or ``"g2p-en"``.

    model = clearhead.load("runs/demo", "decoding.beam_size=8")
    model("cabbage")

    Args:
        model: Its name.
        overrides: How it answers: settings of ``[decoding]``, as words.
        engine: What answers: ``native``, ``ctranslate2`` or ``onnxruntime``; for the last two the model is converted
            on first use, and the conversion is kept beside it.
        int8: For ``ctranslate2``: weights in eight bits.
        device: Where it computes: ``cpu``, ``cuda``, ``cuda:1``, ``mps``; ``auto``, the default, takes a GPU if there
            is one. Other engines than the native one compute on the CPU.
    """
    return model_named(model, list(overrides), engine=engine, int8=int8, device=device)


def model_named(
    model: "str | Path | Run | Predictor",
    changes: Changes = None,
    *,
    engine: str | None = None,
    int8: bool = False,
    device: str | None = None,
    listener: Listener = ignore,
) -> "Predictor":
    """A model file, the best model of a run, or a Hugging Face folder, ready to answer; or one that is loaded already.

    ``changes`` are settings of ``[decoding]``. Without ``engine`` a loaded model keeps the one that it has, and without
    ``device`` it stays where it is; others go to a GPU if there is one. Other engines compute on the CPU.
    """
    if engine not in (None, "native"):
        require_native(device, str(engine))
        device = "cpu"
    as_it_is = not int8 and (engine is None or (engine == "native" and isinstance(model, str | Path)))
    if not as_it_is:
        from clearhead.interop.engines import require_engine

        require_engine(engine or "native", int8=int8)  # before anything takes time
    own = getattr(model, "engine", None)  # of a loaded model; several models together compute natively
    if engine is None and not getattr(own, "beside", ()):
        require_native(device, getattr(own, "described", "native"))
    loaded = _loaded(model, device)
    if not as_it_is:
        from clearhead.verbs.answering_engine import with_engine

        loaded = with_engine(loaded, model, engine or "native", int8=int8, listener=listener)
    table, words = split(changes)
    for name in table:
        if not name.startswith("decoding."):
            raise RecipeError([Problem("settings", name, "of a trained model only decoding.key can be set")])
    settings = {name.removeprefix("decoding."): value for name, value in table.items()}
    return loaded.answering(*words, **settings) if words or settings else loaded


def require_native(device: str | None, engine: str) -> None:
    """Refuse a GPU for an engine of another library."""
    if engine != "native" and device not in (None, "auto", "cpu"):
        words = f"the engine {engine} computes on the CPU here: leave out one of --device {device} and --engine"
        raise RecipeError([Problem("", f"device {device}", words)])


def origin_named(source: str | Path | Recipe | None) -> dict[str, str]:
    """Name and fingerprint of the model that a run or a model file was tuned from; empty for everything else."""
    kind = named(source) if isinstance(source, str | Path) else ""
    if kind == "model":
        return read_header(str(source)).origin()
    if kind != "run":
        return {}
    path = Path(str(source))
    best = (path if path.is_dir() else path.parent) / "best.safetensors"
    return read_header(best).origin() if best.is_file() else {}


def described_origin(origin: Mapping[str, str], name: str) -> list[str]:
    """One line about where a tuned model comes from; nothing of one that was trained from scratch."""
    return [f"{name} was tuned from {origin['name']} ({origin['fingerprint'][:12]})"] if origin else []


def start_named(model: "str | Path | Run | Predictor") -> "Start":
    """A model to start training from, by any name that it has, or as it is loaded."""
    saved = saved_named(model)
    from clearhead.models import fingerprint_of
    from clearhead.training import Start

    if not isinstance(model, str | Path):
        return Start(saved, str(getattr(model, "folder", "a model in memory")), fingerprint_of(saved))
    path, foreign = weights_of(model)
    # a file keeps the fingerprint that it was written with, in whatever precision and by whatever version
    fingerprint = fingerprint_of(saved) if foreign else read_header(path).metadata["fingerprint"]
    return Start(saved, str(model), fingerprint)


def _loaded(model: "str | Path | Run | Predictor", device: str | None = None) -> "Predictor":
    if isinstance(model, str | Path):
        path, _ = weights_of(model)  # a mistake in a name is reported before torch is imported
        from clearhead.models import pick_device
        from clearhead.predictor import ready

        there = pick_device(device or "auto")
        saved = saved_named(model)
        saved.model.to(there)
        return ready(saved, path)
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run

    found = model.model if isinstance(model, Run) else model
    if not isinstance(found, Predictor):
        raise TypeError(f"model must be a model, a run or the name of one, not {type(model).__name__}")
    if device is None:
        return found
    from clearhead.models import pick_device

    return found.on_device(pick_device(device))


def saved_named(model: "str | Path | Run | Predictor") -> "SavedModel":
    """The model with its recipe and its tokenizers, which an imported one may lack: it then reads no text."""
    if not isinstance(model, str | Path):
        from clearhead.models import SavedModel

        loaded = _loaded(model)
        loaded.require_alone("to train from, export or look into")
        return SavedModel(loaded.model, loaded.recipe, loaded.tokenizers)
    path, foreign = weights_of(model)
    if foreign:
        from clearhead.interop import load_huggingface

        return load_huggingface(path)
    from clearhead.models import load_model

    return load_model(path)


def split(changes: Changes) -> tuple[dict[str, Any], list[str]]:
    """Settings by their full names, and settings as words: one of the two is empty."""
    if isinstance(changes, str):
        raise TypeError('settings is a dict, {"model.width": 64}, or a list of words, ["model.width=64"]')
    if isinstance(changes, Mapping):
        return dict(leaves(changes)), []
    return {}, list(changes or [])


def leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every setting of a nested table, by its full name."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
