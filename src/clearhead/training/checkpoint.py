"""Checkpoints: a run that is killed at any instant continues as if nothing had happened.

``last/`` holds the two newest checkpoints, one safetensors file each: weights, average, optimizers and random state as
tensors, everything else as JSON in the metadata, with a checksum over all of it. A new checkpoint is complete on disk
before an old one is removed. A damaged checkpoint is reported, and the previous one is used. Nothing is unpickled.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, optim

from clearhead.errors import DamagedFile
from clearhead.models import add_tensors
from clearhead.models.tensor_file import write_tensors
from clearhead.training.writing import clear_write_errors

_NAME = re.compile(r"step-(\d+)\.safetensors")
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """The tensors by name, and the rest of the state."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> None:
    """Write a checkpoint atomically, then remove all but the newest two."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().contiguous() for name, tensor in checkpoint.tensors.items()}
    state = json.dumps(checkpoint.state)
    metadata = {"state": state, "checksum": _checksum(tensors, state)}
    path = folder / f"step-{step:09}.safetensors"
    with clear_write_errors(path):
        write_tensors(path, tensors, metadata)
        unfinished = folder.glob(".step-*")  # left by a run that was killed while it wrote
        beginning = [file for file in _files(folder)[1:] if _step(file) == 0]
        for old in (*_files(folder)[KEPT:], *beginning, *unfinished):
            old.unlink(missing_ok=True)


def has_trained(folder: Path) -> bool:
    """Whether a run folder holds training results: a best model, or a checkpoint later than step 0."""
    return (folder / "best.safetensors").exists() or any(_step(file) > 0 for file in _files(folder / "last"))


def load_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest undamaged checkpoint and one warning for each newer, damaged one.

    The checkpoint is None if the folder has none. If it has some and all are damaged, ``DamagedFile`` is raised.
    """
    complaints: list[str] = []
    files = _files(folder)
    for file in files:
        if not file.is_file():
            raise DamagedFile(f"{file}: is not a file: move it away, then --resume")
    for file in files:
        try:
            return _read(file), complaints
        except DamagedFile as error:
            complaints.append(f"{error}; using the previous checkpoint")
    if files:
        raise DamagedFile(
            f"{folder}: every checkpoint is damaged: {'; '.join(file.name for file in files)}; restore one of them, "
            "or start a new run with another -o; best.safetensors was not changed"
        )
    return None, []


def _files(folder: Path) -> list[Path]:
    """Checkpoints, the newest first."""
    found = [path for path in folder.glob("step-*.safetensors") if _NAME.fullmatch(path.name)]
    return sorted(found, key=_step, reverse=True)


def _step(file: Path) -> int:
    found = _NAME.fullmatch(file.name)
    return int(found[1]) if found else -1


def _read(file: Path) -> Checkpoint:
    try:
        with safe_open(file, "pt") as stream:
            metadata = stream.metadata() or {}
            # clone: the tensors are memory maps of the file and would keep its disk space after it is deleted
            tensors = {name: stream.get_tensor(name).clone() for name in stream.keys()}  # noqa: SIM118 - not a dict
        state = metadata["state"]
        if metadata["checksum"] != _checksum(tensors, state):
            raise DamagedFile(f"{file}: does not match its checksum")
        return Checkpoint(tensors, json.loads(state))
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DamagedFile(f"{file}: cannot be read ({error})") from None


def _checksum(tensors: Mapping[str, Tensor], state: str) -> str:
    digest = hashlib.sha256(state.encode())
    add_tensors(digest, tensors)
    return digest.hexdigest()


def optimizer_tensors(optimizers: list[optim.Optimizer]) -> dict[str, Tensor]:
    """The optimizers' state of each parameter, named ``optimizer.<optimizer>.<parameter>.<name>``."""
    tensors = {}
    for number, optimizer in enumerate(optimizers):
        for index, memory in optimizer.state_dict()["state"].items():
            for name, value in memory.items():
                tensors[f"optimizer.{number}.{index}.{name}"] = torch.as_tensor(value)
    return tensors


def restore_optimizers(optimizers: list[optim.Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Load the state that ``optimizer_tensors`` returned."""
    for number, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(f"optimizer.{number}."):
                _, _, index, part = name.split(".", 3)
                state.setdefault(int(index), {})[part] = tensor
        optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
