"""The training loop. Steps are its only clock: it can be stopped after any step and resumed bit for bit.

A budget in minutes corrects the number of steps on the way. Each correction is part of the state and is written to
``clock.jsonl``; what is learnt depends on the corrections, not on the time.
"""

import copy
import json
import math
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict, astuple, dataclass, field, fields
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from clearhead.data import Encoded, EpochPlan, padding_share
from clearhead.errors import DamagedFile, DataError, Diverged, Interrupted, ModelFileError, PartnerError
from clearhead.locks import held
from clearhead.models import Model, device_of, load_model, pick_device, stored_tensors
from clearhead.recipe import TrainingSpec, metric_rises
from clearhead.training.checkpoint import (
    Checkpoint,
    ShardFile,
    load_checkpoint,
    optimizer_tensors,
    restore_optimizers,
    save_checkpoint,
    save_shard,
)
from clearhead.training.clock import StepPlan, TimeBudget
from clearhead.training.hardware import loss_of, prefetches, random_states, set_random_states
from clearhead.training.manifest import Stage
from clearhead.training.objectives import Objective
from clearhead.training.optimizer import make_optimizers
from clearhead.training.parallel import GradientSource, Kind, Learner
from clearhead.training.planning import epoch_plan
from clearhead.training.prefetch import Prefetcher
from clearhead.training.process_group import SINGLE, ProcessGroup
from clearhead.training.report import Report
from clearhead.training.schedule import rate_at, total_at
from clearhead.training.shards import frame_of, framed, is_shared, own_part, own_rows, whole

Evaluate = Callable[[Model], dict[str, float]]
LOG_EVERY = 20
LOOKS = 50
"""How often, at least, a run with a budget in minutes looks at the clock, if it has as many steps."""
EXPLODED = 3.0
"""Training has diverged when the loss exceeds this many times (the lowest loss so far + 1)."""
WINDOWS_LOOKED_AT = 20
"""Windows of an epoch, at most, whose padding is counted before the first step."""
MOST_MEASURED = 200
"""Steps, at most, by which the speed is measured."""
EVALUATE_EVERY = 50
"""Fewest steps between evaluations on dev, unless the recipe sets ``training.evaluate_every``."""


@dataclass
class Progress:
    """The state of a run that is neither a tensor nor part of the recipe."""

    step: int = 0
    epoch: int = 0
    index: int = 0
    """Batches of the epoch that have been used."""
    window: int = 0
    """The window of the epoch that the last of them stood in."""
    before: int = 0
    """Batches of the windows before it."""
    loss_sum: float = 0.0
    """Loss and tokens since the last log row."""
    token_sum: int = 0
    lowest: float | None = None
    """The lowest loss of any log row."""
    best: float | None = None
    best_loss: float | None = None
    """The dev loss of the best model; it breaks ties between equal scores."""
    best_step: int = 0
    waited: int = 0
    """Evaluations since the score last improved."""
    seconds: float = 0.0
    """Time spent so far, over all resumes."""
    replans: list[list[int]] = field(default_factory=list)
    """What the clock decided so far, for a budget in minutes: [step, steps in all, steps between evaluations]."""
    per_evaluation: float | None = None
    """Seconds that the last evaluation on dev took, with its checkpoint."""
    busy: float = 0.0
    """Time spent on training steps since the last log row."""
    history: list[dict[str, float]] = field(default_factory=list)
    """The dev scores so far."""

    @classmethod
    def of(cls, state: dict[str, Any]) -> "Progress":
        """Read the progress from a checkpoint's state; earlier versions stored fewer fields."""
        known = {entry.name for entry in fields(cls)}
        progress = cls(**{name: value for name, value in state.items() if name in known})
        if progress.best_loss is None and progress.best is not None:
            rows = [row for row in progress.history if row["step"] == progress.best_step]
            progress.best_loss = rows[-1].get("dev_loss") if rows else None
        return progress


class Trainer:
    """Trains one model on encoded examples, by the objective of its family.

    Args:
        model: the model, with its initial weights.
        examples: the encoded training examples.
        objective: how batches and losses are made from them.
        spec: the recipe's ``[training]``.
        steps: optimizer steps until the end.
        folder: the run's folder; checkpoints go to ``last/`` in it.
        evaluate: computes the scores of a model on dev.
        metric: the name of the score by which the best model is chosen.
        save_best: writes a model as the best so far.
        report: receives progress and messages.
        group: the processes that train together. Default: this one alone.
        kind: how they share the work. With ``fsdp`` the model may still be on the CPU. Default: there is one process.
        stages: the steps and schedules of a run that was extended. Default: one stage of ``steps`` steps.
        identity: identifies data, seed and settings; checkpoints of another identity are refused.
        clock: the budget in minutes, which corrects the number of steps as the run goes on. Default: none.
        fixed: names of parameters that never change and stand elsewhere: checkpoints leave them out. Default: none.
    """

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
        kind: Kind = "alone",
        stages: Sequence[Stage] = (),
        identity: str = "",
        clock: TimeBudget | None = None,
        fixed: Collection[str] = (),
    ) -> None:
        self.model, self.examples, self.objective = model, examples, objective
        self.device = pick_device(spec.device) if kind == "fsdp" else device_of(model)
        self.spec, self.clock, self.fixed = spec, clock, frozenset(fixed)
        self.stages = tuple(stages) or (Stage(steps, steps),)
        self.folder, self.evaluate, self.metric = folder, evaluate, metric
        self.save_best, self.report, self.group = save_best, report, group
        self._frame = frame_of(model) if kind == "fsdp" else None
        learner = Learner(model, objective, spec)
        self._computing = learner.computing
        self.source = GradientSource(kind, learner, group, self.device)
        self.average = _still_copy(model, self._frame) if spec.average else model
        self._moving: list[tuple[Tensor, Tensor]] = [
            (own_part(mean), own_part(parameter))
            for mean, parameter in zip(self.average.parameters(), model.parameters(), strict=True)
            if parameter.requires_grad
        ]
        self.optimizers = make_optimizers(model, spec.optimizer)
        self.identity = identity
        self.progress = Progress()
        self.evaluate_every = evaluate_every(spec)
        self._plan: tuple[int, EpochPlan] | None = None
        self._ahead: Prefetcher[Any] = Prefetcher(active=prefetches(spec, self.device))
        self._look_every = max(1, min(LOG_EVERY, self.stages[0].total // LOOKS))

    # ---- the loop ----

    def run(self) -> Progress:
        """Train until all steps are done or patience runs out."""
        with held(self.folder) if self.group.leads else nullcontext(), closing(self._ahead):
            return self._run()

    def _run(self) -> Progress:
        progress = self.progress
        started = time.monotonic() - progress.seconds
        if progress.step == 0:
            self.save()  # so that a best model never exists without a checkpoint
        with _stop_signals() as stop:
            while not self.finished:
                before = time.monotonic()
                self._step()
                taken = time.monotonic() - before
                progress.busy += taken
                progress.seconds = time.monotonic() - started
                step = progress.step
                if step % LOG_EVERY == 0 or step == self._end(step - 1):
                    self._log()
                if self.clock is not None:
                    self.clock.note_step(taken)
                    if step % self._look_every == 0:
                        self._look_at(self.clock)
                last = step == self._end(step - 1)
                before = time.monotonic()
                if evaluated := (self._is_evaluated(step) or last):
                    self._evaluate()
                    progress.seconds = time.monotonic() - started
                stopped = self.group.maximum(stop[0] if stop else 0)
                due = evaluated if self.spec.save_every is None else step % self.spec.save_every == 0
                if due or last or stopped or self.finished:
                    self.save()
                if evaluated:
                    progress.per_evaluation = time.monotonic() - before
                if stopped:
                    raise Interrupted(stopped, f"stopped after step {step}, all saved: continue with --resume")
                self._begin_stage()
        return progress

    def close(self) -> None:
        """End the thread that makes batches and what is shared with other processes, before their group ends."""
        self._ahead.close()
        self.source.close()

    def pace(self, at_least: float) -> float:
        """Seconds of a step, measured: steps are done for so long by the leader's clock, the first fifth not counted.

        What it has learnt then is of no use: the trainer is to be thrown away.
        """
        times: list[float] = []
        while self.group.from_leader(sum(times) < at_least and len(times) < MOST_MEASURED):
            start = time.perf_counter()
            self._step()
            times.append(time.perf_counter() - start)
        settled = times[len(times) // 5 :]
        return sum(settled) / len(settled)

    @property
    def steps(self) -> int:
        """Optimizer steps until the end, as far as it is known now."""
        return self._end(self.progress.step) if len(self.stages) == 1 else self.stages[-1].total

    @property
    def finished(self) -> bool:
        """Whether all steps are done or patience has run out."""
        return self.progress.step >= self.steps or self._out_of_patience()

    def _replans(self, step: int) -> Sequence[Sequence[int]]:
        """How the number of steps was corrected in the stage of this step: only the first one can have a clock."""
        return (self.spec.replans or self.progress.replans) if self._stage(step) is self.stages[0] else ()

    def _end(self, step: int) -> int:
        """Where the stage of a step, counted from 0, ends, as it is known at the present step."""
        return total_at(self.progress.step, self._stage(step).total, self._replans(step))

    def _evaluate_every(self, step: int) -> int:
        """Steps between evaluations, as it is known after a step."""
        return next((every for at, _, every in reversed(self._replans(step - 1)) if at <= step), self.evaluate_every)

    def _is_evaluated(self, step: int) -> bool:
        """Whether dev is evaluated after a step; not shortly before an end that the clock has chosen."""
        if not any(at <= step for at, *_ in self._replans(step - 1)):
            return step % self.evaluate_every == 0
        every = self._evaluate_every(step)
        before = int(self.progress.history[-1]["step"]) if self.progress.history else 0
        return step - before >= every and self._end(step - 1) - step >= every / 2

    def _stage(self, step: int) -> Stage:
        """The stage that a step, counted from 0, belongs to."""
        return next((stage for stage in self.stages if step < stage.until), self.stages[-1])

    def _begin_stage(self) -> None:
        """Reset patience where an extension begins."""
        if self.progress.step in [stage.until for stage in self.stages[:-1]]:
            self.progress.waited = 0

    def _step(self) -> None:
        """Do one optimizer step."""
        loss_sum, tokens = self._find_gradients()
        step = self.progress.step
        share = rate_at(step, self.spec.schedule, self._stage(step).total, self._replans(step))
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
        """Accumulate, normalise and clip gradients over ``accumulate`` batches; return their summed loss and tokens."""
        if not self.model.training:  # walks through all modules: not at every step
            self.model.train()
        losses: list[Tensor] = []
        tokens = 0
        for number in range(self.spec.accumulate):
            batch, counts = self._next_batch()
            losses.append(self.source.add(batch, counts, last=number == self.spec.accumulate - 1))
            tokens += counts * batch.tokens
        # a GPU is waited for only here, once a step
        loss_sum, total = self.group.sum_of(sum(map(float, losses)), tokens)
        gradients = self.source.gradients()
        divisor = total / self.source.divisor
        norm = self.source.norm(gradients) / divisor
        self._check(loss_sum / total, norm)
        torch._foreach_mul_(gradients, min(1.0, self.spec.clip / (norm + 1e-6)) / divisor)
        return loss_sum, int(total)

    def _next_batch(self) -> tuple[Any, bool]:
        """The next batch on the device, and whether it counts; a thread may have made it, and makes the next one."""
        rows = self._next_rows()
        progress, batches = self.progress, self._epoch_plan().batches(self.progress.window)
        epoch, index = progress.epoch, progress.index  # of the batch after this one
        found: tuple[Any, bool] = self._ahead.take((epoch, index), lambda: self._made(rows, epoch))
        if index - progress.before < len(batches):  # the next window is planned when it begins
            following = batches[index - progress.before]
            self._ahead.expect((epoch, index + 1), lambda: self._made(following, epoch))
        return found

    def _made(self, rows: NDArray[np.int64], epoch: int) -> tuple[Any, bool]:
        """This process's share of a batch, on the device, and whether it counts."""
        mine, counts = self.group.share(rows)
        return self.objective.batch(self.examples, mine, epoch).to(self.device), counts

    def _next_rows(self) -> NDArray[np.int64]:
        """The rows of the next batch; they depend only on (seed, epoch, index)."""
        progress = self.progress
        while progress.index - progress.before >= len(batches := self._epoch_plan().batches(progress.window)):
            progress.window, progress.before = progress.window + 1, progress.before + len(batches)
            if progress.window == self._epoch_plan().windows:
                progress.epoch += 1
                progress.index = progress.window = progress.before = 0
        rows = batches[progress.index - progress.before]
        progress.index += 1
        return rows

    def _epoch_plan(self) -> EpochPlan:
        epoch = self.progress.epoch
        if self._plan is None or self._plan[0] != epoch:
            self._plan = epoch, epoch_plan(self.examples, self.spec, epoch)
        return self._plan[1]

    def _move_average(self) -> None:
        """average ← decay · average + (1 − decay) · weights, with a lower decay in the first steps."""
        decay = min(self.spec.average, (1 + self.progress.step) / (10 + self.progress.step))
        with torch.no_grad():
            means, weights = ([pair[side] for pair in self._moving] for side in (0, 1))
            torch._foreach_lerp_(means, weights, 1 - decay)

    def _check(self, loss: float, norm: float) -> None:
        if math.isfinite(loss) and math.isfinite(norm):
            return
        self._diverged(f"the loss is {loss}, its gradient {norm}")

    def _diverged(self, what: str) -> NoReturn:
        raise Diverged(
            f"step {self.progress.step + 1}: {what}. The checkpoints in {self.folder / 'last'} are intact. "
            "Try a lower training.optimizer.rate, a longer training.schedule.warmup, or model.norm.place=pre"
        )

    # ---- logging and evaluation ----

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

    def _look_at(self, clock: TimeBudget) -> None:
        """Correct the number of steps, if the run would end too early or too late; all processes do as the leader."""
        progress, before = self.progress, self.steps
        if progress.per_evaluation is not None:
            clock.per_evaluation = progress.per_evaluation
        plan = StepPlan(before, self._evaluate_every(progress.step))
        wanted = clock.replanned(progress.step, plan, elapsed=progress.seconds)
        chosen = StepPlan(*(int(self.group.from_leader(float(value))) for value in astuple(wanted)))
        if chosen != plan:
            progress.replans.append([progress.step, chosen.steps, chosen.evaluate_every])
            self.report.replan(progress.step, chosen.steps, chosen.evaluate_every, seconds=progress.seconds)

    def _evaluate(self) -> None:
        """Score the average on dev, and keep it if it is the best so far."""
        progress, candidate = self.progress, self._candidate()
        scores = self.evaluate(candidate)
        value, loss = (self.group.from_leader(scores[name]) for name in (self.metric, "loss"))
        sign = 1 if metric_rises(self.metric) else -1
        higher = progress.best is None or sign * value > sign * progress.best
        tied = value == progress.best and progress.best_loss is not None and loss < progress.best_loss
        better = higher or tied
        progress.waited = 0 if higher else progress.waited + 1
        if better:
            progress.best, progress.best_loss, progress.best_step = value, loss, progress.step
            if self.group.leads:
                self.save_best(candidate)
        row = {"step": progress.step} | {f"dev_{name}": score for name, score in scores.items()}
        progress.history.append(row)
        self.report.dev(row, best=better, seconds=progress.seconds)

    def _candidate(self) -> Model:
        """The average as a model that answers; brought together from all processes if each holds a part of it."""
        if self._frame is None:
            return self.average
        return framed(self._frame, {name: whole(weight) for name, weight in self.average.named_parameters()})

    def _out_of_patience(self) -> bool:
        return self.spec.patience is not None and self.progress.waited >= self.spec.patience

    # ---- checkpoints ----

    def save(self) -> None:
        """Write a checkpoint with everything that the next step depends on."""
        tensors = {f"model.{name}": tensor for name, tensor in self._kept(self.model).items()}
        if self.average is not self.model:
            tensors |= {f"average.{name}": tensor for name, tensor in self._kept(self.average).items()}
        tensors |= optimizer_tensors(self.optimizers)
        tensors |= {name: self.group.gather(state) for name, state in random_states(self.device).items()}
        parts = {name: own_part(tensor) for name, tensor in tensors.items() if is_shared(tensor)}
        folder, step, shards = self.folder / "last", self.progress.step, tuple[ShardFile, ...]()
        if parts:  # each process writes what it holds; the leader's file comes after all of them
            mine = save_shard(folder, step, self.group.rank, self.group.size, parts)
            shards = tuple(ShardFile(**json.loads(text)) for text in self.group.gather_texts(json.dumps(asdict(mine))))
        if self.group.leads:
            state = asdict(self.progress) | {"files": self.report.checksums(), "run": self.identity}
            rest = {name: tensor for name, tensor in tensors.items() if name not in parts}
            save_checkpoint(folder, step, Checkpoint(rest, state), shards)

    def resume(self) -> bool:
        """Load the newest undamaged checkpoint; return False if there is none."""
        checkpoint, complaints = load_checkpoint(self.folder / "last")
        for complaint in complaints:
            self.report.say(complaint)
        self._require_agreement(checkpoint)
        if checkpoint is None:
            return False
        size = checkpoint.tensors["random"].numel() // len(torch.random.get_rng_state())
        if checkpoint.state.get("run", self.identity) != self.identity:
            raise DataError(
                f"{self.folder / 'last'}: holds a checkpoint of another run, with other data, seed or settings: "
                "restore this run's own, or choose another -o"
            )
        self._require_fit(checkpoint)
        _copy(self._kept(self.model), checkpoint.tensors, "model.")
        if self.average is not self.model:
            _copy(self._kept(self.average), checkpoint.tensors, "average.")
        restore_optimizers(self.optimizers, checkpoint.tensors)
        self.progress = Progress.of(checkpoint.state)
        self._begin_stage()
        self.report.steps = self.steps
        self.report.forget_after(self.progress.step, checkpoint.state.get("files"), self.progress.history)
        self._require_best()
        # last, as loading a model draws random numbers; clone, as torch ignores the offset of a view
        if size == self.group.size:
            random = {name: state for name, state in checkpoint.tensors.items() if name.startswith("random")}
            mine = {name: state.reshape(size, -1)[self.group.rank].clone() for name, state in random.items()}
            set_random_states(mine, self.device)
        else:  # the batches stay the same, as they are shared out anew
            torch.manual_seed(_mixed(self.spec.seed, self.progress.step, self.group.size, self.group.rank))
            self.report.say(
                f"continuing with {self.group.size} processes instead of {size}: the same batches, with other dropout"
            )
        return True

    def _kept(self, model: Model) -> dict[str, Tensor]:
        """The tensors of a model, or of its average, that checkpoints hold."""
        return {name: tensor for name, tensor in stored_tensors(model).items() if name not in self.fixed}

    def _require_best(self) -> None:
        """Check that the best model is there and intact; if it is not, restore it or let it be chosen again."""
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
            candidate = self._candidate()
            if self.group.leads:
                self.save_best(candidate)
            self.report.say(f"{complaint}; restored from the last checkpoint, which holds the same model")
        elif self.finished:
            raise DamagedFile(
                f"{complaint}; the run is finished, and its weights of step {progress.best_step:,} exist nowhere else: "
                "restore the file, or extend the run with --max-steps"
            )
        else:
            self.report.say(f"{complaint}; continuing without it: the next evaluation chooses a new best model")
            progress.best, progress.best_loss, progress.best_step = None, None, 0

    def _require_agreement(self, checkpoint: Checkpoint | None) -> None:
        """All processes must go on from one step: folders that they do not share may have different checkpoints."""
        steps = [int(step) for step in self.group.gather(torch.tensor(-1 if checkpoint is None else checkpoint.step))]
        if len(set(steps)) > 1:
            found = ", ".join(f"step {step:,}" if step >= 0 else "none" for step in steps)
            raise PartnerError(
                f"{self.folder / 'last'}: the processes find different checkpoints ({found}, by rank): all nodes need "
                "one folder that they share, or copies of one"
            )

    def _require_fit(self, checkpoint: Checkpoint) -> None:
        """Refuse a checkpoint of another model."""
        for prefix, model in (("model.", self.model), ("average.", self.average)):
            for name, tensor in self._kept(model).items() if prefix == "model." or model is not self.model else ():
                found = checkpoint.tensors.get(prefix + name)
                if found is None or found.shape != tensor.shape:
                    raise DamagedFile(
                        f"{self.folder / 'last'}: {prefix}{name} does not fit the recipe of the run: restore the "
                        "recipe or the checkpoints of this run, or start a new run with another -o"
                    )

    def padding(self) -> float:
        """The share of padding among the tokens of an epoch; of one with many windows, of the first few."""
        plan = self._epoch_plan()
        few = range(min(plan.windows, WINDOWS_LOOKED_AT))
        return padding_share(self.examples, chain.from_iterable(map(plan.batches, few)))

    def activation_bytes(self) -> int:
        """Measure on one batch how many bytes a forward pass keeps for the backward pass; changes no state.

        0 with FSDP: a forward pass there brings weights together that only a backward pass releases.
        """
        if self.source.kind == "fsdp":
            return 0
        rows, _ = self.group.share(self._epoch_plan().batches(0)[0])
        batch = self.objective.batch(self.examples, rows, self.progress.epoch)
        state = random_states(self.device)
        kept: dict[int, int] = {}
        parameters = {parameter.data_ptr() for parameter in self.model.parameters()}

        def note(tensor: Tensor) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in parameters:
                kept[storage.data_ptr()] = storage.nbytes()
            return tensor

        self.model.train()
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            loss = loss_of(self.objective, self._computing, batch, self.spec)
        del loss
        set_random_states(state, self.device)
        return sum(kept.values())


def evaluate_every(spec: TrainingSpec) -> int:
    """Steps between evaluations on dev."""
    assert spec.steps is not None  # prepare() has fixed it
    return spec.evaluate_every or max(EVALUATE_EVERY, min(1000, spec.steps // 20))


def _still_copy(model: Model, frame: Model | None = None) -> Model:
    """A copy for the moving average; frozen weights, which have no average but themselves, are shared.

    A model that is shared among processes cannot be copied: its ``frame`` gets copies of the parts that are here.
    """
    if frame is not None:
        weights = model.named_parameters()
        return framed(
            frame, {name: weight.detach().clone() if weight.requires_grad else weight for name, weight in weights}
        )
    frozen: dict[int, Any] = {
        id(parameter): parameter for parameter in model.parameters() if not parameter.requires_grad
    }
    return copy.deepcopy(model, frozen).requires_grad_(requires_grad=False)


def _mixed(*numbers: int) -> int:
    """A seed that follows from these numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _copy(into: Mapping[str, Tensor], tensors: Mapping[str, Tensor], prefix: str) -> None:
    with torch.no_grad():
        for name, tensor in into.items():
            own_part(tensor).copy_(own_rows(tensors[prefix + name], tensor))


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM in a list instead of ending the process; restore the handlers afterwards.

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
