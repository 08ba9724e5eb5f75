"""``clearhead.evaluate`` and ``clearhead.score``: how good a model is, and how probable given answers are."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clearhead.errors import DataError, Problem, RecipeError
from clearhead.events import Event, Listener
from clearhead.recipe import DataSpec, Recipe, read_recipe, require_data, weights_of
from clearhead.verbs.inputs import Data, Where, temporary_files
from clearhead.verbs.naming import Changes, model_named, split
from clearhead.verbs.reporting import listener_of
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.evaluation import Found, Names, Scores
    from clearhead.predictor import ForcedLine, Predictor
    from clearhead.verbs.run import Run

_READING = ("data.bad_lines", "data.columns")
"""Settings of ``[data]`` that say how a file is read to be scored; everything else of it is the model's own."""
_WINDOW = 4096
"""Examples whose likelihood is computed at a time."""


def evaluate(
    model: "str | Path | Run | Predictor",
    data: Data | None = None,
    *,
    split: Literal["dev", "test"] | None = None,
    columns: Sequence[str] | None = None,
    metrics: "Names" = "all",
    engine: str | None = None,
    int8: bool = False,
    device: str | None = None,
    report: Listener | bool | None = None,
    settings: Changes = None,
) -> "Scores":
    """Score a model's answers, with 95 % intervals.

        scores = clearhead.evaluate("runs/mine", "test.tsv")
        scores["line_error"].value, scores["line_error"].low, scores["line_error"].high

    Args:
        model: A model, a run, or the name of one: a model file, a run folder, a Hugging Face folder.
        data: Examples such as the model was trained on: a file, two parallel files as a tuple, or examples in memory.
        split: Instead of ``data``: the ``dev`` or ``test`` data of a run.
        columns: Which columns are meant, for tables, dicts and files that have several.
        metrics: The metrics to measure: ``all`` that apply, the ``main`` ones, which matter most for the data, or a
            list of names.
        engine: What answers: ``native``, ``ctranslate2`` or ``onnxruntime``; log p is always the native one.
            ``compare_engines`` also says how many answers are the same.
        int8: For ``ctranslate2``: weights in eight bits.
        device: Where the model computes, as for ``clearhead.load``; without it a loaded model stays where it is.
        report: Called with an ``Event`` for each warning; True prints them to standard error.
        settings: Settings of ``[decoding]``, and ``data.bad_lines``.
    """
    listener = listener_of(report)
    if (data is None) == (split is None):
        raise DataError("name what to score on: data, or for a run its split, dev or test")
    reading, others = _reading(settings, columns)
    with temporary_files({"data": data}, columns=columns) as files:
        where = files["data"]
        folder = _run_folder(model, split) if split is not None else None
        _require_names(model, where)
        predictor = model_named(model, others, engine=engine, int8=int8, device=device, listener=listener)

        from clearhead.evaluation import evaluate as scores_of
        from clearhead.models import use_cores

        with undisturbed():
            use_cores()
            if where is None:
                assert folder is not None
                examples, left_out = examples_of_run(predictor, folder, split or "test", reading), 0
                _warn_of_unknown(predictor, examples, f"{folder}, {split}", listener)
            else:
                found = _examples(predictor, where, reading, listener)
                examples, left_out = found.examples, len(found.skipped)
            scores = scores_of(predictor, examples, names=metrics)
            return replace(scores, counts=scores.counts | {"left_out": left_out}) if left_out else scores


@dataclass(frozen=True)
class ScoredExample:
    """An example, and how probable the model finds it."""

    columns: Mapping[str, str]
    """The columns of the example by name: source and target, text, or label and text."""
    log_probability: float
    """log p of all that the model has to say: of the target given the source, of the text, of the label."""
    tokens: Sequence[float]
    """log p of each token, the end among them."""


def score(
    model: "str | Path | Run | Predictor",
    data: Data,
    *,
    columns: Sequence[str] | None = None,
    device: str | None = None,
    report: Listener | bool | None = None,
    settings: Changes = None,
) -> Iterator[ScoredExample]:
    """How probable each example is, in order, computed as they are asked for.

    Args: as for ``evaluate``.
    """
    listener = listener_of(report)
    reading, others = _reading(settings, columns)
    with temporary_files({"data": data}, columns=columns) as files:
        where = files["data"]
        if where is None:
            raise DataError("name what to score: a file, two parallel files, or examples")
        _require_names(model, where)
        predictor = model_named(model, others, device=device)

        from clearhead.data import format_of
        from clearhead.models import use_cores

        names = format_of(predictor.model.spec).columns
        examples = _examples(predictor, where, reading, listener).examples
        for start in range(0, len(examples), _WINDOW):
            part = examples[start : start + _WINDOW]
            with undisturbed():
                use_cores()
                lines = predictor.forced(part)
            for example, line in zip(part, lines, strict=True):
                _warn_of_cut(example, line, where, listener)
                found = {name: getattr(example, name) for name in names}
                yield ScoredExample(found, line.log_probability, line.log_probabilities)


def read_for(
    model: "str | Path | Run | Predictor",
    where: Where,
    columns: Sequence[str] | None,
    settings: Changes,
    listener: Listener,
    *,
    device: str | None = None,
) -> "tuple[Predictor, Found]":
    """A model, and the examples of a file such as it was trained on."""
    reading, others = _reading(settings, columns)
    _require_names(model, where)
    predictor = model_named(model, others, device=device)
    return predictor, _examples(predictor, where, reading, listener)


def _reading(changes: Changes, columns: Sequence[str] | None) -> tuple[DataSpec, Changes]:
    """How data are read, and the other settings, which the model judges; no more of ``[data]`` can be set."""
    table, words = split(changes)
    names = [*table, *(_name(word) for word in words)]
    for name in names:
        if name.startswith("data.") and name not in _READING:
            problem = f"of the data only {' and '.join(_READING)} can be set for a trained model"
            raise RecipeError([Problem("", name, problem)])
    reading = {name: value for name, value in table.items() if name in _READING}
    reading |= {} if columns is None else {"data.columns": list(columns)}
    spec = read_recipe(None, *(word for word in words if _name(word) in _READING), settings=reading).data
    others = {name: value for name, value in table.items() if name not in _READING}
    return spec, others or [word for word in words if _name(word) not in _READING]


def _name(word: str) -> str:
    return word.partition("=")[0].strip()


def _require_names(model: "str | Path | Run | Predictor", where: Where | None) -> None:
    """Refuse a model that has no weights, and data that are none, before anything is loaded."""
    if isinstance(model, str | Path):
        weights_of(model)
    for name in where if isinstance(where, tuple) else [] if where is None else [where]:
        require_data(name)


def _examples(predictor: "Predictor", where: Where, spec: DataSpec, listener: Listener) -> "Found":
    """The examples; what was decided about the file, and what the model cannot read, are reported."""
    from clearhead.data import shown
    from clearhead.evaluation import read_examples

    names = [str(name) for name in where] if isinstance(where, tuple) else str(where)
    found = read_examples(predictor, names, bad_lines=spec.bad_lines, columns=spec.columns)
    for note in [*found.notes, *([str(found.skipped)] if found.skipped else [])]:
        listener(Event("note", note))
    _warn_of_unknown(predictor, found.examples, shown(names), listener)
    return found


def _warn_of_unknown(predictor: "Predictor", examples: Sequence[Any], where: str, listener: Listener) -> None:
    """Name examples with text that the model reads as <unk>."""
    from clearhead.predictor import unknown_words

    for side, codec, rows in predictor.unfamiliar(examples):
        for example, unknown in zip(examples, rows, strict=True):
            if unknown:
                text = f"{where}, line {example.line}: {unknown_words(codec, unknown, side=side)}"
                listener(Event("warning", text, category="unknown"))


def _warn_of_cut(example: Any, line: "ForcedLine", where: Where, listener: Listener) -> None:
    if line.cut:
        from clearhead.data import shown

        name = shown([str(name) for name in where] if isinstance(where, tuple) else str(where))
        words = "is longer than decoding.max_source allows; only its beginning was read"
        listener(Event("warning", f"{name}, line {example.line}: {words}", category="cut"))


def _run_folder(model: "str | Path | Run | Predictor", split: str) -> Path:
    """The run whose own data are meant."""
    folder = getattr(model, "folder", model)
    if not isinstance(folder, str | Path) or not Path(folder).is_dir():
        raise RecipeError([Problem("", f"split {split}", f"{model} is no run folder")])
    return Path(folder)


def examples_of_run(predictor: "Predictor", run: Path, split: str, reading: DataSpec | None = None) -> list[Any]:
    """The dev or test examples of a run folder."""
    from clearhead.data import format_of, read_corpus
    from clearhead.training import objective_of

    reading = reading or DataSpec()
    if reading.columns is not None:
        raise RecipeError([Problem("", "columns", f"the {split} data of a run are read as the run read them")])
    recipe: Recipe = read_recipe(run, f"data.bad_lines={reading.bad_lines}")
    if recipe.model != predictor.model.spec:
        raise DataError(f"{run}: its best model was built from another recipe: put this run's own back, or name a file")
    corpus = objective_of(recipe).admitted(read_corpus(recipe.data, format_of(recipe.model)))
    examples = corpus.dev if split == "dev" else corpus.test
    if examples:
        return examples
    raise DataError(f"{run}: the run has no {split} {corpus.format.name}")
