"""Engines of other libraries, which answer with a conversion of a model: CTranslate2 and onnxruntime."""

import json
from importlib import import_module
from pathlib import Path
from typing import Literal, get_args

from clearhead.errors import MissingExtra, Problem, RecipeError, UnsupportedModel, did_you_mean
from clearhead.events import Event, Listener
from clearhead.interop.engines.foreign import ForeignEngine
from clearhead.interop.engines.kept import Kept, cache_folder
from clearhead.interop.exporting.result import Target
from clearhead.interop.exporting.sample import Sample
from clearhead.models import SavedModel, fingerprint_of
from clearhead.predictor import Engine, Predictor, TextWriter

EngineName = Literal["native", "ctranslate2", "onnxruntime"]
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
_TARGETS: dict[str, Target] = {"ctranslate2": "ctranslate2", "onnxruntime": "onnx"}
_LEFT_OUT = "left_out.json"
_PACKAGES = {"ctranslate2": ("ctranslate2",), "onnxruntime": ("onnxruntime",)}

__all__ = [
    "ENGINES",
    "EngineName",
    "ForeignEngine",
    "Kept",
    "cache_folder",
    "kept_folder",
    "on_engine",
    "require_engine",
]


def require_engine(engine: str, *, int8: bool = False) -> None:
    """Refuse an engine that there is not, and one whose package is not installed, before anything takes time."""
    if engine not in ENGINES:
        problem = f"{engine} is no engine{did_you_mean(engine, ENGINES)} (there are: {', '.join(ENGINES)})"
        raise RecipeError([Problem("", "engine", problem)])
    if int8 and engine != "ctranslate2":
        raise RecipeError([Problem("", "int8", "only the engine ctranslate2 computes with weights in eight bits")])
    for package in _PACKAGES.get(engine, ()):
        try:
            import_module(package)
        except ImportError:
            raise MissingExtra(f"the engine {engine}", package, "export") from None


def on_engine(
    predictor: Predictor,
    saved: SavedModel,
    engine: str,
    report: Listener,
    *,
    int8: bool = False,
    beside: Path | None = None,
) -> Predictor:
    """The same model, which answers with an engine; it is converted if there is no conversion yet.

    Args:
        predictor: the model, ready to answer.
        saved: the model with its recipe and its tokenizers.
        engine: the engine.
        report: is told about a conversion.
        int8: for CTranslate2, weights in eight bits.
        beside: the file or folder that the model was loaded from. Default: none.
    """
    require_engine(engine, int8=int8)
    if not isinstance(predictor, TextWriter):
        if engine == "native":
            return predictor
        raise UnsupportedModel(f"{engine} writes text, and a model of family {saved.recipe.model.family} writes none")
    if engine == "native":
        return predictor.on_engine(Engine(predictor.model))
    folder = kept_folder(saved, engine, report, int8=int8, beside=beside)
    if engine == "ctranslate2":
        from clearhead.interop.engines.ctranslate2 import CTranslate2Search
        from clearhead.interop.exporting.ctranslate2 import vocabularies

        kind = "int8" if int8 else "float32"
        left_out = json.loads((folder / _LEFT_OUT).read_text(encoding="utf-8"))
        return predictor.on_engine(CTranslate2Search(predictor.model, folder, kind, vocabularies(saved), left_out))
    from clearhead.interop.engines.onnxruntime import OnnxRuntimeEngine

    return predictor.on_engine(OnnxRuntimeEngine(predictor.model, folder))


def kept_folder(
    saved: SavedModel, engine: str, report: Listener, *, int8: bool = False, beside: Path | None = None
) -> Path:
    """The conversion of a model for an engine, made if there is none yet; the arguments of ``on_engine``."""
    kept = Kept(f"{engine}-int8" if int8 else engine, fingerprint_of(saved), beside)
    return kept.find() or _convert(saved, engine, kept, report, int8=int8)


def _left_out(sample: Sample) -> float:
    """The largest probability of all tokens together that are never written, in answers to the sample."""
    found = 0.0
    for batch in sample.batches:
        probabilities = sample.logits(batch).softmax(-1)[..., sample.banned].sum(-1)
        found = max(found, float(probabilities[batch.counts].max()))
    return found


def _convert(saved: SavedModel, engine: str, kept: Kept, report: Listener, *, int8: bool) -> Path:
    from clearhead.interop.exporting import make_sample
    from clearhead.interop.targets import export_to, require_packages

    target = _TARGETS[engine]
    require_packages(target)  # to convert may take more than to run
    report(Event("note", f"converting the model for {engine}, once: {kept.folder()}"))

    def write(building: Path, path: Path) -> None:
        sample = make_sample(saved)
        exported = export_to(target, sample, building, path, int8=int8)
        if engine == "ctranslate2":
            (building / _LEFT_OUT).write_text(json.dumps(_left_out(sample)), encoding="utf-8")
        eight = f"; in eight bits: {exported.int8}" if exported.int8 is not None else ""
        report(Event("note", f"converted for {engine} and compared: {exported.agreement}{eight}"))

    try:
        return kept.make(write)
    except UnsupportedModel as error:
        raise UnsupportedModel(f"--engine {engine}: {error}; --engine native can") from None
