"""``clearhead.train``: a model from data, a recipe and a budget."""

import os
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError
from clearhead.events import Event, Listener
from clearhead.locks import held
from clearhead.recipe import Recipe, named
from clearhead.verbs.inputs import Data, data_settings, in_files
from clearhead.verbs.naming import Changes, start_named, stated_recipe
from clearhead.verbs.reporting import listener_of
from clearhead.verbs.run import Run
from clearhead.verbs.sizing import sized_by_budget
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.predictor import Predictor


def train(
    data: Data | None = None,
    output: str | Path | None = None,
    *,
    dev: Data | None = None,
    test: Data | None = None,
    more: Data | None = None,
    columns: Sequence[str] | None = None,
    recipe: str | Path | Recipe | None = None,
    start: "str | Path | Run | Predictor | None" = None,
    minutes: float | None = None,
    steps: int | None = None,
    epochs: int | None = None,
    resume: bool = False,
    report: Listener | bool | None = None,
    settings: Changes = None,
    **sections: Any,
) -> Run:
    """Train a model, and return the finished run.

        run = clearhead.train([("love", "L AH V"), ("hate", "HH EY T"), …], output="runs/mine", minutes=10)
        run.model("lovely")

    Args:
        data: What to learn from: a file, a task's name (``"g2p-en"``), two parallel files as a tuple, or examples in
            memory: (source, target) pairs, lines of text, dicts, a pandas, Arrow or ``datasets`` table.
        output: The run folder; without it a new one under ``runs/``, named after the date and time.
        dev: Data to choose the best model by; without it a part of ``data`` is set aside.
        test: Data to score the best model on at the end; without it a part of ``data`` is set aside.
        more: More of the same to train on, never in dev or test, such as the answers of a model; what dev or test ask
            for is left out.
        columns: Which columns are meant, for tables, dicts and files that have several: ``("english", "german")``.
        recipe: A preset's name, a recipe file, a ``Recipe``, or a trained model to take the recipe of.
        start: A trained model to continue from: a run, a model file, a Hugging Face folder, or a model that is loaded.
            Its tokenizers and the settings of its model are kept, and what contradicts them is refused; new tokens and
            labels are added. See ``training.freeze`` and ``training.adapters`` for training a part of it.
        minutes: Budget in minutes; 10 if there is no budget at all.
        steps: Budget in steps.
        epochs: Budget in passes over the data.
        resume: Continue the run in ``output`` as if it had never stopped; with more ``steps``, extend a finished one.
            What contradicts the run is refused.
        report: Called with an ``Event`` for each thing that happens. True shows progress: a live curve in a notebook,
            lines on standard error elsewhere. Without it nothing is shown.
        settings: Settings of the recipe, ``{"model.width": 64}``, or words, ``["model.width=64"]``.
        sections: The same by section: ``training={"seed": 2}``.

    It may be called in any thread, prints nothing by itself, and leaves random state, threads and signal handlers as
    they were. In the main thread SIGINT and SIGTERM save the run first, and then raise ``Interrupted``.
    """
    if not resume and os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0") != "0":
        raise ClearheadError(
            "torchrun may restart this (--max-restarts): add --resume, so that it goes on where it was"
        )
    folder = _new_folder() if output is None else Path(output)
    listener = listener_of(report, folder)
    with held(folder) if _leads() else nullcontext():
        given = {"train": data, "dev": dev, "test": test, "more": more}
        parts = in_files(given, folder, columns=columns, resume=resume)
        derived, asked_for = data_settings(parts, columns=columns)
        budgets = {"training.minutes": minutes, "training.steps": steps, "training.epochs": epochs}
        asked_for |= {name: budget for name, budget in budgets.items() if budget is not None}
        derived = derived if recipe is None else []
        begin = None if start is None else start_named(start)
        found, stated = stated_recipe(
            recipe, settings, more=sections | asked_for, derived=derived, anew=True, start=begin
        )
        chosen = ""
        if recipe is None and start is None:
            found, chosen = sized_by_budget(found, stated)
            if chosen and _leads() and not (resume and (folder / "run.json").exists()):
                listener(Event("note", chosen))
        if isinstance(recipe, str | Path) and named(recipe) in ("model", "run", "huggingface"):
            listener(
                Event(
                    "note", f"{recipe}: its recipe is used, not its weights: training starts from scratch; see --from"
                )
            )

        from clearhead.training import StatedRecipe
        from clearhead.verbs.session import train_in

        with undisturbed():
            asked = StatedRecipe(found, stated, begin, free=bool(chosen))
            best = train_in(asked, folder, resume=resume, listener=listener)
    return Run(folder, best)


def _leads() -> bool:
    """Whether this process writes: of several that torchrun started, the first."""
    return os.environ.get("RANK", "0") == "0"


def _new_folder() -> Path:
    """A folder that is not there yet, named after the time."""
    stem = Path("runs") / f"{datetime.now():%Y-%m-%d-%H%M%S}"
    return next(
        path for number in range(1000) if not (path := stem if not number else Path(f"{stem}-{number}")).exists()
    )
