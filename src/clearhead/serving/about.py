"""What can be told of a model: its recipe, its cost, and the run that it comes from.

This needs more than the front may import, so that a process of its own works it out: ``python -m
clearhead.serving.about PATH`` prints it as JSON and ends. ``AboutDesk`` runs that, and remembers the result.
"""

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clearhead.serving import processes
from clearhead.serving.catalogue import Version
from clearhead.serving.faults import Fault
from clearhead.serving.shapes import ModelFacts

MOST_LINES = 200
"""Examples of which the worst are shown."""
WORST = 20
"""Lines that are shown."""
MOST_ROWS = 2_000
"""Rows of a run's history: of more, every second one, every third one …"""
_FILES = ("metrics.jsonl", "scores.json", "best.safetensors")


class AboutDesk:
    """Tells about models; one process at a time works it out."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._known: dict[str, tuple[str, Any, dict[str, Any]]] = {}
        """By model: its fingerprint, the state of its run, and what was told."""
        self._process: asyncio.subprocess.Process | None = None

    async def about(self, version: Version, facts: ModelFacts) -> dict[str, Any]:
        """Recipe, cost, run."""
        async with self._turn:
            state = _state(version.path.parent)
            fingerprint, before, told = self._known.get(version.name, ("", None, {}))
            if fingerprint != version.fingerprint:
                told = await self._worked_out(version)
            elif before != state and told["run"] is not None:  # a training goes on: the model is the same
                newer = await self._worked_out(version, "brief")
                told = told | {"run": told["run"] | newer["run"]}
            self._known[version.name] = version.fingerprint, state, told
        return {"name": version.name, "facts": asdict(facts)} | told

    async def _worked_out(self, version: Version, *how: str) -> dict[str, Any]:
        self._process = await processes.start_module(
            "clearhead.serving.about", version.source, str(version.path), *how, stdout=asyncio.subprocess.PIPE
        )
        try:
            output, _ = await self._process.communicate()
        except BaseException:
            await self.stop()
            raise
        try:
            told: dict[str, Any] = json.loads(output)
        except ValueError:
            raise Fault("what can be told of the model could not be worked out") from None
        return told

    async def stop(self) -> None:
        """End the process."""
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


def _state(folder: Path) -> list[tuple[int, int]]:
    """What changes when a run goes on."""
    found = []
    for name in _FILES:
        try:
            info = (folder / name).stat()
        except OSError:
            continue
        found.append((info.st_size, info.st_mtime_ns))
    return found


def told(source: Path, path: Path, *, brief: bool = False) -> dict[str, Any]:
    """Everything, in the process that works it out.

    Args:
        source: where to read the model.
        path: where it stands, beside the files of its run.
        brief: whether only what changes while a model stays the same is asked for: how its run goes.
    """
    import clearhead
    from clearhead.recipe import named, recipe_toml
    from clearhead.verbs import recipe_named

    folder = path.parent
    whole = path.name == "best.safetensors" and named(folder) == "run" and (folder / "recipe.toml").exists()
    run = _run(clearhead.Run(folder)) if whole else None
    if brief:
        return {"run": run or {}}
    if run is not None:
        run |= {"judged": 0, "worst": []}
        with suppress(clearhead.ClearheadError, OSError, ValueError):
            run |= _worst(clearhead.Run(folder))
    recipe = recipe_named(source if source.is_dir() else _as_model(source))
    return {"recipe": recipe_toml(recipe), "cost": clearhead.cost(recipe).json(), "run": run}


def _as_model(source: Path) -> Any:
    from clearhead.recipe import read_header, recipe_of_header

    return recipe_of_header(read_header(source))


def _run(run: Any) -> dict[str, Any]:
    """How a run went; what cannot be told, as its data are elsewhere, is left out."""
    from clearhead.errors import ClearheadError

    history = run.history
    step = -(-len(history) // MOST_ROWS) or 1
    found: dict[str, Any] = {"folder": run.folder.name, "steps": run.steps, "metric": run.metric, "best": run.best}
    found["history"] = [row for place, row in enumerate(history) if place % step == 0 or row.get("kind") == "dev"]
    found["scores"], found["curve"] = {}, ""
    with suppress(ClearheadError, OSError, ValueError):
        found["curve"] = run.curve() if history else ""
    with suppress(ClearheadError, OSError, ValueError):
        found["scores"] = {part: scores.table() for part, scores in run.scores.items()}
    return found


def _worst(run: Any) -> Mapping[str, Any]:
    """The worst of some examples of dev, or of test."""
    from clearhead.data import format_of, read_corpus
    from clearhead.evaluation import evaluate
    from clearhead.training import objective_of

    recipe = run.recipe
    corpus = objective_of(recipe).admitted(read_corpus(recipe.data, format_of(recipe.model)))
    examples = corpus.dev or corpus.test
    some = examples[:: max(1, len(examples) // MOST_LINES)][:MOST_LINES]
    scores = evaluate(run.model, some)
    return {"judged": len(some), "worst": [asdict(line) for line in scores.worst(WORST)]}


def main(source: str, path: str, how: str = "") -> None:
    """Print what can be told of a model."""
    os.nice(10)
    print(json.dumps(told(Path(source), Path(path), brief=how == "brief"), ensure_ascii=False, default=str))


if __name__ == "__main__":
    main(*sys.argv[1:])
