"""The training loop: steps are its only clock, and between any two of them it can be stopped and resumed exactly."""

import copy
import math
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import Encoded, padding_share, plan_epoch
from clearhead.errors import ClearheadError, DamagedFile, DataError, Diverged, Interrupted, ModelFileError
from clearhead.locks import held
from clearhead.models import Model, load_model, stored_tensors
from clearhead.recipe import TrainingSpec, metric_rises
from clearhead.training.checkpoint import (
    Checkpoint,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizers,
    save_checkpoint,
)
from clearhead.training.manifest import Stage
from clearhead.training.objectives import Objective
from clearhead.training.optimizer import make_optimizers
from clearhead.training.process_group import SINGLE, ProcessGroup
from clearhead.training.report import Report
from clearhead.training.schedule import rate_at

Evaluate = Callable[[Model], dict[str, float]]
LOG_EVERY = 20
EXPLODED = 3.0
"""A loss this many times the lowest one so far, with 1 added to it, will not come back."""
EVALUATE_EVERY = 50
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
    best_loss: float | None = None
    """The dev loss of the best model: of two equal scores, the one with the lower loss is better."""
    best_step: int = 0
    waited: int = 0
    """Looks at dev without a better score."""
    seconds: float = 0.0
    """Time spent so far, over all resumes; for people, no decision rests on it."""
    busy: float = 0.0
    """Of it, spent on steps since the last line of the log."""
    history: list[dict[str, float]] = field(default_factory=list)
    """Dev scores so far."""

    @classmethod
    def of(cls, state: dict[str, Any]) -> "Progress":
        """What a checkpoint kept; one of an earlier version has less."""
        known = {entry.name for entry in fields(cls)}
        progress = cls(**{name: value for name, value in state.items() if name in known})
        if progress.best_loss is None and progress.best is not None:
            rows = [row for row in progress.history if row["step"] == progress.best_step]
            progress.best_loss = rows[-1].get("dev_loss") if rows else None
        return progress


class Trainer:
    """Trains one model on encoded examples, by the objective of its family."""

    def __init__(
        self,
        model: Model,
        examples: Encoded,
        objective: Objective[Any, Any, Any],
        spec: TrainingSpec,
        *,
        steps: int,
        folder: Path,
        evaluate: Evaluate,
        metric: str,
        save_best: Callable[[Model], None],
        report: Report,
        group: ProcessGroup = SINGLE,
        stages: Sequence[Stage] = (),
        identity: str = "",
    ) -> None:
        self.model, self.examples, self.objective = model, examples, objective
        self.spec, self.steps = spec, steps
        self.stages = tuple(stages) or (Stage(steps, steps),)
        self.folder, self.evaluate, self.metric = folder, evaluate, metric
        self.save_best, self.report, self.group = save_best, report, group
        self.average = copy.deepcopy(model).requires_grad_(requires_grad=False) if spec.average else model
        self.optimizers = make_optimizers(model, spec.optimizer)
        self.identity = identity
        self.progress = Progress()
        self.evaluate_every = evaluate_every(spec)
        self.save_every = spec.save_every or self.evaluate_every
        self._plan: tuple[int, list[NDArray[np.int64]]] = (-1, [])

    # ---- the loop ----

    def run(self) -> Progress:
        """Train to the end of the budget, or until patience ends."""
        with held(self.folder) if self.group.leads else nullcontext():
            return self._run()

    def _run(self) -> Progress:
        progress = self.progress
        started = time.monotonic() - progress.seconds
        if progress.step == 0:
            self.save()  # from here on a best model never stands without a checkpoint
        with _stop_signals() as stop:
            while not self.finished:
                before = time.monotonic()
                self._step()
                progress.busy += time.monotonic() - before
                progress.seconds = time.monotonic() - started
                step = progress.step
                last = step == self._stage(step - 1).total
                if step % LOG_EVERY == 0 or last:
                    self._log()
                if step % self.evaluate_every == 0 or last:
                    self._evaluate()
                    progress.seconds = time.monotonic() - started
                stopped = self.group.maximum(stop[0] if stop else 0)
                if step % self.save_every == 0 or last or stopped or self.finished:
                    self.save()
                if stopped:
                    raise Interrupted(stopped, f"stopped after step {step}; {self.folder} has everything: --resume")
                self._begin_stage()
        return progress

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do: all steps are done, or patience has ended."""
        return self.progress.step >= self.steps or self._out_of_patience()

    def _stage(self, step: int) -> Stage:
        """The stage that a step, counted from 0, belongs to."""
        return next((stage for stage in self.stages if step < stage.until), self.stages[-1])

    def _begin_stage(self) -> None:
        """An extension begins with new patience."""
        if self.progress.step in [stage.until for stage in self.stages[:-1]]:
            self.progress.waited = 0

    def _step(self) -> None:
        """One optimizer step."""
        loss_sum, tokens = self._find_gradients()
        share = rate_at(self.progress.step, self.spec.schedule, self._stage(self.progress.step).total)
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
            rows, counts = self.group.share(self._next_rows())
            batch = self.objective.batch(self.examples, rows, self.progress.epoch)
            loss = counts * self.objective.loss(self.model, batch)
            torch.autograd.backward(loss)
            loss_sum += float(loss.detach())
            tokens += counts * batch.tokens
        loss_sum, total = self.group.sum_of(loss_sum, tokens)
        gradients = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self.group.sum_in_place(gradients)
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
            busy=progress.busy,
        )
        progress.loss_sum, progress.token_sum, progress.busy = 0.0, 0, 0.0

    def _evaluate(self) -> None:
        """Score the average on dev, and keep it if it is the best so far."""
        progress = self.progress
        scores = self.evaluate(self.average) if self.group.leads else {}
        value, loss = (
            self.group.from_leader(scores.get(self.metric, 0.0)),
            self.group.from_leader(scores.get("loss", math.inf)),
        )
        sign = 1 if metric_rises(self.metric) else -1
        higher = progress.best is None or sign * value > sign * progress.best
        tied = value == progress.best and progress.best_loss is not None and loss < progress.best_loss
        better = higher or tied
        progress.waited = 0 if higher else progress.waited + 1
        if better:
            progress.best, progress.best_loss, progress.best_step = value, loss, progress.step
            if self.group.leads:
                self.save_best(self.average)
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
        tensors["random"] = self.group.gather(torch.random.get_rng_state())
        if self.group.leads:
            state = asdict(self.progress) | {"files": self.report.checksums(), "run": self.identity}
            save_checkpoint(self.folder / "last", self.progress.step, Checkpoint(tensors, state))

    def resume(self) -> bool:
        """Go back to the newest checkpoint that is whole; False if there is none yet."""
        checkpoint, complaints = load_checkpoint(self.folder / "last")
        for complaint in complaints:
            self.report.say(complaint)
        if checkpoint is None:
            return False
        random = checkpoint.tensors["random"].reshape(-1, len(torch.random.get_rng_state()))
        if len(random) != self.group.size:
            raise ClearheadError(
                f"{self.folder}: was trained by {len(random)} processes and goes on as it was only with as many: "
                f"torchrun --nproc-per-node {len(random)} -m clearhead train … --resume"
            )
        if checkpoint.state.get("run", self.identity) != self.identity:
            raise DataError(
                f"{self.folder / 'last'}: holds a checkpoint of another run, with other data, seed or settings: "
                "put this run's own back, or choose another -o"
            )
        self._require_fit(checkpoint)
        _copy(stored_tensors(self.model), checkpoint.tensors, "model.")
        if self.average is not self.model:
            _copy(stored_tensors(self.average), checkpoint.tensors, "average.")
        restore_optimizers(self.optimizers, checkpoint.tensors)
        self.progress = Progress.of(checkpoint.state)
        self._begin_stage()
        self.report.forget_after(self.progress.step, checkpoint.state.get("files"), self.progress.history)
        self._require_best()
        # last, as loading a model draws numbers; torch reads a view from its start
        torch.random.set_rng_state(random[self.group.rank].clone())
        return True

    def _require_best(self) -> None:
        """The best model so far must be there and whole; if it is not, it is written again, or chosen again."""
        progress, path = self.progress, self.folder / "best.safetensors"
        if progress.best is None:
            return
        complaint = ""
        if self.group.leads:
            try:
                if load_model(path).model.spec != self.model.spec:
                    complaint = f"{path}: is the model of another run"
            except ModelFileError as error:
                complaint = str(error)
        if not self.group.from_leader(float(bool(complaint))):
            return
        if progress.best_step == progress.step:
            if self.group.leads:
                self.save_best(self.average)
            self.report.say(f"{complaint}; it is the model of the last checkpoint, and was restored from it")
        elif self.finished:
            raise DamagedFile(
                f"{complaint}; the run is finished, and nothing else has the weights of step {progress.best_step:,}: "
                "put the file back, or extend the run with --max-steps"
            )
        else:
            self.report.say(f"{complaint}; continuing without it: the next evaluation chooses a new best model")
            progress.best, progress.best_loss, progress.best_step = None, None, 0

    def _require_fit(self, checkpoint: Checkpoint) -> None:
        """A checkpoint of another model cannot be gone on with."""
        for prefix, model in (("model.", self.model), ("average.", self.average)):
            for name, tensor in stored_tensors(model).items() if prefix == "model." or model is not self.model else ():
                found = checkpoint.tensors.get(prefix + name)
                if found is None or found.shape != tensor.shape:
                    raise DamagedFile(
                        f"{self.folder / 'last'}: {prefix}{name} does not fit the recipe of the run: put the recipe or "
                        "the checkpoints of this run back, or start a new run with another -o"
                    )

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


def evaluate_every(spec: TrainingSpec) -> int:
    """Steps between looks at dev."""
    assert spec.steps is not None  # prepare() has fixed it
    return spec.evaluate_every or max(EVALUATE_EVERY, min(1000, spec.steps // 20))


def _copy(into: dict[str, Tensor], tensors: dict[str, Tensor], prefix: str) -> None:
    with torch.no_grad():
        for name, tensor in into.items():
            tensor.copy_(tensors[prefix + name])


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """While inside, SIGINT and SIGTERM are noted in a list instead of ending the process; afterwards all is as before.

    Only the main thread may handle signals: in another one nothing is noted.
    """
    noted: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield noted
        return

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
