"""Models and inputs that the tests of inspection share."""

from typing import Any

import torch
from torch import Tensor

from clearhead.inspection import Record
from clearhead.inspection.parts import parts_of
from tests.inspection.conftest import Hold
from tests.models.zoo import make

NORMS = {
    "pre": ["model.norm.place=pre"],
    "post": ["model.norm.place=post"],
    "pre, RMS": ["model.norm.place=pre", "model.norm.kind=rmsnorm"],
    "pre, RMS times 1 + w": [
        *("model.norm.place=pre", "model.norm.kind=rmsnorm", "model.norm.unit_offset=true"),
    ],
    "on both sides": ["model.norm.place=both"],
    "post, RMS": ["model.norm.place=post", "model.norm.kind=rmsnorm"],
    "the lecture's norm": ["model.norm.place=post", "model.norm.eps_place=outside", "model.norm.eps=0.01"],
    "post, embedding norm": ["model.norm.place=post", "model.embedding.norm=true", "model.embedding.output_bias=true"],
}
SUM, DIFFERENCE = "Σ parts = logit", "parts(A) − parts(B) = difference of the logits"
HEAD = ["model.head=tokens", "model.head_transform=gelu"]


def ids(rows: int, length: int, seed: int = 3) -> Tensor:
    """Token ids without specials."""
    return torch.randint(4, 40, (rows, length), generator=torch.Generator().manual_seed(seed))


def pixels(rows: int) -> Tensor:
    return torch.randn(rows, 16, 8, 2, generator=torch.Generator().manual_seed(3))


def shaken(model: Any) -> Any:
    """Biases, gains and shifts that matter: at their initial 0 and 1 they would hide what is forgotten."""
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator))
    return model


def model_of(family: str, norm: str = "pre", variant: str = "plain", *more: str) -> Any:
    """A small model with this placing and kind of norm."""
    settings = [*NORMS[norm], *(HEAD if family == "encoder" else []), *more]
    if family in ("lm", "encoder", "classifier"):
        settings = [setting for setting in settings if "output_bias" not in setting or family == "lm"]
    return shaken(make(family, variant, *settings))


def apart(left: Tensor, right: Tensor) -> float:
    """max|Δ|."""
    return float((left.detach().double() - right.detach().double()).abs().max())


ROWS, TOKENS, OTHERS = torch.arange(5), ids(1, 5, seed=5)[0], ids(1, 5, seed=6)[0]


@torch.no_grad()
def check_parts(model: Any, found: Record, hold: Hold) -> None:
    """Wrong: a part is forgotten, the largest; for a difference, the other token's parts are forgotten."""
    logits = found.logits[0] if found.logits.dim() == 3 else found.logits
    count, classes = min(len(ROWS), len(logits)), logits.shape[-1]
    rows, tokens, others = ROWS[:count], TOKENS[:count] % classes, OTHERS[:count] % classes
    values = torch.stack([value for _, value in parts_of(model, found, rows, tokens)])
    truth = logits[rows, tokens]
    lacking = values.sum(0) - values.abs().amax(0)
    hold(SUM, 1e-5, apart(values.sum(0), truth), apart(lacking, truth))
    apart_from = torch.stack([value for _, value in parts_of(model, found, rows, tokens, others)]).sum(0)
    difference = truth - logits[rows, others]
    hold(DIFFERENCE, 1e-5, apart(apart_from, difference), apart(values.sum(0), difference))
