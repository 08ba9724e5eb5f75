"""What a whole model costs, as an object that can be asked and shown."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from clearhead.costing.forms.bill import Cost, ModelFormulas, run_cost
from clearhead.costing.forms.letters import Letters
from clearhead.costing.forms.parallel import Kind, Parallel
from clearhead.costing.forms.sketch import Ledger
from clearhead.costing.forms.summary import By
from clearhead.costing.forms.tuned import TunedParts
from clearhead.costing.forms.views import View
from clearhead.costing.precision import precision_here
from clearhead.costing.report import as_json, everything, screen, viewpoint
from clearhead.costing.sharing import share_json, share_sheet
from clearhead.costing.sheet import CostReport
from clearhead.recipe import Recipe, cost_of, read_recipe


@dataclass(frozen=True, repr=False)
class ModelCost(ModelFormulas):
    """What a whole model costs: formulas of everything, to hold, to train and to decode with it.

    ``print(cost.summary(n=100))`` is one screen, ``cost.table(n=100)`` has every formula and every block,
    ``cost.json(n=100)`` the same as data.
    """

    def summary(
        self, *, n: int | None = None, m: int | None = None, t: int | None = None, batch: int = 1
    ) -> CostReport:
        """One screen: parameters, work, memory and span, and the share of each part.

        ``n`` is the number of source tokens, or of the tokens of a model with one sequence (512, or as many as its
        learned positions hold), ``m`` of target tokens (as many as n), ``t`` of tokens so far in a step of decoding
        (m), ``batch`` of sequences.
        """
        return screen(self, viewpoint(self, n=n, m=m, t=t, batch=batch))

    def table(
        self,
        *,
        n: int | None = None,
        m: int | None = None,
        t: int | None = None,
        batch: int = 1,
        by: By = "block",
        view: View = "exact",
        within: str | None = None,
    ) -> CostReport:
        """Everything: each number with its formula and its convention, then every block.

        ``by`` is ``block``, ``layer``, or ``model``, which leaves the blocks out. ``view`` writes formulas ``exact``,
        as the lectures have them ``printed``, or ``asymptotic``, where ``within`` may name the one letter that grows.
        Lengths as in ``summary``.
        """
        return everything(self, viewpoint(self, n=n, m=m, t=t, batch=batch, view=view, within=within), by)

    def json(
        self,
        *,
        n: int | None = None,
        m: int | None = None,
        t: int | None = None,
        batch: int = 1,
        by: By = "block",
        view: View = "exact",
        within: str | None = None,
    ) -> dict[str, Any]:
        """The same as data, ready for ``json.dumps``: ``{"parameters": …, "macs": …, "formulas": {…}, …}``."""
        return as_json(self, viewpoint(self, n=n, m=m, t=t, batch=batch, view=view, within=within), by)

    def parallel(self, devices: int, kind: Kind = "ddp") -> Parallel:
        """What ``devices`` that train together send each other, and what each holds: ``kind`` is ddp or fsdp."""
        return Parallel(self, devices, kind)

    def sharing(
        self, devices: int, kind: Kind = "ddp", *, n: int | None = None, m: int | None = None, batch: int = 1
    ) -> CostReport:
        """The same as a table: each number with its formula; ``batch`` is that of each device."""
        at = viewpoint(self, n=n, m=m, t=None, batch=batch)
        return CostReport([share_sheet(self.parallel(devices, kind), at)])

    def sharing_json(
        self, devices: int, kind: Kind = "ddp", *, n: int | None = None, m: int | None = None, batch: int = 1
    ) -> dict[str, Any]:
        """The same as data."""
        at = viewpoint(self, n=n, m=m, t=None, batch=batch)
        return share_json(self.parallel(devices, kind), at)


def cost(
    recipe: Recipe | str | Path | None = None, *overrides: str, settings: Mapping[str, Any] | None = None
) -> ModelCost:
    """What the model of a recipe costs, in closed forms; takes what ``read_recipe`` takes."""
    read = read_recipe(recipe, *overrides, settings=settings)
    return cost_of_recipe(read, title_of(recipe, *overrides, settings=settings))


def title_of(recipe: Recipe | str | Path | None, *overrides: str, settings: Mapping[str, Any] | None = None) -> str:
    """What a model is called: its preset or file, and changes as the command line writes them."""
    name = [] if recipe is None else ["recipe" if isinstance(recipe, Recipe) else str(recipe)]
    return " ".join([*name, *_words(settings or {}), *overrides]) or "the defaults"


def _words(settings: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """``{"model": {"layers": 2}}`` and ``{"model.layers": 2}`` alike as ``model.layers=2``."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _words(value, f"{before}{key}.")
        else:
            yield f"{before}{key}={value if isinstance(value, str) else json.dumps(value, default=str)}"


def cost_of_recipe(recipe: Recipe, title: str) -> ModelCost:
    """What the model of a recipe costs, under this title."""
    letters = Letters()
    training = recipe.training
    tuned = TunedParts(training)
    precision = precision_here(recipe)
    ledger = Ledger(
        letters=letters,
        name=recipe.model.family,
        tuned=tuned,
        recompute=training.recompute,
        precision=precision,
    )
    tree = run_cost(ledger, cost_of(recipe.model)(recipe.model).forward)
    ledger.tuned.require_all_met()
    return ModelCost(
        **{part.name: getattr(tree, part.name) for part in fields(Cost)},
        title=title,
        recipe=recipe,
        letters=letters,
        block=ledger.root,
        precision=precision,
    )
