"""Small models of every family, and one room for all tests of a file."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from clearhead.recipe import read_recipe
from clearhead.serving.room import Room
from clearhead.serving.settings import ServeSettings
from clearhead.training import prepare
from clearhead.verbs.session import make_trainer
from tests.serving.nursery import Nursery
from tests.training.toy import FAMILIES, SMALL, write_pairs

QUICK = ["training.optimizer.rate=0.004", "training.average=0", "data.max_length=40"]

_EVERYWHERE = ("model.layers=1", "model.width=32", "training.batch_tokens=256", "training.threads=1")
"""The settings that a recurrent net has too."""


def trained(folder: Path, *settings: str, steps: int = 60) -> Path:
    """A run folder."""
    budget = [f"training.steps={steps}", f"training.evaluate_every={steps}"]
    small = [word for word in SMALL if "recurrent" not in " ".join(settings) or word in _EVERYWHERE]
    make_trainer(prepare(read_recipe(None, *settings, *small, *QUICK, *budget), folder)).run()
    return folder


NAMES = ["pairs", "recurrent", *FAMILIES, "bytes"]
"""A model of each family, and a language model that writes bytes."""


class Models(dict[str, Path]):
    """Run folders by name, each trained when it is first asked for.

    Args:
        folder: where they stand.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __missing__(self, name: str) -> Path:
        data = self._folder / f"{name}.tsv"
        kind = [f"model.family={name}"]
        if name in FAMILIES:
            FAMILIES[name](data)
        elif name == "bytes":
            rows = (f"{'𝄞é'[n % 2] * (n % 5 + 1)} {'日本語'[n % 3]}€ naïve\n" for n in range(200))
            data.write_text("".join(rows))
            kind = ["model.family=lm", "data.source.kind=bpe", "data.source.size=300"]
        else:
            write_pairs(data)
            kind = kind if name == "recurrent" else []
        steps = 150 if name == "pairs" else 60
        self[name] = trained(self._folder / name, f'data.train="{data}"', *kind, steps=steps)
        return self[name]


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    """Run folders by name: ``NAMES``."""
    return Models(tmp_path_factory.mktemp("served"))


@pytest.fixture(scope="package", autouse=True)
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Workers are forked, and not started anew, where the front is in this process."""
    nursery = Nursery(tmp_path_factory.mktemp("nursery"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("clearhead.serving.processes.start_module", nursery.start_module)
        yield
    nursery.close()


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of a file of tests."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def room(models: dict[str, Path], runner: asyncio.Runner) -> Iterator[Room]:
    """All models, answered by two workers."""

    async def opened() -> Room:
        room = Room({name: models[name] for name in NAMES}, ServeSettings(workers=2))
        await room.start()
        return room

    room = runner.run(opened())
    yield room
    runner.run(room.stop(5))
