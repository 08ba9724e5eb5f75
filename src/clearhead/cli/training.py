"""``clearhead train`` with torch: prepares the run, trains, and scores the best model."""

import os
from pathlib import Path

import torch

from clearhead.cli.scores import print_scores
from clearhead.errors import ClearheadError
from clearhead.evaluation import dev_scores, evaluate, judge_of
from clearhead.models import Model, SavedModel, build, count_parameters, save_model
from clearhead.predictor import Predictor, load, predictor_of
from clearhead.recipe import Recipe
from clearhead.training import Codecs, Prepared, Report, Trainer, prepare, reopen


def train(recipe: Recipe, folder: Path, *, resume: bool) -> None:
    """Train to the end of the budget; with ``resume`` go on where the run in this folder stands."""
    torch.set_num_threads(recipe.training.threads or os.cpu_count() or 1)
    ready = (folder / "recipe.toml").is_file()
    if ready and not resume:
        raise ClearheadError(f"{folder}: has a run already; add --resume to go on with it, or choose another -o")
    run = reopen(folder) if ready else prepare(recipe, folder)
    trainer = _trainer(run)
    report = trainer.report
    resumed = ready and trainer.resume()
    if not resumed:
        report.forget_after(0)  # a run that was killed before its first checkpoint starts from scratch
    _introduce(run, trainer, resumed=resumed)
    report.start(trainer.progress.step)
    try:
        progress = trainer.run()
    finally:
        report.stop()
    best = folder / "best.safetensors"
    report.say(f"best dev {trainer.metric}: {progress.best:.2f} at step {progress.best_step:,}, in {best}")
    if run.corpus.test:
        predictor = load(best)
        report.say(f"on the test {run.corpus.format.name}, looked at only now:")
        print_scores(evaluate(predictor, run.corpus.test))
        _print_examples(predictor, run)
    report.say(f"next: clearhead run {folder} FILE, clearhead eval {folder} FILE, clearhead show {best}")


def _print_examples(predictor: Predictor, run: Prepared, count: int = 6) -> None:
    """A few test sources with the model's answers; where one is wrong, what it should be."""
    questions, right = judge_of(predictor).questions(run.corpus.test)
    chosen = range(0, len(questions), max(1, len(questions) // count))[:count]
    answers = predictor.generate([questions[index] for index in chosen])
    for index, text in zip(chosen, answers, strict=True):
        should = "" if text in right[index] else f"   (should be {' or '.join(right[index])})"
        print(f"  {questions[index]} → {text}{should}")


def _trainer(run: Prepared) -> Trainer:
    spec = run.recipe.training
    assert spec.steps is not None  # prepare() has fixed it
    torch.manual_seed(spec.seed)
    model = build(run.recipe)

    def save_best(best: Model) -> None:
        save_model(SavedModel(best, run.recipe, run.tokenizers), run.folder / "best.safetensors")

    def look(average: Model) -> dict[str, float]:
        return dev_scores(predictor_of(average, run.recipe, run.codecs), run.corpus.dev, metric=metric)

    predictor = predictor_of(model, run.recipe, run.codecs)
    metric = judge_of(predictor).usual_metric(predictor) if spec.metric == "auto" else spec.metric
    return Trainer(
        model,
        run.examples,
        run.objective,
        spec,
        steps=spec.steps,
        folder=run.folder,
        evaluate=look,
        metric=metric,
        save_best=save_best,
        report=Report(run.folder, steps=spec.steps),
    )


def _introduce(run: Prepared, trainer: Trainer, *, resumed: bool) -> None:
    """Say what is about to happen, before the first step."""
    spec, examples, report = run.recipe.training, run.examples, trainer.report
    parameters, name = count_parameters(trainer.model), run.corpus.format.name
    if run.corpus.skipped:
        report.say(str(run.corpus.skipped))
    if examples.too_long:
        what = f"{examples.too_long:,} training {name} are longer than data.max_length"
        report.say(f"{what}: they are {run.objective.when_too_long}")
    copies = 4 + bool(spec.average)  # weights, gradients, two of Adam's, the average
    kept = trainer.activation_bytes()
    report.say(
        f"{len(examples):,} training {name}, "
        f"{examples.tokens:,} {run.objective.counted} an epoch, {trainer.padding():.1%} padding; "
        f"{len(run.corpus.dev):,} dev, {len(run.corpus.test):,} test"
    )
    report.say(
        f"{_vocabularies(run.codecs)}{parameters:,} parameters, "
        f"{copies * 4 * parameters / 2**20:.0f} MiB for weights and optimizer, {kept / 2**20:.0f} MiB for activations"
    )
    report.say(
        f"{trainer.steps:,} steps of at most {spec.batch_tokens * spec.accumulate:,} tokens"
        + (f"; going on after step {trainer.progress.step:,}" if resumed else "")
    )


def _vocabularies(codecs: Codecs) -> str:
    """Kind and size of each tokenizer, if there are some."""
    return " → ".join(f"{codec.kind} {len(codec):,}" for codec in dict.fromkeys(codecs)) + "; " * bool(codecs)
