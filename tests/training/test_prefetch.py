"""The next batch is made in a thread, and nothing depends on it: order, resume, errors."""

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from clearhead.data import Batch
from clearhead.data.batches import TokenBatch
from clearhead.errors import Interrupted
from clearhead.recipe import TrainingSpec, read_recipe
from clearhead.training import Trainer, prepare, reopen
from clearhead.training.hardware import prefetches
from clearhead.training.prefetch import Prefetcher
from clearhead.verbs.session import make_trainer
from tests.training.toy import FEW, SMALL, write_pairs


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv", count=FEW)


def trainer_in(data: Path, folder: Path, *overrides: str) -> Trainer:
    recipe = read_recipe(None, f'data.train="{data}"', *SMALL, "training.steps=12", "training.save_every=5", *overrides)
    return make_trainer(prepare(recipe, folder))


def weights(trainer: Trainer) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in trainer.model.parameters()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(*pair) for pair in zip(one, other, strict=True))


def stopped_after(trainer: Trainer, steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run, and stop as by a signal after so many steps, without a checkpoint of that step."""
    step = trainer._step

    def one() -> None:
        if trainer.progress.step == steps:
            raise Interrupted(15, "stopped")
        step()

    monkeypatch.setattr(trainer, "_step", one)
    with pytest.raises(Interrupted):
        trainer.run()


def test_what_is_asked_for_is_what_one_gets() -> None:
    ahead: Prefetcher[str] = Prefetcher()
    ahead.expect(1, lambda: "made ahead")
    assert ahead.take(1, lambda: "made now") == "made ahead"
    assert ahead.take(1, lambda: "made now") == "made now"  # it is taken once
    ahead.expect(2, lambda: "made ahead")
    assert ahead.take(3, lambda: "made now") == "made now"
    ahead.expect(4, lambda: 1 / 0)  # type: ignore[return-value,arg-type]
    with pytest.raises(ZeroDivisionError):
        ahead.take(4, lambda: "made now")
    ahead.close()
    without: Prefetcher[str] = Prefetcher(active=False)
    without.expect(1, lambda: "made ahead")
    assert without.take(1, lambda: "made now") == "made now"
    without.close()


def test_a_run_is_the_same_with_a_thread_and_resumed(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two epochs, two batches a step; the checkpoint is of a step before the one that was interrupted."""
    settings = ["training.accumulate=2"]
    plain = trainer_in(data, tmp_path / "plain", *settings)
    plain.run()
    assert plain.progress.epoch > 0
    thread = trainer_in(data, tmp_path / "thread", *settings, "training.prefetch=true")
    stopped_after(thread, 7, monkeypatch)
    again = make_trainer(reopen(tmp_path / "thread"))
    again.resume()
    assert (again.progress.step, again.progress.index) == (5, 10 % again._epoch_plan().count())
    again.run()
    assert same(weights(plain), weights(again))


def test_a_checkpoint_of_what_was_made_ahead_is_seen(data: Path, tmp_path: Path) -> None:
    """A wrong variant: the checkpoint holds the place of the batch that the thread has made, and it is left out."""
    plain = trainer_in(data, tmp_path / "plain")
    plain.run()
    thread = trainer_in(data, tmp_path / "thread", "training.prefetch=true")
    for _ in range(5):
        thread._step()
    thread.progress.index += 1
    thread.save()
    again = make_trainer(reopen(tmp_path / "thread"))
    again.resume()
    again.run()
    assert not same(weights(plain), weights(again))


def test_a_gpu_has_a_thread_and_a_cpu_none() -> None:
    gpu, cpu = torch.device("cuda"), torch.device("cpu")
    assert prefetches(TrainingSpec(), gpu)
    assert not prefetches(TrainingSpec(), cpu)
    assert prefetches(TrainingSpec(prefetch=True), cpu)
    assert not prefetches(TrainingSpec(prefetch=False), gpu)


CUDA = torch.device("cuda")


class FakeCuda(TorchFunctionMode):
    """Notes what a batch asks of CUDA, which torch for CPUs does not have."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[str, int, Any]] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in (torch.Tensor.pin_memory, torch.Tensor.to):
            self.calls.append((func.__name__, args[0].numel(), kwargs))
            return args[0]
        return func(*args, **(kwargs or {}))


def test_what_goes_to_a_gpu_is_pinned_first_and_not_waited_for() -> None:
    """Also the places of the labels that count; Apple's GPUs share the memory, and nothing is pinned for them."""
    ids = torch.tensor([[1, 7, 2], [1, 2, 0]])
    batch = Batch(ids, ids, ids)
    with FakeCuda() as gpu:
        batch.to(CUDA)
    assert gpu.calls == [
        call for size in (6, 6, 6, 5) for call in (("pin_memory", size, None), ("to", size, {"non_blocking": True}))
    ]
    with FakeCuda() as apple:
        batch.to(torch.device("mps"))
    assert [name for name, *_ in apple.calls] == ["to"] * 4


def test_the_thread_also_sends_the_batch(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but the first; the training loop gets what is on the device already."""
    names: list[str] = []
    send = TokenBatch.to

    def to(batch: Any, device: torch.device) -> Any:
        names.append(threading.current_thread().name)
        return send(batch, device)

    trainer = trainer_in(data, tmp_path / "run", "training.prefetch=true")
    monkeypatch.setattr(TokenBatch, "to", to)
    for _ in range(3):
        trainer._step()
    trainer._ahead.close()
    assert sum(name.startswith("next batch") for name in names) >= 2
