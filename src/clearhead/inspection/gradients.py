"""Integrated gradients (Sundararajan et al. 2017): how much each input token adds to log p of an answer token.

    attribution_j = (x_j − x̄_j)·∫₀¹ ∂f(x̄ + α(x − x̄))/∂x_j dα,     Σ_j attribution_j = f(x) − f(x̄)

x are the embedded tokens and x̄ those of the baseline, <unk> at the same positions. The integral is a mean over
midpoints, whose number doubles until the sum is right to 1 %; the error that is left is part of the result.

Shapes: n source tokens, m inputs of the decoder, s steps, d features.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.errors import ClearheadError
from clearhead.inspection.baseline import baseline_of
from clearhead.inspection.replaying import replaying, run
from clearhead.inspection.subject import Subject
from clearhead.models import AttentionChoice, Model, device_of

GOOD = 0.01
"""The error, as a share of the difference, at which no more steps are taken."""
_AT_ONCE = 2048
"""Tokens of all steps that run through the model at a time."""


class InexactAttribution(UserWarning):
    """The sum of the attributions misses the difference by more than 1 %."""


@dataclass(frozen=True)
class Attribution:
    """What every input token adds to log p of one answer token, or to the difference of two logits."""

    at: int
    """The place in the answer, from 0."""
    token: str
    against: str | None
    delta: float
    """f(x) − f(x̄): how much more probable the token is than with the baseline."""
    error: float
    """How far the sum of all values is from ``delta``, as a share of it."""
    steps: int
    baseline: str
    """What stood for the tokens in the baseline."""
    source: tuple[float, ...]
    """A value for every source token; special tokens are not replaced and have 0."""
    prefix: tuple[float, ...]
    """A value for every input of the decoder."""


def why_not(model: Model, attention: AttentionChoice) -> str | None:
    """Why there are no integrated gradients; None if there are."""
    hard = any(getattr(part, "choice", None) == "hard" for part in model.modules())
    if attention == "hard" or (hard and attention == "trained"):
        return "hard attention is a step function: its gradient is borrowed from the softmax and does not add up"
    return None


def integrated(
    model: Model,
    subject: Subject,
    at: int,
    *,
    against: str | None = None,
    against_token: int | None = None,
    attention: AttentionChoice = "trained",
    off: Sequence[str] = (),
    steps: int = 16,
    most: int = 512,
) -> Attribution:
    """Attribute log p of answer token ``at``, or the difference of its logit to that of ``against_token``."""
    if (reason := why_not(model, attention)) is not None:
        raise ClearheadError(f"no integrated gradients: {reason}")
    row, token = subject.rows[at], subject.answer[at]
    assert row is not None  # the view has checked it
    device = device_of(model)
    source, inputs = (None if part is None else part.to(device) for part in (subject.source, subject.inputs))

    def value(logits: Tensor) -> Float[Tensor, "s"]:
        here = logits[:, row] if logits.dim() == 3 else logits
        return here.log_softmax(-1)[:, token] if against_token is None else here[:, token] - here[:, against_token]

    base = baseline_of(model, subject)
    with replaying(model, attention, off, gradients=True):
        path = _Path(model, source, inputs, base.source, base.inputs)
        with torch.no_grad():
            ends = [value(path.run(torch.tensor([share]))[0]).item() for share in (1.0, 0.0)]
        delta = ends[0] - ends[1]
        while True:
            found = path.integrate(steps, value)
            total = sum(float(values.sum()) for values in found.values())
            error = abs(total - delta) / max(abs(delta), 1e-6)
            if error <= GOOD or steps * 2 > most:
                break
            steps *= 2
    if error > GOOD:
        words = f"integrated gradients miss the difference by {error:.1%} after {steps} steps"
        warnings.warn(words, InexactAttribution, stacklevel=3)
    values = {name: tuple(vector.tolist()) for name, vector in found.items()}
    word = subject.answer_tokens[at]
    left, right = values.get("encoder", ()), values.get("decoder", ())
    return Attribution(at, word, against, delta, error, steps, base.name, left, right)


class _Path:
    """The straight line from the baseline to the inputs, in the space of embedded tokens."""

    def __init__(
        self,
        model: Model,
        source: Tensor | None,
        inputs: Tensor | None,
        bare: Tensor | None,
        bare_inputs: Tensor | None,
    ) -> None:
        self._model, self._source, self._inputs = model, source, inputs
        stacks = {name: getattr(model, name, None) for name in ("encoder", "decoder")}
        self._embeddings: dict[str, nn.Module] = {
            name: stack.get_submodule("embedding") for name, stack in stacks.items() if stack is not None
        }
        with torch.no_grad():
            full: dict[str, Tensor] = {}
            empty: dict[str, Tensor] = {}
            with self._noting(full):
                run(model, source, inputs)
            with self._noting(empty):
                run(
                    model,
                    None if bare is None else bare.to(device_of(model)),
                    None if bare_inputs is None else bare_inputs.to(device_of(model)),
                )
        self._full, self._empty = full, empty

    @contextmanager
    def _noting(self, table: dict[str, Tensor]) -> Iterator[None]:
        def note(name: str) -> Any:
            def hook(_module: nn.Module, _args: Any, out: Tensor) -> None:
                table[name] = out

            return hook

        with ExitStack() as hooks:
            for name, module in self._embeddings.items():
                hooks.callback(module.register_forward_hook(note(name)).remove)
            yield

    def run(self, shares: Float[Tensor, "s"]) -> tuple[Tensor, dict[str, Float[Tensor, "s n d"]]]:
        """The logits at these shares of the way, and the embedded tokens there."""
        here = {}
        for name, full in self._full.items():
            share = shares.to(full)[:, None, None]
            here[name] = (self._empty[name] + share * (full - self._empty[name])).requires_grad_(
                torch.is_grad_enabled()
            )
        count = len(shares)

        def put(name: str) -> Any:
            return lambda _module, _args, _out: here[name]

        with ExitStack() as hooks:
            for name, module in self._embeddings.items():
                hooks.callback(module.register_forward_hook(put(name)).remove)
            logits = run(
                self._model,
                None if self._source is None else self._source.expand(count, *self._source.shape[1:]),
                None if self._inputs is None else self._inputs.expand(count, -1),
            )
        return logits, here

    def integrate(self, steps: int, value: Any) -> Mapping[str, Float[Tensor, "n"]]:
        """(x − x̄)·the mean gradient, for every token of every stack."""
        sums = {name: torch.zeros_like(full, dtype=torch.float64) for name, full in self._full.items()}
        length = max(full.shape[1] for full in self._full.values())
        middles = (torch.arange(steps, dtype=torch.float64) + 0.5) / steps
        at_once = max(1, _AT_ONCE // length)
        for first in range(0, steps, at_once):
            logits, here = self.run(middles[first : first + at_once])
            slopes = torch.autograd.grad(value(logits).sum(), list(here.values()))
            for name, slope in zip(here, slopes, strict=True):
                sums[name] += slope.double().sum(0, keepdim=True)
        return {
            name: ((self._full[name] - self._empty[name]).double() * total / steps).sum(-1)[0]
            for name, total in sums.items()
        }
