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


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Run folders by name: a family each, and a language model that writes bytes."""
    folder = tmp_path_factory.mktemp("served")
    pairs = write_pairs(folder / "pairs.tsv")
    found = {"pairs": trained(folder / "pairs", f'data.train="{pairs}"', steps=150)}
    found["recurrent"] = trained(folder / "recurrent", f'data.train="{pairs}"', "model.family=recurrent")
    for family, write in FAMILIES.items():
        data = write(folder / f"{family}.txt")
        found[family] = trained(folder / family, f'data.train="{data}"', f"model.family={family}")
    strange = folder / "bytes.txt"
    strange.write_text("".join(f"{'𝄞é'[n % 2] * (n % 5 + 1)} {'日本語'[n % 3]}€ naïve\n" for n in range(200)))
    kind = ["model.family=lm", "data.source.kind=bpe", "data.source.size=300"]
    found["bytes"] = trained(folder / "bytes", f'data.train="{strange}"', *kind)
    return found


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    """The event loop of a file of tests."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def room(models: dict[str, Path], runner: asyncio.Runner) -> Iterator[Room]:
    """All models, answered by two workers."""

    async def opened() -> Room:
        room = Room(models, ServeSettings(workers=2))
        await room.start()
        return room

    room = runner.run(opened())
    yield room
    runner.run(room.stop(5))
