"""Contracts of training: accumulated = large batch, same seed = same run, resumed = never stopped."""

import json
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clearhead.errors import ClearheadError, DamagedFile, DataError, Diverged
from clearhead.models import build
from clearhead.recipe import read_recipe
from clearhead.training import Trainer, prepare, reopen
from clearhead.training.checkpoint import load_checkpoint
from clearhead.training.planning import epoch_plan
from clearhead.training.trainer import Progress
from clearhead.verbs.session import make_trainer
from tests.thorough import proved_later
from tests.training.toy import FEW, SMALL, write_pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv", count=FEW)


def new_run(data: Path, folder: Path, *overrides: str) -> Trainer:
    recipe = read_recipe(None, f'data.train="{data}"', *SMALL, "training.steps=24", *overrides)
    return make_trainer(prepare(recipe, folder))


def continued(folder: Path) -> Trainer:
    trainer = make_trainer(reopen(folder))
    trainer.resume()
    return trainer


HARD = ["training.accumulate=2", "training.evaluate_every=8", "training.save_every=3", "training.patience=50"]


@pytest.fixture(scope="module")
def whole(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """The folder of a run with these settings that was never stopped, made once."""

    @cache
    def made(*settings: str) -> Path:
        folder = tmp_path_factory.mktemp("whole") / "run"
        new_run(data, folder, *HARD, *settings).run()
        return folder

    return made


def state_of(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any], str]:
    """Everything that a run leaves: tensors, counters without the clock, metrics."""
    checkpoint, complaints = load_checkpoint(folder / "last")
    assert checkpoint is not None
    assert not complaints
    times = ("seconds", "busy", "files", "per_evaluation")
    counters = {name: value for name, value in checkpoint.state.items() if name not in times}
    return dict(checkpoint.tensors), counters, (folder / "metrics.jsonl").read_text()


def assert_same_run(one: Path, other: Path) -> None:
    (mine, my_state, my_metrics), (theirs, their_state, their_metrics) = state_of(one), state_of(other)
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())
    assert my_state == their_state
    assert my_metrics == their_metrics
    best, other_best = load_file(one / "best.safetensors"), load_file(other / "best.safetensors")
    assert all(torch.equal(tensor, other_best[name]) for name, tensor in best.items())


def test_accumulated_gradients_are_those_of_one_large_batch(data: Path, tmp_path: Path) -> None:
    """Contract 2: normalised by the tokens of the whole step; by batch, short batches would weigh too much."""
    trainer = new_run(data, tmp_path / "run", "model.dropout.residual=0.0", "model.dropout.embedding=0.0")
    model: Any = trainer.model
    rows = torch.randperm(len(trainer.examples)).numpy()[:40]
    parts = [rows[:7], rows[7:30], rows[30:]]

    def gradients(batches: list[Any], by_batch: bool = False) -> dict[str, torch.Tensor]:
        model.zero_grad()
        total = sum(batch.tokens for batch in batches)
        for batch in batches:
            scale = batch.tokens * len(batches) if by_batch else total
            (trainer.objective.loss(model, batch) / scale).backward()
        return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    whole = gradients([trainer.objective.batch(trainer.examples, rows, 0)])
    several = gradients([trainer.objective.batch(trainer.examples, part, 0) for part in parts])
    wrong = gradients([trainer.objective.batch(trainer.examples, part, 0) for part in parts], by_batch=True)
    for name, gradient in whole.items():
        torch.testing.assert_close(several[name], gradient, atol=1e-6, rtol=1e-4)
    assert any(not torch.allclose(wrong[name], gradient, atol=1e-4) for name, gradient in whole.items())


@pytest.mark.parametrize("clip", [1000.0, 0.01])
def test_a_step_has_the_clipped_gradient_of_the_mean_loss(data: Path, tmp_path: Path, clip: float) -> None:
    """Σ gradient of both batches / their tokens, shortened to ``clip`` if it is longer; then it is forgotten."""
    settings = ["model.dropout.residual=0.0", "model.dropout.embedding=0.0", "training.accumulate=2"]
    trainer = new_run(data, tmp_path / "run", *settings, f"training.clip={clip}")
    model: Any = trainer.model
    batches = [trainer.objective.batch(trainer.examples, rows, 0) for rows in trainer._epoch_plan().batches(0)[:2]]
    tokens = sum(batch.tokens for batch in batches)
    (sum(trainer.objective.loss(model, batch) for batch in batches) / tokens).backward()
    expected = [parameter.grad.clone() for parameter in model.parameters()]
    norm = float(torch.stack([gradient.norm() for gradient in expected]).norm())
    assert 0.01 < norm < 1000
    model.zero_grad()
    _, counted = trainer._find_gradients()
    assert counted == tokens
    for parameter, gradient in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(parameter.grad, gradient * min(1.0, clip / norm), atol=1e-6, rtol=1e-3)
    trainer._step()
    assert all(parameter.grad is None for parameter in model.parameters())


def test_every_epoch_has_an_order_of_its_own(data: Path, tmp_path: Path) -> None:
    trainer = new_run(data, tmp_path / "run")
    first = [rows.tolist() for rows in trainer._epoch_plan()]
    trainer.progress.epoch = 1
    assert [rows.tolist() for rows in trainer._epoch_plan()] != first


@pytest.mark.parametrize("shuffle", ["list", "formula"])
def test_batches_come_window_by_window_and_a_run_of_before_finds_its_place(
    data: Path, tmp_path: Path, shuffle: str
) -> None:
    """Checkpoints of earlier versions know only how many batches of the epoch were used."""
    trainer = new_run(data, tmp_path / "run", "training.window=40", f"training.shuffle={shuffle}")
    plans = [[rows.tolist() for rows in epoch_plan(trainer.examples, trainer.spec, epoch)] for epoch in (0, 1)]
    assert trainer._epoch_plan().windows > 2
    expected = [*plans[0], *plans[1]]
    assert [trainer._next_rows().tolist() for _ in expected] == expected
    for used in (0, len(plans[0]) // 2, len(plans[0])):
        trainer.progress = Progress.of({"epoch": 0, "index": used})
        assert [trainer._next_rows().tolist() for _ in range(5)] == expected[used : used + 5]


def test_two_runs_with_one_seed_are_identical_and_another_seed_is_not(
    data: Path, tmp_path: Path, whole: Callable[..., Path]
) -> None:
    for name, seed in (("b", 1), ("c", 2)):
        new_run(data, tmp_path / name, *HARD, f"training.seed={seed}").run()
    assert_same_run(whole(), tmp_path / "b")
    assert state_of(whole())[2] != state_of(tmp_path / "c")[2]


STOPS = [
    ("adamw", [5]),
    ("adamw", [3, 4, 11]),
    ("adamw", [1, 23]),
    ("muon", [5]),
    ("muon", [3, 4, 11]),
    ("muon", [1, 23]),
]


@pytest.mark.parametrize(
    ("optimizer", "stops"), STOPS[:4] + [pytest.param(*more, marks=pytest.mark.prove) for more in STOPS[4:]]
)
def test_a_resumed_run_ends_as_one_that_never_stopped(
    data: Path, tmp_path: Path, optimizer: str, stops: list[int], whole: Callable[..., Path]
) -> None:
    """Contract 3 without the process: stopped between any two steps, after work that was not saved."""
    kind = f"training.optimizer.kind={optimizer}"
    never_stopped = whole(kind)
    trainer = new_run(data, tmp_path / "parts", *HARD, kind)
    for stop in stops:
        while trainer.progress.step < stop:
            trainer._step()
            if trainer.progress.step % 20 == 0:
                trainer._log()
            if trainer.progress.step % trainer.evaluate_every == 0:
                trainer._evaluate()
            if trainer.progress.step % (trainer.spec.save_every or 1) == 0:
                trainer.save()
        torch.manual_seed(999)  # whatever happens to the process in between
        trainer = continued(tmp_path / "parts")
    trainer.run()
    assert_same_run(never_stopped, tmp_path / "parts")


def test_resume_rejects_a_forgotten_random_state(data: Path, tmp_path: Path, whole: Callable[..., Path]) -> None:
    """The wrong variant: everything restored but the random numbers ends elsewhere, as dropout differs."""
    never_stopped = whole()
    trainer = new_run(data, tmp_path / "parts", *HARD)
    for _ in range(6):
        trainer._step()
    trainer.save()
    trainer = continued(tmp_path / "parts")
    torch.manual_seed(999)
    trainer.run()
    mine, theirs = state_of(never_stopped)[0], state_of(tmp_path / "parts")[0]
    assert any(not torch.equal(tensor, theirs[name]) for name, tensor in mine.items() if name.startswith("model."))


@pytest.mark.parametrize(
    "damage", proved_later(["truncated", "flipped", "empty", "missing"], but=["flipped", "missing"])
)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(
    data: Path, tmp_path: Path, damage: str, whole: Callable[..., Path]
) -> None:
    """More damage, up to the first step: test_damage.py."""
    never_stopped = whole()
    trainer = new_run(data, tmp_path / "run", *HARD)
    for _ in range(9):
        trainer._step()
        if trainer.progress.step % 20 == 0:
            trainer._log()
        if trainer.progress.step % trainer.evaluate_every == 0:
            trainer._evaluate()
        if trainer.progress.step in (6, 9):
            trainer.save()
    newest = sorted((tmp_path / "run" / "last").iterdir())[-1]
    hurt(newest, damage)
    checkpoint, complaints = load_checkpoint(tmp_path / "run" / "last")
    assert checkpoint is not None
    assert checkpoint.state["step"] == 6
    assert bool(complaints) == (damage != "missing")
    assert all(newest.name in complaint for complaint in complaints)
    continued(tmp_path / "run").run()
    assert_same_run(never_stopped, tmp_path / "run")


def hurt(file: Path, damage: str) -> None:
    content = bytearray(file.read_bytes())
    if damage == "missing":
        file.unlink()
    else:
        content[-10] ^= 1
        kept = {"truncated": len(content) // 2, "flipped": len(content), "empty": 0}[damage]
        file.write_bytes(content[:kept])


def test_a_checkpoint_that_was_read_lets_go_of_its_file(data: Path, tmp_path: Path) -> None:
    """Otherwise a removed checkpoint occupies disk space for as long as the resumed run lasts."""
    new_run(data, tmp_path / "run", *HARD, "training.steps=2").run()
    loaded = load_checkpoint(tmp_path / "run" / "last")
    assert loaded[0] is not None
    assert "step-0" not in Path("/proc/self/maps").read_text()


def test_if_every_checkpoint_is_damaged_that_is_said(tmp_path: Path, whole: Callable[..., Path]) -> None:
    shutil.copytree(whole(), tmp_path / "run")
    for file in (tmp_path / "run" / "last").iterdir():
        hurt(file, "flipped")
    with pytest.raises(DamagedFile, match="every checkpoint is damaged"):
        continued(tmp_path / "run")


def test_a_write_that_fails_loses_nothing(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk: the checkpoint before stays, and no debris."""
    trainer = new_run(data, tmp_path / "run", *HARD)
    trainer._step()
    trainer.save()
    before = {file.name: file.read_bytes() for file in (tmp_path / "run" / "last").iterdir()}

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    trainer._step()
    with pytest.raises(ClearheadError, match=r"cannot be written \(No space left on device\)") as caught:
        trainer.save()
    assert caught.value.exit_code == 1
    assert "\n" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in (tmp_path / "run" / "last").iterdir()} == before


def test_a_loss_that_is_no_number_stops_the_run(data: Path, tmp_path: Path) -> None:
    """Exit 5, the last good state kept, what to try."""
    trainer = new_run(data, tmp_path / "run", *HARD)
    for _ in range(3):
        trainer._step()
    trainer.save()
    with torch.no_grad():
        trainer.model.get_parameter("output.weight").fill_(float("nan"))
    with pytest.raises(Diverged, match=r"step 4: the loss is nan.*Try a lower training\.optimizer\.rate") as caught:
        trainer.run()
    assert caught.value.exit_code == 5
    assert continued(tmp_path / "run").progress.step == 3


def test_a_loss_that_explodes_stops_the_run(data: Path, tmp_path: Path, whole: Callable[..., Path]) -> None:
    """Far above the lowest so far, though finite: exit 5 as well; the undisturbed run continues."""
    lowest = continued(whole()).progress.lowest
    assert lowest is not None
    wild = new_run(data, tmp_path / "wild", *HARD)
    with torch.no_grad():
        wild.model.get_parameter("output.weight").mul_(300.0)
    wild.progress.lowest = lowest
    with pytest.raises(Diverged, match=r"the loss has risen from \d\.\d+ to \d+") as caught:
        wild.run()
    assert caught.value.exit_code == 5


def test_activations_are_measured_and_nothing_changes(tmp_path: Path) -> None:
    """More tokens keep more bytes; measuring changes neither weights nor gradients nor random numbers."""
    data = write_pairs(tmp_path / "pairs.tsv")
    small, large = (
        new_run(data, tmp_path / f"run{size}", *HARD, f"training.batch_tokens={size}") for size in (128, 512)
    )
    state = torch.random.get_rng_state()
    assert 100_000 < small.activation_bytes() < large.activation_bytes() / 2
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(parameter.grad is None for parameter in small.model.parameters())


def test_budgets_become_steps_before_training_starts(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Minutes by a calibration, with time for an evaluation every three of them; epochs by counting batches."""
    monkeypatch.setattr("clearhead.training.preparation.seconds_per_step", lambda *_, **__: 0.5)
    base = read_recipe(None, f'data.train="{data}"', *SMALL, "training.minutes=10")
    spec = prepare(base, tmp_path / "minutes").recipe.training
    assert (spec.steps, spec.minutes, spec.evaluate_every) == (1056, None, 264)  # four evaluations, at least
    assert read_recipe(tmp_path / "minutes" / "recipe.toml").training == spec
    base = read_recipe(None, f'data.train="{data}"', *SMALL, "training.epochs=3")
    run = prepare(base, tmp_path / "epochs")
    trainer = make_trainer(run)
    assert run.recipe.training.steps == 3 * trainer._epoch_plan().count()


@pytest.mark.parametrize("metric", ["ter", "chrf", "token_accuracy", "loss"])
def test_the_best_model_is_chosen_by_any_metric(data: Path, tmp_path: Path, metric: str) -> None:
    progress = new_run(data, tmp_path / "run", f"training.metric={metric}", "training.steps=2").run()
    assert progress.best == progress.history[-1][f"dev_{metric}"]


def test_patience_ends_a_run(data: Path, tmp_path: Path) -> None:
    overrides = ["training.evaluate_every=2", "training.patience=2", "training.optimizer.rate=1e-9"]
    progress = new_run(data, tmp_path / "run", *overrides).run()
    assert progress.step < 24
    assert progress.waited == 2


def test_changed_data_are_noticed(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    new_run(data, tmp_path / "run", "training.steps=2").run()
    data.write_text(data.read_text() + "new\tN E W\n")
    with pytest.raises(DataError, match="the data have changed since"):
        reopen(tmp_path / "run")


def test_the_average_follows_the_weights(data: Path, tmp_path: Path) -> None:
    """a ← δa + (1 − δ)w with δ = min(0.6, (1 + step)/(10 + step)): lower at first, so that a short run is not judged by
    its random start; steps up to 12 and from 13 on take either side of the minimum."""
    trainer = new_run(data, tmp_path / "run", "training.average=0.6")
    name = "encoder.layers.0.feedforward.up.weight"
    start = build(trainer_recipe(trainer), seed=None)
    current, average = trainer.model.get_parameter(name), trainer.average.get_parameter(name)
    expected = average.clone()
    for step in range(1, 16):
        trainer._step()
        decay = min(0.6, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * current.detach()
        torch.testing.assert_close(average, expected, atol=1e-6, rtol=1e-5)
    assert not torch.equal(current, average)
    assert float((current - average).detach().norm()) < float((current - start.get_parameter(name)).detach().norm())


def trainer_recipe(trainer: Trainer) -> Any:
    return read_recipe(trainer.folder / "recipe.toml")


def test_metrics_hold_no_clock(whole: Callable[..., Path]) -> None:
    rows = [json.loads(line) for line in (whole() / "metrics.jsonl").read_text().splitlines()]
    assert {row["kind"] for row in rows} == {"train", "dev"}
    assert all({"kind", "step", "epoch", "loss", "rate"} == row.keys() for row in rows if row["kind"] == "train")
    assert all("dev_line_error" in row for row in rows if row["kind"] == "dev")
    assert not any("second" in name for row in rows for name in row)
