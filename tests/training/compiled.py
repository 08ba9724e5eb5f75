"""``training.compile``: one graph for batches of all sizes, the same numbers, and clear refusals.

Graphs are recorded as for any backend, and then run by torch's usual operators ("eager"), or differentiated first
("aot_eager"): neither needs a C++ compiler, which takes a minute. ``make prove`` compiles.

tests/training/test_compiling.py runs this file.
"""

import json
import shutil
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from torch._dynamo.exc import TorchDynamoException
from torch._dynamo.utils import counters

from clearhead.errors import ClearheadError, PartnerError, RecipeError
from clearhead.models import build
from clearhead.positions import right_padded
from clearhead.recipe import TrainingSpec, read_recipe
from clearhead.training import Learner, ProcessGroup, Trainer, compiling, objective_of, prepare, reopen, sharded
from clearhead.verbs.session import make_trainer
from tests.models import zoo
from tests.thorough import THOROUGH
from tests.training.together import keep, kept, next_losses, together
from tests.training.toy import FAMILIES, FEW, SMALL, write_lines, write_pairs

SIZES = [(6, 6, 6), (3, 40, 12), (5, 7, 50), (4, 9, 7)]
"""Lines, source tokens, target tokens: equal in the first batch by chance, and more than 32 keys in others."""
STEPS = 8
SHORT = ["decoding.beam_size=1", "decoding.max_length=8"]
"""What has learnt nothing does not stop writing either."""
STILL = ["model.dropout.residual=0.0", "model.dropout.embedding=0.0"]
NOT_LONG = ("Linformer",)
"""Variants for at most 16 tokens."""


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs that are not compiled further, and none left from another test."""
    monkeypatch.setattr(compiling, "BACKEND", "eager")
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def graphs() -> int:
    """Graphs recorded since the last reset; a break in one would have raised, as each is asked for whole."""
    return int(counters["stats"]["unique_graphs"])


DIFFERENTIATED = ("aot_eager", "inductor")
"""Backends that record the backward pass, too."""
SOME = ["position t5", "position rope", "convolutional"]
"""Some ways that a graph may stumble over; the others are in `make prove`."""
SHARING = ("position t5", "disentangled v2")
"""Those whose layers share something: of the others one layer is as good as two, and recorded in half the time."""
COMPILED = [name for name in [*zoo.VARIANTS, *zoo.RECURRENT] if name in zoo.VARIANTS or "recurrent" not in name]
COMPILED = [name for name in COMPILED if name in zoo.VARIANTS or name.startswith("convolutional, ") or name in SOME]


@pytest.mark.parametrize("variant", COMPILED if THOROUGH else SOME)
def test_a_model_is_one_graph_for_batches_of_all_sizes(variant: str) -> None:
    layers = 2 if THOROUGH or variant in SHARING else 1
    model = zoo.make("seq2seq", variant, f"model.layers={layers}").train()
    _without_dropout(model)
    whole = compiling.CompiledModel(model, 64)
    most = 15 if variant.startswith(NOT_LONG) else 64
    for lines, n, m in SIZES:
        source, target = _ids(lines, min(n, most), seed=1), _ids(lines, min(m, most), seed=2)
        with right_padded():
            expected, found = model.states(source, target), whole.states(source, target)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert graphs() == 1


@pytest.mark.prove
def test_a_side_of_one_asks_for_a_graph_of_its_own_and_no_more() -> None:
    """One or many, on two sides: four graphs, however many batches come."""
    model = zoo.make("lm", "plain").train()
    whole = compiling.CompiledModel(model, 64)
    for lines, n in [(3, 5), (1, 5), (4, 1), (1, 1), (1, 9), (7, 1), (2, 8), (1, 30)]:
        with right_padded():
            whole.states(_ids(lines, n, seed=3))
    assert graphs() == 4 <= compiling.GRAPHS


def test_a_graph_that_looks_at_values_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variant: padding is looked for, as without a graph, and torch refuses to record that."""
    monkeypatch.setattr("clearhead.models.base.may_branch", lambda values: True)
    whole = compiling.CompiledModel(zoo.make("lm", "plain").train(), 64)
    with pytest.raises(TorchDynamoException, match="data-dependent"), right_padded():
        whole.states(_ids(3, 5, seed=3))


def test_lengths_that_were_equal_by_chance_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variant: torch takes equal sides of the first batch for one letter, and records anew when they differ."""
    monkeypatch.setattr(compiling, "_any_sizes", nullcontext)
    whole = compiling.CompiledModel(zoo.make("lm", "plain", "model.layers=1").train(), 64)
    for lines, n, _ in SIZES[:2]:
        with right_padded():
            whole.states(_ids(lines, n, seed=1))
    assert graphs() > 1


@pytest.mark.parametrize("family", ["seq2seq", *FAMILIES] if THOROUGH else ["seq2seq"])
def test_a_compiled_run_has_the_losses_of_a_plain_one(family: str, tmp_path: Path) -> None:
    """To five digits, gradients and optimizer included; and it is no more than a few graphs."""
    path = FAMILIES.get(family, write_pairs)(tmp_path / "data.tsv", count=FEW)
    plain, quick = (
        _trained(path, tmp_path / str(compiles), f"model.family={family}", *STILL, f"training.compile={compiles}")
        for compiles in ("false", "true")
    )
    assert len(_losses(plain)) > 1
    assert 1 <= graphs() <= 2  # a batch of one line may be among them
    assert _losses(quick) == pytest.approx(_losses(plain), rel=1e-5)


def test_a_compiled_run_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With dropout, whose numbers the graph draws."""
    monkeypatch.setattr(compiling, "BACKEND", "aot_eager")
    _resumes(tmp_path, write_lines(tmp_path / "lines.txt", count=FEW), "model.family=lm")


def compile_together(group: ProcessGroup, folder: Path) -> None:
    trainer = make_trainer(reopen(folder / "true"), group, parallel="ddp")
    assert trainer.source.kind == "ddp"
    keep(group, folder / "losses", next_losses(trainer, 3))
    keep(group, folder / "graphs", graphs())


@pytest.mark.parametrize(
    "backend", ["eager", *(pytest.param(name, marks=pytest.mark.prove) for name in DIFFERENTIATED)]
)
def test_processes_with_ddp_compile_too(backend: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The losses of one plain process with the joint batches; two batches a step, as DDP waits for the second."""
    if backend == "inductor" and shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    monkeypatch.setattr(compiling, "BACKEND", backend)
    path = write_lines(tmp_path / "lines.txt", count=FEW)
    for compiles in ("true", "false"):
        settings = [*STILL, "model.family=lm", "training.accumulate=2", f"training.compile={compiles}"]
        plain = _trainer(path, tmp_path / compiles, *settings)
    together(2, compile_together, tmp_path)
    assert kept(tmp_path / "losses") == pytest.approx(next_losses(plain, 3), rel=1e-5)
    assert kept(tmp_path / "graphs") >= 1


@pytest.mark.prove
@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_a_run_that_is_really_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "BACKEND", "inductor")
    path = write_pairs(tmp_path / "data.tsv", count=FEW)
    plain, quick = (
        _trained(path, tmp_path / str(compiles), *STILL, f"training.compile={compiles}")
        for compiles in ("false", "true")
    )
    assert _losses(quick) == pytest.approx(_losses(plain), rel=1e-5)
    _resumes(tmp_path, path)


def _resumes(folder: Path, path: Path, *settings: str) -> None:
    """A run that goes on with a copy of its folder from the middle ends with the weights of the run itself."""
    settings = (*settings, "training.compile=true", f"training.save_every={STEPS // 2}")
    whole = _trainer(path, folder / "whole", *settings)
    step = whole._step

    def copied_in_the_middle() -> None:
        if whole.progress.step == STEPS // 2:
            shutil.copytree(folder / "whole", folder / "halved")
        step()

    whole._step = copied_in_the_middle  # type: ignore[method-assign]
    whole.run()
    second = make_trainer(reopen(folder / "halved"))
    assert second.resume()
    assert second.progress.step == STEPS // 2
    second.run()
    assert second.progress.step == whole.progress.step == STEPS
    for one, other in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_compiling_belongs_to_what_a_run_is(tmp_path: Path) -> None:
    """Its numbers are rounded otherwise: checkpoints of a plain run are not its own."""
    path = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    recipes = [
        read_recipe(None, f'data.train="{path}"', *SMALL, "training.steps=2", f"training.compile={on}")
        for on in ("true", "false")
    ]
    one, other = (prepare(recipe, tmp_path / str(number)) for number, recipe in enumerate(recipes))
    assert one.identity != other.identity


def test_a_line_past_the_end_of_a_table_is_refused_as_without_a_graph() -> None:
    table = ["model.position.kind=learned", "model.position.size=8"]
    model = build(read_recipe(None, *zoo.SIZES, "model.family=lm", "model.layers=1", *table), seed=1)
    whole = compiling.CompiledModel(model, 64)
    with right_padded():
        assert whole.states(_ids(2, 8, seed=1)).shape == (2, 8, 16)
        with pytest.raises(ClearheadError, match="position 9 is past the end of the table of 8"):
            whole.states(torch.full((2, 9), 5))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["model.decoder.kind=recurrent"], "training.compile = true: a recurrent decoder goes token by token"),
        (["model.family=recurrent"], "training.compile = true: a recurrent encoder goes token by token"),
        (["training.recompute=true"], "not with training.compile, which decides by itself"),
        (["training.parallel=fsdp"], "fsdp not with training.compile"),
    ],
)
def test_what_cannot_be_compiled_is_refused(settings: list[str], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        read_recipe(None, "training.compile=true", *settings)
    read_recipe(None, *settings)


def test_parts_of_matrices_that_auto_chooses_are_refused() -> None:
    recipe = read_recipe(None, *zoo.SIZES, "training.compile=true")
    learner = Learner(build(recipe, seed=1), objective_of(recipe), recipe.training)
    with pytest.raises(PartnerError, match=r"not with training\.compile: use ddp"):
        sharded(learner, torch.device("cpu"))


def test_a_machine_without_a_compiler_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from torch._inductor import config, cpp_builder

    monkeypatch.setattr(compiling, "BACKEND", "inductor")
    monkeypatch.setattr(config.cpp, "cxx", (None, str(tmp_path / "no-such-compiler")))
    cpp_builder.cpp_compiler_search.cache_clear()
    recipe = read_recipe(None, *zoo.SIZES, "training.compile=true")
    try:
        with pytest.raises(ClearheadError, match=r"training\.compile needs a C.. compiler on a CPU, and there is none"):
            Learner(build(recipe, seed=1), objective_of(recipe), recipe.training)
    finally:
        cpp_builder.cpp_compiler_search.cache_clear()
    Learner(build(recipe, seed=1), objective_of(recipe), TrainingSpec())


def _ids(lines: int, length: int, *, seed: int) -> torch.Tensor:
    """Token ids; the second line, if there is one, is shorter and padded on the right."""
    ids = torch.randint(4, 40, (lines, length), generator=torch.Generator().manual_seed(seed))
    ids[1:2, max(1, length - 2) :] = 0
    return ids


def _without_dropout(model: torch.nn.Module) -> None:
    for part in model.modules():
        if hasattr(part, "p"):
            vars(part)["p"] = 0.0


def _trainer(data: Path, folder: Path, *settings: str) -> Trainer:
    recipe = read_recipe(None, f'data.train="{data}"', *SMALL, *SHORT, f"training.steps={STEPS}", *settings)
    return make_trainer(prepare(recipe, folder))


def _trained(data: Path, folder: Path, *settings: str) -> Trainer:
    trainer = _trainer(data, folder, f"training.evaluate_every={STEPS // 2}", *settings)
    trainer.run()
    return trainer


def _losses(trainer: Trainer) -> list[float]:
    rows = [json.loads(line) for line in (trainer.folder / "metrics.jsonl").read_text().splitlines()]
    return [row[name] for row in rows for name in ("loss", "dev_loss") if name in row]
