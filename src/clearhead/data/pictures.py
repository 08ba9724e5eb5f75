"""Images as numbers: from text to pixels, and to arrays."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clearhead.errors import DataError
from clearhead.recipe import PatchesSpec


def pixels_of(text: str, patches: PatchesSpec) -> NDArray[np.float32]:
    """(height, width, channels) from numbers between spaces, row by row; channels of a pixel stand side by side."""
    shape = (patches.height, patches.width, patches.channels)
    try:
        numbers = np.array(text.split(), dtype=np.float32)
    except ValueError:
        raise DataError("an image is numbers between spaces") from None
    if len(numbers) != np.prod(shape):
        raise DataError(f"{len(numbers):,} numbers instead of {' × '.join(map(str, shape))}")
    if not np.isfinite(numbers).all():
        raise DataError("an image has a number that is not finite")
    return numbers.reshape(shape)


def moved(pixels: NDArray[np.float32], most: int, key: tuple[int, ...]) -> NDArray[np.float32]:
    """The image moved by up to ``most`` pixels in both directions, as ``key`` decides; what comes in is 0."""
    down, right = np.random.default_rng(key).integers(-most, most + 1, 2)
    height, width, _ = pixels.shape
    wide = np.pad(pixels, ((most, most), (most, most), (0, 0)))
    return wide[most - down : most - down + height, most - right : most - right + width]


@dataclass(frozen=True)
class EncodedPictures:
    """Images, and the number of each one's class."""

    pixels: NDArray[np.float32]
    """(images, height, width, channels)"""
    labels: NDArray[np.int64]
    patches: int
    """Tokens that an image becomes."""
    too_long: int = 0
    """No image is."""

    def __len__(self) -> int:
        return len(self.labels)

    def sizes_of(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
        """The patches of the images."""
        return (np.full(len(rows), self.patches),)

    @property
    def tokens(self) -> int:
        """The patches of all images."""
        return len(self) * self.patches


def write_pictures(
    blocks: Iterable[Sequence[Sequence[str]]],
    folder: Path,
    name: str,
    *,
    patches: PatchesSpec,
    labels: Mapping[str, int],
) -> None:
    """Write images into ``folder``, one after the other; a block is labels and images, these as texts of numbers."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers: list[int] = []
    with (folder / f"{name}.pixels").open("wb") as file:
        for classes, images in blocks:
            for image in images:
                file.write(pixels_of(image, patches).tobytes())
            numbers += [labels[label] for label in classes]
    (folder / f"{name}.json").write_text(json.dumps({"labels": numbers}), encoding="utf-8")


def read_pictures(folder: Path, name: str, *, patches: PatchesSpec) -> EncodedPictures:
    """Map what ``write_pictures`` wrote."""
    labels = np.array(json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))["labels"], dtype=np.int64)
    shape = (len(labels), patches.height, patches.width, patches.channels)
    pixels: NDArray[np.float32] = np.memmap(folder / f"{name}.pixels", dtype=np.float32, mode="r", shape=shape)
    return EncodedPictures(pixels, labels, patches.tokens)
