"""A budget in minutes is calibrated by all processes, as they will train."""

import json
from pathlib import Path
from typing import Any

import pytest

from clearhead.errors import PartnerError
from clearhead.recipe import read_recipe
from clearhead.training import ProcessGroup, StatedRecipe, Trainer
from clearhead.training.shards import own_part
from clearhead.verbs.session import Parallel, _prepared
from tests.training.together import together
from tests.training.toy import FEW, SMALL, write_pairs


def stated(data: Path, parallel: Parallel) -> StatedRecipe:
    settings = [*SMALL, "training.minutes=0.02", f"training.parallel={parallel}"]
    return StatedRecipe(read_recipe(None, f'data.train="{data}"', *settings))


def prepare_together(group: ProcessGroup, data: Path, folder: Path, parallel: Parallel) -> None:
    """Prepare a run, and note what each process held while it was measured."""
    notes: list[dict[str, Any]] = []
    measure = Trainer.pace

    def pace(trainer: Trainer, at_least: float) -> float:
        seconds = measure(trainer, at_least)
        weights = list(trainer.model.parameters())
        states = [part for one in trainer.optimizers for state in one.state.values() for part in state.values()]
        notes.append(
            {
                "kind": trainer.source.kind,
                "steps": trainer.progress.step,
                "whole": sum(weight.numel() for weight in weights),
                "held": sum(own_part(weight).numel() for weight in weights),
                "states": sum(own_part(state).numel() for state in states if state.dim()),
            }
        )
        return seconds

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "pace", pace)
        run, begun = _prepared(stated(data, parallel), folder / "run", group, None, resume=False)
    assert not begun
    (note,) = notes
    note["planned"] = run.recipe.training.steps
    (folder / f"{group.rank}.json").write_text(json.dumps(note))


@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_processes_calibrate_as_they_will_train(parallel: Parallel, tmp_path: Path) -> None:
    """With FSDP none of them holds a whole model, which might not fit."""
    data = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    together(2, prepare_together, data, tmp_path, parallel)
    one, other = (json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2))
    for name in ("kind", "steps", "whole", "planned"):
        assert one[name] == other[name], name
    assert one["kind"] == parallel
    assert one["planned"] >= 1
    share = 1 if parallel == "ddp" else 2
    assert share * (one["held"] + other["held"]) == 2 * one["whole"]
    assert max(one["held"], other["held"]) <= 0.6 * one["whole"] * (2 / share)
    assert [found["states"] for found in (one, other)] == [2 * found["held"] for found in (one, other)]


def prepare_apart(group: ProcessGroup, data: Path, folder: Path) -> None:
    with pytest.raises(PartnerError, match=r"process 1 does not see the run there that process 0 sees.*one folder"):
        _prepared(stated(data, "fsdp"), folder / f"of {group.rank}", group, None, resume=False)


def test_processes_without_a_common_folder_are_told_so_before_they_measure(tmp_path: Path) -> None:
    """And nothing is left."""
    data = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    together(2, prepare_apart, data, tmp_path)
    assert [path.name for path in tmp_path.glob("of */*")] == []
