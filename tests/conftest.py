"""What all tests share: no network, one thread, a fixed seed, and the parity table at the end of a run."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch

torch.set_num_threads(1)

pytest_plugins = ["tests.browser"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of a file stay together, and so do those of folders that share a trained model or the lectures' outcomes.

    So one worker makes what they share, and not both.
    """
    for item in items:
        folder = item.path.parent.name
        together = "lectures" if item.path.stem == "test_lecture" else folder
        item.add_marker(pytest.mark.xdist_group(together if together in SHARING else str(item.path)))


SHARING = ("lectures", "predictor")
PARITY = "parity"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what every imported reference was compared on, and how far off it was."""
    rows = [
        value
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        for name, value in report.user_properties
        if name == PARITY
    ]
    if rows:
        terminalreporter.section("parity with independent references (fp32, every layer, max|Δ| < 1e-5)")
        for row in sorted(str(row) for row in rows):
            terminalreporter.write_line(row)
