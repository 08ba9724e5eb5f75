"""``training.compile``: the same loss as machine code, compiled a few times for any number of lengths."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.data import Batch
from clearhead.errors import ClearheadError
from clearhead.recipe import TrainingSpec, read_recipe
from clearhead.training import objective_of, prepare, reopen
from clearhead.training.compiling import compiled
from clearhead.training.hardware import loss_of
from clearhead.verbs.session import make_trainer
from tests.models import zoo
from tests.training.toy import FEW, SMALL, write_pairs

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def anew() -> Iterator[None]:
    """What earlier tests compiled is forgotten."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of operations of each graph; they are run as they are, as a real compiler takes a minute."""
    found: list[int] = []

    def backend(graph: Any, _inputs: Any) -> Any:
        found.append(len(graph.graph.nodes))
        return graph.forward

    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))
    return found


def batch(lines: int, source: int, target: int) -> Batch:
    """Lines of which the second half is shorter."""
    ids = torch.randint(4, 40, (lines, source)), torch.randint(4, 40, (lines, target))
    for part in ids:
        part[lines // 2 :, -1] = 0
    return Batch(ids[0], ids[1], ids[1].roll(-1, 1))


def losses(model: Any, given: Batch, loss: Any = None) -> tuple[float, list[torch.Tensor]]:
    objective = objective_of(read_recipe("tiny").updated(model=model.spec))
    model.zero_grad()
    found = loss_of(objective, model, given, TrainingSpec(), loss and loss(objective.loss, CPU))
    found.backward()  # type: ignore[no-untyped-call]
    return float(found.detach()), [part.grad.clone() for part in model.parameters() if part.grad is not None]


SIZES = [(4, 7, 7), (4, 9, 5), (6, 40, 41), (3, 12, 33), (9, 33, 33), (2, 5, 6), (17, 21, 8), (8, 8, 8), (5, 60, 11)]


@pytest.mark.parametrize("variant", ["plain", "position t5", "position rope", "norm rmsnorm"])
def test_any_length_is_computed_by_a_few_graphs(variant: str, graphs: list[int]) -> None:
    """The attention of up to 32 keys is another one than that of more: of either side, so four at most."""
    model = zoo.make("seq2seq", variant).train()
    objective = objective_of(read_recipe("tiny").updated(model=model.spec))
    fast = compiled(objective.loss, CPU)
    for sizes in SIZES:
        given = batch(*sizes)
        expected, gradients = losses(model, given)
        model.zero_grad()
        found = loss_of(objective, model, given, TrainingSpec(), fast)
        found.backward()  # type: ignore[no-untyped-call]
        assert float(found.detach()) == pytest.approx(expected, rel=1e-5)
        for part, right in zip([p for p in model.parameters() if p.grad is not None], gradients, strict=True):
            assert torch.allclose(part.grad, right, rtol=1e-4, atol=1e-5)  # type: ignore[arg-type]
    assert 0 < len(graphs) <= 4


def test_a_compiler_for_each_length_is_seen(graphs: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variant: sizes are numbers in the code."""
    model = zoo.make("seq2seq", "plain").train()
    objective = objective_of(read_recipe("tiny").updated(model=model.spec))
    fixed = torch.compile(objective.loss, dynamic=False)
    for sizes in SIZES[:6]:
        loss_of(objective, model, batch(*sizes), TrainingSpec(), fixed)
    assert len(graphs) > 4


def test_without_a_compiler_the_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.exc import InvalidCxxCompiler

    def none() -> str:
        raise InvalidCxxCompiler

    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", none)
    with pytest.raises(ClearheadError, match=r"training\.compile needs a C\+\+ compiler, and this machine has none"):
        compiled(lambda model, given: torch.zeros(()), CPU)


@pytest.mark.prove
def test_a_compiled_run_that_is_resumed_ends_as_one_that_never_stopped(tmp_path: Path) -> None:
    """By the real compiler, dropout included; the losses are those of the plain run, but for other dropout."""
    data = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    settings = [f'data.train="{data}"', *SMALL, "training.compile=true", "training.steps=8", "training.save_every=3"]
    whole = make_trainer(prepare(read_recipe(None, *settings), tmp_path / "whole"))
    whole.run()
    torch._dynamo.reset()
    first = make_trainer(prepare(read_recipe(None, *settings), tmp_path / "parts"))
    first.stages = (type(first.stages[0])(4, 8),)
    first.run()
    torch._dynamo.reset()
    rest = make_trainer(reopen(tmp_path / "parts"))
    assert rest.resume()
    assert rest.progress.step == 4
    rest.run()
    for one, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other)
