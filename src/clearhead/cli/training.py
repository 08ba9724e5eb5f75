"""``clearhead train`` with torch: prepares the run, trains, and scores the best model."""

import sys
from pathlib import Path

import torch

from clearhead.cli.scores import print_scores
from clearhead.errors import ClearheadError
from clearhead.evaluation import dev_scores, evaluate, judge_of
from clearhead.models import Model, SavedModel, build, count_parameters, save_model
from clearhead.predictor import Predictor, load, predictor_of
from clearhead.recipe import Recipe
from clearhead.training import (
    ALONE,
    Codecs,
    Prepared,
    Report,
    Silence,
    Team,
    Trainer,
    prepare,
    reopen,
    team_from_environment,
    threads_for_each,
)


def train(recipe: Recipe, folder: Path, *, resume: bool) -> None:
    """Train to the end of the budget; with ``resume`` go on where the run in this folder stands."""
    torch.set_num_threads(threads_for_each(recipe.training.threads))
    with team_from_environment() as team:
        try:
            run, begun = _prepared(recipe, folder, team, resume=resume)
            trainer = _trained(run, team, resume=begun)
        except ClearheadError as error:
            if team.leads:
                raise
            sys.exit(error.exit_code)  # the leader says why
    if team.leads:
        _conclude(run, trainer)


def _trained(run: Prepared, team: Team, *, resume: bool) -> Trainer:
    """Train from the start, or from the last checkpoint."""
    trainer = _trainer(run, team)
    report = trainer.report
    resumed = resume and trainer.resume()
    if not resumed:
        report.forget_after(0)  # a run that was killed before its first checkpoint starts from scratch
    _introduce(run, trainer, resumed=resumed)
    report.start(trainer.progress.step)
    try:
        trainer.run()
    finally:
        report.stop()
    return trainer


def _conclude(run: Prepared, trainer: Trainer) -> None:
    """Say which model is the best, what it does on test, and what can be done with it."""
    folder, report, progress = run.folder, trainer.report, trainer.progress
    best = folder / "best.safetensors"
    report.say(f"best dev {trainer.metric}: {progress.best:.2f} at step {progress.best_step:,}, in {best}")
    if run.corpus.test:
        predictor = load(best)
        report.say(f"on the test {run.corpus.format.name}, looked at only now:")
        print_scores(evaluate(predictor, run.corpus.test))
        _print_examples(predictor, run)
    report.say(f"next: clearhead run {folder} FILE, clearhead eval {folder} FILE, clearhead show {best}")


def _prepared(recipe: Recipe, folder: Path, team: Team, *, resume: bool) -> tuple[Prepared, bool]:
    """The run in this folder, and whether it was there: if not, the leader prepares it, and the others wait."""
    if not team.leads:
        begun = team.told(False)
        return reopen(folder), bool(begun)
    begun = (folder / "recipe.toml").is_file()
    if begun and not resume:
        raise ClearheadError(f"{folder}: has a run already; add --resume to go on with it, or choose another -o")
    run = reopen(folder) if begun else prepare(recipe, folder, team)
    team.told(begun)
    return run, begun


def _print_examples(predictor: Predictor, run: Prepared, count: int = 6) -> None:
    """A few test sources with the model's answers; where one is wrong, what it should be."""
    questions, right = judge_of(predictor).questions(run.corpus.test)
    chosen = range(0, len(questions), max(1, len(questions) // count))[:count]
    answers = predictor.generate([questions[index] for index in chosen])
    for index, text in zip(chosen, answers, strict=True):
        should = "" if text in right[index] else f"   (should be {' or '.join(right[index])})"
        print(f"  {questions[index]} → {text}{should}")


def _trainer(run: Prepared, team: Team = ALONE) -> Trainer:
    spec = run.recipe.training
    assert spec.steps is not None  # prepare() has fixed it
    torch.manual_seed(spec.seed)
    model = build(run.recipe)
    if not team.leads:
        torch.manual_seed(spec.seed + team.rank)  # one model, but each drops out what it likes

    def save_best(best: Model) -> None:
        save_model(SavedModel(best, run.recipe, run.tokenizers), run.folder / "best.safetensors")

    def look(average: Model) -> dict[str, float]:
        return dev_scores(predictor_of(average, run.recipe, run.codecs), run.corpus.dev, metric=metric)

    report: Report = Silence(run.folder)
    if team.leads:
        report = Report(run.folder, steps=spec.steps, tensorboard=spec.tensorboard)
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
        report=report,
        team=team,
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
