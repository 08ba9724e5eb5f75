"""One step after another of every model of the zoo on ``meta``, the device of torch that has shapes and no values.

A tensor that was made on another device fails there, and so does every branch on values and every ``.item()``, for
which a GPU would have to be waited. ``python -m tools.devices`` prints what each model does.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from clearhead.data import Batch, LabelBatch, PictureBatch, TextBatch
from clearhead.models import LanguageModel, Seq2Seq
from clearhead.recipe import OptimizerSpec, read_recipe
from clearhead.training.objectives import objective_of
from clearhead.training.optimizer import make_optimizers
from tests.models import zoo

META = torch.device("meta")
IDS = torch.tensor([[1, 7, 5, 2], [1, 9, 2, 0], [1, 2, 0, 0]])
"""Lines of unequal length."""
STEPS = ("forward", "loss", "backward", "AdamW", "Muon", "decode")
"""What a model does, in this order; those that write no tokens do not decode."""
TWO_LAYERS = ("local and whole, grouped queries",)
"""Variants whose layers differ."""
_LABELS = [name for name in zoo.VARIANTS if "statistics" not in name] + ["side by side, one norm"]
_HIDDEN = [name for name in _LABELS if not name.startswith("another width out")]
"""An encoder that learns by hidden tokens has vectors as wide as its table of tokens."""
CASES = [
    *(("seq2seq", variant) for variant in [*zoo.VARIANTS, *zoo.RECURRENT]),
    *(("lm", variant) for variant in [*zoo.VARIANTS, *zoo.SIDE_BY_SIDE, *zoo.RECURRENT_LM]),
    *(("encoder", variant) for variant in _HIDDEN),
    *(("classifier", variant) for variant in _LABELS),
    *(("images", variant) for variant in zoo.GRID_VARIANTS),
]
"""All models: families and variants."""


class OnlyMeta(TorchDispatchMode):
    """Refuses tensors of other devices: torch itself lets many operators mix them with meta tensors."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute, and look at what goes in and what comes out; numbers may be anywhere."""
        out = func(*args, **(kwargs or {}))
        for part in tree_leaves((args, kwargs, out)):
            if isinstance(part, torch.Tensor) and part.dim() and part.device != META:
                raise AssertionError(f"{func} has a tensor on {part.device}")
        return out


def batch_of(family: str) -> Any:
    """A batch, on the CPU."""
    following = IDS.roll(-1, 1)
    made = {
        "seq2seq": Batch(IDS, IDS, following),
        "lm": TextBatch(IDS, following),
        "encoder": TextBatch(IDS, following),
        "classifier": LabelBatch(IDS, torch.tensor([0, 1, 0])),
        "images": PictureBatch(torch.zeros(2, 16, 8, 2), torch.tensor([0, 1])),
    }
    return made[family]


def model_of(family: str, variant: str) -> Any:
    """A model on ``meta``, of one layer unless its layers differ."""
    more = ["model.layers=2" if variant in TWO_LAYERS else "model.layers=1"]
    if family == "images":
        return zoo.make_grid("classifier", variant, *more).to(META).train()
    more += ["model.head=tokens"] if family == "encoder" else []
    return zoo.make(family, variant, *more).to(META).train()


@dataclass
class Walk:
    """A model and a batch on ``meta``; each method is a step, in the order of ``STEPS``."""

    model: Any
    batch: Any

    def __post_init__(self) -> None:
        self.batch = self.batch.to(META) if self.batch.inputs.device != META else self.batch
        self.loss_value: Any = None

    def steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        """Names and functions of the steps that this model does."""
        yield "forward", self.forward
        yield "loss", self.loss
        yield "backward", self.backward
        yield "AdamW", lambda: self.optimize(OptimizerSpec(kind="adamw"))
        yield "Muon", lambda: self.optimize(OptimizerSpec(kind="muon"))
        if isinstance(self.model, Seq2Seq | LanguageModel):
            yield "decode", self.decode

    def forward(self) -> None:
        """From tokens, or pixels, to logits."""
        inputs = [self.batch.inputs]
        if isinstance(self.batch, Batch):
            inputs.insert(0, self.batch.source)
        with torch.no_grad(), OnlyMeta():
            self.model(*inputs)

    def loss(self) -> None:
        """The loss that training takes."""
        objective = objective_of(read_recipe("tiny").updated(model=self.model.spec))
        with OnlyMeta():
            self.loss_value = objective.loss(self.model, self.batch)

    def backward(self) -> None:
        """Its gradients."""
        with OnlyMeta():
            self.loss_value.backward()

    def optimize(self, spec: OptimizerSpec) -> None:
        """Two steps of an optimizer with them: the second has a memory."""
        optimizers = make_optimizers(self.model, spec)
        with OnlyMeta():
            for _ in range(2):
                for optimizer in optimizers:
                    optimizer.step()

    def decode(self) -> None:
        """Read, then write two tokens by the cache, beams moved in between."""
        model = self.model.eval()
        ids, rows = IDS.to(META), torch.tensor([2, 1, 1], device=META)
        with torch.no_grad(), OnlyMeta():
            if isinstance(model, Seq2Seq):
                state: Any = model.start(ids)
            else:
                state = model.start()
                model.step(ids, state, ids != 0)
            for _ in range(2):
                logits = model.step(torch.zeros(3, 1, dtype=torch.long, device=META), state)
                state.select(rows)
            assert logits.shape == (3, 40)
