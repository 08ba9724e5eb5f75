"""Answers on a Ray cluster: Ray Data reads the files as a stream, and actors that hold the model answer the lines.

Between processes go JSON texts. The answers come back in the order of the files and their lines, each once: Ray begins
anew what a lost worker had not delivered.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from clearhead.errors import ClearheadError, DataError, MissingExtra, Problem, RecipeError
from clearhead.events import ignore
from clearhead.files import exists
from clearhead.verbs.answer import ChosenEngine, asked_model, weights_checksum
from clearhead.verbs.naming import Changes

if TYPE_CHECKING:
    from clearhead.predictor import AnswerFormat, Predictor, ReadAs, ShardAnswers
    from clearhead.verbs.run import Run

BLOCK = 1 << 18
"""Bytes of lines that an actor gets at once, roughly: what is done again if it is killed."""
OBJECT_STORE = 200 << 20
"""Memory for what is on its way, if a cluster is started here: the stream needs no more."""
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
"""How Ray is told to use 127.0.0.1 alone, for a cluster that is on one machine."""
Parcel = dict[str, Any]
"""A row of the stream."""


@dataclass(frozen=True)
class RemoteModel:
    """How an actor comes by the model: it loads the one of this name, which must be the same everywhere."""

    name: str
    checksum: str
    form: "AnswerFormat"
    engine: str | None
    int8: bool
    settings: Changes

    @classmethod
    def of(
        cls, model: "str | Path | Run | Predictor", checksum: str, form: "AnswerFormat", **how: Any
    ) -> "RemoteModel":
        """The model that was asked for, if it has a name."""
        from clearhead.verbs.run import Run

        named = model.folder if isinstance(model, Run) else model
        if not isinstance(named, str | Path):
            raise RecipeError([Problem("", "on='ray'", "a model in memory cannot be sent: save it, and name the file")])
        return cls(os.path.abspath(named) if exists(named) else str(named), checksum, form, **how)  # noqa: PTH100


def answers_on_ray(
    model: RemoteModel, files: Sequence[Path], read_as: "ReadAs", question: str, *, workers: int | Literal["all"]
) -> "Iterator[ShardAnswers]":
    """The answers to the lines of files, in order; ``question`` is the JSON field that holds a line."""
    with _cluster() as ray, _streaming(ray):
        cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
        actors = max(1, cores - 1) if workers == "all" else workers
        shards = [{"shard": number, "file": os.path.abspath(file)} for number, file in enumerate(files)]  # noqa: PTH100
        readers = ray.data.TaskPoolStrategy(size=max(1, actors // 8))  # reading is far faster than answering
        answered = (
            ray.data.from_items(shards, override_num_blocks=len(shards))
            .flat_map(_Reading(read_as, question), num_cpus=0.25, compute=readers)
            .map(
                _Answering,
                fn_constructor_args=(model,),
                compute=ray.data.ActorPoolStrategy(size=actors),
                num_cpus=1 if cores > actors else 0.5,
            )
        )
        for row in answered.iter_rows():
            yield _opened(row)


@contextmanager
def _cluster() -> Iterator[Any]:
    """Ray, connected to the cluster that runs; without one, to one that is started here, and ended."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    here = not os.environ.get("RAY_ADDRESS")
    if here:
        os.environ |= LOOPBACK
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("--on ray", "ray", "ray") from None
    if ray.is_initialized():
        yield ray
        return
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    started: dict[str, Any] = {"address": "local", "include_dashboard": False, "object_store_memory": OBJECT_STORE}
    try:
        ray.init(**quiet, **(started if here else {}))
    except (OSError, RuntimeError, ValueError) as error:
        if here:
            raise
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise ClearheadError(
            f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}: no cluster of Ray can be joined there ({reason}): correct it, "
            "or unset it to start one on this machine"
        ) from None
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _streaming(ray: Any) -> Iterator[None]:
    """Ray Data with small blocks, in their order, and without bars of its own."""
    context = ray.data.DataContext.get_current()
    before = context.execution_options.preserve_order, context.target_max_block_size, context.enable_progress_bars
    context.execution_options.preserve_order = True
    context.target_max_block_size, context.enable_progress_bars = BLOCK, False
    try:
        yield
    finally:
        context.execution_options.preserve_order, context.target_max_block_size, context.enable_progress_bars = before


class _Reading:
    """From a file to jobs: a task that yields them as it reads."""

    def __init__(self, read_as: "ReadAs", question: str) -> None:
        self._read_as, self._question = read_as, question

    def __call__(self, row: Parcel) -> Iterator[Parcel]:
        from clearhead.predictor import shard_jobs

        shard = int(row["shard"])
        try:
            for job in shard_jobs(Path(row["file"]), shard, self._read_as, self._question):
                yield _parcel(shard, lines=[asdict(line) for line in job.lines], total=job.total)
        except ClearheadError as error:
            yield _failed(shard, error)


class _Answering:
    """The actor: it loads the model once, and answers one job after the other."""

    def __init__(self, model: RemoteModel) -> None:
        from clearhead.predictor import AnsweringWork, one_thread

        one_thread()
        self._problem: ClearheadError | None = None
        try:
            if weights_checksum(model.name) != model.checksum:
                raise DataError(f"{model.name}: is another model on another machine of the cluster: copy it there")
            chosen = ChosenEngine(model.engine, model.int8, "cpu", ignore)
            predictor, spec = asked_model(model.name, (), model.form.n_best, model.settings, chosen)
            self._work = AnsweringWork(predictor, spec, model.form)
        except ClearheadError as error:
            self._problem = error

    def __call__(self, row: Parcel) -> Parcel:
        from clearhead.predictor import Line

        shard, content = int(row["shard"]), json.loads(row["content"])
        if "error" in content:
            return row
        if self._problem is not None:
            return _failed(shard, self._problem)
        try:
            answered = self._work([Line(**line) for line in content["lines"]])
        except ClearheadError as error:
            return _failed(shard, error)
        return _parcel(shard, answered=[asdict(line) for line in answered], total=content["total"])


def _parcel(shard: int, **content: Any) -> Parcel:
    return {"shard": shard, "content": json.dumps(content)}


def _failed(shard: int, error: ClearheadError) -> Parcel:
    return _parcel(shard, error=str(error), data=isinstance(error, DataError))


def _opened(row: Mapping[str, Any]) -> "ShardAnswers":
    """The answers that an actor sent, or the error."""
    from clearhead.predictor import Answered, ShardAnswers

    content = json.loads(row["content"])
    if "error" in content:
        raise (DataError if content["data"] else ClearheadError)(content["error"])
    answered = [
        Answered(line["number"], line["rows"], [(kind, words) for kind, words in line["warnings"]])
        for line in content["answered"]
    ]
    return ShardAnswers(int(row["shard"]), answered, content["total"])
