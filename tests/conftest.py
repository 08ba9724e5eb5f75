"""What all tests share: no network, one thread, a fixed seed, and the parity table at the end of a run."""

import os
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from xdist.scheduler import LoadScopeScheduling

torch.set_num_threads(1)

pytest_plugins = ["tests.browser"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(20)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling:
    """Tests of a file stay together, and so do those of folders that share a trained model or the lectures' outcomes.

    So one worker makes what they share, and not both. (Groups by mark, ``--dist loadgroup``, are lost with pytest 9.2.)
    """
    return Together(config, log)


class Together(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out the tests of a file, or of a folder in ``SHARING``, to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        path = Path(nodeid.partition("::")[0])
        folder = "lectures" if path.stem == "test_lecture" else path.parent.name
        return folder if folder in SHARING else str(path)


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
