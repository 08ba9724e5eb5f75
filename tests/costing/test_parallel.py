"""What several devices send and hold: formulas against what torch sends between forked processes, byte by byte."""

import json
import multiprocessing
import warnings
from collections import Counter
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
import torch.distributed as dist

from clearhead.costing import cost
from clearhead.costing.forms.parallel import Cluster, Parallel, predicted
from clearhead.costing.tracing.communication import SentCounter
from clearhead.data import Batch
from clearhead.errors import RecipeError
from clearhead.models import build
from clearhead.recipe import Recipe, read_recipe
from clearhead.training.hardware import placed
from clearhead.training.objectives import objective_of
from clearhead.training.optimizer import make_optimizers
from clearhead.training.parallel import GradientSource, Learner, is_divisible
from clearhead.training.process_group import ProcessGroup
from tests.cli.typed import typed
from tests.costing.mechanisms import CASES, Case, each, make

Kind = Literal["ddp", "fsdp"]
SMALL = ["model.width=12", "model.heads=3", "model.layers=2", "model.feedforward.width=10"]
SIZES = ["model.vocabulary.source=41", "model.vocabulary.target=43"]
"""No size is a multiple of the number of processes."""
IDS = torch.tensor([[1, 7, 5, 2], [1, 9, 2, 0]])


def recipe_of(*more: str) -> Recipe:
    return read_recipe("tiny", *SMALL, *SIZES, *more)


def member(rank: int, size: int, folder: Path, kind: Kind, settings: list[str]) -> None:
    """Run by each process: the second step of a run, counted, and the third by torch's counter of calls."""
    from torch.distributed.tensor.debug import CommDebugMode

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=size)
    recipe, group = recipe_of(*settings), ProcessGroup(rank, size)
    model = placed(build(recipe, seed=0), recipe.training, torch.device("cpu"))
    learner = Learner(model, objective_of(recipe), recipe.training)
    source = GradientSource(kind, learner, group, torch.device("cpu"))
    optimizers = make_optimizers(learner.model, recipe.training.optimizer)
    batch = Batch(IDS, IDS, IDS.roll(-1, 1))
    batches = recipe.training.accumulate
    sent, torchs = SentCounter(), CommDebugMode()
    counters: list[Any] = [nullcontext(), sent] if settings else [nullcontext(), sent, torchs]
    for counter in counters:
        with counter, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the hooks that torch's counter puts on modules
            for number in range(batches):
                source.add(batch, True, last=number == batches - 1)
        for optimizer in optimizers:
            optimizer.step()
    seen = {str(call).rpartition(".")[2]: number for call, number in torchs.get_comm_counts().items()}
    held = {
        "weights": _bytes(learner.model.parameters()),
        "gradients": _bytes(p.grad for p in learner.model.parameters()),
    }
    states = [part for one in optimizers for state in one.state.values() for part in state.values()]
    held["optimizer"] = _bytes(states)
    found = {"sent": sent.bytes, "calls": sent.calls, "torch": seen, "held": held}
    (folder / f"{rank}.json").write_text(json.dumps(found))
    dist.destroy_process_group()


def _bytes(parts: Any) -> int:
    """Of what this process holds, the padding of its pieces included."""
    whole = [part for part in parts if isinstance(part, torch.Tensor)]
    own = [part.to_local() if hasattr(part, "to_local") else part for part in whole]
    return sum(part.numel() * part.element_size() for part in own)


@cache
def counted(kind: Kind, size: int, folder: Path, *settings: str) -> list[dict[str, Any]]:
    """What each process sent and holds."""
    import torch.distributed.tensor.debug  # noqa: F401 - here, not in every process

    place = folder / f"{kind}-{size}-{len(settings)}"
    place.mkdir()
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=member, args=(rank, size, place, kind, list(settings))) for rank in range(size)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(240)
    assert [process.exitcode for process in processes] == [0] * size
    return [json.loads((place / f"{rank}.json").read_text()) for rank in range(size)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("parallel")


RUNS: list[tuple[Kind, int, list[str]]] = [
    ("ddp", 2, []),
    ("fsdp", 2, []),
    ("ddp", 4, []),
    ("fsdp", 4, []),
    ("ddp", 2, ["training.accumulate=3", "training.recompute=true"]),
    ("fsdp", 2, ["training.accumulate=3", "training.recompute=true"]),
]
"""The last two: batches that make one step, and layers that are computed again, which are not gathered again."""


def payload(parallel: Parallel) -> dict[str, int]:
    found: Counter[str] = Counter()
    for part in parallel.sent():
        found[part.call] += int(part.payload.at())
    return dict(found)


@pytest.mark.parametrize(("kind", "size", "settings"), RUNS, ids=str)
def test_bytes_sent_are_exact(kind: Kind, size: int, settings: list[str], folder: Path) -> None:
    """Formula − counted = 0, of every kind of collective, in every process."""
    parallel = cost(recipe_of(*settings)).parallel(size, kind)
    for found in counted(kind, size, folder, *settings):
        assert payload(parallel) == found["sent"]


@pytest.mark.parametrize(("kind", "size", "settings"), RUNS[:4], ids=str)
def test_collectives_are_those_that_torch_counts(kind: Kind, size: int, settings: list[str], folder: Path) -> None:
    """``CommDebugMode`` counts calls and not bytes, in a step of one batch: our counter misses none of them."""
    layers = 4
    expected = (
        {"allreduce_": 2}  # a bucket of gradients, and which parameters have one
        if kind == "ddp"
        else {"_allgather_base_": 2 * layers + 1, "_reduce_scatter_base_": layers + 1}
    )
    for found in counted(kind, size, folder, *settings):
        assert found["torch"] == expected
        assert sum(found["calls"].values()) == sum(expected.values())


@pytest.mark.parametrize(("kind", "size", "settings"), RUNS[:4], ids=str)
def test_bytes_held_are_exact(kind: Kind, size: int, settings: list[str], folder: Path) -> None:
    """Of weights, gradients and optimizer; of the first process, as no other has larger pieces."""
    parallel = cost(recipe_of(*settings)).parallel(size, kind)
    held = {
        part.name: int(part.bytes.at())
        for part in parallel.held()
        if part.name in ("weights", "gradients", "optimizer")
    }
    assert held == counted(kind, size, folder, *settings)[0]["held"]


def test_wrong_variants_are_seen(folder: Path) -> None:
    """Without the second gathering; layers gathered as a whole model; pieces without what fills them up."""
    parallel = cost(recipe_of()).parallel(4, "fsdp")
    sent = counted("fsdp", 4, folder)[0]["sent"]
    forward, backward, gradients = (int(part.payload.at()) for part in parallel.sent())
    assert sent == {"all-gather": forward + backward, "reduce-scatter": gradients}
    assert sent["all-gather"] != forward  # the backward pass forgotten
    assert sent["all-gather"] != 2 * forward  # the rest gathered twice, too
    assert sent["reduce-scatter"] != 4 * cost(recipe_of()).parameters.at()  # no size is a multiple of 4
    ddp = counted("ddp", 4, folder)[0]["sent"]["all-reduce"]
    assert ddp != 4 * cost(recipe_of()).parameters.at()  # which parameters have a gradient is sent, too


@each(CASES)
def test_the_pieces_of_every_mechanism_are_exact(case: Case) -> None:
    """⌈rows / W⌉ rows of every parameter, for W that divide some sizes and not others; or a refusal, as by training."""
    recipe = case.recipe()
    model, whole = make(recipe), cost(recipe)
    if not is_divisible(model):
        with pytest.raises(RecipeError, match="share"):
            whole.parallel(2, "fsdp")
        return
    shapes = [parameter.shape for parameter in model.parameters()]
    for devices in (2, 3, 7):
        expected = sum(4 * -(-shape[0] // devices) * shape[1:].numel() for shape in shapes)
        held = {part.name: part.bytes for part in whole.parallel(devices, "fsdp").held()}
        assert held["weights"].at() == expected


def test_one_device_sends_nothing_and_holds_everything() -> None:
    whole = cost("tiny")
    alone = whole.parallel(1, "fsdp")
    assert alone.bytes_sent.at() == 0
    assert {part.name: part.bytes for part in alone.held()}["weights"].at() == whole.weights.at()


def test_a_ring_sends_all_but_one_part() -> None:
    """Of 8 devices each sends 7/8 of what is gathered, and twice that of what is reduced for all."""
    ddp, fsdp = (cost("tiny").parallel(8, kind) for kind in ("ddp", "fsdp"))
    for parallel, ways in ((ddp, 2), (fsdp, 1)):
        assert all(part.bytes.at() * 8 == part.payload.at() * 7 * ways for part in parallel.sent())


def test_what_is_not_counted_is_refused() -> None:
    with pytest.raises(RecipeError, match="must be ddp or fsdp"):
        cost("tiny").parallel(8, "dpp")  # type: ignore[arg-type]
    with pytest.raises(RecipeError, match="train the whole model"):
        cost(read_recipe("tiny", "training.freeze=encoder")).parallel(8, "fsdp")


def test_a_step_is_predicted_from_its_parts() -> None:
    """By hand: 1 GFLOP/s, 1 kB/s, nothing hidden."""
    slow = Cluster(flops=1e9, utilisation=1.0, bandwidth_inside=1e3, latency_inside=1.0, overlap=0.0)
    parallel = cost("tiny").parallel(2, "ddp")
    found = predicted(parallel, slow, lines=3, n=5, m=5)
    assert found.computing == pytest.approx(6 * cost("tiny").training.at(n=5, m=5, B=1) / 1e9)
    assert found.transfer == pytest.approx(float(parallel.bytes_sent.at()) / 1e3)
    assert found.latency == 2.0 * (2 + 1)  # two buckets, and who has a gradient
    assert found.seconds == pytest.approx(found.computing + found.transfer + found.latency)
    hidden = predicted(parallel, Cluster(flops=1e9, utilisation=1.0), lines=3, n=5, m=5)
    assert 0 < hidden.hidden <= hidden.computing * 2 / 3
    assert 0.9 < hidden.efficiency <= 1


def test_the_command_prints_formula_beside_number() -> None:
    found = typed("cost", "transformer-base", "--devices", "8", "--parallel", "fsdp", "--n", "64")
    assert found.returncode == 0, found.stderr
    assert "all-gather: weights, backward" in found.stdout
    table = json.loads(typed("cost", "transformer-base", "--devices", "8", "--parallel", "fsdp", "--json").stdout)
    assert table["bytes_sent"]["bytes"] == sum(part["bytes"] for part in table["sent"])
    assert table["bytes_held"]["bytes"] == sum(part["bytes"] for part in table["held"])
    assert typed("cost", "tiny", "--parallel", "ddp").returncode == 2
