"""A small model, trained once: it spells words backwards, not always right."""

from pathlib import Path

import pytest

from clearhead.predictor import TextWriter, load
from clearhead.recipe import read_recipe
from clearhead.verbs.session import train_in
from tests.training.toy import LONG_WINDED, write_pairs


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder."""
    folder = tmp_path_factory.mktemp("predictor")
    pairs = write_pairs(folder / "pairs.tsv")
    quick = ["model.width=64", "training.optimizer.rate=0.004", "training.average=0.98", "training.steps=500"]
    settings = [f'data.train="{pairs}"', *LONG_WINDED, "training.evaluate_every=250", *quick]
    train_in(read_recipe(None, *settings), folder / "run", resume=False)
    return folder / "run"


@pytest.fixture(scope="session")
def predictor(run: Path) -> TextWriter:
    """The trained model, ready to answer."""
    loaded = load(run)
    assert isinstance(loaded, TextWriter)
    return loaded
