"""Which model is the best, and how fast training is: neither depends on anything but steps and scores."""

import hashlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from clearhead.evaluation import evaluate, kept_scores
from clearhead.models import Model
from clearhead.recipe import read_recipe
from clearhead.training import Progress, Trainer, prepare, reopen
from clearhead.training.checkpoint import load_checkpoint
from clearhead.verbs.session import make_trainer, train_in
from tests.cli.typed import typed
from tests.training.test_trainer import assert_same_run
from tests.training.toy import FEW, SMALL, write_pairs


def trainer_of(folder: Path, *settings: str) -> Trainer:
    pairs = write_pairs(folder / "pairs.tsv", count=FEW)
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, *settings)
    return make_trainer(prepare(recipe, folder / "run"))


def scored(trainer: Trainer, rows: list[tuple[float, float]]) -> Progress:
    """Train, with these scores and losses on dev instead of real ones."""
    given = iter(rows)

    def look(_model: object) -> dict[str, float]:
        score, loss = next(given)
        return {trainer.metric: score, "loss": loss}

    trainer.evaluate = look
    return trainer.run()


@pytest.mark.parametrize(
    ("metric", "rows", "best"),
    [
        ("line_error", [(99.9, 1.12), (99.9, 1.07), (99.9, 1.09)], 4),
        ("bleu", [(30.0, 1.12), (30.0, 1.07), (29.0, 1.0)], 4),
        ("line_error", [(50.0, 1.0), (50.0, 1.0), (50.0, 1.1)], 2),
        ("line_error", [(50.0, 1.0), (40.0, 2.0), (50.0, 0.5)], 4),
        ("loss", [(1.0, 1.0), (0.9, 0.9), (0.9, 0.9)], 4),
    ],
)
def test_of_two_equal_scores_the_lower_loss_wins(
    tmp_path: Path, metric: str, rows: list[tuple[float, float]], best: int
) -> None:
    steps = ["training.steps=6", "training.evaluate_every=2", f"training.metric={metric}"]
    progress = scored(trainer_of(tmp_path, *steps), rows)
    assert progress.best_step == best
    assert progress.best_loss == rows[best // 2 - 1][1]


def test_a_tie_does_not_renew_patience(tmp_path: Path) -> None:
    steps = ["training.steps=10", "training.evaluate_every=2", "training.patience=2"]
    progress = scored(trainer_of(tmp_path, *steps), [(99.0, 3.0), (99.0, 2.0), (99.0, 1.0), (1.0, 0.0)])
    assert (progress.step, progress.best_step) == (6, 6)


def test_a_checkpoint_from_before_ties_were_broken_finds_the_loss_in_its_history() -> None:
    state = {"step": 4, "best": 9.0, "best_step": 2, "history": [{"step": 2, "dev_loss": 1.5}, {"step": 4}]}
    assert Progress.of(state | {"files": {}}).best_loss == 1.5


def test_the_rate_does_not_count_what_dev_and_checkpoints_take(tmp_path: Path) -> None:
    """Neither in clock.jsonl nor on the screen; the time since the start does."""
    trainer = trainer_of(tmp_path, "training.steps=60", "training.evaluate_every=20", "training.save_every=20")
    look, save = trainer.evaluate, trainer.save

    def slow_look(model: Model) -> dict[str, float]:
        time.sleep(0.5)
        return look(model)

    def slow_save() -> None:
        time.sleep(0.5)
        save()

    trainer.evaluate, trainer.save = slow_look, slow_save  # type: ignore[method-assign]
    started = time.monotonic()
    trainer.run()
    taken = time.monotonic() - started
    rows = [json.loads(line) for line in (tmp_path / "run" / "clock.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [20, 40, 60]
    assert rows[-1]["seconds"] > 2.0
    steps = sum(tokens / row["tokens_per_second"] for row, tokens in zip(rows, tokens_between(trainer), strict=True))
    assert steps < taken - 2.5  # three looks and as many checkpoints, and the one at the start


def tokens_between(trainer: Trainer) -> list[int]:
    """Target tokens of each 20 steps."""
    fresh = make_trainer(reopen(trainer.folder))
    counts = [fresh.objective.batch(fresh.examples, fresh._next_rows(), 0).tokens for _ in range(60)]
    return [sum(counts[start : start + 20]) for start in (0, 20, 40)]


def test_a_rate_after_a_resume_counts_only_what_was_done(tmp_path: Path) -> None:
    """The tokens of a line of the log may come from two processes, and so does the time."""
    trainer = trainer_of(tmp_path, "training.steps=20")
    for _ in range(10):
        trainer._step()
    trainer.progress.busy = 100.0
    trainer.save()
    trainer = make_trainer(reopen(tmp_path / "run"))
    trainer.resume()
    tokens = trainer.progress.token_sum
    trainer.run()
    (row,) = [json.loads(line) for line in (tmp_path / "run" / "clock.jsonl").read_text().splitlines()]
    assert row["tokens_per_second"] <= round(2.5 * tokens / 100.0)


def test_a_wall_clock_that_jumps_decides_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Backwards by years, forwards by centuries, from call to call: times stay sane and the run the same."""
    steps = ["training.steps=24", "training.evaluate_every=8"]
    (tmp_path / "calm").mkdir()
    (tmp_path / "wild").mkdir()
    trainer_of(tmp_path / "calm", *steps).run()
    jumps = iter(range(10**9))

    def jumping() -> float:
        number = next(jumps)
        return 1e9 * number * (1 if number % 2 else -1)

    monkeypatch.setattr(time, "time", jumping)
    trainer_of(tmp_path / "wild", *steps).run()
    assert_same_run(tmp_path / "calm" / "run", tmp_path / "wild" / "run")
    for line in (tmp_path / "wild" / "run" / "clock.jsonl").read_text().splitlines():
        row = json.loads(line)
        assert 0 <= row["seconds"] < 60
        assert 0 < row["tokens_per_second"] < 1e8


def test_a_resumed_run_uses_the_threads_that_it_began_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without this, a bare --resume took all cores, and summed in another order; evaluations included."""
    pairs = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    words = ["--max-steps", "4", "training.evaluate_every=2", *SMALL]
    assert typed("train", str(pairs), "-o", str(tmp_path / "run"), *words).returncode == 0
    (tmp_path / "run" / "last" / "step-000000004.safetensors").unlink()
    used: list[int] = []
    monkeypatch.setattr(sys.modules["clearhead.training.process_group"], "cores", lambda: 2)
    monkeypatch.setattr("torch.set_num_threads", used.append)
    assert typed("train", "-o", str(tmp_path / "run"), "--resume").returncode == 0
    assert used[-1] == 1


# ---- scores.json ----


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scores")
    pairs = write_pairs(folder / "pairs.tsv", count=FEW)
    words = ["--max-steps", "6", "training.evaluate_every=3", "decoding.beam_size=2", *SMALL]
    result = typed("train", str(pairs), "-o", str(folder / "run"), *words)
    assert result.returncode == 0, result.stderr
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def test_the_scores_of_the_best_model_are_kept(run: Path, finished: Path) -> None:
    """Dev and test as ``eval`` gives them, and everything that they depend on; test also in the log."""
    kept = json.loads((run / "scores.json").read_text())
    for split in ("dev", "test"):
        given = json.loads(typed("eval", str(run), "--split", split, "--json").stdout)
        assert kept[split] == given
        assert kept[split].keys() == {"metrics", "sources", "references"}
        assert kept[split]["metrics"]["bleu"]["signature"].startswith("nrefs:1")
    checkpoint, _ = load_checkpoint(run / "last")
    assert checkpoint is not None
    assert kept["model"]["step"] == checkpoint.state["best_step"]
    assert len(kept["model"]["fingerprint"]) == len(kept["data"]["corpus"]) == len(kept["data"]["dev"]) == 64
    assert kept["decoding"]["beam_size"] == 2
    assert list(kept["data"]["files"]) == [str(finished.parent / "pairs.tsv")]
    log = (run / "train.log").read_text()
    assert f"symbol_error {kept['test']['metrics']['symbol_error']['value']:.2f} [" in log


def test_a_finished_run_takes_the_scores_that_it_has(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is computed or logged twice; what cannot be believed is computed again."""
    before = {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()}
    calls = []

    def counted(*given: Any) -> Any:
        calls.append(1)
        return evaluate(*given)

    monkeypatch.setattr("clearhead.evaluation.kept.evaluate", counted)
    again = typed("train", "-o", str(run), "--resume")
    assert (again.returncode, calls) == (0, [])
    assert f"{json.loads(before['scores.json'])['test']['metrics']['symbol_error']['value']:7.2f}" in again.stdout
    assert {path.name: path.read_bytes() for path in run.iterdir() if path.is_file()} == before
    scores = before["scores.json"]
    older = json.loads(scores)
    del older["format"], older["checksum"]
    for part in ("dev", "test"):  # as it was written before metrics had one shape
        table = older[part]
        counts = {name: table[name] for name in ("sources", "references")}
        older[part] = {"counts": counts, "metrics": table["metrics"], "values": {"perplexity": 2.0}}
    older["checksum"] = hashlib.sha256(json.dumps(older, sort_keys=True).encode()).hexdigest()
    damages = (b"", scores[: len(scores) // 2], scores.replace(b"0.", b"1.", 1), b"[]", b"[" * 5000)
    for damaged in (*damages, json.dumps(older).encode()):
        (run / "scores.json").write_bytes(damaged)
        assert kept_scores(run) == {}
        calls.clear()
        assert typed("train", "-o", str(run), "--resume").returncode == 0
        assert len(calls) == 2
        assert (run / "scores.json").read_bytes() == scores


def test_scores_of_another_model_are_not_taken(run: Path) -> None:
    before = json.loads((run / "scores.json").read_text())
    train_in(read_recipe(None), run, resume=True)
    assert json.loads((run / "scores.json").read_text()) == before
    result = typed("train", "-o", str(run), "--resume", "--max-steps", "12")
    assert result.returncode == 0, result.stderr
    after = json.loads((run / "scores.json").read_text())
    assert after["model"]["fingerprint"] != before["model"]["fingerprint"]
    assert after["model"]["step"] > 6
    assert any(not torch.equal(t, torch.zeros_like(t)) for t in load_file(run / "best.safetensors").values())
