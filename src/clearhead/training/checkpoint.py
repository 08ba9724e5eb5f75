"""The state of a run, so that a run that is killed at any instant can go on as if it had not been.

``last/`` holds the two newest checkpoints, one safetensors file each: weights, average, optimizers and random state as
tensors, everything else as JSON in the metadata, with a checksum over all of it. A new one is written whole before an
old one is removed; a damaged one is named, and the one before it used. Nothing is unpickled.
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
from safetensors.torch import save as save_tensors
from torch import Tensor, optim

from clearhead.errors import DamagedFile
from clearhead.files import write_whole
from clearhead.models import add_tensors
from clearhead.training.writing import telling

_NAME = re.compile(r"step-(\d+)\.safetensors")
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """Tensors by name, and the rest of the state."""

    tensors: dict[str, Tensor]
    state: dict[str, Any]


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint) -> None:
    """Write a checkpoint whole, then remove all but the newest two."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = {name: tensor.detach().contiguous() for name, tensor in checkpoint.tensors.items()}
    state = json.dumps(checkpoint.state)
    metadata = {"state": state, "checksum": _checksum(tensors, state)}
    path = folder / f"step-{step:09}.safetensors"
    with telling(path):
        write_whole(path, save_tensors(tensors, metadata))
        unfinished = folder.glob(".step-*")  # left by a run that was killed while it wrote
        beginning = [file for file in _files(folder)[1:] if _step(file) == 0]
        for old in (*_files(folder)[KEPT:], *beginning, *unfinished):
            old.unlink(missing_ok=True)


def has_trained(folder: Path) -> bool:
    """Whether a run folder holds something that cost steps: a best model, or a checkpoint after the first step."""
    return (folder / "best.safetensors").exists() or any(_step(file) > 0 for file in _files(folder / "last"))


def load_checkpoint(folder: Path) -> tuple[Checkpoint | None, list[str]]:
    """The newest checkpoint that is whole, and what is to be said about newer ones that are not.

    None if there is none at all; if there are some and all are damaged, that is an error.
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
            complaints.append(f"{error}; going back to the one before it")
    if files:
        raise DamagedFile(
            f"{folder}: every checkpoint is damaged: {'; '.join(file.name for file in files)}; put one of them back, "
            "or start a new run with another -o; best.safetensors stays as it is"
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
            # copies: the tensors are maps of the file, which would keep its place on the disk after it is removed
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
    """What optimizers remember of each parameter, by number of optimizer and parameter."""
    tensors = {}
    for number, optimizer in enumerate(optimizers):
        for index, memory in optimizer.state_dict()["state"].items():
            for name, value in memory.items():
                tensors[f"optimizer.{number}.{index}.{name}"] = torch.as_tensor(value)
    return tensors


def restore_optimizers(optimizers: list[optim.Optimizer], tensors: Mapping[str, Tensor]) -> None:
    """Give optimizers their memory back."""
    for number, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith(f"optimizer.{number}."):
                _, _, index, part = name.split(".", 3)
                state.setdefault(int(index), {})[part] = tensor
        optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
