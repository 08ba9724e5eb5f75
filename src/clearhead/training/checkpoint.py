"""Checkpoints: a run that is killed at any instant continues as if nothing had happened.

``last/`` holds the two newest checkpoints, one safetensors file each: weights, average, optimizers and random state as
tensors, everything else as JSON in the metadata, with a checksum over all of it. A new checkpoint is complete on disk
before an old one is removed. A damaged checkpoint is reported, and the previous one is used. Nothing is unpickled.

When each process holds some rows of the tensors (FSDP), each writes them to a file of its own first,
``step-000000100.2-of-4.safetensors``; the file ``step-000000100.safetensors`` comes last and names them with their
checksums, so that a checkpoint without all its parts does not exist. torch.distributed.checkpoint pickles its metadata,
and its safetensors storage has neither checksums nor a file that makes a checkpoint complete.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, optim

from clearhead.errors import ClearheadError, DamagedFile
from clearhead.models import add_tensors
from clearhead.models.tensor_file import write_tensors
from clearhead.training.shards import shared_like
from clearhead.training.writing import clear_write_errors

_NAME = re.compile(r"step-(\d+)\.safetensors")
_PART = re.compile(r"step-(\d+)\.(\d+)-of-(\d+)\.safetensors")
KEPT = 2


@dataclass(frozen=True)
class Checkpoint:
    """The tensors by name, and the rest of the state."""

    tensors: Mapping[str, Tensor]
    state: dict[str, Any]

    @property
    def step(self) -> int:
        """The step after which it was written."""
        return int(self.state.get("step", 0))


@dataclass(frozen=True)
class ShardFile:
    """The file of one process, with its rows of the tensors that processes share."""

    file: str
    checksum: str


def save_shard(folder: Path, step: int, rank: int, size: int, tensors: Mapping[str, Tensor]) -> ShardFile:
    """Write atomically what one of several processes holds; it counts once ``save_checkpoint`` names it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"step-{step:09}.{rank + 1}-of-{size}.safetensors"
    ready = _ready(tensors)
    with clear_write_errors(path):
        write_tensors(path, ready, {})
    return ShardFile(path.name, _checksum(ready, ""))


def save_checkpoint(folder: Path, step: int, checkpoint: Checkpoint, shards: Sequence[ShardFile] = ()) -> None:
    """Write a checkpoint atomically, then remove all but the newest two.

    Args:
        folder: where checkpoints are.
        step: the step that it is named after.
        checkpoint: the tensors that are not shared, and the rest of the state.
        shards: the files of all processes, by rank, which are written already. Default: nothing is shared.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if missing := [shard.file for shard in shards if not (folder / shard.file).is_file()]:
        raise ClearheadError(
            f"{folder}: what other processes have written is not here ({missing[0]}): all nodes need one folder that "
            "they share"
        )
    tensors, state = _ready(checkpoint.tensors), json.dumps(checkpoint.state)
    parts = json.dumps([asdict(shard) for shard in shards]) if shards else ""
    metadata = {"state": state, "checksum": _checksum(tensors, state + parts)} | ({"shards": parts} if parts else {})
    path = folder / f"step-{step:09}.safetensors"
    with clear_write_errors(path):
        write_tensors(path, tensors, metadata)
        unfinished = folder.glob(".step-*")  # left by a run that was killed while it wrote
        beginning = [file for file in _files(folder)[1:] if _step(file) == 0]
        for old in (*_files(folder)[KEPT:], *beginning, *unfinished):
            old.unlink(missing_ok=True)
        kept, named = {file.stem for file in _files(folder)}, {shard.file for shard in shards}
        for part in _parts(folder):  # of checkpoints that are gone, or that were never complete
            stem = part.name.partition(".")[0]
            if stem not in kept or (stem == path.stem and part.name not in named):
                part.unlink(missing_ok=True)


def _ready(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}


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


def _parts(folder: Path) -> list[Path]:
    """Files of single processes."""
    return [path for path in folder.glob("step-*.safetensors") if _PART.fullmatch(path.name)]


def _step(file: Path) -> int:
    found = _NAME.fullmatch(file.name)
    return int(found[1]) if found else -1


def _read(file: Path) -> Checkpoint:
    try:
        with safe_open(file, "pt") as stream:
            metadata = stream.metadata() or {}
            # clone: the tensors are memory maps of the file and would keep its disk space after it is deleted
            tensors = {name: stream.get_tensor(name).clone() for name in stream.keys()}  # noqa: SIM118 - not a dict
        state, parts = metadata["state"], metadata.get("shards", "")
        if metadata["checksum"] != _checksum(tensors, state + parts):
            raise DamagedFile(f"{file}: does not match its checksum")
        shards = [ShardFile(**entry) for entry in json.loads(parts or "[]")]
        for shard in shards:
            _require_intact(file.with_name(shard.file), shard.checksum)
        if shards:
            return Checkpoint(_Joined(tensors, [file.with_name(shard.file) for shard in shards]), json.loads(state))
        return Checkpoint(tensors, json.loads(state))
    except (SafetensorError, OSError, KeyError, ValueError, TypeError) as error:
        raise DamagedFile(f"{file}: cannot be read ({error})") from None


def _require_intact(file: Path, checksum: str) -> None:
    """Compare the file of one process with its checksum; the tensors are memory maps, and none is kept."""
    with safe_open(file, "pt") as stream:
        if _checksum({name: stream.get_tensor(name) for name in stream.keys()}, "") != checksum:  # noqa: SIM118
            raise DamagedFile(f"{file}: does not match its checksum")


class _Joined(Mapping[str, Tensor]):
    """The tensors of a checkpoint in several files; each is put together from its rows when it is asked for.

    Args:
        own: the tensors that are not shared.
        files: the files of all processes, by rank, each with its rows of the others.
    """

    def __init__(self, own: Mapping[str, Tensor], files: Sequence[Path]) -> None:
        self._own, self._files = own, files
        with safe_open(files[0], "pt") as stream:
            self._shared = list(stream.keys())

    def __getitem__(self, name: str) -> Tensor:
        if name in self._own:
            return self._own[name]
        if name not in self._shared:
            raise KeyError(name)
        parts = []
        for file in self._files:
            with safe_open(file, "pt") as stream:
                parts.append(stream.get_tensor(name))
        return torch.cat(parts)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from self._shared

    def __len__(self) -> int:
        return len(self._own) + len(self._shared)


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
    """Load the state that ``optimizer_tensors`` returned; where processes share a parameter, they share its state."""
    for number, optimizer in enumerate(optimizers):
        state: dict[int, dict[str, Tensor]] = {}
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for name in tensors:
            if name.startswith(f"optimizer.{number}."):
                _, _, index, part = name.split(".", 3)
                tensor, parameter = tensors[name], parameters[int(index)]
                shared = tensor.shape == parameter.shape
                state.setdefault(int(index), {})[part] = shared_like(tensor, parameter) if shared else tensor
        optimizer.load_state_dict(optimizer.state_dict() | {"state": state})
