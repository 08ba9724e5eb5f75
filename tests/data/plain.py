"""What preparing a run amounts to, written down plainly: no blocks, no spool, no table of words; a line at a time."""

import gzip
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from clearhead.data import Codec
from clearhead.recipe import DataSpec

Row = tuple[str, ...]


def rows_of(file: str, *fields: str) -> list[Row]:
    """Columns between tabs, or fields of JSON objects, without space around them; every line must be an example."""
    raw = Path(file).read_bytes()
    text = (gzip.decompress(raw) if file.endswith(".gz") else raw).decode("utf-8-sig")
    lines = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if ".jsonl" in file:
        return [tuple(json.loads(line)[field].strip() for field in fields) for line in lines]
    columns = [line.split("\t") if len(fields) > 1 else [line] for line in lines]
    assert all(len(cells) == len(fields) for cells in columns)
    return [tuple(cell.strip() for cell in cells) for cells in columns]


def shares_of(spec: DataSpec, total: int) -> tuple[float, float]:
    if spec.dev is not None:
        return 0.0, spec.test_share or 0.0
    usual = min(0.05, 2000 / total)
    return (
        usual if spec.dev_share is None else spec.dev_share,
        0.0 if spec.test is not None else usual if spec.test_share is None else spec.test_share,
    )


def part_of(key: str, dev: float, test: float) -> str:
    """By the hash of the key, a number in [0, 1): the rule that every run folder was split by."""
    place = int.from_bytes(hashlib.blake2b(key.encode("utf-8"), digest_size=8).digest(), "big") / 2**64
    return "dev" if place < dev else "test" if place < dev + test else "train"


def fingerprint_of(spec: DataSpec, shares: tuple[float, float]) -> str:
    """As in the run folders that were written when files were read five times."""
    digest = hashlib.sha256(repr((spec.task, spec.stress, shares, *(spec.columns or ()))).encode())
    for where in (spec.train, spec.dev, spec.test):
        for name in [where] if isinstance(where, str) else where or []:
            digest.update(Path(name).read_bytes())
    return digest.hexdigest()


def pair_arrays(rows: Sequence[Row], source: Codec, target: Codec, max_length: int) -> dict[str, bytes]:
    """The files of encoded pairs."""
    kept: list[tuple[list[int], ...]] = []
    for row in rows:
        ids = tuple(codec.encode([text])[0] for codec, text in zip((source, target), row, strict=True))
        if all(0 < len(side) <= max_length for side in ids):
            kept.append(ids)
    files = {"train.json": json.dumps({"pairs": len(kept), "too_long": len(rows) - len(kept)}).encode()}
    for index, side in enumerate(("source", "target")):
        files |= _files(f"train.{side}", [ids[index] for ids in kept])
    return files


def text_arrays(
    rows: Sequence[Row],
    codec: Codec,
    max_length: int,
    cut: Callable[[list[int]], list[list[int]]],
    labels: Sequence[str] = (),
) -> dict[str, bytes]:
    """The files of encoded texts, with their classes if there are labels."""
    sequences, classes, too_long = [], [], 0
    for row in rows:
        (ids,) = codec.encode([row[-1]])
        too_long += len(ids) > max_length
        for piece in cut(ids):
            sequences.append(piece)
            classes += [labels.index(row[0])] if labels else []
    return {
        **_files("train.text", sequences),
        "train.labels": np.array(classes, dtype=np.int64).tobytes(),
        "train.json": json.dumps({"too_long": too_long}).encode(),
    }


def _files(stem: str, sequences: Sequence[Sequence[int]]) -> dict[str, Any]:
    starts = [0]
    for sequence in sequences:
        starts.append(starts[-1] + len(sequence))
    ids = [token for sequence in sequences for token in sequence]
    return {
        f"{stem}.ids": np.array(ids, dtype=np.uint32).tobytes(),
        f"{stem}.starts": np.array(starts, dtype=np.int64).tobytes(),
    }
