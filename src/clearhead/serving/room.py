"""The room where models answer: the one thing that HTTP sees of them."""

import asyncio
import json
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from clearhead.errors import ClearheadError, ModelFileError, RecipeError
from clearhead.machine import cores
from clearhead.recipe import DecodingSpec, weights_of
from clearhead.serving.about import AboutDesk
from clearhead.serving.batching import Job, JobKind, LineBatch, Queue, next_number
from clearhead.serving.catalogue import Catalogue, Entry, Version, names_of, signature_of
from clearhead.serving.faults import Busy, Fault, Refused, TooLate, WorkerLost
from clearhead.serving.lane import LookLane
from clearhead.serving.limits import require_lines, require_rows, require_text
from clearhead.serving.settings import ServeSettings
from clearhead.serving.shapes import LineAnswer, LineScore, ModelFacts, RoomState, StreamPiece, TracedToken
from clearhead.serving.streams import OpenStream
from clearhead.serving.workers import WorkerProcess, WorkerSet, has_model

__all__ = ["LineAnswer", "LineScore", "ModelFacts", "Room", "RoomState", "StreamPiece", "TracedToken", "names_of"]

log = logging.getLogger("clearhead.serve")
AHEAD = 2
"""Batches that a worker may have: the next one is there when it has finished one."""
ROUNDS = 2
"""How many times the tokens that a worker takes together a batch holds: it sorts them once more."""
ABANDONED = 10.0
"""Seconds that a worker may continue a batch for which nobody waits any more."""
_SIZES = [2**power for power in range(9)]
"""Upper bounds by which the sizes of batches are counted."""


class Room:
    """Several models, the processes that answer with them, and the queue before them.

    Args:
        models: paths by name: a run folder, a model file or a Hugging Face folder; see ``names_of``.
        settings: how much is taken on.

    All methods belong to one event loop. Faults of ``clearhead.serving.faults`` say why something was not answered;
    ``model=None`` is the first model.
    """

    def __init__(self, models: Mapping[str, Path | str], settings: ServeSettings) -> None:
        self.settings = settings
        self._catalogue = Catalogue(models)
        self._queue = Queue()
        self._workers = WorkerSet(
            settings.workers or (cores() if settings.device in ("cpu", "auto") else 1),
            heard=self._heard,
            prepare=self._prepare,
            ready=self._wake,
            lost=self._lost,
        )
        self._looks = LookLane(settings.waiting_looks)
        self._desk = AboutDesk()
        self._streams: dict[int, OpenStream] = {}
        self._jobs: set[Job] = set()
        self._characters = 0
        """Of all jobs."""
        self._stopping = self._stopped = False
        self._awake = False
        self._freeing: asyncio.TimerHandle | None = None
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._working = 0
        self._counts: Counter[str] = Counter()
        self._ends: Counter[str] = Counter()
        self._sizes: Counter[int] = Counter()
        self._pace = 0.01
        """Seconds that a worker takes for a line, roughly."""
        self._reloading = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None

    # ---- begin and end ----

    async def start(self) -> None:
        """Start the workers and wait until they have the models; a model that cannot be loaded is an error."""
        try:
            await self._workers.start()
        except BaseException:
            self._catalogue.close()
            raise
        if self.settings.watch is not None:
            self._watching = asyncio.create_task(self._watch(self.settings.watch))

    async def stop(self, grace: float | None = None) -> None:
        """Take no new work, finish what is there within ``grace`` seconds, end the workers. Can be called twice."""
        self._stopping = True
        if self._stopped:
            return
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None
        try:
            async with asyncio.timeout(self.settings.grace_seconds if grace is None else grace):
                await self._quiet.wait()
        except TimeoutError:
            log.warning("stopped with work left: %d requests", len(self._jobs) + len(self._streams))
        self._stopped = True
        ended = Busy("the server is stopping", 5.0)
        for job in list(self._jobs):
            job.fail(ended)
        for stream in list(self._streams.values()):
            stream.fail(ended)
        await asyncio.gather(self._workers.stop(), self._looks.stop(), self._desk.stop())
        self._catalogue.close()

    async def _prepare(self, worker: WorkerProcess) -> None:
        """Give a new worker all models; one that cannot be loaded any more is left out if others have it."""
        tried: set[int] = set()
        while missing := [one for one in self._catalogue.versions() if one.number not in tried]:
            version = missing[0]  # a newer one may be taken while this one is loaded
            tried.add(version.number)
            try:
                await self._load(worker, version)
            except ClearheadError as error:
                if not version.facts:  # the server is starting: it is the user who must know
                    raise
                log.error("%s: a worker could not load it again: %s", version.name, error)
        if not worker.models:
            raise ClearheadError("no model could be loaded")

    async def _load(self, worker: WorkerProcess, version: Version) -> None:
        """Load a version into a worker, and make sure that all workers have the same."""
        how: dict[str, Any] = {name: getattr(self.settings, name) for name in ("engine", "int8", "device")}
        reply = await worker.load(version.number, version.source, str(version.path), foreign=version.foreign, **how)
        if not version.facts:
            version.learn(reply)
        elif reply["facts"]["fingerprint"] != version.fingerprint:
            worker.drop(version.number)
            raise ClearheadError(f"{version.path}: was changed in place")

    # ---- what is there ----

    def models(self) -> list[ModelFacts]:
        """The models, in the order in which they were named."""
        return [self._facts(entry) for entry in self._catalogue.entries.values()]

    def facts(self, model: str | None) -> ModelFacts:
        """One of them; ``UnknownModel`` if there is none of that name."""
        return self._facts(self._catalogue[model])

    def _facts(self, entry: Entry) -> ModelFacts:
        return self._catalogue.facts(entry, ready=has_model(self._workers.workers, entry.current.number))

    def state(self) -> RoomState:
        """How the work stands. Cheap."""
        entries = self._catalogue.entries.values()
        ready = all(has_model(self._workers.workers, entry.current.number) for entry in entries)
        return RoomState(
            ready=ready and not self._stopping,
            stopping=self._stopping,
            workers=self._workers.size,
            workers_alive=len(self._workers.workers),
            workers_restarted=self._workers.restarts,
            waiting_lines=self._queue.lines,
            working_lines=self._working,
            open_streams=len(self._streams),
            waiting_looks=self._looks.waiting,
            batches=self._counts["batches"],
            batch_sizes={size: self._sizes[size] for size in _SIZES},
            answered_lines=self._counts["lines"],
            characters_read=self._counts["characters"],
            tokens_written=self._counts["written"],
            requests=dict(self._ends),
            reloads=self._counts["reloads"],
            troubles={entry.name: entry.trouble for entry in entries if entry.trouble is not None},
        )

    async def about(self, model: str | None) -> dict[str, Any]:
        """Recipe, cost, and the run that the model comes from, if it is one.

        ``{"name", "facts": {…}, "recipe": TOML, "cost": as clearhead cost --json, "run": None | {"folder", "steps",
        "metric", "best", "history": [rows], "curve": SVG, "scores": {"dev"|"test": {"metrics": {name: {"value", "low",
        "high"}}}}, "judged": lines, "worst": [{"source", "answer", "references", "error", …}]}}``.
        """
        entry = self._catalogue[model]
        with self._using(entry.current) as version:
            return await self._desk.about(version, self._facts(entry))

    # ---- questions ----

    async def answer(
        self,
        model: str | None,
        lines: Sequence[str],
        *,
        settings: Mapping[str, Any] | None = None,
        n_best: int = 1,
        details: bool = True,
        verbatim: bool = False,
        first: int = 0,
        deadline: float | None = None,
    ) -> list[LineAnswer]:
        """Answer lines, as ``clearhead run`` does: spaces around a line do not count, an empty line gets "".

        Args:
            model: its name.
            lines: the lines.
            settings: settings of ``[decoding]`` by name: ``{"beam_size": 8}``.
            n_best: answers to each line; the beam is made wide enough unless ``beam_size`` is given.
            details: whether log p, tokens and probabilities are wanted; without them it is faster.
            verbatim: whether lines are read as they are: spaces count, and empty lines are answered (for prompts).
            first: the number of the first line, where they are part of a file: sampling draws by a line's number.
            deadline: seconds. Default: ``settings.deadline_seconds``.
        """
        version, lines = self._open(model), list(lines)
        require_lines(lines, self.settings)
        if not 1 <= n_best <= self.settings.n_best:
            raise Refused("n_best", f"is {n_best}, and may be 1 to {self.settings.n_best}")
        asked = dict(settings or {})
        if n_best > version.recipe.decoding.beam_size and "beam_size" not in asked:
            asked["beam_size"] = max(4, n_best)
        spec = self._judged(version, asked)
        if n_best > spec.beam_size and version.facts["streams"]:
            raise Refused("n_best", f"{n_best} answers need settings.beam_size ≥ {n_best}, but it is {spec.beam_size}")
        beams = spec.beam_size if version.facts["streams"] and not spec.sample else 1
        budget = max(1, spec.budget // beams) * ROUNDS
        message = {"do": "answer", "settings": asked, "n_best": n_best, "details": details, "verbatim": verbatim}
        sizes = [len(line) for line in lines]
        found = await self._done(version, lines, message, sizes=sizes, budget=budget, first=first, deadline=deadline)
        if details:
            return [LineAnswer(*pair) for pair in found]
        return [LineAnswer([{"text": text} for text in texts], warnings) for texts, warnings in found]

    async def score(
        self, model: str | None, rows: Sequence[Sequence[str]], *, deadline: float | None = None
    ) -> list[LineScore]:
        """log p of given rows (``facts(model).columns``), as ``clearhead score`` computes it."""
        version, cells = self._open(model), [list(row) for row in rows]
        columns = version.facts["columns"]
        if not columns:
            raise Refused("model", "an encoder gives masked tokens a probability, not lines")
        require_rows(cells, columns, self.settings)
        sizes = [sum(map(len, row)) for row in cells]
        budget = version.recipe.decoding.budget
        scores: list[LineScore] = await self._done(
            version, cells, {"do": "score"}, sizes=sizes, budget=budget, deadline=deadline
        )
        return scores

    async def trace(
        self, model: str | None, prompt: str, ids: Sequence[int] = (), *, top: int = 0, deadline: float | None = None
    ) -> list[TracedToken]:
        """Every token of a prompt, read verbatim, and of its answer (``answers[0]["ids"]``), with log p.

        Of an encoder-decoder only the answer's tokens. ``top``: how many likely tokens to list at each place.
        """
        version = self._open(model)
        require_text(prompt, self.settings, "prompt")
        if not version.facts["streams"]:
            raise Refused("model", f"a model of family {version.facts['family']} does not write text")
        message = {"do": "trace", "prompt": prompt, "ids": list(ids), "top": top}
        found = await self._done(
            version, [prompt], message, sizes=[len(prompt)], budget=1, deadline=deadline, alone=next_number()
        )
        tokens: list[TracedToken] = found[0]
        return tokens

    async def stream(
        self,
        model: str | None,
        line: str,
        *,
        settings: Mapping[str, Any] | None = None,
        verbatim: bool = False,
        deadline: float | None = None,
    ) -> AsyncGenerator[StreamPiece, None]:
        """Answer one line piece by piece, greedily or sampled; a beam is refused, as it decides only at the end.

        Yields ``{"text": piece}``, whose texts join to the answer, then ``{"done": LineAnswer}``. Close the iterator
        (``aclose``) to stop. Refusals come with the first item.
        """
        version, asked = self._open(model), dict(settings or {})
        require_text(line, self.settings, "line")
        if not version.facts["streams"]:
            raise Refused("stream", f"a model of family {version.facts['family']} does not write text")
        spec = self._judged(version, asked)
        if spec.beam_size > 1 and not spec.sample:
            reason = "a beam decides only at the end: to stream, set beam_size to 1 or sample to true"
            raise Refused("settings.beam_size", reason)
        if len(self._streams) >= self.settings.open_streams:
            self._ends["busy"] += 1
            raise Busy(f"{len(self._streams)} answers are being streamed", self._retry_after())
        message = {"do": "stream", "settings": asked, "verbatim": verbatim, "line": line, "model": version.number}
        stream = OpenStream(next_number(), version, message)
        self._streams[stream.number] = stream
        self._quiet.clear()
        end = "left"
        try:
            with self._using(version):
                self._assign(stream)
                async for item in stream.items(self._seconds(deadline)):
                    if "done" in item:
                        end = "answered"
                        self._counts["lines"] += 1
                        self._counts["characters"] += len(line)
                        self._counts["written"] += len(item["done"].answers[0]["ids"])
                    yield item
        except Fault as fault:
            end = _end_of(fault)
            raise
        finally:
            self._ends[end] += 1
            self._close(stream)

    async def look(
        self,
        model: str | None,
        line: str,
        *,
        target: str | None = None,
        at: int | None = None,
        against: str | None = None,
        without: Sequence[str] = (),
        n_best: int = 5,
        heads: bool = False,
        show: Sequence[str] | None = None,
        settings: Mapping[str, Any] | None = None,
        deadline: float | None = None,
    ) -> dict[str, Any]:
        """Look inside: the document that ``show`` of pages/look.js takes.

        Args:
            model: its name.
            line: the line.
            target: an answer to look at instead of the model's own.
            at: the place in the answer that is meant, from 0.
            against: another token; with ``at``, the parts of the difference of the two logits.
            without: names of heads to switch off, as ``["cross.2.5"]``.
            n_best: how many answers to list.
            heads: whether every head is switched off in turn, to tell its importance here; takes a while.
            show: what is wanted, as for ``View.document``. Default: all but inputs and occlusion, which take a while.
            settings: settings of ``[decoding]`` by name.
            deadline: seconds. Default: ``settings.deadline_seconds``.
        """
        asked = {"target": target, "at": at, "against": against, "without": list(without), "heads": heads, "show": show}
        text = await self.look_as_json(model, line, **asked, n_best=n_best, settings=settings, deadline=deadline)
        document: dict[str, Any] = json.loads(text)
        return document

    async def look_as_json(
        self,
        model: str | None,
        line: str,
        *,
        n_best: int = 5,
        settings: Mapping[str, Any] | None = None,
        deadline: float | None = None,
        **asked: Any,
    ) -> str:
        """The same as JSON, which nobody between the worker and the page has to read; the arguments are of ``look``."""
        version, chosen = self._open(model), dict(settings or {})
        for where, text in (("line", line), ("target", asked.get("target")), ("against", asked.get("against"))):
            require_text(text, self.settings, where)
        require_lines(asked.get("without", ()), self.settings, "without")
        if not 1 <= n_best <= self.settings.n_best:
            raise Refused("n_best", f"is {n_best}, and may be 1 to {self.settings.n_best}")
        self._judged(version, chosen)
        usual: dict[str, Any] = {"without": [], "heads": False}
        usual |= dict.fromkeys(("target", "at", "against", "show"))
        message = {"do": "look", "name": version.name, "line": line, "n_best": n_best, "settings": chosen}
        try:
            with self._using(version):
                found = await self._looks.look(version, usual | asked | message, self._seconds(deadline))
        except (Fault, asyncio.CancelledError) as fault:
            self._ends[_end_of(fault)] += 1
            raise
        self._ends["answered"] += 1
        return found

    # ---- what all questions share ----

    def _open(self, model: str | None) -> Version:
        """The version that answers now; a room that stops takes no new work."""
        if self._stopping:
            self._ends["busy"] += 1
            raise Busy("the server is stopping", 5.0)
        return self._catalogue[model].current

    def _judged(self, version: Version, settings: Mapping[str, Any]) -> DecodingSpec:
        """The way of decoding with the settings of a request; wrong ones are refused."""
        if not settings:
            return version.recipe.decoding
        return version.decoding(json.dumps(settings, sort_keys=True), settings, self.settings)

    def _seconds(self, deadline: float | None) -> float:
        return self.settings.deadline_seconds if deadline is None else deadline

    @contextmanager
    def _using(self, version: Version) -> Iterator[Version]:
        """Keep a version while something is asked of it."""
        version.users += 1
        try:
            yield version
        finally:
            version.users -= 1
            self._retire()

    def _retire(self) -> None:
        """Let go of versions that were replaced and have answered everything."""
        if not self._catalogue.leaving:
            return
        for version in self._catalogue.unused():
            for worker in self._workers.workers:
                worker.drop(version.number)
            self._looks.drop(version)
            self._queue.ratios.pop(version.number, None)
            version.close()

    async def _done(
        self,
        version: Version,
        lines: list[Any],
        message: dict[str, Any],
        *,
        sizes: list[int],
        budget: int,
        deadline: float | None,
        first: int = 0,
        alone: int = 0,
    ) -> Any:
        """Put lines into the queue and wait for their results."""
        if not lines:
            return []
        waiting = self._queue.lines
        if waiting and waiting + len(lines) > self.settings.waiting_lines:
            self._ends["busy"] += 1
            raise Busy(f"{waiting:,} lines are waiting", self._retry_after())
        asked = json.dumps(message, sort_keys=True)
        size, held = sum(sizes) + len(asked), self._characters
        if held and held + size > self.settings.waiting_characters:  # a request keeps all its lines until it has ended
            self._ends["busy"] += 1
            raise Busy(f"requests of {held:,} characters are waiting", self._retry_after())
        loop, seconds = asyncio.get_running_loop(), self._seconds(deadline)
        future: asyncio.Future[None] = loop.create_future()
        kind = JobKind(version.number, asked, budget, alone)
        job = Job(kind, lines, sizes, message, lambda: _finish(future), first)
        late = TooLate(f"the answer was not ready within {seconds:g} seconds")
        timer = loop.call_later(seconds, job.fail, late)
        self._jobs.add(job)
        self._characters += size
        self._quiet.clear()
        self._queue.add(job)
        self._wake()
        end = "left"
        try:
            with self._using(version):
                await future
                end = "answered"
                if job.error is not None:
                    end = _end_of(job.error)
                    raise job.error
        finally:
            timer.cancel()
            job.ended = True  # a client that left: its lines leave the queue, results of others are dropped
            self._jobs.discard(job)
            self._characters -= size
            self._queue.discard(job)
            self._ends[end] += 1
            self._rest()
            if end in ("left", "late"):
                self._free_later(ABANDONED)
        self._counts["characters"] += sum(sizes)
        return job.results

    def _free_workers(self) -> None:
        """End workers that have worked for long on what nobody waits for any more; they are started again.

        While a worker has such a batch, which it may not have begun yet, this is called again.
        """
        self._freeing = None
        for worker in self._workers.workers:
            abandoned = [all(job.ended for job, _ in batch.parts) for batch in worker.batches.values()]
            left = worker.begun + ABANDONED - time.monotonic()
            if abandoned and all(abandoned) and left <= 0:
                log.warning("worker %d is ended: nobody waits for its work any more", worker.pid)
                worker.kill()
            elif any(abandoned):
                self._free_later(left if all(abandoned) else ABANDONED)

    def _free_later(self, seconds: float) -> None:
        """Call ``_free_workers`` in so many seconds, or earlier if that was agreed on before."""
        loop = asyncio.get_running_loop()
        if self._freeing is not None:
            if self._freeing.when() <= loop.time() + seconds:
                return
            self._freeing.cancel()
        self._freeing = loop.call_later(seconds, self._free_workers)

    def _retry_after(self) -> float:
        """Seconds until what waits now will be answered, roughly."""
        left = (self._queue.lines + self._working) * self._pace / max(1, len(self._workers.workers))
        return min(60.0, max(1.0, left))

    def _rest(self) -> None:
        """Tell who waits for it that nothing is left to do."""
        if not self._jobs and not self._streams:
            self._quiet.set()

    # ---- work for the workers ----

    def _wake(self) -> None:
        """Hand out work as soon as everything that has arrived by now is in the queue."""
        if not self._awake:
            self._awake = True
            asyncio.get_running_loop().call_soon(self._hand_out)

    def _hand_out(self) -> None:
        self._awake = False
        if self._streams:
            for stream in self._streams.values():
                if stream.worker is None:
                    self._assign(stream)
        if self._queue.lines and self._workers.workers:
            held = set[int]().union(*(worker.models for worker in self._workers.workers))
            for job in self._queue.stranded(held.__contains__):
                job.fail(_nobody())
        while self._queue.lines:
            idle = [worker for worker in self._workers.workers if not worker.batches]
            for worker in sorted(idle, key=lambda one: one.streams):
                batch = self._queue.take(worker.models.__contains__, workers=len(idle))
                if batch is not None:
                    self._send(worker, batch)
                    break
            else:
                break
        for worker in self._workers.workers:
            while 0 < len(worker.batches) < AHEAD and self._queue.lines:
                batch = self._queue.take(worker.models.__contains__, full=True)
                if batch is None:
                    break
                self._send(worker, batch)

    def _send(self, worker: WorkerProcess, batch: LineBatch) -> None:
        job = batch.parts[0][0]
        message = {**job.message, "id": batch.number, "model": batch.kind.model}
        lines = [job.lines[place] for job, place in batch.lines()]
        if message["do"] == "answer":
            message |= {"lines": lines, "numbers": [job.first + place for job, place in batch.lines()]}
        elif message["do"] == "score":
            message["rows"] = lines
        if not worker.batches:
            worker.begun = time.monotonic()
        worker.batches[batch.number] = batch
        self._working += batch.size
        worker.send(message)

    def _heard(self, worker: WorkerProcess, message: dict[str, Any]) -> None:
        """Take in what a worker says."""
        if "pieces" in message:
            for number, text in message["pieces"]:
                if (stream := self._streams.get(number)) is not None:
                    stream.piece(text)
            return
        batch = worker.batches.get(message["id"])
        if batch is None:
            self._heard_of_stream(message)
            return
        if "refused" in message or "failed" in message:
            self._refused(batch, message)
        else:
            self._answered(batch, message)
        del worker.batches[batch.number]  # after nonsense it stays: it is given back when the worker is gone
        now = time.monotonic()
        self._working -= batch.size
        self._pace += 0.1 * ((now - worker.begun) / batch.size - self._pace)
        worker.begun = now
        self._wake()

    def _heard_of_stream(self, message: dict[str, Any]) -> None:
        stream = self._streams.get(message["id"])
        if stream is None:
            return  # its client has left
        if "done" in message:
            stream.done(message)
        else:
            stream.fail(_fault(message))

    def _answered(self, batch: LineBatch, message: dict[str, Any]) -> None:
        results: list[Any]
        if "answers" in message:
            warnings = {index: words for index, *words in message["warnings"]}
            results = [(answers, warnings.get(index, [])) for index, answers in enumerate(message["answers"])]
        else:
            results = message["scores"] if "scores" in message else [message["tokens"]]
        answered = list(zip(batch.lines(), results, strict=True))  # whole, or not at all
        if "answers" in message:
            self._counts["written"] += message["written"]
            ratios, model = self._queue.ratios, batch.kind.model
            ratios[model] = 0.8 * ratios.get(model, message["ratio"]) + 0.2 * message["ratio"]
        for (job, place), result in answered:
            job.answered(place, result)
        self._counts["batches"] += 1
        self._counts["lines"] += batch.size
        self._sizes[next(size for size in _SIZES if batch.size <= size)] += 1

    def _refused(self, batch: LineBatch, message: dict[str, Any]) -> None:
        """A batch of several requests is tried again request by request, so that only the one to blame is refused."""
        if len(batch.parts) > 1:
            self._queue.give_back(batch, again=batch.again)
            return
        ((job, places),) = batch.parts
        refused = message.get("refused", {})
        if "line" in refused and job.message["do"] in _PLACES:
            refused["where"] = f"{_PLACES[job.message['do']]}.{places[refused['line']]}"
        job.fail(_fault(message))

    def _lost(self, worker: WorkerProcess) -> None:
        """A worker is gone: others do what it had not done; what it was doing twice before is given up."""
        for batch in worker.batches.values():
            self._working -= batch.size
            if batch.again:
                for job, _ in batch.parts:
                    job.fail(WorkerLost("the worker was lost twice over this request"))
            else:
                self._queue.give_back(batch, again=True)
        worker.batches.clear()
        for stream in list(self._streams.values()):
            if stream.worker is worker:
                stream.worker = None
                if stream.again:
                    stream.fail(WorkerLost("the worker was lost twice over this request"))
                else:
                    stream.started_again()
        if not self._stopped:
            self._wake()

    def _assign(self, stream: OpenStream) -> None:
        """Give a stream to the worker that writes the fewest; without a worker it waits for one.

        If there are workers, but none has the model, as its file was changed in place, waiting would not help.
        """
        able = [worker for worker in self._workers.workers if stream.version.number in worker.models]
        if able:
            worker = min(able, key=lambda one: (one.streams, len(one.batches)))
            stream.worker = worker
            worker.streams += 1
            worker.send(stream.message | {"id": stream.number})
        elif self._workers.workers:
            stream.fail(_nobody())

    def _close(self, stream: OpenStream) -> None:
        del self._streams[stream.number]
        if stream.worker is not None:
            stream.worker.streams -= 1
            stream.worker.send({"do": "leave", "id": stream.number})
        self._rest()

    # ---- newer models ----

    async def reload(self) -> dict[str, str]:
        """Look for newer models under the same names and take them; says for each model what was done."""
        async with self._reloading:
            return {entry.name: await self._renewed(entry) for entry in self._catalogue.entries.values()}

    async def _watch(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            await self.reload()

    async def _renewed(self, entry: Entry) -> str:
        """Take the newest version of one model; if it cannot be taken, the old one stays, and the state says why."""
        new: Version | None = None
        try:
            path, foreign = weights_of(entry.word)
            signature = signature_of(path, foreign=foreign)
            if signature == entry.current.signature:
                entry.trouble = entry.troubled = None
                await self._complete(entry.current)
                return "unchanged"
            if signature == entry.troubled:
                return f"kept: {entry.trouble}"
            new = self._catalogue.version(entry.name, entry.word)
            await self._complete(new)
            if not new.facts:
                raise ClearheadError("no worker is there to load it")
        except (ClearheadError, OSError) as error:
            words = str(error) if isinstance(error, ClearheadError) else f"{entry.word}: {error.strerror}"
            if new is not None:
                self._forget(new)
            if words != entry.trouble:
                log.error("%s: the newer model was not taken: %s", entry.name, words)
            entry.trouble = words
            if new is not None and isinstance(error, ModelFileError | RecipeError):
                entry.troubled = new.signature  # the same file is not tried again; what else went wrong may pass
            return f"kept: {words}"
        if new.fingerprint == entry.current.fingerprint:
            entry.current.signature, entry.trouble = new.signature, None
            self._forget(new)
            return "unchanged"
        self._catalogue.replace(entry, new)
        self._counts["reloads"] += 1
        with suppress(ClearheadError):
            await self._complete(new)  # a worker that came back meanwhile may not have it
        log.info("%s: took a newer model, %s", entry.name, new.fingerprint[:12])
        self._retire()
        return "taken"

    async def _complete(self, version: Version) -> None:
        """Load a version into all workers that do not have it, one after the other, as the others go on answering."""
        for worker in list(self._workers.workers):
            if version.number not in worker.models and not worker.gone.is_set():
                try:
                    await self._load(worker, version)
                except ConnectionError:  # it will load what is current when it is back
                    continue

    def _forget(self, version: Version) -> None:
        for worker in self._workers.workers:
            worker.drop(version.number)
        version.close()


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():  # its client may have left
        future.set_result(None)


def _nobody() -> WorkerLost:
    return WorkerLost("no worker has the model: its file could not be loaded again; a reload takes the present one")


_PLACES = {"answer": "lines", "score": "rows"}


def _fault(message: Mapping[str, Any]) -> Fault:
    """Why a worker did not answer."""
    if "refused" in message:
        return Refused(message["refused"]["where"], message["refused"]["message"])
    log.error("a request failed: %s", message["failed"])
    return Fault(f"the request failed: {message['failed']}")


def _end_of(error: BaseException) -> str:
    """How a request ended."""
    ends: list[tuple[type[BaseException], str]] = [
        (Busy, "busy"),
        (TooLate, "late"),
        (WorkerLost, "lost"),
        (Refused, "refused"),
        (asyncio.CancelledError, "left"),
    ]
    return next((end for kind, end in ends if isinstance(error, kind)), "failed")
