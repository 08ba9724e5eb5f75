"""One session of training: open the run, train to the end of its budget, score the best model."""

import time
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Literal

import torch

from clearhead.data import Encoded, Progress, all_sizes
from clearhead.evaluation import dev_scores, judge_of, scores_of_run
from clearhead.events import Event, Listener, ignore
from clearhead.locks import held
from clearhead.machine import free_memory
from clearhead.models import Model, SavedModel, build, count_parameters, device_of, load_model, pick_device, save_model
from clearhead.predictor import Predictor, load, predictor_of
from clearhead.recipe import Recipe, notes_of
from clearhead.training import (
    ADAPTERS,
    BYTES_OF_A_PARAMETER,
    SINGLE,
    START,
    UNFINISHED,
    Codecs,
    Prepared,
    ProcessGroup,
    Report,
    SilentReport,
    StatedRecipe,
    Trainer,
    assist,
    clear_write_errors,
    dismiss,
    fast_products,
    joint_names,
    merged,
    notes_on,
    open_process_group,
    opened,
    place_of,
    placed,
    put_joint,
    reopen,
    require_one_folder,
    save_adapters,
    shared_kind,
    threads_for_each,
    time_budget,
    tuned,
)

Parallel = Literal["auto", "ddp", "fsdp"]
TELL_EVERY = 0.25
"""Seconds between two events about the preparation."""
BYTES_OF_A_TOKEN = 1 << 16
"""What a wide token leaves behind for the backward pass, roughly."""


def train_in(
    stated: Recipe | StatedRecipe, folder: Path, *, resume: bool = False, listener: Listener | None = None
) -> Predictor | None:
    """Train in this folder to the end of the budget, and score the best model; the run folder has everything.

    Returns the best model, which scoring has loaded; None in a process that helps another one.
    """
    started = time.monotonic()
    if isinstance(stated, Recipe):
        stated = StatedRecipe(stated)
    torch.set_num_threads(threads_for_each(stated.recipe.training.threads))
    with open_process_group() as group, held(folder) if group.leads else nullcontext():
        pick_device(stated.recipe.training.device)  # one that is not there is said before the data are read
        run, begun = _prepared(stated, folder, group, listener, resume=resume)
        run = _on_asked_device(run, stated)
        torch.set_num_threads(threads_for_each(run.recipe.training.threads))  # those that the run began with
        trainer = make_trainer(run, group, listener, parallel=_asked_parallel(stated))
        with closing(trainer), fast_products(run.recipe.training):
            _train(run, trainer, resume=begun, started=started)
        return _conclude(run, trainer) if group.leads else None


def _prepared(
    stated: StatedRecipe, folder: Path, group: ProcessGroup, listener: Listener | None, *, resume: bool
) -> tuple[Prepared, bool]:
    """The run in this folder, and whether it was there: if not, the leader prepares it, and the others wait."""
    run, begun = None, False
    if group.leads:
        run, begun = opened(stated, folder, group, resume=resume, progress=_telling(listener or ignore))
        run.note_files()
        dismiss(group)
    else:
        assist(folder / UNFINISHED, group)
    begun = bool(group.from_leader(begun))
    require_one_folder(folder, group)
    return run or reopen(folder, leads=False), begun


def _on_asked_device(run: Prepared, stated: StatedRecipe) -> Prepared:
    """The run on the device that is asked for now, if one is: it may change whenever a run is continued."""
    if ("training", "device") not in stated.given:
        return run
    training = run.recipe.training.replaced(device=stated.recipe.training.device)
    return replace(run, recipe=run.recipe.updated(training=training))


def _asked_parallel(stated: StatedRecipe) -> Parallel | None:
    """How processes are to share the work from now on, if it is said: it may change whenever a run is continued."""
    return stated.recipe.training.parallel if ("training", "parallel") in stated.given else None


def _telling(listener: Listener) -> Progress:
    """Tells a listener how far the preparation is, a few times a second."""
    told = 0.0

    def tell(stage: str, done: int, total: int | None) -> None:
        nonlocal told
        if time.monotonic() - told >= TELL_EVERY or done == total:
            told = time.monotonic()
            listener(Event("prepare", step=done, steps=total, category=stage))

    return tell


def _train(run: Prepared, trainer: Trainer, *, resume: bool, started: float) -> None:
    """Train from the start, or from the last checkpoint; what came before since ``started`` is part of the budget."""
    report = trainer.report
    for note in run.notes:
        report.say(note)
    resumed = resume and trainer.resume()
    if not resumed:
        report.forget_after(0)  # a run that was killed before its first checkpoint starts from scratch
    report.logs = not trainer.finished
    _introduce(run, trainer, resumed=resumed)
    trainer.progress.seconds += time.monotonic() - started
    report.start(trainer.progress.step)
    try:
        trainer.run()
    finally:
        report.stop()


def make_trainer(
    run: Prepared,
    group: ProcessGroup = SINGLE,
    listener: Listener | None = None,
    *,
    parallel: Parallel | None = None,
) -> Trainer:
    """The trainer of a prepared run: model, objective, evaluation and report, put together.

    Args:
        run: what ``prepare`` or ``reopen`` returned.
        group: the processes that train together. Default: this one alone.
        listener: told what happens. Default: nobody.
        parallel: how the processes share the work. Default: as the recipe says.
    """
    spec = run.recipe.training
    assert spec.steps is not None  # prepare() has fixed it
    torch.manual_seed(spec.seed)
    model = load_model(run.folder / "data" / START).model if run.origin else build(run.recipe)
    put_joint(model, run.folder / "data")
    model, device = tuned(model, spec), pick_device(spec.device)
    kind = shared_kind(model, parallel or spec.parallel, group, device)
    model = placed(model, spec, place_of(kind, device))
    if kind != "fsdp":
        _require_memory(run.recipe, run.examples, count_parameters(model))
    if not group.leads:
        torch.manual_seed(spec.seed + group.rank)  # one model, but each process draws its own dropout
    predictor = predictor_of(model, run.recipe, run.codecs)
    metric = judge_of(predictor).usual_metric(predictor) if spec.metric == "auto" else spec.metric

    def save_best(best: Model) -> None:
        path = run.folder / "best.safetensors"
        with clear_write_errors(path):
            save_model(SavedModel(merged(best), run.recipe, run.tokenizers, run.origin), path)
        if spec.adapters is not None:
            path = run.folder / ADAPTERS
            with clear_write_errors(path):
                save_adapters(best, path, run.recipe, run.tokenizers, run.origin)

    def evaluate(average: Model) -> dict[str, float]:
        return dev_scores(
            predictor_of(merged(average), run.recipe, run.codecs),
            run.corpus.dev,
            metric=metric,
            work_out=group.work_out,
        )

    clock = time_budget(run)
    report: Report = SilentReport(run.folder)
    if group.leads:
        seconds = None if clock is None else clock.seconds
        report = Report(run.folder, steps=spec.steps, listener=listener, tensorboard=spec.tensorboard, budget=seconds)
    return Trainer(
        model,
        run.examples,
        run.objective,
        spec,
        steps=spec.steps,
        folder=run.folder,
        evaluate=evaluate,
        metric=metric,
        save_best=save_best,
        report=report,
        group=group,
        kind=kind,
        stages=run.manifest.stages,
        identity=run.identity,
        clock=clock,
        fixed=[
            *joint_names(model),
            *(name for name, weight in model.named_parameters() if run.origin and not weight.requires_grad),
        ],
    )


def _require_memory(recipe: Recipe, examples: Encoded, parameters: int) -> None:
    """Refuse what will not fit before the first step; the closed forms take a second, and are asked only if needed."""
    spec, free = recipe.training, free_memory()
    roughly = BYTES_OF_A_PARAMETER * parameters + BYTES_OF_A_TOKEN * spec.batch_tokens
    if free is not None and roughly > free / 8:
        from clearhead.costing import require_training_memory

        longest = int(max(side.max() for sizes in all_sizes(examples) for side in sizes))
        require_training_memory(recipe, length=longest, examples=len(examples))


def _introduce(run: Prepared, trainer: Trainer, *, resumed: bool) -> None:
    """Say what is about to happen, before the first step."""
    spec, examples, report = run.recipe.training, run.examples, trainer.report
    parameters, name = count_parameters(trainer.model), run.corpus.format.name
    for note in run.corpus.notes:
        report.say(note)
    if run.corpus.skipped:
        report.say(str(run.corpus.skipped))
    for note in (*notes_of(run.recipe), *notes_on(spec, device_of(trainer.model))):
        report.say(note)
    if examples.too_long:
        what = f"{examples.too_long:,} training {name} are longer than data.max_length"
        report.say(f"{what}: they are {run.objective.when_too_long}")
    trained = sum(parameter.numel() for parameter in trainer.model.parameters() if parameter.requires_grad)
    held = parameters + (3 + bool(spec.average)) * trained  # weights; gradients, two of Adam's, the average
    if trainer.source.kind == "fsdp":
        held //= trainer.group.size
    kept = trainer.activation_bytes()
    report.say(
        f"{len(examples):,} training {name}, "
        f"{examples.tokens:,} {run.objective.counted} an epoch, {trainer.padding():.1%} padding; "
        f"{len(run.corpus.dev):,} dev, {len(run.corpus.test):,} test"
    )
    report.say(
        f"{_vocabularies(run.codecs)}{parameters:,} parameters, "
        + (f"of which {trained:,} are trained, " if trained < parameters else "")
        + f"{4 * held / 2**20:.0f} MiB for weights and optimizer"
        + (f", {kept / 2**20:.0f} MiB for activations" if kept else " in each process")
    )
    report.say(
        f"{trainer.steps:,} steps of at most {spec.batch_tokens * spec.accumulate:,} tokens"
        + (f"; continuing after step {trainer.progress.step:,}" if resumed else "")
    )


def _vocabularies(codecs: Codecs) -> str:
    """Kind and size of each tokenizer, if there are some."""
    return " → ".join(f"{codec.kind} {len(codec):,}" for codec in dict.fromkeys(codecs)) + "; " * bool(codecs)


def _conclude(run: Prepared, trainer: Trainer) -> Predictor:
    """Say which model is the best, score it on dev and test, and keep the scores."""
    folder, report, progress = run.folder, trainer.report, trainer.progress
    best = folder / "best.safetensors"
    report.say(f"best dev {trainer.metric}: {progress.best:.2f} at step {progress.best_step:,}, in {best}")
    predictor = load(best)
    scores, new = scores_of_run(folder, predictor, run.corpus, metric=trainer.metric, step=progress.best_step)
    if "test" in scores and new:
        report.log(f"on the test {run.corpus.format.name}, looked at only now: {scores['test']!r}")
    return predictor
