"""--resume continues a run as it is, or extends a finished one; every other difference is reported and refused."""

import copy
import hashlib
import json
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from clearhead.errors import ClearheadError, RecipeError
from clearhead.recipe import read_recipe, read_with_origins, recipe_table
from clearhead.training import StatedRecipe, opened, prepare, reopen
from clearhead.training.contradictions import contradictions
from clearhead.training.manifest import read_manifest, write_manifest
from clearhead.training.preparation import _DECIDES, extend
from clearhead.verbs.session import make_trainer, train_in
from tests.cli.forked import Forked
from tests.cli.typed import typed
from tests.training.test_trainer import assert_same_run, state_of
from tests.training.toy import FEW, SMALL, write_lines, write_pairs

STEPS = ["training.evaluate_every=6", "training.save_every=3"]


def ask(*words: str, source: str | None = None) -> StatedRecipe:
    return StatedRecipe(*read_with_origins(source, *words))


def content(folder: Path) -> dict[str, bytes]:
    """Everything but when files were seen last, which every opening notes anew."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.name != "stamps.json"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 12 steps, trained to its end."""
    folder = tmp_path_factory.mktemp("resuming")
    pairs = write_pairs(folder / "pairs.tsv", count=FEW)
    result = typed("train", str(pairs), "-o", str(folder / "run"), "--max-steps", "12", *STEPS, *SMALL)
    assert result.returncode == 0, result.stderr
    return folder / "run"


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / "run")


def stopped(run: Path) -> Path:
    """The same run as it stood after step 9."""
    for path in (run / "last").glob("*12.safetensors"):
        path.unlink()
    return run


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["model.layers=9"], ["model.layers: the run has 1, you ask for 9"]),
        (["model.encoder.layers=2"], ["model.encoder.layers: the run has 1, you ask for 2"]),
        (
            ["tiny", "training.seed=7"],
            ["model.width: the run has 32, you ask for 128", "training.seed: the run has 1, you ask for 7"],
        ),
        (["--minutes", "3"], ["training.minutes: the run has none (12 steps), you ask for 3.0"]),
        (["--epochs", "2"], ["training.epochs: the run has none (12 steps), you ask for 2"]),
        (["--max-steps", "11"], ["training.steps: the run has 12, you ask for 11", "ask for more than 12"]),
        (["--max-steps", "20", "model.layers=2"], ["you ask for 20", "you ask for 2", "choose another -o"]),
        (["decoding.beam_size=1", "model.norm.place=post"], ["decoding.beam_size", "model.norm.place"]),
        (["OTHER"], ["data.train: the run has", "you ask for"]),
        (["--dev", "OTHER"], ["data.dev: the run has none, you ask for"]),
        (["--more", "OTHER"], ["data.more: the run has none, you ask for"]),
        (["corpus.toml"], ["model.width: the run has 32, you ask for 48"]),
    ],
)
def test_what_contradicts_a_run_is_named_and_nothing_changes(
    run: Path, words: list[str], named: list[str], tmp_path: Path
) -> None:
    """Exit 2, every difference in one message. Before, all of it was ignored."""
    other = write_pairs(tmp_path / "other.tsv", seed=3, count=FEW)
    (tmp_path / "corpus.toml").write_text("[model]\nwidth = 48\n")
    places = {"OTHER": str(other), "corpus.toml": str(tmp_path / "corpus.toml")}
    before = content(run)
    result = typed("train", "-o", str(run), "--resume", *(places.get(word, word) for word in words))
    assert result.returncode == 2, result.stderr
    for words_of_it in named:
        assert words_of_it in result.stderr
    assert content(run) == before


@pytest.mark.parametrize(
    ("setting", "decided"),
    [
        ("training.batch_tokens=512", 2048),
        ("training.optimizer.rate=0.001", 0.002),
        ("decoding.length_penalty=0.6", 1.5),
        ("model.joint.order=0", 8),
    ],
)
def test_what_the_data_decided_is_not_what_was_asked_for(setting: str, decided: float) -> None:
    """A default that was left to the data is no answer to somebody who asks for it later."""
    name = setting.partition("=")[0]
    asked, resolved = recipe_table(read_recipe()), recipe_table(read_recipe(None, f"{name}={decided}"))
    recipe, stated = read_with_origins(None, setting)
    (problem,) = contradictions(recipe, stated, asked, resolved)
    assert problem.key == name
    assert problem.message.startswith(f"the run has {decided}, you ask for ")
    assert contradictions(*read_with_origins(None, f"{name}={decided}"), asked, resolved) == []


def test_what_agrees_with_a_run_passes(run: Path, finished: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at all, the very same command, a part of it, the resolved recipe, another way to write the file."""
    pairs = finished.parent / "pairs.tsv"
    monkeypatch.chdir(finished.parent)
    recipe = str(run / "recipe.toml")
    for words in (
        [],
        [str(pairs), "--max-steps", "12", *STEPS, *SMALL],
        ["pairs.tsv", "model.layers=1"],
        ["../" + pairs.parent.name + "/pairs.tsv"],
        [recipe],
    ):
        before = content(run)
        result = typed("train", "-o", str(run), "--resume", *words)
        assert result.returncode == 0, result.stderr
        assert "continuing after step 12" in result.stderr
        assert content(run) == before


def test_a_budget_in_minutes_agrees_with_itself_however_far_the_run_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ``make demo``: one command for a fresh folder, an unfinished run and a finished one."""
    monkeypatch.setattr("clearhead.training.preparation.seconds_per_step", lambda *_, **__: 13.2)
    pairs, folder = write_pairs(tmp_path / "pairs.tsv", count=FEW), tmp_path / "run"
    words = [str(pairs), "-o", str(folder), "--minutes", "3", "--resume", "decoding.beam_size=1", *SMALL]
    for _ in range(2):
        result = typed("train", *words)
        assert result.returncode == 0, result.stderr
    for file in sorted((folder / "last").iterdir())[1:]:
        file.unlink()
    result = typed("train", *words)
    assert result.returncode == 0, result.stderr
    assert "the run has" not in result.stderr
    words[words.index("3")] = "4"
    result = typed("train", *words)
    assert (result.returncode, result.stderr.splitlines()[0]) == (
        2,
        "training.minutes: the run has 3.0, you ask for 4.0",
    )


def test_settings_that_only_follow_from_the_data_contradict_nothing(tmp_path: Path) -> None:
    """A .txt file means a language model, unless an encoder is asked for: on --resume the file alone is enough."""
    lines, folder = write_lines(tmp_path / "lines.txt"), str(tmp_path / "run")
    begun = typed("train", str(lines), "-o", folder, "--max-steps", "2", "model.family=encoder", *SMALL)
    assert begun.returncode == 0, begun.stderr
    assert typed("train", str(lines), "-o", folder, "--resume").returncode == 0
    other = typed("train", str(lines), "-o", folder, "--resume", "model.family=lm")
    assert (other.returncode, "model.family: the run has encoder, you ask for lm" in other.stderr) == (2, True)


def test_a_finished_run_goes_on_with_a_stated_schedule(run: Path, finished: Path, tmp_path: Path) -> None:
    """The rate follows the schedule over all steps; killed inside the extension, even before it, it ends the same."""
    result = typed("train", "-o", str(run), "--resume", "--max-steps", "21")
    assert result.returncode == 0, result.stderr
    assert (
        "continuing from step 12 to step 21; cosine schedule over 21 steps, from step 13 on: rate 4." in result.stderr
    )
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "dev"] == [6, 12, 18, 21]
    assert [row["step"] for row in rows if row["kind"] == "train"] == [12, 20, 21]
    assert reopen(run).recipe.training.steps == 21
    parts = shutil.copytree(finished, tmp_path / "parts")
    longer, begun = opened(ask("training.steps=21"), parts, resume=True)
    assert begun
    for until in (14, 17):  # left after work that was not saved; then once more, from an older checkpoint
        trainer = make_trainer(longer)
        assert trainer.resume()
        while trainer.progress.step < until:
            trainer._step()
            if trainer.progress.step % 3 == 0:
                trainer.save()
        torch.manual_seed(5)
        longer, _ = opened(ask(), parts, resume=True)
    train_in(ask(), parts, resume=True)
    assert_same_run(run, parts)


def test_an_extension_from_an_older_checkpoint_repeats_the_steps_as_they_were(run: Path, finished: Path) -> None:
    """The newest checkpoint is damaged after the extension was asked for: steps 10 to 12 keep their own schedule."""
    opened(ask("training.steps=21"), run, resume=True)
    stopped(run)
    train_in(ask(), run, resume=True)
    other = shutil.copytree(finished, run.parent / "other")
    train_in(ask("training.steps=21"), other, resume=True)
    assert_same_run(run, other)


def test_an_extension_is_not_forgotten_between_two_files(run: Path) -> None:
    """Killed after run.json and before recipe.toml."""
    old = (run / "recipe.toml").read_text()
    opened(ask("training.steps=21"), run, resume=True)
    new = (run / "recipe.toml").read_text()
    (run / "recipe.toml").write_text(old)
    assert reopen(run).recipe.training.steps == 21
    assert (run / "recipe.toml").read_text() == new


def test_a_run_that_lost_its_patience_can_be_extended(tmp_path: Path) -> None:
    """With new patience; a kill right after the extension was recorded changes nothing about it."""
    pairs = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    still = ["training.evaluate_every=2", "training.patience=2", "training.optimizer.rate=1e-9"]
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, "training.steps=30", *still)
    train_in(recipe, tmp_path / "run", resume=False)
    assert state_of(tmp_path / "run")[1]["step"] == 6
    opened(ask("training.steps=40"), tmp_path / "run", resume=True)
    with pytest.raises(RecipeError, match="is at step 6 of 40: finish it with --resume first"):
        opened(ask("training.steps=50"), tmp_path / "run", resume=True)
    train_in(ask(), tmp_path / "run", resume=True)
    assert state_of(tmp_path / "run")[1]["step"] == 10


def test_a_run_that_is_not_finished_is_not_extended(run: Path) -> None:
    before = content(stopped(run))
    with pytest.raises(RecipeError, match=r"(?s)the run has 12, you ask for 20.*is at step 9 of 12: finish it"):
        opened(ask("training.steps=20"), run, resume=True)
    assert content(run) == before


def test_a_plain_start_never_touches_what_was_trained(run: Path) -> None:
    """Also without its recipe, where the old best model was overwritten without a word."""
    before = content(run)
    with pytest.raises(ClearheadError, match="has a run already; add --resume"):
        opened(ask(), run, resume=False)
    for name in ("recipe.toml", "run.json"):
        (run / name).unlink()
    pairs = write_pairs(run.parent / "pairs.tsv", count=FEW)
    for resume in (False, True):
        with pytest.raises(ClearheadError, match="choose another -o"):
            opened(ask(f'data.train="{pairs}"'), run, resume=resume)
    assert content(run) == {name: held for name, held in before.items() if name not in ("recipe.toml", "run.json")}


def test_a_best_model_without_a_checkpoint_is_not_overwritten(run: Path) -> None:
    shutil.rmtree(run / "last")
    before = content(run)
    with pytest.raises(ClearheadError, match="no checkpoint in last/ to continue from"):
        opened(ask(), run, resume=True)
    assert content(run) == before


def test_a_kill_before_the_first_checkpoint_is_no_such_case(tmp_path: Path) -> None:
    """The first evaluation may come before the first checkpoint that the recipe asks for: step 0 is always saved."""
    pairs = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    rare = ["training.evaluate_every=2", "training.save_every=100", "training.steps=6"]
    settings = [f'data.train="{pairs}"', *SMALL, *rare]
    train_in(ask(*settings), tmp_path / "whole", resume=False)
    run, _ = opened(ask(*settings), tmp_path / "killed", resume=False)
    trainer = make_trainer(run)
    trainer.save()
    trainer._step()
    trainer._step()
    trainer._evaluate()
    assert (tmp_path / "killed" / "best.safetensors").is_file()
    train_in(ask(*settings), tmp_path / "killed", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, OSError(28, "No space left on device")])
def test_a_start_that_fails_is_not_in_the_way_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    pairs, folder = write_pairs(tmp_path / "pairs.tsv", count=FEW), tmp_path / "runs" / "mine"
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, "training.steps=2")

    def fail(*_: object) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr("clearhead.training.preparation._with_budget", fail)
        with pytest.raises((KeyboardInterrupt, MemoryError, OSError)):
            prepare(recipe, folder)
    assert not folder.parent.exists()
    train_in(recipe, folder, resume=False)


def test_what_a_kill_during_preparation_left_is_not_in_the_way(tmp_path: Path) -> None:
    pairs, folder = write_pairs(tmp_path / "pairs.tsv", count=FEW), tmp_path / "run"
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, "training.steps=2")
    for name in (".preparing/train.source.ids", "data/train.target.ids", ".lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"half")
    train_in(recipe, folder, resume=False)
    assert not (folder / ".preparing").exists()


def test_a_run_that_was_prepared_and_not_trained_is_prepared_anew(tmp_path: Path) -> None:
    """Such as one that needs a package that is not there, or too much memory."""
    pairs, folder = write_pairs(tmp_path / "pairs.tsv", count=FEW), tmp_path / "run"
    for width in (32, 48):
        recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, "training.steps=2", f"model.width={width}")
        run, begun = opened(StatedRecipe(recipe), folder, resume=False)
        assert not begun
    assert getattr(run.recipe.model, "encoder").width == 48  # noqa: B009 - of a seq2seq


def test_two_processes_do_not_train_in_one_folder(tmp_path: Path) -> None:
    """The second is refused at once and changes nothing; after a SIGKILL of the first its lock is taken over."""
    pairs, folder = write_pairs(tmp_path / "pairs.tsv", count=FEW), tmp_path / "run"
    words = ["train", str(pairs), "-o", str(folder), "--max-steps", "100000", "training.evaluate_every=100000", *SMALL]
    first = Forked(words, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (folder / "metrics.jsonl").is_file():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        for more in ([], ["--resume"]):
            files = content(folder / "last")
            second = typed(*words, *more)
            assert second.returncode == 1
            assert f"is in use by process {first.pid} on " in second.stderr
            assert content(folder / "last").keys() == files.keys()
    finally:
        first.send_signal(signal.SIGKILL)
        first.wait()
    assert (folder / ".lock").is_file()
    run, begun = opened(ask(), folder, resume=True)
    assert begun
    assert make_trainer(run).resume()


def test_a_run_of_an_earlier_version_is_the_same_run(finished: Path, tmp_path: Path) -> None:
    """Its identity follows from the settings that there were when it began, also once it is extended."""
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    manifest = read_manifest(folder)
    recipe = copy.deepcopy(manifest.recipe)
    del recipe["training"]["precision"], recipe["model"]["encoder"]["parallel"]
    write_manifest(folder, replace(manifest, recipe=recipe))
    written = (folder / "recipe.toml").read_text(encoding="utf-8")
    (folder / "recipe.toml").write_text(written.replace('precision = "float32"\n', ""), encoding="utf-8")
    older = reopen(folder)
    assert older.identity != reopen(finished).identity
    training = {name: value for name, value in recipe["training"].items() if name in _DECIDES}
    known = json.dumps([recipe["model"], training, manifest.fingerprint], sort_keys=True)
    assert older.identity == hashlib.sha256(known.encode()).hexdigest()
    extended = extend(older, 20, 12, 6)
    assert extended.identity == reopen(folder).identity == older.identity
    assert reopen(folder).recipe.training.steps == 20
