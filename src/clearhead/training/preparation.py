"""From a recipe to everything that training needs, kept in the run folder so that it is done once.

Everything is made in a folder of its own and moved to its place when it is complete; ``run.json`` with the checksums
comes after it, and ``recipe.toml`` last. What is read back is compared with the checksums; what is damaged is made
again from the data, if they are still the same.
"""

import hashlib
import json
import os
import shutil
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from clearhead.data import (
    GIVEN,
    Corpus,
    Encoded,
    Progress,
    codecs_of,
    corpus_without_training,
    files_of,
    format_of,
    held_out_table,
    read_corpus,
    unwatched,
)
from clearhead.errors import DamagedFile, DataError, NewerFile, Problem, RecipeError
from clearhead.files import write_whole
from clearhead.locks import held
from clearhead.machine import processes
from clearhead.models import Model, SavedModel, count_parameters, load_model, save_model
from clearhead.recipe import DEFAULT_MINUTES, Recipe, read_recipe, recipe_from, recipe_table, recipe_toml
from clearhead.training.calibration import seconds_per_step
from clearhead.training.clock import TimeBudget
from clearhead.training.contradictions import differences
from clearhead.training.joint import JOINT, count_again, count_joint, has_joint
from clearhead.training.manifest import Manifest, Stage, checksum_of, damage, read_manifest, write_manifest
from clearhead.training.objectives import Codecs, Objective, objective_of
from clearhead.training.planning import epoch_plan
from clearhead.training.process_group import SINGLE, ProcessGroup, threads_for_each
from clearhead.training.resolving import (
    wants_agreement,
    with_agreement,
    with_batch,
    with_dropout,
    with_length_penalty,
    with_ngrams,
    with_positions_across,
    with_precision,
    with_rate,
    with_shuffle,
    with_smoothing,
)
from clearhead.training.stamps import Stamps, read_stamps, stamps_of, write_stamps
from clearhead.training.start import FILE, Start, begun
from clearhead.training.tuning import frozen_though_new, require_tunable, with_new_parts

FOR_EVALUATIONS = 0.12
"""Part of a budget in minutes that is reserved for evaluations and checkpoints, until one has been measured."""
CALIBRATION = 0.02
"""Part of a budget in minutes, at most six seconds, in which the speed is measured before the first step."""
FEWEST_EVALUATIONS, MOST_EVALUATIONS = 4, 20
"""Evaluations on dev in a run with a budget in minutes: one in three minutes, within these bounds."""
AGREEING = (
    "the data will be seen often: each batch passes twice, and both predictions are drawn together "
    "(training.agreement; 0: once, and twice as fast)"
)
UNFINISHED = ".preparing"
"""In a run folder: what is not complete yet."""
_TOKENIZERS = "tokenizers.json"
_HELD_OUT = "held_out.json"

_DECIDES = (
    "seed",
    "batch_tokens",
    "accumulate",
    "window",
    "optimizer",
    "schedule",
    "label_smoothing",
    "agreement",
    "clip",
    "average",
    "freeze",
    "adapters",
    "precision",
    "tf32",
    "compile",
    "shuffle",
)
"""Settings of training that every step depends on; those that are not set are not part of a recipe's table."""


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start, or to go on."""

    folder: Path
    recipe: Recipe
    """Resolved: vocabulary sizes and the number of steps are in it."""
    corpus: Corpus[Any]
    codecs: Codecs
    """The tokenizers of source and target."""
    examples: Encoded
    """The training examples."""
    objective: Objective[Any, Any, Any]
    manifest: Manifest
    notes: tuple[str, ...] = ()
    """What was found damaged and put right, to be told."""
    stamps: Stamps | None = None
    """How old and how large its files were before they were found right; None if that is noted already."""

    def note_files(self) -> None:
        """Keep the stamps, so that files that stay as they are need not be read when the run is opened again."""
        if self.stamps is not None and os.access(self.folder / "data", os.W_OK):
            write_stamps(self.folder / "data", self.stamps)

    @property
    def identity(self) -> str:
        """Follows from the data, the model and all that decides what is learnt when; not from how long.

        The recipe is the one that the run wrote: settings that are newer than the run do not make it another.
        """
        table = self.manifest.recipe
        training = {name: value for name, value in table["training"].items() if name in _DECIDES}
        started = [self.manifest.start["fingerprint"]] if self.manifest.start else []
        known = json.dumps([table["model"], training, self.manifest.fingerprint, *started], sort_keys=True)
        return hashlib.sha256(known.encode()).hexdigest()

    @property
    def origin(self) -> Mapping[str, str]:
        """Name and fingerprint of the model that the run started from; empty if it started from scratch."""
        return self.manifest.start or {}

    @property
    def tokenizers(self) -> dict[str, str]:
        """The tokenizers as the model file keeps them."""
        return _tokenizers(self.codecs)


def prepare(
    recipe: Recipe,
    folder: Path,
    group: ProcessGroup = SINGLE,
    *,
    start: Start | None = None,
    free: Collection[str] = (),
    progress: Progress = unwatched,
) -> Prepared:
    """Read, check and encode the data, learn tokenizers, fix the number of steps; if it fails, nothing is left.

    With ``start``, the tokenizers are that model's, and ``data/start.safetensors`` is what training begins with.
    What is ``free`` is left to the data: ``layers``, positions in cross-attention and n-grams; ``joint``, n-grams of
    aligned pairs, which are kept as ``data/joint.safetensors``; ``batch``, its tokens; ``rate``, the learning rate;
    ``agreement``, of two passes; ``length``, the penalty of answers.
    ``progress`` is told how far reading, encoding and aligning are.
    """
    notes: list[str] = []
    with held(folder):
        stamps = stamps_of(_sources(recipe))  # before it is read: what changes meanwhile is read again
        corpus = _read(recipe, folder, progress)
        asked = recipe_table(recipe)
        known = None if start is None else start.known()
        codecs, recipe = objective_of(recipe).learn(corpus, known)
        recipe = with_ngrams(with_positions_across(recipe, codecs), codecs) if "layers" in free else recipe
        recipe = with_length_penalty(recipe, codecs) if "length" in free else recipe
        objective = objective_of(recipe)
        corpus = objective.admitted(corpus)
        with _unfinished(folder) as made:
            _write(corpus, codecs, objective, made)
            examples = objective.open(made)
            if not len(examples):
                raise DataError(f"every training pair is longer than data.max_length ({recipe.data.max_length} tokens)")
            recipe, new = with_smoothing(recipe, objective), list[str]()
            recipe = with_batch(recipe, examples) if "batch" in free else recipe
            recipe = with_rate(recipe, codecs) if "rate" in free else recipe
            if start is None or not has_joint(start.saved.recipe, recipe):  # else they are those of the start
                recipe, notes = count_joint(
                    recipe,
                    codecs,
                    examples,
                    corpus.dev,
                    made,
                    free="joint" in free,
                    progress=progress,
                )
            if start is not None:
                _, new = begun(start.saved, recipe)
                recipe = with_new_parts(recipe, new)
            require_tunable(recipe, started=start is not None)
            planned = with_precision(with_shuffle(recipe, examples))
            recipe = _with_budget(planned, examples, group, made)
            if "agreement" in free and wants_agreement(recipe, examples):  # a step takes longer, so there are fewer
                recipe = _with_budget(with_agreement(planned), examples, group, made)
                notes = [*notes, AGREEING]
            recipe = with_dropout(recipe, examples)
            assert recipe.training.steps is not None
            if start is not None and known is not None:
                model, _ = begun(start.saved, recipe)
                save_model(SavedModel(model, recipe, _tokenizers(codecs), start.origin), made / FILE)
                notes = [_started(start, model, new), *known.notes, *frozen_though_new(recipe.training, new)]
            files = {path.name: checksum_of(path) for path in sorted(made.iterdir())}
            kept = {path.name: checksum_of(path) for path in _only_copies(folder, recipe)}
            steps = recipe.training.steps
            origin = None if start is None else start.origin
            manifest = Manifest(
                asked, recipe_table(recipe), corpus.fingerprint(), files | kept, (Stage(steps, steps),), origin
            )
            del examples  # its files are about to move
            for name in files:
                _move(made / name, folder / "data" / name)
        write_manifest(folder, manifest)
        write_stamps(folder / "data", stamps.joined(stamps_of(_prepared_files(folder, manifest))))
        write_whole(folder / "recipe.toml", recipe_toml(recipe).encode())
        corpus.release()
        objective = objective_of(recipe)
        examples = objective.open(folder / "data")
        return Prepared(folder, recipe, corpus, codecs, examples, objective, manifest, tuple(notes))


def reopen(folder: Path, *, leads: bool = True) -> Prepared:
    """What ``prepare`` left in a run folder, compared with its checksums.

    Prepared data that are damaged are made again. Data that have changed since, and a recipe that was edited, are
    refused. Files that are as large and as old as when they were read are not read again; of several processes only
    the one that ``leads`` looks at the texts at all.
    """
    notes: list[str] = []
    corpus: Corpus[Any] | None = None
    _require_kinds(folder)
    try:
        manifest = read_manifest(folder)
    except NewerFile:
        raise
    except DamagedFile as lost:
        manifest, corpus = _adopted(folder)
        notes.append(f"{lost}; rebuilt from recipe.toml and the data, which fit together")
    recipe = _recipe(folder, manifest, notes)
    stamps = stamps_of([*_sources(recipe), *_prepared_files(folder, manifest)])
    objective = objective_of(recipe)
    if corpus is None and (known := _known(folder, manifest, recipe, leads=leads)) is not None:
        codecs, examples = _read_codecs(folder), objective.open(folder / "data")
        return Prepared(folder, recipe, known, codecs, examples, objective, manifest, tuple(notes), stamps)
    if corpus is None:
        _require_input(folder, manifest, recipe)
        corpus = _read(recipe, folder)
        if corpus.fingerprint() != manifest.fingerprint:
            raise DataError(f"the data have changed since {folder} was started: start a new run, or restore the files")
        corpus = objective.admitted(corpus)
    notes += _restored(folder, manifest, corpus, objective)
    corpus.release()
    codecs, examples = _read_codecs(folder), objective.open(folder / "data")
    return Prepared(folder, recipe, corpus, codecs, examples, objective, manifest, tuple(notes), stamps)


def _known(folder: Path, manifest: Manifest, recipe: Recipe, *, leads: bool) -> Corpus[Any] | None:
    """The corpus without its training examples, if nothing has changed since they were encoded; None if all is read.

    Encoded examples that have changed, or whose stamps are not known, are compared with their checksums.
    """
    data, stamps = folder / "data", read_stamps(folder / "data")
    sources = _sources(recipe)
    if _HELD_OUT not in manifest.files or not sources or damage(data / _HELD_OUT, manifest.files[_HELD_OUT]):
        return None
    table = json.loads((data / _HELD_OUT).read_bytes())
    same = set(table["files"]) == set(map(str, sources)) and all(map(stamps.unchanged, sources))
    if table["fingerprint"] != manifest.fingerprint or (leads and not same):
        return None
    doubtful = [name for name in manifest.files if not stamps.unchanged(data / name)]
    if any(damage(data / name, manifest.files[name]) for name in doubtful):
        return None
    return corpus_without_training(table, recipe.data, format_of(recipe.model))


def _sources(recipe: Recipe) -> list[Path]:
    """The files of the data; none for a task, which is small, and whose text comes from elsewhere."""
    spec = recipe.data
    named = [where for where in (spec.train, spec.dev, spec.test, spec.more) if where is not None]
    if spec.task != "none":
        return []
    return [
        Path(file)
        for where in named
        for part in ([where] if isinstance(where, str) else where)
        for file in files_of(part)
    ]


def _prepared_files(folder: Path, manifest: Manifest) -> list[Path]:
    return [folder / "data" / name for name in manifest.files]


def extend(run: Prepared, steps: int, at: int, evaluate_every: int) -> Prepared:
    """The run with more steps, from this one on; how often dev is looked at stays as it was. It is recorded first."""
    recipe = run.recipe.updated(training=run.recipe.training.with_steps(steps, evaluate_every))
    asked = run.manifest.asked
    if asked is not None:
        asked = asked | {"training": asked["training"] | {"steps": steps}}
    # settings that are newer than the run stay out, as its identity does not know them
    before = run.manifest.recipe
    known = {*before["training"], "steps", "evaluate_every"}
    training = {name: value for name, value in recipe_table(recipe)["training"].items() if name in known}
    manifest = run.manifest.extended(before | {"training": training}, asked, at, steps)
    write_manifest(run.folder, manifest)
    write_whole(run.folder / "recipe.toml", recipe_toml(recipe).encode())
    return replace(run, recipe=recipe, objective=objective_of(recipe), manifest=manifest)


# ---- what is read back ----


def _require_kinds(folder: Path) -> None:
    """Folders where folders belong, and files where files do: neither is removed by us."""
    for name in ("data", "last"):
        if (folder / name).exists() and not (folder / name).is_dir():
            raise DamagedFile(f"{folder / name}: is not a folder: move it away, then --resume")
    for name in ("run.json", "recipe.toml", "metrics.jsonl", "clock.jsonl", "train.log", "best.safetensors"):
        if (folder / name).exists() and not (folder / name).is_file():
            raise DamagedFile(f"{folder / name}: is not a file: move it away, then --resume")


def _recipe(folder: Path, manifest: Manifest, notes: list[str]) -> Recipe:
    """The recipe of the run; the file beside it must say the same, or is written anew if it says nothing at all."""
    path = folder / "recipe.toml"
    recipe = recipe_from(manifest.recipe, name=str(folder / "run.json"))
    found = recipe_table(read_recipe(path)) if _has_settings(path) else None
    if found is None:
        notes.append(f"{path}: {'cannot be read' if path.exists() else 'is not there'}; restored from run.json")
    # as tables of today: a setting that is newer than the run has its default
    edited = [] if found is None else differences(recipe_table(recipe), found, "the file says")
    before = None if manifest.before is None else recipe_table(recipe_from(manifest.before))
    if edited and found != before:
        way_out = (
            f"{path} was changed after the run was started: undo that, or remove the file, and --resume continues as "
            f"before; to train by the changed recipe: clearhead train {path} -o ANOTHER_FOLDER"
        )
        raise RecipeError([*edited, Problem("", "", way_out)])
    if found is None or edited:
        write_whole(path, recipe_toml(recipe).encode())
    return recipe


def _has_settings(path: Path) -> bool:
    """Whether somebody could have written this: TOML with settings in it, right or wrong."""
    try:
        return bool(tomllib.loads(path.read_text(encoding="utf-8-sig")))
    except (OSError, ValueError, RecursionError):
        return False


def _require_input(folder: Path, manifest: Manifest, recipe: Recipe) -> None:
    """What came through a pipe, or from Python, is nowhere else."""
    for path in _only_copies(folder, recipe):
        expected = manifest.files.get(path.name)
        if expected is None or not (problem := damage(path, expected)):
            continue
        if path.name.startswith(GIVEN):
            copy, again = "the data that the run was given", "give the same data again"
        elif path.name.startswith("stdin."):
            copy = "what came through the pipe"
            again = f"pipe the same data in again (clearhead train - -o {folder} --resume)"
        else:
            copy, again = "what came through the pipe", "pipe the same data in again"
        raise DamagedFile(
            f"{path}: {problem}, and it is the only copy of {copy}: put it back, or move it away and {again}"
        )


def _only_copies(folder: Path, recipe: Recipe) -> list[Path]:
    """The files of the data that stand in the run folder: what was written there because it is nowhere else."""
    spec = recipe.data
    named = [where for where in (spec.train, spec.dev, spec.test, spec.more) if where is not None]
    files = [Path(file) for where in named for file in ([where] if isinstance(where, str) else where)]
    inside = os.path.abspath(folder / "data")  # noqa: PTH100 - a name that no file can have is no error here
    return [folder / "data" / file.name for file in files if os.path.abspath(file.parent) == inside]  # noqa: PTH100


def _read(recipe: Recipe, folder: Path, progress: Progress = unwatched) -> Corpus[Any]:
    """The data of a run, each file read once; what is kept of them on the way takes room in the run folder."""
    room = folder if os.access(folder, os.W_OK) else None
    workers = threads_for_each(recipe.training.threads)  # every process of a group reads the data
    return read_corpus(recipe.data, format_of(recipe.model), room, workers=workers, progress=progress)


def _restored(folder: Path, manifest: Manifest, corpus: Corpus[Any], objective: Objective[Any, Any, Any]) -> list[str]:
    """Compare the prepared data with their checksums; make them again if they are damaged. What was done."""
    data = folder / "data"
    found = {name: damage(data / name, expected) for name, expected in manifest.files.items()}
    damaged = {name: problem for name, problem in found.items() if problem}
    if not damaged:
        return []
    for name in damaged:
        if (data / name).exists() and not (data / name).is_file():
            raise DamagedFile(f"{data / name}: is not a file: move it away, then --resume")
    with held(folder), _unfinished(folder) as made:
        if FILE in damaged:
            raise DamagedFile(
                f"{data / FILE}: {damaged[FILE]}, and training began with it: put the file back, or start a new run"
            )
        codecs = _codecs_again(folder, corpus, objective) if _TOKENIZERS in damaged else _read_codecs(folder)
        _write(corpus, codecs, objective, made)
        if JOINT in damaged:
            count_again(objective.recipe, objective.open(made), made)
        for name, problem in damaged.items():
            if damage(made / name, manifest.files[name]):
                raise DamagedFile(
                    f"{data / name}: {problem}, and cannot be rebuilt from the data: put the file "
                    "back, or start a new run with another -o"
                )
        for name in damaged:
            _move(made / name, data / name)
    return [f"{data / name}: {problem}; rebuilt from the data" for name, problem in damaged.items()]


def _adopted(folder: Path) -> tuple[Manifest, Corpus[Any]]:
    """What ``run.json`` would say of a run that has none, or a damaged one, if everything else fits together.

    The best model knows its recipe, and the data, encoded once more, must give the arrays that are there. The data come
    with it, as they were read.
    """
    path, lost = folder / "recipe.toml", "run.json cannot be read either"
    if not path.is_file():
        raise DamagedFile(
            f"{folder}: has neither run.json nor recipe.toml that can be read: put one of them back, or choose "
            "another -o; what was trained stays as it is"
        )
    recipe = read_recipe(path)
    table, steps = recipe_table(recipe), recipe.training.steps
    if steps is None:
        raise DamagedFile(f"{path}: is not the recipe of a run (it has no training.steps), and {lost}")
    objective = objective_of(recipe)
    corpus = objective.admitted(_read(recipe, folder))
    if (folder / "best.safetensors").is_file():
        saved = load_model(folder / "best.safetensors")
        if edited := differences(recipe_table(saved.recipe), table, "recipe.toml says"):
            raise RecipeError([*edited, Problem("", "", f"{path} does not fit best.safetensors, and {lost}")])
        tokenizers = dict(saved.tokenizers)
    else:
        tokenizers = _tokenizers(_codecs_again(folder, corpus, objective))
    data, kept, fingerprint = folder / "data", _read_kept(folder), corpus.fingerprint()
    if kept["tokenizers"] != tokenizers:
        raise DamagedFile(f"{data / _TOKENIZERS}: has other tokenizers, and {lost}: start a new run with another -o")
    if kept["fingerprint"] != fingerprint:
        raise DataError(f"the data have changed since {folder} was started: start a new run, or restore the files")
    codecs = _read_codecs(folder)
    with held(folder), _unfinished(folder) as made:
        _write(corpus, codecs, objective, made)
        files = {made_again.name: checksum_of(made_again) for made_again in sorted(made.iterdir())}
        if not (data / _HELD_OUT).exists():  # the run is older than that
            _move(made / _HELD_OUT, data / _HELD_OUT)
        for name, expected in files.items():
            if problem := damage(data / name, expected):
                raise DamagedFile(
                    f"{data / name}: {problem}, and {lost}: put one of them back, or start a new run with another -o"
                )
    files |= {path.name: checksum_of(path) for path in _only_copies(folder, recipe)}
    if (data / JOINT).is_file():
        files[JOINT] = checksum_of(data / JOINT)
    origin = None
    if (data / FILE).is_file():
        files[FILE], origin = checksum_of(data / FILE), load_model(data / FILE).origin
    manifest = Manifest(None, table, fingerprint, files, (Stage(steps, steps),), origin)
    write_manifest(folder, manifest)
    return manifest, corpus


def _write(corpus: Corpus[Any], codecs: Codecs, objective: Objective[Any, Any, Any], folder: Path) -> None:
    """Encoded examples, tokenizers, and the examples of dev and test."""
    objective.write(corpus, codecs, folder)
    kept = {"tokenizers": _tokenizers(codecs), "fingerprint": corpus.fingerprint()}
    write_whole(folder / _TOKENIZERS, json.dumps(kept, ensure_ascii=False).encode())
    write_whole(folder / _HELD_OUT, json.dumps(held_out_table(corpus)).encode())


def _codecs_again(folder: Path, corpus: Corpus[Any], objective: Objective[Any, Any, Any]) -> Codecs:
    """The tokenizers of a run, learnt anew, or as the model that it started from has them."""
    start = folder / "data" / FILE
    if start.is_file():
        tokenizers = load_model(start).tokenizers
        return codecs_of(tokenizers) if tokenizers else ()
    return objective.learn(corpus)[0]


def _started(start: Start, model: Model, new: Sequence[str]) -> str:
    """Where the run begins, in one line."""
    fresh = f"; new: {', '.join(new)}" if new else ""
    return f"starting from {start.name} ({start.fingerprint[:12]}), {count_parameters(model):,} parameters{fresh}"


def _read_codecs(folder: Path) -> Codecs:
    kept = _read_kept(folder)["tokenizers"]
    return codecs_of(kept) if kept else ()


def _read_kept(folder: Path) -> dict[str, Any]:
    path = folder / "data" / _TOKENIZERS
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedFile(f"{path}: cannot be read ({error}): start a new run with another -o") from None
    if not isinstance(kept, dict) or not {"tokenizers", "fingerprint"} <= kept.keys():
        raise DamagedFile(f"{path}: is damaged: start a new run with another -o")
    return kept


@contextmanager
def _unfinished(folder: Path) -> Iterator[Path]:
    """A folder for what is not complete yet; gone afterwards, however it ends, and what a kill left is cleared."""
    path = folder / UNFINISHED
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _move(file: Path, to: Path) -> None:
    to.parent.mkdir(exist_ok=True)
    file.replace(to)


def _tokenizers(codecs: Codecs) -> dict[str, str]:
    if not codecs:
        return {}
    source, target = codecs
    if source is target:
        return {"shared": source.to_json()}
    return {"source": source.to_json(), "target": target.to_json()}


def _with_budget(recipe: Recipe, examples: Encoded, group: ProcessGroup, folder: Path) -> Recipe:
    """Turn epochs or minutes into steps, the only clock of training."""
    spec = recipe.training
    evaluate_every = spec.evaluate_every
    if spec.steps is not None:
        return recipe
    if spec.epochs is not None:
        steps = max(1, spec.epochs * epoch_plan(examples, spec, 0).count() // spec.accumulate)
    else:
        minutes = spec.minutes or DEFAULT_MINUTES
        calibration = min(6.0, CALIBRATION * 60 * minutes)
        per_step = seconds_per_step(recipe, examples, group, folder=folder, known=_TOKENIZERS, at_least=calibration)
        steps = max(1, int(60 * minutes * (1 - FOR_EVALUATIONS) / per_step))
        evaluate_every = spec.evaluate_every or max(1, steps // _evaluations(minutes))
    return recipe.updated(training=spec.with_steps(steps, evaluate_every))


def time_budget(run: Prepared) -> TimeBudget | None:
    """The budget in minutes that a run was asked to keep, if it was asked for one."""
    asked = None if run.manifest.asked is None else run.manifest.asked["training"]
    if asked is None or asked.get("steps") is not None or asked.get("epochs") is not None:
        return None
    minutes = asked.get("minutes") or DEFAULT_MINUTES
    corpus = run.corpus
    closing = 1 + len(corpus.test) / max(1, len(corpus.dev))
    closing *= processes()  # which evaluate dev together; the final scores are the leader's work
    reserved = FOR_EVALUATIONS * 60 * minutes / (_evaluations(minutes) + closing)
    return TimeBudget(60 * minutes, _evaluations(minutes), closing, reserved, asked.get("evaluate_every"))


def _evaluations(minutes: float) -> int:
    """How often dev is evaluated in a run of so many minutes."""
    return max(FEWEST_EVALUATIONS, min(MOST_EVALUATIONS, round(minutes / 3)))
