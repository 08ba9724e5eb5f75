"""``training.compile``, in a process of its own: what checks shapes in this one cannot be recorded in a graph."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*options: str, **variables: str) -> None:
    """Run the tests of compiled.py without jaxtyping's hook."""
    command = [sys.executable, "-m", "pytest", "-o", "addopts=-q --strict-markers", "--show-capture=no", *options]
    done = subprocess.run(
        [*command, "tests/training/compiled.py"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"} | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-10_000:] + done.stderr[-2_000:]
    assert " passed" in done.stdout


def test_graphs_numbers_and_refusals() -> None:
    run("-m", "not prove")


@pytest.mark.prove
def test_every_model_and_a_real_compiler() -> None:
    run()
