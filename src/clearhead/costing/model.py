"""The way in: what a model costs, for whatever has a recipe."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib import import_module
from pathlib import Path
from typing import Any

from clearhead.costing.forms.bill import Cost, ModelFormulas, run_cost
from clearhead.costing.forms.letters import Letters
from clearhead.costing.forms.sketch import Ledger
from clearhead.costing.forms.summary import By
from clearhead.costing.forms.views import View
from clearhead.costing.report import as_json, everything, screen, viewpoint
from clearhead.costing.sheet import CostReport
from clearhead.recipe import Recipe, cost_of, named, read_recipe, recipe_from, recipe_table


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


def cost(
    recipe: Recipe | str | Path | None = None, *overrides: str, settings: Mapping[str, Any] | None = None
) -> ModelCost:
    """What a model costs, in closed forms: parameters, work, memory and span. Nothing is built.

    ``recipe`` is a recipe, or what has one: a preset's name, a TOML file, a model file, a run folder or a Hugging Face
    folder; None for the defaults. ``overrides`` change it as on the command line, ``settings`` as a dict, whose keys
    may have dots; settings win. Needs no torch, but for a Hugging Face folder.

    >>> import clearhead
    >>> base = clearhead.cost("transformer-base")
    >>> base.parameters.at()
    63082496
    >>> base["encoder"]["layers"]["attention"].macs.at(n=100, B=1)
    115097600
    >>> clearhead.cost("bert-base", settings={"model.layers": 11}).parameters.at()
    102394368
    """
    changes = [*overrides, *_as_overrides(settings or {})]
    name = [] if recipe is None else ["recipe" if isinstance(recipe, Recipe) else str(recipe)]
    read = _read(recipe, changes)
    letters = Letters()
    ledger = Ledger(letters=letters, name=read.model.family)
    tree = run_cost(ledger, cost_of(read.model)(read.model).forward)
    return ModelCost(
        **{part.name: getattr(tree, part.name) for part in fields(Cost)},
        title=" ".join([*name, *changes]) or "the defaults",
        recipe=read,
        letters=letters,
        block=ledger.root,
    )


def _read(source: Recipe | str | Path | None, changes: list[str]) -> Recipe:
    if isinstance(source, Recipe):
        return recipe_from(recipe_table(source), *changes) if changes else source
    if source is None or named(source) != "huggingface":
        return read_recipe(source, *changes)
    # interop stands above this layer and imports torch: it is found by its name, as the registry finds modules
    foreign: Recipe = import_module("clearhead.interop").load_huggingface(source).recipe
    return recipe_from(recipe_table(foreign), *changes, name=str(source))


def _as_overrides(settings: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[str]:
    """``{"model": {"layers": 2}}`` and ``{"model.layers": 2}`` alike as ``model.layers=2``."""
    for key, value in settings.items():
        if isinstance(value, Mapping):
            yield from _as_overrides(value, (*path, key))
        else:
            yield f"{'.'.join((*path, key))}={_as_toml(value)}"


def _as_toml(value: Any) -> str:
    """A value as an override writes it: words as they are, everything else as JSON, which TOML reads the same."""
    if (
        isinstance(value, str)
        and re.fullmatch(r"[a-z][a-z-]*\d*", value)
        and value not in ("true", "false", "inf", "nan")
    ):
        return value
    return json.dumps(value, ensure_ascii=False)
