"""Every file that a run reads back may be damaged: it is restored or refused with advice, and never trusted."""

import io
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from clearhead.errors import DamagedFile, DataError, NewerFile
from clearhead.recipe import read_recipe
from clearhead.training import Prepared, reopen
from clearhead.training import manifest as manifests
from clearhead.verbs.session import make_trainer
from tests.cli.typed import typed
from tests.training.test_trainer import assert_same_run
from tests.training.toy import FAMILIES, FEW, SMALL, write_pairs

STEPS = ["--max-steps", "8", "training.evaluate_every=4", "training.save_every=2"]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 4]) + content[middle + 1 :] if content else b"\1"


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "halved": lambda content: content[: len(content) // 2],
    "one byte more": lambda content: content + b"\0",
    "one bit flipped": flip,
    "zeros": lambda content: bytes(len(content)),
    "garbage": lambda content: bytes((7 * index + 131) % 256 for index in range(len(content) + 3)),
}
NAMES = [*DAMAGES, "removed", "a folder instead"]
SOME = ("halved", "one bit flipped", "removed", "a folder instead")
"""Its size gives a damage away, or its checksum alone; there is nothing to read, or nothing that can be read."""
some_damages = pytest.mark.parametrize(
    "damage", [name if name in SOME else pytest.param(name, marks=pytest.mark.prove) for name in NAMES]
)
"""The others too in `make prove`; `make test` tries all of them on encoded tokens and on checkpoints."""


def hurt(path: Path, damage: str) -> None:
    before = path.read_bytes()
    path.unlink()
    if damage in DAMAGES:
        path.write_bytes(DAMAGES[damage](before))
    elif damage != "removed":
        path.mkdir()


def is_hurt(path: Path, before: bytes) -> bool:
    return not path.is_file() or path.read_bytes() != before


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``whole``: a run of 8 steps; ``part``: the same run after step 6, with two checkpoints."""
    folder = tmp_path_factory.mktemp("damage")
    pairs = write_pairs(folder / "pairs.tsv", count=FEW)
    assert typed("train", str(pairs), "-o", str(folder / "whole"), *STEPS, *SMALL).returncode == 0
    assert typed("train", str(pairs), "-o", str(folder / "part"), *STEPS, *SMALL).returncode == 0
    run = make_trainer(reopen(folder / "part"))
    shutil.rmtree(folder / "part" / "last")
    for name in ("metrics.jsonl", "clock.jsonl", "best.safetensors", "scores.json", "train.log"):
        (folder / "part" / name).unlink()
    run.save()
    while run.progress.step < 6:
        run._step()
        if run.progress.step == 4:
            run._evaluate()
        if run.progress.step % 2 == 0:
            run.save()
    run.report.forget_after(6)
    return folder


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(runs / "part", tmp_path / "run")


def resumed(run: Path) -> Prepared:
    """As ``--resume`` does, up to the first step."""
    opened = reopen(run)
    trainer = make_trainer(opened)
    assert trainer.resume()
    return opened


ARRAYS = ["train.source.ids", "train.source.starts", "train.target.ids", "train.target.starts", "train.json"]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        pytest.param(name, damage, marks=() if damage in SOME or name == ARRAYS[0] else pytest.mark.prove)
        for name in (*ARRAYS, "tokenizers.json")
        for damage in NAMES
    ],
)
def test_prepared_data_are_made_again(run: Path, runs: Path, name: str, damage: str) -> None:
    """They are restored bit for bit, with a message; only a folder in their place must be moved away by the user."""
    path = run / "data" / name
    before = path.read_bytes()
    hurt(path, damage)
    if damage == "a folder instead":
        with pytest.raises(DamagedFile, match=rf"{name}: is not a file: move it away, then --resume"):
            resumed(run)
        return
    assert is_hurt(path, before)
    notes = resumed(run).notes
    assert len(notes) == 1
    assert f"{name}: " in notes[0]
    assert notes[0].endswith("rebuilt from the data")
    assert path.read_bytes() == before
    assert reopen(run).notes == ()
    if name == "train.target.ids" and damage == "one bit flipped":
        result = typed("train", "-o", str(run), "--resume")
        assert result.returncode == 0, result.stderr
        assert_same_run(runs / "whole", run)


@pytest.mark.parametrize("family", FAMILIES)
def test_so_are_those_of_every_family(family: str, tmp_path: Path) -> None:
    """Images are in test_digits.py."""
    file = FAMILIES[family](tmp_path / ("labels.tsv" if family == "classifier" else "lines.txt"))
    every_file_is_made_again([str(file), f"model.family={family}", *SMALL], tmp_path / "run")


def every_file_is_made_again(words: list[str], run: Path) -> None:
    """Train with these words, then hurt one prepared file after the other."""
    result = typed("train", *words, "-o", str(run), "--max-steps", "2", "training.threads=1")
    assert result.returncode == 0, result.stderr
    files = {path for path in (run / "data").iterdir() if path.name != "stamps.json"}  # see test_stamps.py
    assert len(files) >= 3
    for path in sorted(files):
        before = path.read_bytes()
        hurt(path, "one bit flipped")
        assert is_hurt(path, before)
        assert len(resumed(run).notes) == 1
        assert path.read_bytes() == before


def test_data_that_cannot_be_made_as_they_were_are_refused(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Here: a clearhead that cuts otherwise. Nothing is put in the place of what was there."""
    hurt(run / "data" / "train.source.ids", "halved")
    before = (run / "data" / "train.source.ids").read_bytes()
    monkeypatch.setattr("clearhead.training.objectives.pairs.Pairs.write", lambda *_: None)
    with pytest.raises(DamagedFile, match=r"train\.source\.ids: .* cannot be rebuilt .* start a new run"):
        reopen(run)
    assert (run / "data" / "train.source.ids").read_bytes() == before


def test_damaged_data_and_a_changed_source_are_refused(run: Path, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    assert typed("train", str(pairs), "-o", str(tmp_path / "own"), *STEPS, *SMALL).returncode == 0
    hurt(tmp_path / "own" / "data" / "train.source.ids", "zeros")
    pairs.write_text(pairs.read_text() + "new\tN E W\n")
    with pytest.raises(DataError, match="the data have changed since"):
        reopen(tmp_path / "own")


@some_damages
@pytest.mark.parametrize("name", ["metrics.jsonl", "clock.jsonl"])
def test_rows_that_cannot_be_read_do_not_stop_training(run: Path, runs: Path, name: str, damage: str) -> None:
    """They are removed with a warning, the scores on dev are restored, and the weights are the same."""
    if name == "clock.jsonl":
        (run / name).write_text('{"step": 5, "seconds": 1.0, "tokens_per_second": 9}\n')
        trainer = make_trainer(reopen(run))
        trainer.resume()
        trainer.save()
    hurt(run / name, damage)
    result = typed("train", "-o", str(run), "--resume")
    assert "Traceback" not in result.stderr
    if damage == "a folder instead":
        assert result.returncode == 3
        assert f"{name}: is not a file: move it away, then --resume" in result.stderr
        return
    assert result.returncode == 0, result.stderr
    if damage != "one byte more":  # after what was there at the checkpoint: as a kill leaves it
        assert f"{name}: does not match its checksum" in result.stderr
    assert_same_run(runs / "whole", run)  # metrics.jsonl among it


@some_damages
def test_the_recipe_is_written_anew_from_the_manifest(run: Path, damage: str) -> None:
    """A file that is not TOML, or empty, was not written by clearhead; the run does not use other settings."""
    path = run / "recipe.toml"
    before = path.read_bytes()
    hurt(path, damage)
    if damage == "a folder instead":
        with pytest.raises(DamagedFile, match=r"recipe\.toml: is not a file: move it away"):
            reopen(run)
        return
    try:
        notes = reopen(run).notes
    except Exception as error:  # half a recipe, or one with another letter, is one that somebody may have written
        assert getattr(error, "exit_code", None) == 2
        assert damage in ("halved", "one bit flipped")
        assert path.read_bytes() != before
        path.unlink()
        notes = reopen(run).notes
    assert len(notes) == 1
    assert notes[0].endswith("restored from run.json")
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [
        ("steps = 8", "steps = 80", "training.steps: the run has 8, the file says 80"),
        ("steps = 8", "minutes = 3", "training.minutes: the run has none, the file says 3.0"),
        ("width = 32", "width = 64", "model.encoder.width: the run has 32, the file says 64"),
        ("source = 11", "source = 10", "model.vocabulary.source: the run has 11, the file says 10"),
        ("seed = 1", "seed = 2", "training.seed: the run has 1, the file says 2"),
        ("steps = 8", 'steps = "many"', "must be a whole number"),
    ],
)
def test_a_recipe_that_was_edited_is_refused_with_the_differences(run: Path, old: str, new: str, named: str) -> None:
    path = run / "recipe.toml"
    before = path.read_text()
    assert old in before
    path.write_text(before.replace(old, new))
    result = typed("train", "-o", str(run), "--resume")
    assert result.returncode == 2
    assert named in result.stderr
    path.write_text("# a comment changes nothing\n" + before)
    assert reopen(run).notes == ()


@some_damages
def test_the_manifest_is_written_anew_if_all_else_fits(run: Path, damage: str) -> None:
    """From recipe.toml, the data encoded again, and the best model; so is that of a run of an earlier version."""
    hurt(run / "run.json", damage)
    if damage == "a folder instead":
        with pytest.raises(DamagedFile, match=r"run\.json: is not a file: move it away"):
            reopen(run)
        return
    notes = reopen(run).notes
    assert len(notes) == 1
    assert "run.json: " in notes[0]
    assert reopen(run).notes == ()
    # nobody knows any more what was asked for, but what became of it
    assert typed("train", "-o", str(run), "--resume", "model.layers=2").returncode == 2
    assert typed("train", "-o", str(run), "--resume", "--minutes", "3").returncode == 0


@pytest.mark.parametrize("other", [*ARRAYS, "tokenizers.json"])
def test_without_the_manifest_no_damaged_data_are_believed(run: Path, other: str) -> None:
    (run / "run.json").unlink()
    hurt(run / "data" / other, "one bit flipped")
    with pytest.raises(DamagedFile, match=r"another -o"):
        reopen(run)


def test_without_the_manifest_the_best_model_knows_the_recipe(run: Path) -> None:
    (run / "run.json").unlink()
    (run / "recipe.toml").write_text((run / "recipe.toml").read_text().replace("seed = 1", "seed = 2"))
    result = typed("train", "-o", str(run), "--resume")
    assert (result.returncode, "the run has 1, recipe.toml says 2" in result.stderr) == (2, True)


def test_a_manifest_of_a_newer_version_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = manifests.read_manifest(run)
    with monkeypatch.context() as patch:
        patch.setattr(manifests, "FORMAT", 2)
        manifests.write_manifest(run, manifest)
    with pytest.raises(NewerFile, match="upgrade clearhead"):
        reopen(run)


@pytest.mark.parametrize(
    ("which", "damage"),
    [
        pytest.param(which, damage, marks=() if damage in SOME or which == "all" else pytest.mark.prove)
        for which in ("newest", "all")
        for damage in NAMES
    ],
)
def test_checkpoints(run: Path, runs: Path, which: str, damage: str) -> None:
    files = sorted((run / "last").iterdir(), reverse=True)
    for file in files[:1] if which == "newest" else files:
        hurt(file, damage)
    result = typed("train", "-o", str(run), "--resume")
    assert "Traceback" not in result.stderr
    if damage == "a folder instead":
        assert (result.returncode, "is not a file: move it away" in result.stderr) == (3, True)
    elif which == "all":
        assert result.returncode == 3
        assert "another -o" in result.stderr
    else:
        assert result.returncode == 0, result.stderr
        assert_same_run(runs / "whole", run)


@some_damages
def test_the_best_model(run: Path, damage: str) -> None:
    """Another one is chosen; in a finished run its weights are lost, unless it is the last checkpoint."""
    hurt(run / "best.safetensors", damage)
    result = typed("train", "-o", str(run), "--resume")
    assert "Traceback" not in result.stderr
    if damage == "a folder instead":
        assert (result.returncode, "is not a file: move it away" in result.stderr) == (3, True)
        return
    assert result.returncode == 0, result.stderr
    assert "the next evaluation chooses a new best model" in result.stderr
    before = load_file(run / "best.safetensors")
    hurt(run / "best.safetensors", damage)
    result = typed("train", "-o", str(run), "--resume")
    assert result.returncode == 0, result.stderr
    assert "restored from the last checkpoint" in result.stderr
    after = load_file(run / "best.safetensors")
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


@pytest.fixture(scope="module")
def once_piped(runs: Path) -> Path:
    """A run whose data came through a pipe."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", Pipe(runs / "pairs.tsv"))
        result = typed("train", "-", "-o", str(runs / "piped"), *STEPS, *SMALL)
    assert result.returncode == 0, result.stderr
    return runs / "piped"


@pytest.fixture
def piped(once_piped: Path) -> Iterator[Path]:
    """That run, which knows where it stands, with its data as they were after the test before."""
    file = once_piped / "data" / "stdin.tsv"
    before = file.read_bytes()
    yield once_piped
    if file.is_dir():
        file.rmdir()
    file.write_bytes(before)


@some_damages
def test_what_came_through_a_pipe(piped: Path, runs: Path, damage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights exist nowhere else: refused with advice, and the advice works."""
    hurt(piped / "data" / "stdin.tsv", damage)
    result = typed("train", "-o", str(piped), "--resume")
    assert (result.returncode, "pipe the same data in again" in result.stderr) == (3, True)
    if damage == "removed":
        monkeypatch.setattr("sys.stdin", Pipe(runs / "pairs.tsv"))
        assert typed("train", "-", "-o", str(piped), "--resume").returncode == 0


class Pipe:
    """Standard input that is a pipe with this in it."""

    def __init__(self, file: Path) -> None:
        self.buffer = io.BytesIO(file.read_bytes())
        self.closed = False

    def isatty(self) -> bool:
        return False


def test_a_run_from_before_there_were_manifests_goes_on(run: Path, runs: Path) -> None:
    """No run.json, no checksums and no dev loss of the best in its checkpoints."""
    (run / "run.json").unlink()
    trainer = make_trainer(reopen(run))
    trainer.resume()
    (run / "run.json").unlink()
    from clearhead.training.checkpoint import Checkpoint, load_checkpoint, save_checkpoint

    checkpoint, _ = load_checkpoint(run / "last")
    assert checkpoint is not None
    for name in ("files", "best_loss", "busy"):
        del checkpoint.state[name]
    save_checkpoint(run / "last", 6, Checkpoint(checkpoint.tensors, checkpoint.state))
    result = typed("train", "-o", str(run), "--resume")
    assert result.returncode == 0, result.stderr
    assert_same_run(runs / "whole", run)


def test_the_settings_of_the_run_are_read_whole(run: Path) -> None:
    assert reopen(run).recipe == read_recipe(run / "recipe.toml")


def test_what_belongs_to_another_run(run: Path, tmp_path: Path) -> None:
    """A checkpoint of the same shape but another seed is refused; a best model of another recipe is chosen anew."""
    other = tmp_path / "other"
    pairs = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    assert typed("train", str(pairs), "-o", str(other), *STEPS, *SMALL, "training.seed=5").returncode == 0
    mine = {file.name: file.read_bytes() for file in (run / "last").iterdir()}
    for file in (other / "last").iterdir():
        (run / "last" / file.name).write_bytes(file.read_bytes())
    result = typed("train", "-o", str(run), "--resume")
    assert (result.returncode, "holds a checkpoint of another run" in result.stderr) == (3, True)
    for name, content in mine.items():
        (run / "last" / name).write_bytes(content)
    result = typed("eval", str(run), "--split", "dev", "--columns", "2,1")
    assert (result.returncode, "as the run read them" in result.stderr) == (2, True)


def test_nothing_to_continue(tmp_path: Path) -> None:
    result = typed("train", "-o", str(tmp_path / "nowhere"), "--resume")
    assert (result.returncode, "has no run to continue" in result.stderr) == (3, True)
