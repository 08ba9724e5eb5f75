"""Checkpoints of several processes: whole or not at all, and never one with a part that is missing."""

from pathlib import Path

import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.training.checkpoint import Checkpoint, ShardFile, load_checkpoint, save_checkpoint, save_shard


def saved(folder: Path, step: int) -> list[ShardFile]:
    """A checkpoint of two processes, of which the second has fewer rows."""
    parts = [{"model.w": torch.full((2, 3), float(step))}, {"model.w": torch.full((1, 3), float(-step))}]
    shards = [save_shard(folder, step, rank, 2, part) for rank, part in enumerate(parts)]
    save_checkpoint(folder, step, Checkpoint({"random": torch.arange(4)}, {"step": step}), shards)
    return shards


def test_rows_are_put_together_again_by_rank(tmp_path: Path) -> None:
    saved(tmp_path, 7)
    checkpoint, complaints = load_checkpoint(tmp_path)
    assert checkpoint is not None
    assert not complaints
    assert (checkpoint.step, sorted(checkpoint.tensors)) == (7, ["model.w", "random"])
    assert checkpoint.tensors["model.w"].tolist() == [[7.0] * 3, [7.0] * 3, [-7.0] * 3]
    assert checkpoint.tensors["random"].tolist() == [0, 1, 2, 3]
    with pytest.raises(KeyError):
        checkpoint.tensors["average.w"]


@pytest.mark.parametrize("harm", ["missing", "changed", "cut", "another's"])
def test_a_checkpoint_without_all_its_parts_is_not_chosen(tmp_path: Path, harm: str) -> None:
    saved(tmp_path, 7)
    file = tmp_path / saved(tmp_path, 8)[1].file
    content = file.read_bytes()
    if harm == "missing":
        file.unlink()
    else:
        other = (tmp_path / file.name.replace("2-of", "1-of")).read_bytes()
        file.write_bytes({"changed": content[:-1] + b"x", "cut": content[:-4], "another's": other}[harm])
    checkpoint, complaints = load_checkpoint(tmp_path)
    assert checkpoint is not None
    assert checkpoint.step == 7
    assert "using the previous checkpoint" in complaints[0]


def test_parts_count_only_once_the_last_file_names_them(tmp_path: Path) -> None:
    """Killed before that: the parts are nobody's, and the next checkpoint clears them away."""
    saved(tmp_path, 7)
    save_shard(tmp_path, 8, 0, 2, {"model.w": torch.zeros(2, 3)})
    save_shard(tmp_path, 9, 0, 3, {"model.w": torch.zeros(2, 3)})
    checkpoint, complaints = load_checkpoint(tmp_path)
    assert checkpoint is not None
    assert (checkpoint.step, complaints) == (7, [])
    saved(tmp_path, 9)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [name.partition("step-00000000")[2].partition(".safe")[0] for name in names] == [
        *("7.1-of-2", "7.2-of-2", "7", "9.1-of-2", "9.2-of-2", "9")
    ]
    saved(tmp_path, 10)
    assert not list(tmp_path.glob("step-000000007*"))


def test_parts_that_the_leader_does_not_see_are_named(tmp_path: Path) -> None:
    """Nodes that write into folders of their own."""
    shards = [save_shard(tmp_path / str(rank), 7, rank, 2, {"model.w": torch.zeros(1, 3)}) for rank in range(2)]
    with pytest.raises(ClearheadError, match=r"step-000000007\.2-of-2\.safetensors\): all nodes need one folder"):
        save_checkpoint(tmp_path / "0", 7, Checkpoint({}, {"step": 7}), shards)
    assert load_checkpoint(tmp_path / "0") == (None, [])
