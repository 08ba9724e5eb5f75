"""Precision and recomputation: what they change and what they do not. Devices: tests/models/test_devices.py."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from clearhead.data import Batch
from clearhead.errors import DeviceError, RecipeError
from clearhead.models import build
from clearhead.recipe import TrainingSpec, read_recipe
from clearhead.training import Trainer, objective_of, prepare
from clearhead.training.hardware import fast_products, loss_of, placed
from clearhead.verbs.session import make_trainer
from tests.models import zoo
from tests.thorough import THOROUGH
from tests.training.toy import FEW, SMALL, write_pairs

IDS = torch.tensor([[1, 7, 5, 2], [1, 9, 2, 0], [1, 2, 0, 0]])
BATCH = Batch(IDS, IDS, IDS.roll(-1, 1))
BFLOAT = TrainingSpec(precision="bfloat16")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_pairs(tmp_path_factory.mktemp("data") / "pairs.tsv", count=FEW)


def trained(data: Path, folder: Path, *overrides: str) -> Trainer:
    recipe = read_recipe(None, f'data.train="{data}"', *SMALL, "training.steps=24", *overrides)
    trainer = make_trainer(prepare(recipe, folder))
    trainer.run()
    return trainer


def test_a_run_that_computes_layers_again_is_the_same_run_with_less_memory(data: Path, tmp_path: Path) -> None:
    """Bit for bit, dropout included."""
    dropout = ["model.layers=3", "model.dropout.residual=0.2", "training.threads=1"]
    kept = trained(data, tmp_path / "kept", *dropout)
    again = trained(data, tmp_path / "again", *dropout, "training.recompute=true")
    assert _weights(kept) == _weights(again)
    assert again.activation_bytes() < 0.6 * kept.activation_bytes()


LEARNT = ["position t5", "local, t5", "position shaw", "disentangled v2", "convolutional", "recurrent to Transformer"]


@pytest.mark.parametrize("variant", [*zoo.VARIANTS, *zoo.RECURRENT] if THOROUGH else LEARNT)
def test_every_model_has_the_same_gradients_when_it_is_computed_again(variant: str) -> None:
    """Bit for bit, but for biases that all layers share: their gradients are added up in another order."""
    model = zoo.make("seq2seq", variant).train()
    objective = objective_of(read_recipe("tiny").updated(model=model.spec))
    found = []
    for again in (False, True):
        torch.manual_seed(3)
        model.zero_grad()
        loss_of(objective, placed(model, TrainingSpec(recompute=again)), BATCH, TrainingSpec()).backward()
        found.append([part.grad.clone() for part in model.parameters() if part.grad is not None])
    exactly = "t5" not in variant
    for kept, second in zip(*found, strict=True):
        assert torch.equal(kept, second) if exactly else torch.allclose(kept, second, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("variant", ["position t5", "position relative-2d", "attention window with relative-2d"])
def test_images_are_computed_again(variant: str) -> None:
    model = zoo.make_grid("classifier", variant).train()
    pixels = torch.rand(2, 16, 8, 2)
    placed(model, TrainingSpec(recompute=True))(pixels).sum().backward()
    assert all(part.grad is not None for part in model.parameters())


def test_dropout_that_is_drawn_anew_is_seen(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variant of the test before: the second computation draws other numbers."""
    from torch.utils.checkpoint import checkpoint

    dropout = ["model.dropout.residual=0.2", "training.threads=1"]
    kept = trained(data, tmp_path / "kept", *dropout)
    monkeypatch.setattr(
        "clearhead.blocks.stack.checkpoint",
        lambda layer, *args, **settings: checkpoint(layer, *args, preserve_rng_state=False, **settings),
    )
    again = trained(data, tmp_path / "again", *dropout, "training.recompute=true")
    assert _weights(kept) != _weights(again)


def test_bfloat16_learns_like_float32(data: Path, tmp_path: Path) -> None:
    """The losses of 24 steps differ by less than two parts in a hundred, and they do differ."""
    exact, rough = (
        [row["loss"] for row in _log(trained(data, tmp_path / precision, f"training.precision={precision}"))]
        for precision in ("float32", "bfloat16")
    )
    assert exact != rough
    assert torch.allclose(torch.tensor(exact), torch.tensor(rough), rtol=0.02)


@pytest.mark.parametrize(
    "variant", [*zoo.VARIANTS, *zoo.RECURRENT] if THOROUGH else [*list(zoo.RECURRENT)[:3], "plain"]
)
def test_every_model_computes_in_bfloat16_and_keeps_its_weights_and_its_loss_in_float32(variant: str) -> None:
    """Within a bound that the rounding to 8 bits gives; the gradients go to float32 weights."""
    model = zoo.make("seq2seq", variant)
    objective = objective_of(read_recipe("tiny").updated(model=model.spec))
    loss = loss_of(objective, model, BATCH, BFLOAT)
    loss.backward()
    assert loss.dtype == torch.float32
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert {part.grad.dtype for part in model.parameters() if part.grad is not None} == {torch.float32}
    exact = loss_of(objective, model, BATCH, TrainingSpec())
    if "hard" not in variant:  # a choice may turn over
        assert torch.allclose(loss, exact, rtol=0.1)


def test_the_chunked_loss_is_computed_in_float32(monkeypatch: pytest.MonkeyPatch) -> None:
    model = zoo.make("seq2seq", "plain")
    objective = objective_of(read_recipe("tiny").updated(model=model.spec))
    whole = loss_of(objective, model, BATCH, BFLOAT)
    monkeypatch.setattr("clearhead.training.loss.CHUNKED_FROM", 1)
    chunked = loss_of(objective, model, BATCH, BFLOAT)
    chunked.backward()
    assert chunked.dtype == torch.float32
    assert torch.allclose(whole, chunked, rtol=0.01)


def test_a_device_that_is_not_there_is_refused_before_anything_is_written(data: Path, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    recipe = read_recipe(None, f'data.train="{data}"', *SMALL, "training.steps=2", "training.device=cuda")
    with pytest.raises(DeviceError, match="cuda is not available on this machine"):
        placed(build(recipe, seed=0), recipe.training)
    with pytest.raises(RecipeError, match=r"training\.device"):
        read_recipe(None, "training.device=tpu")


def test_tf32_ends_with_the_run() -> None:
    before = torch.get_float32_matmul_precision()
    with fast_products(TrainingSpec(tf32=True)):
        assert torch.get_float32_matmul_precision() == "high"
    assert torch.get_float32_matmul_precision() == before


def _weights(trainer: Trainer) -> list[list[float]]:
    def listed(part: Tensor) -> list[float]:
        return part.detach().flatten().tolist()

    return [listed(parameter) for parameter in trainer.model.parameters()]


def _log(trainer: Trainer) -> list[dict[str, float]]:
    import json

    lines = (trainer.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [row for row in map(json.loads, lines) if "loss" in row]
