"""``pytest -p tests.cpu``: the processor seconds that each file of tests takes, with the processes that it waits for.

They change less with the load of the machine than the time on the clock does.
A browser's processes are nobody's to wait for: what they take, two thirds of a test of a page, is not in it.
"""

import os
from collections import Counter

import pytest

_CPU = "cpu"
_BEGUN = pytest.StashKey[float]()


def _seconds() -> float:
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Look at the clock."""
    item.stash[_BEGUN] = _seconds()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Tell with the last report of a test what it took."""
    if call.when == "teardown":
        item.user_properties.append((_CPU, _seconds() - item.stash[_BEGUN]))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """The dearest files first."""
    files, tests = Counter[str](), Counter[str]()
    for report in (one for found in terminalreporter.stats.values() for one in found):
        for name, seconds in getattr(report, "user_properties", ()):
            if name == _CPU:
                file = report.nodeid.partition("::")[0]
                files[file] += seconds
                tests[file] += 1
    terminalreporter.section(f"processor seconds: {sum(files.values()):.0f}")
    for file, seconds in files.most_common():
        terminalreporter.write_line(f"{seconds:8.1f} {tests[file]:5} {file}")
