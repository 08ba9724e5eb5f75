"""The training loop: steps are its only clock, and between any two of them it can be stopped and resumed exactly."""

import copy
import math
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import Encoded, padding_share, plan_epoch
from clearhead.errors import ClearheadError, Diverged, Interrupted
from clearhead.models import Model, stored_tensors
from clearhead.recipe import RISING, Training
from clearhead.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizers,
    save_checkpoint,
)
from clearhead.training.objectives import Objective
from clearhead.training.optimizer import make_optimizers
from clearhead.training.report import Report
from clearhead.training.schedule import rate_at
from clearhead.training.team import ALONE, Team

Evaluate = Callable[[Model], dict[str, float]]
LOG_EVERY = 20
EXPLODED = 3.0
"""A loss this many times the lowest one so far, with 1 added to it, will not come back."""
LOOK_EVERY = 50
"""Steps between looks at dev, at least, unless the recipe says otherwise."""


@dataclass
class Progress:
    """Where a run stands: everything that is neither a tensor nor the recipe."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    """Batches of the epoch that are done."""
    loss_sum: float = 0.0
    """Loss and tokens since the last line of the log."""
    token_sum: int = 0
    lowest: float | None = None
    """The lowest loss of a line of the log."""
    best: float | None = None
    best_step: int = 0
    waited: int = 0
    """Looks at dev without a better score."""
    seconds: float = 0.0
    """Time spent so far, over all resumes; for people, no decision rests on it."""
    history: list[dict[str, float]] = field(default_factory=list)
    """Dev scores so far."""


class Trainer:
    """Trains one model on encoded examples, by the objective of its family."""

    def __init__(
        self,
        model: Model,
        examples: Encoded,
        objective: Objective[Any, Any, Any],
        spec: Training,
        *,
        steps: int,
        folder: Path,
        evaluate: Evaluate,
        metric: str,
        save_best: Callable[[Model], None],
        report: Report,
        team: Team = ALONE,
    ) -> None:
        self.model, self.examples, self.objective = model, examples, objective
        self.spec, self.steps = spec, steps
        self.folder, self.evaluate, self.metric = folder, evaluate, metric
        self.save_best, self.report, self.team = save_best, report, team
        self.average = copy.deepcopy(model).requires_grad_(requires_grad=False) if spec.average else model
        self.optimizers = make_optimizers(model, spec.optimizer)
        self.progress = Progress()
        self.look_every = spec.evaluate_every or max(LOOK_EVERY, min(1000, steps // 20))
        self.save_every = spec.save_every or self.look_every
        self._plan: tuple[int, list[NDArray[np.int64]]] = (-1, [])

    # ---- the loop ----

    def run(self) -> Progress:
        """Train to the end of the budget, or until patience ends."""
        started = time.monotonic() - self.progress.seconds
        with _stop_signals() as stop:
            while self.progress.step < self.steps and not self._out_of_patience():
                self._step()
                self.progress.seconds = time.monotonic() - started
                step = self.progress.step
                if step % LOG_EVERY == 0 or step == self.steps:
                    self._log()
                if step % self.look_every == 0 or step == self.steps:
                    self._look_at_dev()
                    self.progress.seconds = time.monotonic() - started
                stopped = self.team.highest(stop[0] if stop else 0)
                if step % self.save_every == 0 or step == self.steps or stopped:
                    self.save()
                if stopped:
                    raise Interrupted(stopped, f"stopped after step {step}; {self.folder} has everything: --resume")
        return self.progress

    def _step(self) -> None:
        """One optimizer step."""
        loss_sum, tokens = self._find_gradients()
        share = rate_at(self.progress.step, self.spec.schedule, self.steps)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * share
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.progress.step += 1
        if self.average is not self.model:
            self._move_average()
        self.progress.loss_sum += loss_sum
        self.progress.token_sum += tokens

    def _find_gradients(self) -> tuple[float, int]:
        """Gradients over ``accumulate`` batches, normalised by all their tokens and clipped; summed loss and tokens."""
        self.model.train()
        loss_sum, tokens = 0.0, 0
        for _ in range(self.spec.accumulate):
            rows, counts = self.team.share(self._next_rows())
            batch = self.objective.batch(self.examples, rows, self.progress.epoch)
            loss = counts * self.objective.loss(self.model, batch)
            torch.autograd.backward(loss)
            loss_sum += float(loss.detach())
            tokens += counts * batch.tokens
        loss_sum, total = self.team.sums(loss_sum, tokens)
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self.team.sum_in_place(gradients)
        norm = float(torch.nn.utils.get_total_norm(gradients)) / total
        self._check(loss_sum / total, norm)
        torch._foreach_mul_(gradients, min(1.0, self.spec.clip / (norm + 1e-6)) / total)
        return loss_sum, int(total)

    def _next_rows(self) -> NDArray[np.int64]:
        """The examples of the batch that follows from (seed, epoch, index)."""
        if self.progress.index >= len(self._epoch_plan()):
            self.progress.epoch += 1
            self.progress.index = 0
        rows = self._epoch_plan()[self.progress.index]
        self.progress.index += 1
        return rows

    def _epoch_plan(self) -> list[NDArray[np.int64]]:
        epoch = self.progress.epoch
        if self._plan[0] != epoch:
            spec = self.spec
            plan = plan_epoch(
                self.examples, seed=spec.seed, epoch=epoch, batch_tokens=spec.batch_tokens, window=spec.window
            )
            self._plan = (epoch, plan)
        return self._plan[1]

    def _move_average(self) -> None:
        """average ← decay · average + (1 − decay) · weights; the memory is short while there is little to remember."""
        decay = min(self.spec.average, (1 + self.progress.step) / (10 + self.progress.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), 1 - decay)

    def _check(self, loss: float, norm: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self._diverged(f"the loss is {loss}, its gradient {norm}")

    def _diverged(self, what: str) -> NoReturn:
        raise Diverged(
            f"step {self.progress.step + 1}: {what}. What was saved before it in {self.folder / 'last'} is good. "
            "Try a lower training.optimizer.rate, a longer training.schedule.warmup, or model.norm.place=pre"
        )

    # ---- looking ----

    def _log(self) -> None:
        progress = self.progress
        rate = self.optimizers[-1].param_groups[0]["lr"]
        loss = progress.loss_sum / max(1, progress.token_sum)
        if progress.lowest is not None and loss > EXPLODED * (progress.lowest + 1):
            self._diverged(f"the loss has risen from {progress.lowest:.2f} to {loss:.2f}")
        progress.lowest = loss if progress.lowest is None else min(loss, progress.lowest)
        self.report.training(
            {"step": progress.step, "epoch": progress.epoch, "loss": loss, "rate": rate},
            tokens=progress.token_sum,
            seconds=progress.seconds,
        )
        progress.loss_sum, progress.token_sum = 0.0, 0

    def _look_at_dev(self) -> None:
        """Score the average on dev, and keep it if it is the best so far."""
        progress = self.progress
        scores = self.evaluate(self.average) if self.team.leads else {}
        value = self.team.told(scores.get(self.metric, 0.0))
        sign = 1 if self.metric in RISING else -1
        better = progress.best is None or sign * value > sign * progress.best
        if better:
            progress.best, progress.best_step, progress.waited = value, progress.step, 0
            if self.team.leads:
                self.save_best(self.average)
        else:
            progress.waited += 1
        row = {"step": progress.step} | {f"dev_{name}": score for name, score in scores.items()}
        progress.history.append(row)
        self.report.dev(row, best=better, seconds=progress.seconds)

    def _out_of_patience(self) -> bool:
        return self.spec.patience is not None and self.progress.waited >= self.spec.patience

    # ---- stopping and going on ----

    def save(self) -> None:
        """Write everything that the next step depends on."""
        tensors = {f"model.{name}": tensor for name, tensor in stored_tensors(self.model).items()}
        if self.average is not self.model:
            tensors |= {f"average.{name}": tensor for name, tensor in stored_tensors(self.average).items()}
        tensors |= optimizer_tensors(self.optimizers)
        tensors["random"] = self.team.gathered(torch.random.get_rng_state())
        if self.team.leads:
            save_checkpoint(self.folder / "last", self.progress.step, Checkpoint(tensors, asdict(self.progress)))

    def resume(self) -> bool:
        """Go back to the newest checkpoint that is whole; False if there is none yet."""
        checkpoint, complaints = load_checkpoint(self.folder / "last")
        for complaint in complaints:
            self.report.say(complaint)
        if checkpoint is None:
            return False
        random = checkpoint.tensors["random"].reshape(-1, len(torch.random.get_rng_state()))
        if len(random) != self.team.size:
            raise ClearheadError(
                f"{self.folder}: was trained by {len(random)} processes and goes on as it was only with as many: "
                f"torchrun --nproc-per-node {len(random)} -m clearhead train … --resume"
            )
        _copy(stored_tensors(self.model), checkpoint.tensors, "model.")
        if self.average is not self.model:
            _copy(stored_tensors(self.average), checkpoint.tensors, "average.")
        restore_optimizers(self.optimizers, checkpoint.tensors)
        torch.random.set_rng_state(random[self.team.rank].clone())  # torch reads a view from its start
        self.progress = Progress(**checkpoint.state)
        self.report.forget_after(self.progress.step)
        return True

    def padding(self) -> float:
        """Which part of the first epoch's tokens is padding."""
        return padding_share(self.examples, self._epoch_plan())

    def activation_bytes(self) -> int:
        """Bytes that a forward pass keeps for the backward pass, measured on one batch; nothing else changes."""
        batch = self.objective.batch(self.examples, self._epoch_plan()[0], self.progress.epoch)
        state = torch.random.get_rng_state()
        kept: dict[int, int] = {}
        parameters = {parameter.data_ptr() for parameter in self.model.parameters()}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in parameters:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        self.model.train()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            loss = self.objective.loss(self.model, batch)
        del loss
        torch.random.set_rng_state(state)
        return sum(kept.values())


def _copy(into: dict[str, Tensor], tensors: dict[str, Tensor], prefix: str) -> None:
    with torch.no_grad():
        for name, tensor in into.items():
            tensor.copy_(tensors[prefix + name])


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """While inside, SIGINT and SIGTERM are noted in a list instead of ending the process."""
    noted: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)

    previous: dict[signal.Signals, Any] = {}
    try:
        for caught in (signal.SIGINT, signal.SIGTERM):
            previous[caught] = signal.signal(caught, note)
        yield noted
    finally:
        for caught, handler in previous.items():
            signal.signal(caught, handler)
