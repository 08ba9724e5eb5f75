"""Every model learns and decodes on a device whose values Python cannot see; no machine that runs the tests has a GPU.

See tests/models/on_meta.py. ``python -m tools.devices`` prints the table of all models and steps.
"""

from typing import Any

import pytest
import torch

from clearhead.data import Batch
from tests.models import zoo
from tests.models.on_meta import CASES, IDS, META, STEPS, Walk, batch_of, model_of
from tests.thorough import THOROUGH
from tools import devices

OFTEN = [name for name in zoo.VARIANTS if name.startswith(("position", "attention", "statistics over the"))]
OFTEN += ["hard", "disentangled v2", "local, t5", "Linformer none", "feedforward gated", "norm rmsnorm"]
SELDOM = ["plain", "position t5", "disentangled v2", "local, window of 3", *zoo.RECURRENT_LM]
KEPT = {"seq2seq": [*OFTEN, *zoo.RECURRENT], "lm": SELDOM, "encoder": ["plain"], "classifier": ["plain"]}
SOME = [case for case in CASES if case[1] in KEPT.get(case[0], zoo.GRID_VARIANTS)]
"""Meta tensors are slow, as torch computes their shapes in Python: `make prove` goes through all models."""
SELDOM_ALONE = ("forward", "Muon")
"""Left to `make prove`: the one is in the loss, too, the other knows nothing of the model; one model does both here."""


@pytest.mark.parametrize(("family", "variant"), CASES if THOROUGH else SOME)
def test_no_step_waits_for_a_value(family: str, variant: str) -> None:
    """Forward, loss, backward, optimizer and, for what writes, decoding."""
    done = []
    for name, step in Walk(model_of(family, variant), batch_of(family)).steps():
        if name not in SELDOM_ALONE or THOROUGH:
            step()
        done.append(name)
    assert done == list(STEPS if family in ("seq2seq", "lm") else STEPS[:-1])


def test_the_optimizers_wait_for_no_value() -> None:
    for _, step in Walk(model_of("seq2seq", "plain"), batch_of("seq2seq")).steps():
        step()


def test_what_waits_for_a_value_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variant: the model looks whether there is padding."""
    monkeypatch.setattr("clearhead.models.base.may_branch", lambda _: True)
    with pytest.raises(RuntimeError, match="meta"):
        Walk(model_of("seq2seq", "plain"), batch_of("seq2seq")).loss()


def test_a_tensor_of_another_device_is_seen() -> None:
    """A wrong variant: the labels stay behind."""
    batch = batch_of("seq2seq").to(META)
    vars(batch)["labels"] = batch_of("seq2seq").labels
    with pytest.raises(AssertionError, match="a tensor on cpu"):
        Walk(model_of("seq2seq", "plain"), batch).loss()


def test_a_memory_of_an_optimizer_that_is_elsewhere_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong variant: averages of gradients on the CPU."""
    walk = Walk(model_of("lm", "plain"), batch_of("lm"))
    walk.loss()
    walk.backward()
    zeros = torch.zeros_like
    monkeypatch.setattr(torch, "zeros_like", lambda like, **_: zeros(like, device="cpu"))
    optimizer: Any = dict(walk.steps())["AdamW"]
    with pytest.raises((AssertionError, RuntimeError), match="cpu"):
        optimizer()


def test_what_counts_is_found_before_a_batch_goes() -> None:
    batch = Batch(IDS, IDS, IDS)
    assert batch.counted.tolist() == [0, 1, 2, 3, 4, 5, 6, 8, 9]
    assert Batch(IDS, IDS, IDS).to(META).tokens == batch.tokens == 9
    assert batch.to(torch.device("cpu")) is batch


def test_the_table_says_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    assert devices.row("classifier", "plain") == ["✓"] * 5 + [""]
    monkeypatch.setattr("clearhead.models.base.may_branch", lambda _: True)
    found = devices.row("lm", "position t5")
    assert found[0].startswith("RuntimeError")
    assert found[1:] == ["not reached"] * 5
    assert devices.summary([("lm", "position t5", found)]) == "1 models; 0 do every step, 1 fail"
