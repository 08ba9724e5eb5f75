"""Several processes learn from shares of a batch as one would from all of it (contract 2), and resume exactly (3)."""

import json
import multiprocessing
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file

from clearhead.errors import ClearheadError
from clearhead.recipe import read_recipe
from clearhead.training import SINGLE, ProcessGroup, Trainer, open_process_group, prepare, reopen
from clearhead.training.trainer import _mixed
from clearhead.verbs.session import make_trainer
from tests.training.test_trainer import assert_same_run, state_of
from tests.training.toy import FEW, SMALL, write_pairs

PLAIN = ["model.dropout.residual=0.0", "model.dropout.embedding=0.0", "training.accumulate=3"]
BUSY = ["training.evaluate_every=4", "training.save_every=2", "training.patience=50"]
SIZE = 2


def trainer_of(folder: Path, group: ProcessGroup = SINGLE) -> Trainer:
    return make_trainer(reopen(folder), group)


def member(rank: int, folder: Path) -> None:
    """Run by each process: gradients of one step; a run; the same run, stopped after work that was not saved."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=SIZE)
    group = ProcessGroup(rank, SIZE)
    plain = trainer_of(folder / "plain", group)
    loss, tokens = plain._find_gradients()
    found = gradients(plain) | {"loss": torch.tensor(loss), "tokens": torch.tensor(tokens)}
    save_file(found, folder / f"gradients-{rank}.safetensors")
    trainer_of(folder / "whole", group).run()
    left = trainer_of(folder / "parts", group)
    while left.progress.step < 7:
        left._step()
        if left.progress.step % left.evaluate_every == 0:
            left._evaluate()
        if left.progress.step == 5:
            left.save()
    dist.barrier()
    resumed = trainer_of(folder / "parts", group)
    assert resumed.resume()
    resumed.run()
    joint = trainer_of(folder / "joint", group)
    for _ in range(4):
        joint._step()
    joint.save()
    dist.barrier()
    losses = next_losses(joint)
    if group.leads:
        (folder / "losses.json").write_text(json.dumps(losses), encoding="utf-8")
    dist.destroy_process_group()


def next_losses(trainer: Trainer) -> list[float]:
    """The losses of the next 50 steps."""
    found, before = [], trainer.progress.loss_sum
    for _ in range(50):
        trainer._step()
        found.append(trainer.progress.loss_sum - before)
        before = trainer.progress.loss_sum
    return found


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: weight.grad.clone() for name, weight in trainer.model.named_parameters() if weight.grad is not None}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    data = f'data.train="{write_pairs(folder / "pairs.tsv", count=FEW)}"'
    prepare(read_recipe(None, data, *SMALL, "training.steps=12", *PLAIN), folder / "plain")
    for name in ("whole", "parts"):
        prepare(read_recipe(None, data, *SMALL, "training.steps=12", *BUSY), folder / name)
    prepare(read_recipe(None, data, *SMALL, "training.steps=60", *PLAIN[:2]), folder / "joint")
    context = multiprocessing.get_context("fork")  # torch is there already, and takes longer to load than this to run
    processes = [context.Process(target=member, args=(rank, folder)) for rank in range(SIZE)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0, 0]
    return folder


def test_gradients_are_those_of_one_process_with_the_joint_batch(runs: Path) -> None:
    """Summed, then normalised by all tokens; the mean of the processes' means would weigh short lines too much."""
    alone = trainer_of(runs / "plain")
    loss, tokens = alone._find_gradients()
    expected = gradients(alone)
    for rank in range(SIZE):
        found = load_file(runs / f"gradients-{rank}.safetensors")
        assert int(found["tokens"]) == tokens
        assert float(found["loss"]) == pytest.approx(loss, rel=1e-5)
        for name, gradient in expected.items():
            torch.testing.assert_close(found[name], gradient, atol=1e-6, rtol=1e-4)

    def mean_of_means() -> dict[str, torch.Tensor]:
        trainer = trainer_of(runs / "plain")
        for _ in range(3):
            rows = trainer._next_rows()
            for rank in range(SIZE):
                batch = trainer.objective.batch(trainer.examples, ProcessGroup(rank, SIZE).share(rows)[0], 0)
                (trainer.objective.loss(trainer.model, batch) / (batch.tokens * 3 * SIZE)).backward()
        torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), trainer.spec.clip)
        return gradients(trainer)

    wrong = mean_of_means()
    assert any(not torch.allclose(wrong[name], gradient, atol=1e-6, rtol=1e-4) for name, gradient in expected.items())


def test_a_team_resumes_exactly(runs: Path) -> None:
    """Each process with its own dropout: both random states are kept, and differ."""
    assert_same_run(runs / "whole", runs / "parts")
    one, other = state_of(runs / "whole")[0]["random"]
    assert not torch.equal(one, other)


def test_another_number_of_processes_learns_from_the_same_batches(runs: Path) -> None:
    """One process goes on where two stopped, as the two do; with the batches of an earlier epoch it would not."""
    expected = json.loads((runs / "losses.json").read_text(encoding="utf-8"))
    alone = trainer_of(runs / "joint")
    assert alone.resume()
    assert next_losses(alone) == pytest.approx(expected, rel=1e-4)
    wrong = trainer_of(runs / "joint")
    wrong.resume()
    wrong.progress.epoch, wrong.progress.index = 0, 0
    assert next_losses(wrong) != pytest.approx(expected, rel=1e-4)


def test_other_processes_draw_other_numbers(runs: Path) -> None:
    """When one goes on where two stopped, and every one of them if there are more."""
    trainer_of(runs / "whole").resume()
    one = torch.rand(4)
    assert not torch.equal(one, torch.rand(4))
    trainer_of(runs / "whole").resume()
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
