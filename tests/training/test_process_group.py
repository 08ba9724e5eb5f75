"""What processes that train together tell each other, and who has which rows."""

import math
import shutil
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.errors import ClearheadError
from clearhead.recipe import read_recipe
from clearhead.training import ProcessGroup, open_process_group, prepare, reopen, require_one_folder
from clearhead.training.checkpoint import Checkpoint
from clearhead.training.trainer import _mixed
from clearhead.verbs.session import make_trainer
from tests.training.together import together
from tests.training.toy import FEW, SMALL, write_pairs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes, which has just begun."""
    folder = tmp_path_factory.mktemp("group")
    data = write_pairs(folder / "pairs.tsv", count=FEW)
    prepare(read_recipe(None, f'data.train="{data}"', *SMALL, "training.steps=12"), folder / "run")
    together(2, begin, folder)
    return folder / "run"


def begin(group: ProcessGroup, folder: Path) -> None:
    """What processes tell each other, and a checkpoint; then folders that they do not share."""
    assert group.gather_texts("ä" * group.rank) == ["", "ä"]
    assert group.common(f"of {group.rank}") == "of 0"
    for count in range(4):
        items = [f"line {number}" for number in range(count)]
        assert group.work_out(lambda some: [[item, len(some), math.pi] for item in some], items) == [
            [item, -(-(count - number % 2) // 2), math.pi] for number, item in enumerate(items)
        ]
    trainer = make_trainer(reopen(folder / "run"), group)
    trainer.save()
    trainer._require_agreement(Checkpoint({}, {"step": 3}))
    with pytest.raises(ClearheadError, match=r"different checkpoints \(step 0, step 1, by rank\).*one folder"):
        trainer._require_agreement(Checkpoint({}, {"step": group.rank}))
    require_one_folder(folder / "run", group)
    with pytest.raises(ClearheadError, match=r"process 1 does not see the run there.*one folder"):
        require_one_folder(folder / ("run" if group.leads else "elsewhere"), group)
    own = folder / "run" if group.leads else shutil.copytree(folder / "run", folder / "copy")
    require_one_folder(own, group)
    resumed = make_trainer(reopen(own), group)
    assert resumed.resume()
    resumed._step()
    apart = make_trainer(reopen(own), group, parallel="fsdp")
    expected = pytest.raises(ClearheadError, match=r"written is not here \(step.*2-of-2.*one folder that they share")
    with expected if group.leads else nullcontext():  # the leader ends, and all others with it
        apart.save()


def test_other_processes_draw_other_numbers(run: Path) -> None:
    """When one goes on where two stopped, and every one of them if there are more."""
    make_trainer(reopen(run)).resume()
    one = torch.rand(4)
    assert not torch.equal(one, torch.rand(4))
    make_trainer(reopen(run)).resume()
    assert torch.equal(one, torch.rand(4))
    assert len({_mixed(1, 12, 3, rank) for rank in range(3)} | {_mixed(1, 12, 2, rank) for rank in range(2)}) == 5


def test_a_team_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ClearheadError, match=r"WORLD_SIZE is 2.*torchrun"), open_process_group():
        pass


def test_every_row_counts_once() -> None:
    """Also where a batch has fewer lines than there are processes: the others' loss is multiplied by nothing."""
    for count in range(1, 8):
        rows = np.arange(count)
        shares = [ProcessGroup(rank, 3).share(rows) for rank in range(3)]
        assert sorted(row for mine, counts in shares if counts for row in mine.tolist()) == rows.tolist()
        assert all(len(mine) for mine, _ in shares)
