"""``clearhead.check``: what is odd about data, before anybody trains on them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from clearhead.recipe import Recipe
from clearhead.verbs.inputs import Data, data_settings, temporary_files
from clearhead.verbs.naming import Changes, described_origin, origin_named, start_named, stated_recipe

if TYPE_CHECKING:
    from clearhead.data import Findings
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run


def check(
    data: Data | None = None,
    *,
    dev: Data | None = None,
    test: Data | None = None,
    columns: Sequence[str] | None = None,
    recipe: str | Path | Recipe | None = None,
    start: "str | Path | Run | Predictor | None" = None,
    settings: Changes = None,
) -> "Findings":
    """Examine data: bad lines, duplicates, leaks between splits, lengths, unknown tokens.

        findings = clearhead.check("pairs.tsv")
        findings.healthy, findings.sizes, [finding.what for finding in findings.findings if finding.count]

    Args:
        data: What to train on: a file, a task's name, two parallel files as a tuple, or examples in memory.
        dev: Data to choose the best model by; without it a part of ``data``.
        test: Data to score on at the end; without it a part of ``data``.
        columns: Which columns are meant, for tables, dicts and files that have several.
        recipe: What the data are for, as for ``clearhead.train``; without it what suits the data.
        start: A trained model to be tuned on the data: what is new to it is noted.
        settings: Settings of the recipe, ``{"data.max_length": 100}``.
    """
    from clearhead.data import check_corpus, format_of, read_corpus

    with temporary_files({"train": data, "dev": dev, "test": test}, columns=columns) as parts:
        derived, more = data_settings(parts, columns=columns)
        more["data.bad_lines"] = "skip"
        derived = derived if recipe is None else []
        begin = None if start is None else start_named(start)
        found, _ = stated_recipe(recipe, settings, more=more, derived=derived, anew=True, start=begin)
        corpus = read_corpus(found.data, format_of(found.model))
        findings = check_corpus(corpus)
        notes = [*findings.notes, *described_origin(origin_named(recipe), str(recipe))]
        if begin is not None:
            from clearhead.training import objective_of

            known = begin.known()
            objective_of(found).learn(corpus, known)
            notes += [f"to be tuned from {begin.name} ({begin.fingerprint[:12]})", *known.notes]
        return replace(findings, notes=tuple(notes))
