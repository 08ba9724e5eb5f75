"""The contracts of training for every family: same seed, same run; resumed, never stopped; dev score, eval."""

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.data import PAD, TEXTS, read_corpus
from clearhead.errors import DataError
from clearhead.evaluation import dev_scores, evaluate
from clearhead.models import load_model
from clearhead.predictor import load
from clearhead.recipe import ClassifierSpec, metrics_of, read_recipe
from clearhead.training import Trainer, prepare, reopen
from clearhead.verbs.session import make_trainer
from tests.shapes import shapes_are_known
from tests.training.test_trainer import HARD, assert_same_run, continued, state_of
from tests.training.toy import FAMILIES, SMALL

family = pytest.mark.parametrize("family", FAMILIES)


def new_run(family: str, folder: Path, *overrides: str) -> Trainer:
    data = FAMILIES[family](folder.parent / f"{family}.data")
    settings = [f"model.family={family}", f'data.train="{data}"', *SMALL, "training.steps=24", *overrides]
    return make_trainer(prepare(read_recipe(None, *settings), folder))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a run of a family that was never stopped, made once."""

    @cache
    def made(family: str) -> Path:
        folder = tmp_path_factory.mktemp(family) / "run"
        new_run(family, folder, *HARD).run()
        return folder

    return made


@family
def test_two_runs_with_one_seed_are_identical_and_another_seed_is_not(
    family: str, tmp_path: Path, whole: Callable[[str], Path]
) -> None:
    shapes_are_known()  # from the resumed run
    for name, seed in (("b", 1), ("c", 2)):
        new_run(family, tmp_path / name, *HARD, f"training.seed={seed}").run()
    assert_same_run(whole(family), tmp_path / "b")
    assert state_of(whole(family))[2] != state_of(tmp_path / "c")[2]


@family
def test_a_resumed_run_ends_as_one_that_never_stopped(
    family: str, tmp_path: Path, whole: Callable[[str], Path]
) -> None:
    """Contract 3: stopped after steps that were not saved, twice, once in a later epoch."""
    trainer = new_run(family, tmp_path / "parts", *HARD)
    for stop in (4, 17):
        while trainer.progress.step < stop:
            trainer._step()
            if trainer.progress.step % trainer.evaluate_every == 0:
                trainer._evaluate()
            if trainer.progress.step % (trainer.spec.save_every or 1) == 0:
                trainer.save()
        torch.manual_seed(999)  # whatever happens to the process in between
        trainer = continued(tmp_path / "parts")
    assert trainer.progress.epoch > 0
    trainer.run()
    assert_same_run(whole(family), tmp_path / "parts")


@family
def test_accumulated_gradients_are_those_of_one_large_batch(family: str, tmp_path: Path) -> None:
    """Contract 2; the wrong variant gives every batch the same weight, however little is in it."""
    trainer = new_run(family, tmp_path / "run", "model.dropout.residual=0.0", "model.dropout.embedding=0.0")
    model: Any = trainer.model
    rows = torch.randperm(len(trainer.examples)).numpy()[:40]
    parts = [rows[:7], rows[7:30], rows[30:]]

    def gradients(groups: list[Any], by_batch: bool = False) -> dict[str, torch.Tensor]:
        model.zero_grad()
        batches = [trainer.objective.batch(trainer.examples, group, 3) for group in groups]
        total = sum(batch.tokens for batch in batches)
        for batch in batches:
            scale = batch.tokens * len(batches) if by_batch else total
            (trainer.objective.loss(model, batch) / scale).backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    whole, several, wrong = gradients([rows]), gradients(parts), gradients(parts, by_batch=True)
    for name, gradient in whole.items():
        torch.testing.assert_close(several[name], gradient, atol=1e-6, rtol=1e-4)
    assert any(not torch.allclose(wrong[name], gradient, atol=1e-4) for name, gradient in whole.items())


@family
def test_the_dev_score_is_what_eval_says_of_the_saved_model(family: str, tmp_path: Path) -> None:
    """Contract 2, through the model file."""
    shapes_are_known()  # from the resumed run
    trainer = new_run(family, tmp_path / "run", *HARD, "training.optimizer.rate=0.004")
    progress = trainer.run()
    scores = evaluate(load(tmp_path / "run"), reopen(tmp_path / "run").corpus.dev, bootstrap=0)
    assert scores.metrics[trainer.metric].value == pytest.approx(progress.best, abs=1e-6)
    assert set(scores) == set(metrics_of(trainer.model.spec.learns))
    for name, found in scores.items():  # any of them can be what the best model is chosen by
        measured = dev_scores(load(tmp_path / "run"), reopen(tmp_path / "run").corpus.dev, metric=name)
        assert measured[name] == found.value
    other = new_run(family, tmp_path / "untrained")
    other.save_best(other.average)
    untrained = evaluate(load(tmp_path / "untrained"), reopen(tmp_path / "run").corpus.dev, bootstrap=0)
    assert untrained.metrics[trainer.metric].value != pytest.approx(progress.best, abs=1e-6)


@family
def test_minutes_become_steps(family: str, tmp_path: Path) -> None:
    """The calibration runs real steps of the family; the recipe of the run has steps and no minutes."""
    data = FAMILIES[family](tmp_path / "data")
    settings = [f"model.family={family}", f'data.train="{data}"', *SMALL, "training.minutes=0.01"]
    spec = prepare(read_recipe(None, *settings), tmp_path / "run").recipe.training
    assert spec.minutes is None
    assert spec.steps is not None
    assert spec.steps >= 1


def test_an_lm_learns_more_than_how_often_tokens_occur(tmp_path: Path) -> None:
    """Two letters may follow another, three in four times the first: perplexity of that source, 1.75, and of ends."""
    shapes_are_known()  # from the shorter runs
    quick = ["training.optimizer.rate=0.004", "training.average=0.98", "training.steps=150"]
    trainer = new_run("lm", tmp_path / "run", *quick)
    progress = trainer.run()
    assert trainer.metric == "perplexity"
    assert progress.best is not None
    assert progress.best < 3.2
    corpus = read_corpus(reopen(tmp_path / "run").recipe.data, TEXTS)
    tokens = [token for text in corpus.train() for token in [*text.text.split(), "end"]]
    shares = np.unique(tokens, return_counts=True)[1] / len(tokens)
    assert math.exp(-float(np.sum(shares * np.log(shares)))) > 7  # what counting tokens alone would give


def test_an_encoder_learns_to_fill_in(tmp_path: Path) -> None:
    """A letter nearly follows from its neighbours: a perplexity far below that of seven letters; states are there."""
    shapes_are_known()  # from the shorter runs
    quick = ["training.optimizer.rate=0.004", "training.average=0.98", "training.steps=300", "training.seed=2"]
    progress = new_run("encoder", tmp_path / "run", *quick, "model.dropout.residual=0.0").run()
    assert progress.best is not None
    assert progress.best < 4.5
    saved = load_model(tmp_path / "run" / "best.safetensors")
    states = saved.model(torch.tensor([[1, 5, 6, 2]]))
    assert states.shape == (1, 4, 32)
    assert saved.recipe.model.vocabulary.mask == 4
    again = load(tmp_path / "run")
    assert sum(again(f"{a} <mask> {b}") == f"{a} {m} {b}" for a, m, b in ("abc", "bcd", "cde", "def", "efg")) >= 3


def test_a_classifier_keeps_its_labels(tmp_path: Path) -> None:
    """In the recipe of the run and of the model file; the number of classes is that of the data."""
    trainer = new_run("classifier", tmp_path / "run", "training.steps=2")
    trainer.run()
    for recipe in (read_recipe(tmp_path / "run" / "recipe.toml"), load_model(tmp_path / "run/best.safetensors").recipe):
        assert isinstance(recipe.model, ClassifierSpec)
        assert recipe.model.labels == ["down", "up"]
        assert recipe.model.classes == 2
    assert {load(tmp_path / "run")(text) for text in ("a b c", "c d e f g a")} <= {"down", "up"}


def test_masks_follow_from_seed_epoch_and_index(tmp_path: Path) -> None:
    """Not from the batch; another epoch masks other tokens, and dev masks the same ones in every evaluation."""
    trainer = new_run("encoder", tmp_path / "run")
    rows = np.arange(40)

    def hidden(rows: np.ndarray, epoch: int) -> dict[int, list[int]]:
        batch = trainer.objective.batch(trainer.examples, rows, epoch)
        return {int(row): labels.nonzero()[:, 0].tolist() for row, labels in zip(rows, batch.labels, strict=True)}

    together = hidden(rows, 5)
    assert together == hidden(rows[:7], 5) | hidden(rows[7:][::-1], 5)
    assert together != hidden(rows, 6)
    other = new_run("encoder", tmp_path / "other", "training.seed=2")
    batch = other.objective.batch(other.examples, rows, 5)
    assert together != {row: labels.nonzero()[:, 0].tolist() for row, labels in enumerate(batch.labels)}
    assert PAD == 0


@pytest.mark.parametrize(
    ("train", "dev", "message"),
    [
        (["up\ta b", "up\tb c", "up\tc"], ["up\ta"], "every text has the label 'up'"),
        (["up\ta b", "down\tb c"], ["up\ta", "sideways\tc"], r"dev, line 2: label 'sideways' is not in the training"),
        (["up\ta b", "down b c"], ["up\ta"], "train, line 2: 1 columns between tabs instead of 2"),
        (["up\ta b", "down\t "], ["up\ta"], "train, line 2: empty text"),
        (["up\ta b", "\tb"], ["up\ta"], "train, line 2: empty label"),
    ],
)
def test_labels_that_cannot_be_learnt_are_refused(
    train: list[str], dev: list[str], message: str, tmp_path: Path
) -> None:
    (tmp_path / "train").write_text("\n".join(train))
    (tmp_path / "dev").write_text("\n".join(dev))
    files = [f'data.train="{tmp_path / "train"}"', f'data.dev="{tmp_path / "dev"}"']
    with pytest.raises(DataError, match=message):
        prepare(read_recipe(None, "model.family=classifier", *files), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_unknown_labels_can_be_left_out(tmp_path: Path) -> None:
    """Counted, and again when the run is reopened."""
    (tmp_path / "train").write_text("up\ta b\ndown\tb a\n" * 20)
    (tmp_path / "dev").write_text("up\ta\nsideways\tc\n")
    files = [f'data.train="{tmp_path / "train"}"', f'data.dev="{tmp_path / "dev"}"', "data.bad_lines=skip"]
    run = prepare(read_recipe(None, "model.family=classifier", *SMALL, *files, "training.steps=1"), tmp_path / "run")
    for corpus in (run.corpus, reopen(tmp_path / "run").corpus):
        assert [example.label for example in corpus.dev] == ["up"]
        assert "1 lines left out (1 × label 'sideways' is not in the training data)" in str(corpus.skipped)


def test_metrics_have_the_names_of_the_family(whole: Callable[[str], Path]) -> None:
    names = {"lm": "dev_perplexity", "encoder": "dev_token_accuracy", "classifier": "dev_macro_f1"}
    for family, name in names.items():
        rows = [json.loads(line) for line in (whole(family) / "metrics.jsonl").read_text().splitlines()]
        assert any(name in row for row in rows)
