"""DDP and FSDP2: gradients of one process with the joint batch, exact resume, and a change of processes and kind."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.distributed
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import clearhead
from clearhead import cli
from clearhead.errors import DataError, PartnerError
from clearhead.models import build
from clearhead.recipe import read_recipe
from clearhead.training import SINGLE, ProcessGroup, Trainer, prepare, reopen
from clearhead.training.parallel import GradientSource, is_divisible, kind_of
from clearhead.training.shards import whole
from clearhead.verbs import session
from clearhead.verbs.session import Parallel, make_trainer
from tests.thorough import THOROUGH, proved_later
from tests.training.test_trainer import assert_same_run, state_of
from tests.training.together import keep, kept, next_losses, together
from tests.training.toy import FAMILIES, FEW, SMALL, write_pairs

PLAIN = ["model.dropout.residual=0.0", "model.dropout.embedding=0.0"]
BUSY = ["training.evaluate_every=4", "training.save_every=2", "training.patience=50"]
KINDS: tuple[Parallel, ...] = ("ddp", "fsdp")
SHORT = ["decoding.beam_size=1", "decoding.max_length=6"]
CASES: dict[str, list[str]] = {
    "plain": ["training.accumulate=3"],
    "deep": ["model.layers=2", "training.recompute=true", "model.embedding.tie=all"],
    "muon": ["training.optimizer.kind=muon"],
    "t5": ["model.position.kind=t5", "decoding.sample=true"],
    "recurrent": ["model.family=recurrent"],
    "lm": ["model.family=lm"],
    "encoder": ["model.family=encoder"],
    "classifier": ["model.family=classifier"],
    "bfloat16": ["training.precision=bfloat16"],
    "lora": ["training.adapters=lora", "training.adapters.rank=2", "training.adapters.targets=query,up"],
}
"""Models and settings whose gradients are compared; with adapters all other weights are frozen."""
TWICE = ("plain", "lora")
"""Those that are also tried with DDP, which knows nothing of layers."""


BOTH = [(case, kind) for case in CASES for kind in KINDS if kind == "fsdp" or case in TWICE]


def trainer_of(folder: Path, group: ProcessGroup = SINGLE, parallel: Parallel | None = None) -> Trainer:
    return make_trainer(reopen(folder), group, parallel=parallel)


def gradients(trainer: Trainer) -> dict[str, Tensor]:
    """Whole gradients by name; every process must ask for them."""
    named = trainer.model.named_parameters()
    return {name: whole(weight.grad).clone() for name, weight in named if weight.grad is not None}


def find_gradients(group: ProcessGroup, folder: Path) -> None:
    for case, kind in BOTH:
        trainer = trainer_of(folder / case, group, kind)
        keep(group, folder / f"{case}-{kind}.json", trainer.evaluate(trainer._candidate()))
        loss, tokens = trainer._find_gradients()
        found = gradients(trainer) | {"loss": torch.tensor(loss), "tokens": torch.tensor(tokens)}
        trainer.model.zero_grad()
        found["losses"] = torch.tensor(next_losses(trainer, 3))
        if group.leads:
            save_file(found, folder / f"{case}-{kind}.safetensors")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv", count=FEW)


@pytest.fixture(scope="module")
def cases(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gradients, and losses of the steps after them, of every case and kind, found by two processes."""
    folder = tmp_path_factory.mktemp("cases")
    for case, settings in CASES.items():
        file = FAMILIES[case](folder / f"{case}.txt", count=FEW) if case in FAMILIES else data
        small = [word for word in SMALL if case != "recurrent" or not word.startswith(("model.heads", "model.feedf"))]
        changes = [*small, *PLAIN, "training.steps=12", *SHORT, *settings]
        if case == "lora":
            clearhead.train(data, folder / "base", steps=1, settings=changes[: -len(settings)])
            clearhead.train(data, folder / case, start=folder / "base", steps=1, settings=settings)
        else:
            prepare(read_recipe(None, f'data.train="{file}"', *changes), folder / case)
    together(2, find_gradients, folder)
    return folder


@pytest.mark.parametrize(("case", "kind"), BOTH)
def test_gradients_are_those_of_one_process_with_the_joint_batch(cases: Path, case: str, kind: str) -> None:
    """Summed over processes, divided by all tokens; and steps with them have the same losses."""
    alone = trainer_of(cases / case)
    loss, tokens = alone._find_gradients()
    found = load_file(cases / f"{case}-{kind}.safetensors")
    assert int(found["tokens"]) == tokens
    rough = case == "bfloat16"  # other sums of numbers with eight bits
    assert float(found["loss"]) == pytest.approx(loss, rel=1e-2 if rough else 1e-5)
    expected = gradients(alone)
    assert found.keys() == expected.keys() | {"loss", "tokens", "losses"}
    for name, gradient in expected.items():
        atol, rtol = (0.01, 0.1) if rough else (1e-6, 1e-4)
        torch.testing.assert_close(found[name], gradient, atol=atol, rtol=rtol)
    alone.model.zero_grad()
    assert found["losses"].tolist() == pytest.approx(next_losses(alone, 3), rel=1e-2 if rough else 1e-4)


@pytest.mark.parametrize(("case", "kind"), BOTH)
def test_dev_scores_that_processes_share_are_those_of_one(cases: Path, case: str, kind: str) -> None:
    """Also if answers are drawn: each line has its own number. The share of one process has other scores."""
    alone, found = trainer_of(cases / case), kept(cases / f"{case}-{kind}.json")
    expected = alone.evaluate(alone._candidate())
    assert found == pytest.approx(expected, rel=1e-6)
    if case in ("plain", "lm", "classifier"):
        share = partial(lambda work, items: list(work(items[::2])) * 2)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ProcessGroup, "work_out", lambda _, work, items: share(work, items)[: len(items)])
            half = trainer_of(cases / case)
            assert half.evaluate(half._candidate())["loss"] != pytest.approx(expected["loss"], rel=1e-6)


def test_the_mean_of_means_is_another_gradient(cases: Path) -> None:
    """What averaging over processes gives if each divides by its own tokens: short lines weigh too much."""
    expected = load_file(cases / "plain-ddp.safetensors")
    trainer = trainer_of(cases / "plain")
    for _ in range(3):
        rows = trainer._next_rows()
        for rank in range(2):
            batch = trainer.objective.batch(trainer.examples, ProcessGroup(rank, 2).share(rows)[0], 0)
            (trainer.objective.loss(trainer.model, batch) / (batch.tokens * 3 * 2)).backward()
    torch.nn.utils.clip_grad_norm_(trainer.model.parameters(), trainer.spec.clip)
    wrong = gradients(trainer)
    assert any(not torch.allclose(wrong[name], expected[name], atol=1e-6, rtol=1e-4) for name in wrong)


class Halves(nn.Module):
    """Stands for a learner of which each process uses another part."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.spec = read_recipe(None).training

    def forward(self, part: int) -> Tensor:
        found: Tensor = self.parts[part](torch.ones(2, 3)).sum()
        return found


def use_parts(group: ProcessGroup, folder: Path, kind: Parallel) -> None:
    torch.manual_seed(0)
    learner: Any = Halves()
    source = GradientSource(kind_of(kind, group, 0, None), learner, group, torch.device("cpu"))
    source.add(group.rank, True, last=False)
    source.add(group.rank, True, last=True)
    found = {
        name: whole(weight.grad) * source.divisor
        for name, weight in learner.named_parameters()
        if weight.grad is not None
    }
    if group.leads:
        save_file(found, folder / f"parts-{kind}.safetensors")


@pytest.mark.parametrize("kind", KINDS)
def test_parts_that_a_process_does_not_use_get_the_gradients_of_those_that_do(kind: Parallel, tmp_path: Path) -> None:
    together(2, use_parts, tmp_path, kind)
    found = load_file(tmp_path / f"parts-{kind}.safetensors")
    for part in range(2):
        torch.testing.assert_close(found[f"parts.{part}.weight"], torch.full((3, 3), 4.0))
    assert "parts.2.weight" not in found or not found["parts.2.weight"].any()


def whole_and_in_parts(group: ProcessGroup, folder: Path, kind: Parallel) -> None:
    """A run; the same run, stopped after work that was not saved, and resumed."""
    trainer_of(folder / "whole", group, kind).run()
    left = trainer_of(folder / "parts", group, kind)
    while left.progress.step < 6:
        left._step()
        if left.progress.step % left.evaluate_every == 0:
            left._evaluate()
        if left.progress.step == 3:
            left.save()
    torch.distributed.barrier()
    resumed = trainer_of(folder / "parts", group, kind)
    assert resumed.resume()
    resumed.run()


@pytest.mark.parametrize("kind", proved_later(KINDS, but=["fsdp"]))
def test_three_processes_resume_exactly(kind: Parallel, data: Path, tmp_path: Path) -> None:
    """Also if torch added up gradients in another order after the first step; each process has its own dropout.

    Two with DDP, started by torchrun and killed: tests/cli/test_train.py.
    """
    for name in ("whole", "parts"):
        prepare(read_recipe(None, f'data.train="{data}"', *SMALL, "training.steps=8", *BUSY, *SHORT), tmp_path / name)
    together(3, whole_and_in_parts, tmp_path, kind)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    states = state_of(tmp_path / "whole")[0]["random"]
    assert len({tuple(state.tolist()) for state in states}) == 3


STEPS = 50 if THOROUGH else 6


def go_on(group: ProcessGroup, folder: Path, name: str, kind: Parallel, start: bool) -> None:
    """The losses of the steps after the checkpoint of step 4, which is made first or found."""
    trainer = trainer_of(folder / "joint", group, kind)
    if start:
        for _ in range(4):
            trainer._step()
        trainer.save()
    else:
        assert trainer.resume()
    torch.distributed.barrier()
    keep(group, folder / name, next_losses(trainer, STEPS))


def go_on_after(group: ProcessGroup, folder: Path) -> None:
    """Two processes: DDP from the start, FSDP from the checkpoint of DDP, FSDP from the start, which leaves its own."""
    for name, kind, start in (("ddp", "ddp", True), ("ddp-fsdp", "fsdp", False), ("fsdp", "fsdp", True)):
        go_on(group, folder, name, cast("Parallel", kind), start)


@pytest.mark.drawn
def test_a_run_goes_on_with_other_processes_and_kinds(data: Path, tmp_path: Path) -> None:
    """The same batches: the losses of the next steps, 50 in `make prove`, agree to 1e-4; with earlier batches not."""
    prepare(read_recipe(None, f'data.train="{data}"', *SMALL, *PLAIN, "training.steps=60"), tmp_path / "joint")
    together(2, go_on_after, tmp_path)
    expected = kept(tmp_path / "ddp")
    assert kept(tmp_path / "ddp-fsdp") == pytest.approx(expected, rel=1e-4)
    assert kept(tmp_path / "fsdp") == pytest.approx(expected, rel=1e-4)
    assert len(list((tmp_path / "joint" / "last").glob("*-of-2.safetensors"))) == 2
    together(3, go_on, tmp_path, "fsdp-3", "fsdp", False)
    assert kept(tmp_path / "fsdp-3") == pytest.approx(expected, rel=1e-4)
    alone = trainer_of(tmp_path / "joint")
    assert alone.resume()
    assert next_losses(alone, STEPS) == pytest.approx(expected, rel=1e-4)
    wrong = trainer_of(tmp_path / "joint")
    wrong.resume()
    wrong.progress.epoch, wrong.progress.index = 0, 0
    assert next_losses(wrong, 5) != pytest.approx(expected[:5], rel=1e-4)


def train_to_the_end(group: ProcessGroup, data: Path, folder: Path) -> None:
    """A whole command; what holds DDP's reducer is looked at when the process group ends."""
    found: list[Trainer] = []
    make, held = session.make_trainer, list[int]()

    def noted(*arguments: Any, **settings: Any) -> Trainer:
        found.append(make(*arguments, **settings))
        reducers.append(found[0].source.learner.reducer)
        return found[0]

    @contextmanager
    def opened() -> Iterator[ProcessGroup]:
        yield group
        held.append(sys.getrefcount(reducers[0]) - 2)  # the list's, and that of the argument

    reducers: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "make_trainer", noted)
        patch.setattr(session, "open_process_group", opened)
        recipe = read_recipe(None, f'data.train="{data}"', *SMALL, *SHORT, "training.steps=1", "training.parallel=ddp")
        session.train_in(recipe, folder / "run")
    keep(group, folder / "held", held)


def test_nothing_of_ddp_outlives_the_process_group(data: Path, tmp_path: Path) -> None:
    """A reducer that ends the group itself has Python's lock meanwhile, and a thread of gloo may wait for it."""
    together(2, train_to_the_end, data, tmp_path)
    assert kept(tmp_path / "held") == [0]


def test_auto_shares_what_would_fill_half_of_a_gpu() -> None:
    pair = ProcessGroup(0, 2)
    assert kind_of("fsdp", SINGLE, 10**9, 10**9) == "alone"
    assert [kind_of(kind, pair, 10**9, None) for kind in ("auto", "ddp", "fsdp")] == ["ddp", "ddp", "fsdp"]
    assert kind_of("auto", pair, 10**9, 80 << 30) == "ddp"
    assert kind_of("auto", pair, 10**9, 24 << 30) == "fsdp"


def test_only_layers_with_weights_of_their_own_are_divided() -> None:
    small = ["model.width=16", "model.heads=2", "model.layers=2", "model.vocabulary.source=9"]
    small += ["model.vocabulary.target=9"]
    shares = {
        "model.norm.place=pre": True,
        "model.shared=true": False,
        "model.attention.kind=disentangled": False,
        "model.attention.sharing=layerwise": False,
    }
    for setting, divisible in shares.items():
        more = ["model.attention.kind=linformer", "model.attention.length=8"] if "sharing" in setting else []
        family = ["model.family=encoder"] if setting != "model.norm.place=pre" else []
        recipe = read_recipe(None, *small, *family, *more, setting)
        assert is_divisible(build(recipe, seed=1)) is divisible, setting


def test_what_only_one_process_meets_with_is_said_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process says what it knows; the others what they alone know, and nothing that all find."""
    own, common = DataError("no room"), PartnerError("another process failed")
    own.process = 2
    monkeypatch.setenv("RANK", "2")
    assert (cli._shown(own), cli._shown(common)) == ("process 2: no room", "")
    monkeypatch.setenv("RANK", "0")
    assert (cli._shown(own), cli._shown(common)) == ("no room", "another process failed")
