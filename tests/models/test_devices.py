"""Every model learns and decodes on a device whose values Python cannot see; no machine that runs the tests has a GPU.

On ``meta`` tensors have shapes and no values. A tensor that was made on another device fails there, and so does every
branch on values and every ``.item()``, for which a GPU would have to be waited.
"""

from typing import Any, Literal

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from clearhead.data import Batch, LabelBatch, PictureBatch, TextBatch
from clearhead.models import LanguageModel, Seq2Seq
from clearhead.recipe import OptimizerSpec, read_recipe
from clearhead.training.objectives import objective_of
from clearhead.training.optimizer import make_optimizers
from tests.models import zoo
from tests.thorough import THOROUGH

META = torch.device("meta")
IDS = torch.tensor([[1, 7, 5, 2], [1, 9, 2, 0], [1, 2, 0, 0]])
"""Lines of unequal length."""
OFTEN = [name for name in zoo.VARIANTS if name.startswith(("position", "attention", "statistics over the"))]
OFTEN += ["hard", "disentangled v2", "local, t5", "Linformer none", "feedforward gated", "norm rmsnorm"]
SELDOM = ["plain", "position t5", "disentangled v2", "local, window of 3", *zoo.RECURRENT_LM]
_LABELS = [name for name in zoo.VARIANTS if "statistics" not in name]
CASES = [
    *(("seq2seq", variant) for variant in ([*zoo.VARIANTS, *zoo.RECURRENT] if THOROUGH else [*OFTEN, *zoo.RECURRENT])),
    *(("lm", variant) for variant in ([*zoo.VARIANTS, *zoo.RECURRENT_LM] if THOROUGH else SELDOM)),
    *((family, variant) for family in ("encoder", "classifier") for variant in (_LABELS if THOROUGH else ["plain"])),
]
"""Meta tensors are slow, as torch computes their shapes in Python: `make prove` goes through all models."""


class OnlyMeta(TorchDispatchMode):
    """Refuses tensors of other devices: torch itself lets many operators mix them with meta tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute, and look at what goes in and what comes out; numbers may be anywhere."""
        out = func(*args, **(kwargs or {}))
        for part in tree_leaves((args, kwargs, out)):
            if isinstance(part, torch.Tensor) and part.dim() and part.device != META:
                raise AssertionError(f"{func} has a tensor on {part.device}")
        return out


@pytest.mark.parametrize(("family", "variant"), CASES)
def test_a_step_of_training_waits_for_no_value(family: str, variant: str) -> None:
    more = ["model.head=tokens"] if family == "encoder" else []
    model = zoo.make(family, variant, "model.layers=1", *more).to(META).train()
    _train(model, _batch(family))
    if isinstance(model, Seq2Seq | LanguageModel):
        _decode(model)


@pytest.mark.parametrize("variant", zoo.GRID_VARIANTS)
def test_a_step_of_training_on_images_waits_for_no_value(variant: str) -> None:
    model = zoo.make_grid("classifier", variant, "model.layers=1").to(META).train()
    _train(model, PictureBatch(torch.zeros(2, 16, 8, 2), torch.tensor([0, 1])))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_the_optimizers_wait_for_no_value(kind: Literal["adamw", "muon"]) -> None:
    """Two steps: the second has a memory."""
    model = zoo.make("seq2seq", "plain").to(META).train()
    optimizers = make_optimizers(model, OptimizerSpec(kind=kind))
    for _ in range(2):
        _train(model, _batch("seq2seq"))
        for optimizer in optimizers:
            optimizer.step()


def test_what_waits_for_a_value_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variant: the model looks whether there is padding."""
    monkeypatch.setattr("clearhead.models.base.may_branch", lambda _: True)
    with pytest.raises(RuntimeError, match="meta"):
        _train(zoo.make("seq2seq", "plain").to(META), _batch("seq2seq"))


def test_a_tensor_of_another_device_is_seen() -> None:
    """A wrong variant: the labels stay behind."""
    batch = _batch("seq2seq").to(META)
    vars(batch)["labels"] = _batch("seq2seq").labels
    with pytest.raises(AssertionError, match="a tensor on cpu"):
        _train(zoo.make("seq2seq", "plain").to(META), batch)


def test_what_counts_is_found_before_a_batch_goes() -> None:
    batch = Batch(IDS, IDS, IDS)
    assert batch.counted.tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert Batch(IDS, IDS, IDS).to(META).tokens == batch.tokens == 9
    assert batch.to(torch.device("cpu")) is batch


def _batch(family: str) -> Any:
    following = IDS.roll(-1, 1)
    made = {
        "seq2seq": Batch(IDS, IDS, following),
        "lm": TextBatch(IDS, following),
        "encoder": TextBatch(IDS, following),
        "classifier": LabelBatch(IDS, torch.tensor([0, 1, 0])),
    }
    return made[family]


def _train(model: Any, batch: Any) -> None:
    objective = objective_of(read_recipe("tiny").updated(model=model.spec))
    there = batch.to(META) if batch.inputs.device != META else batch
    with OnlyMeta():
        objective.loss(model, there).backward()


def _decode(model: Seq2Seq | LanguageModel) -> None:
    """Read, then generate two tokens by the cache, beams moved in between."""
    model.eval()
    ids, rows = IDS.to(META), torch.tensor([2, 1, 1], device=META)
    with torch.no_grad(), OnlyMeta():
        if isinstance(model, Seq2Seq):
            state = model.start(ids)
        else:
            state = model.start()
            model.step(ids, state, ids != 0)
        for _ in range(2):
            logits = model.step(torch.zeros(3, 1, dtype=torch.long, device=META), state)
            state.select(rows)
        assert logits.shape == (3, 40)
