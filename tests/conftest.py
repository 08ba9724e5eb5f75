"""What all tests share: no network, one thread, a fixed seed, and the tables at the end of a run."""

import gc
import math
import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("SYMPY_CACHE_SIZE", "100000")  # formulas of many models: with 1000 they take a quarter longer

import jaxtyping
import pytest
import torch
from xdist.scheduler import LoadScopeScheduling

torch.set_num_threads(1)
gc.set_threshold(
    20_000, 20, 20
)  # sympy, pydantic and torch make many objects: looking for garbage took a tenth of the time

pytest_plugins = ["tests.browser"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Shapes are checked at every call in the tests of ``SHAPED``, which compute with every part in every form.

    Elsewhere the subject is files, screens and whole runs, made of the same parts, and checking would only take time:
    it doubles what a model takes. (While a graph is recorded, sizes are symbols, which no check takes for numbers.)
    """
    names = {item.path.parent.name, f"{item.path.parent.name}/{item.path.stem}"}
    jaxtyping.config.update("jaxtyping_disable", names.isdisjoint(SHAPED))


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Tests of a file stay together, and so do those of folders that share a model, formulas or the lectures' outcomes.

    So one worker makes what they share, and not both. (Groups by mark, ``--dist loadgroup``, are lost with pytest 9.2.)
    """
    config.option.loadscopereorder = False
    return Together(config, log)


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out the tests of a file, or of a folder in ``SHARING``, to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def scope_of(nodeid: str) -> str:
    """The folder or the file whose tests stay together."""
    path = Path(nodeid.partition("::")[0])
    folder = path.parent.name
    group = WITH.get(f"{folder}/{path.stem}", WITH.get(folder, folder))
    return group if group in SHARING else str(path)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long comes first, so that at the end no worker waits for the other's last file."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: place_of(item.nodeid))


def pytest_collection_finish() -> None:
    """What was imported stays: no search for garbage looks at it again, and no forked process copies it for that."""
    gc.freeze()


def place_of(nodeid: str) -> int:
    """When a test is handed out: folders of ``SHARING``, what starts processes and trains, everything else."""
    return 0 if scope_of(nodeid) in SHARING else 1 if Path(nodeid.partition("::")[0]).parent.name in SLOW else 2


SHAPED = {"positions", "attention", "blocks"}
SHAPED |= {"models/test_contracts", "models/test_grid", "models/test_influence", "decoding/test_steppers"}
SHAPED |= {"interop/test_parity", "data/test_batches", "data/test_masking", "predictor/test_forced"}
SHAPED |= {"training/test_families", "training/test_digits", "training/test_muon", "training/test_loss"}
SHARING = ("costing", "interop", "lectures", "predictor", "serving", "images", "tables")
WITH = {"positions": "interop", "cli/test_lecture": "lectures", "costing/test_lecture": "lectures"}
WITH |= dict.fromkeys(("attention/test_disentangled", "blocks/test_feedforward", "blocks/test_norm"), "interop")
WITH |= dict.fromkeys(("benchmarks/test_look_peers", "inspection/test_imported", "serving/test_loading"), "interop")
WITH |= dict.fromkeys(("cli/test_cli", "cli/test_names", "cli/test_terminal"), "interop")
WITH |= dict.fromkeys(("verbs/test_engines", "verbs/test_exporting"), "interop")
WITH |= dict.fromkeys(("training/test_digits", "evaluation/test_metrics"), "images")
WITH |= dict.fromkeys(("data/test_given", "verbs/test_given"), "tables")
"""Files and folders that go with others, so that one worker runs the lectures, and one imports transformers, one
scikit-learn, one datasets and pandas."""
SLOW = ("cli", "models", "pages", "tests", "tools", "training")
"""Folders of files with few tests that take long: commands, whole models, a browser, the site, attacks, trainings."""
PARITY = "parity"
IDENTITY = "identity"
"""A row of the table of identities: name, bound, what was seen, what a wrong variant gave (nan if it was not asked)."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what every imported reference was compared on and how far off it was, and the identities of a look."""
    reports = terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
    found = [pair for report in reports for pair in report.user_properties]
    _identities(terminalreporter, [row for name, row in found if name == IDENTITY])
    rows = [value for name, value in found if name == PARITY]
    if rows:
        terminalreporter.section("parity with independent references (fp32, every layer, max|Δ| < 1e-5)")
        for row in sorted(str(row) for row in rows):
            terminalreporter.write_line(row)


def _identities(terminalreporter: pytest.TerminalReporter, rows: list[object]) -> None:
    """Every identity with its bound, the worst that was seen, and the best that a wrong variant gave."""
    table: dict[str, tuple[float, list[float], list[float]]] = {}
    for row in rows:
        assert isinstance(row, list | tuple)
        name, bound, seen, wrong = row
        _, worst, variants = table.setdefault(name, (bound, [], []))
        worst.append(seen)
        if not math.isnan(wrong):
            variants.append(wrong)
    if table:
        terminalreporter.section("identities of a look (the wrong variant must break the bound)")
        terminalreporter.write_line(f"{'identity':<76} {'bound':>7} {'cases':>5} {'worst':>8} {'wrong':>8}")
    for name, (bound, worst, variants) in sorted(table.items()):
        wrong = f"{min(variants):8.1e}" if variants else " " * 8
        shown = "bitwise" if bound == 0 else f"{bound:7.0e}"
        terminalreporter.write_line(f"{name:<76} {shown} {len(worst):>5} {max(worst):8.1e} {wrong}")
