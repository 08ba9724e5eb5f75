"""Several processes learn from shares of a batch as one would from all of it (contract 2), and resume exactly (3)."""

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
    dist.destroy_process_group()


def gradients(trainer: Trainer) -> dict[str, torch.Tensor]:
    return {name: weight.grad.clone() for name, weight in trainer.model.named_parameters() if weight.grad is not None}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("team")
    data = f'data.train="{write_pairs(folder / "pairs.tsv", count=FEW)}"'
    prepare(read_recipe(None, data, *SMALL, "training.steps=12", *PLAIN), folder / "plain")
    for name in ("whole", "parts"):
        prepare(read_recipe(None, data, *SMALL, "training.steps=12", *BUSY), folder / name)
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


def test_a_run_goes_on_only_with_as_many_processes(runs: Path) -> None:
    with pytest.raises(ClearheadError, match=r"trained by 2 processes.*torchrun --nproc-per-node 2"):
        trainer_of(runs / "whole").resume()


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
