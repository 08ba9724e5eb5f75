"""Model files with a right checksum and wrong content."""

import json
import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load, save

from clearhead.models.file import _fingerprint
from tools.attack.case import Case
from tools.attack.kinds.damage import BYTES, NASTY, copied, damaged, nested
from tools.attack.victims import Victim

COMMANDS = {
    "run": ("run", "model.safetensors", "lines.txt"),
    "score": ("score", "model.safetensors", "{data}"),
    "eval": ("eval", "model.safetensors", "{data}"),
    "show": ("show", "model.safetensors"),
    "cost": ("cost", "model.safetensors"),
    "train": ("train", "model.safetensors", "{data}", "-o", "other", "--max-steps", "1"),
}
DEEP = "a table in a table, a thousand deep"
"""Stands for one, which JSON's own writer would not write."""
READS_WEIGHTS = frozenset({0, 3, 4})
READS_RECIPE = frozenset({0, 2, 3, 4, 5})
"""As a recipe, a model file may also be refused as one; and trained, it may diverge."""


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield files with a wrong recipe, tokenizer, tensor or version, without end."""
    while True:
        victim, command = chance.choice(victims), chance.choice(list(COMMANDS))
        yield _case(victim, chance.choice(list(LIES)), command, chance.randrange(2**32))


def _case(victim: Victim, lie: str, command: str, seed: int) -> Case:
    def prepare(folder: Path) -> None:
        copied(victim.home, folder)
        content = LIES[lie](victim.model.read_bytes(), random.Random(seed))
        (folder / "model.safetensors").write_bytes(content)

    allowed = READS_RECIPE if command in ("cost", "train") else READS_WEIGHTS
    if victim.family == "encoder" and command == "score":
        allowed |= {1}
    words = [word.format(data=victim.data) for word in COMMANDS[command]]
    return Case("model file", f"{victim.family}: {lie} (seed {seed}), then {command}", words, allowed, prepare)


def _parts(content: bytes) -> tuple[dict[str, Any], bytes]:
    (size,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + size]), content[8 + size :]


def _joined(header: Any, tensors: bytes) -> bytes:
    text = _json(header).encode()
    return struct.pack("<Q", len(text)) + text + tensors


def _signed(content: bytes, metadata: dict[str, str], tensors: dict[str, torch.Tensor] | None = None) -> bytes:
    """A file with this metadata, these tensors, and the checksum of both."""
    weights = load(content) if tensors is None else tensors
    metadata = {name: text for name, text in metadata.items() if name != "fingerprint"}
    return save(weights, metadata | {"fingerprint": _fingerprint(metadata, weights)})


def _metadata(content: bytes) -> dict[str, str]:
    found: dict[str, str] = _parts(content)[0]["__metadata__"]
    return found


def _tree_lie(tree: Any, chance: random.Random) -> Any:
    """Replace something in the tree."""
    tree = json.loads(json.dumps(tree))
    node, parent, key = tree, cast("Any", None), cast("Any", None)
    while isinstance(node, dict | list) and node and chance.random() < 0.8:
        parent, key = node, chance.choice(list(node)) if isinstance(node, dict) else chance.randrange(len(node))
        node = node[key]
    value = chance.choice([*NASTY, DEEP, nested(20), [node], {"kind": node}])
    if parent is None:
        return value
    if chance.random() < 0.15:
        del parent[key]
    else:
        parent[key] = value
    return tree


def _json(value: Any) -> str:
    return json.dumps(value).replace(json.dumps(DEEP), '{"x":' * 1000 + "1" + "}" * 1000)


def _recipe_lie(content: bytes, chance: random.Random) -> bytes:
    metadata = _metadata(content)
    lie = _tree_lie(json.loads(metadata["recipe"]), chance)
    return _signed(content, metadata | {"recipe": _json(lie)})


def _size_lie(content: bytes, chance: random.Random) -> bytes:
    """A recipe whose sizes are not those of the tensors, or ask for the memory of the whole machine."""
    metadata = _metadata(content)
    table = json.loads(metadata["recipe"])
    stack = table["model"].get("encoder") or table["model"]["decoder"]
    value = chance.choice([1, 2, 17, 32, 4096, 10**5, 10**6, 10**8])
    if chance.random() < 0.5:
        stack[chance.choice(["width", "layers"])] = value
    else:
        table["model"]["vocabulary"][chance.choice(["source", "target"])] = value
    return _signed(content, metadata | {"recipe": _json(table)})


def _tokenizer_lie(content: bytes, chance: random.Random) -> bytes:
    metadata = _metadata(content)
    table = json.loads(metadata["tokenizers"])
    if not table or chance.random() < 0.3:
        lie = chance.choice([*NASTY, {"source": "{}"}, {"shared": "null"}, {"source": 1, "target": None}])
        return _signed(content, metadata | {"tokenizers": _json(lie)})
    side = chance.choice(list(table))
    if chance.random() < 0.3:
        table[side] = chance.choice([*NASTY, "{", "null", "[]", table[side][: chance.randrange(len(table[side]))]])
    else:
        table[side] = _json(_tree_lie(json.loads(table[side]), chance))
    return _signed(content, metadata | {"tokenizers": _json(table)})


def _tensor_lie(content: bytes, chance: random.Random) -> bytes:
    """Other shapes, types, names or numbers, with the right checksum."""
    tensors = load(content)
    name = chance.choice(list(tensors))
    tensor = tensors[name]
    choice = chance.randrange(6)
    if choice == 0:
        del tensors[name]
    elif choice == 1:
        tensors[chance.choice(["", "x", name + ".x", "é"])] = torch.zeros(3)
    elif choice == 2:
        tensors[name] = tensor.reshape(-1)[: max(1, tensor.numel() // 2)].clone()
    elif choice == 3:
        types = (torch.float64, torch.float16, torch.int64, torch.bool, torch.uint8, torch.bfloat16)
        tensors[name] = tensor.to(chance.choice(types))
    elif choice == 4:
        tensors[name] = torch.full_like(tensor, chance.choice([float("nan"), float("inf"), 1e38]))
    else:
        tensors[name] = tensor.reshape(1, *tensor.shape).clone()
    return _signed(content, _metadata(content), tensors)


def _version_lie(content: bytes, chance: random.Random) -> bytes:
    versions = ["2", "999999999", "9" * 5000, "-1", "1.5", "", "one", " 1", "٣", "\x00"]
    return _signed(content, _metadata(content) | {"format_version": chance.choice(versions)})


def _header_lie(content: bytes, chance: random.Random) -> bytes:
    """Damage the file format itself: sizes, offsets, types; the checksum cannot be right then."""
    header, tensors = _parts(content)
    choice = chance.randrange(4)
    if choice == 0:
        size = chance.choice([0, 1, 2**31, 2**63, 2**64 - 1, len(content) * 2])
        return struct.pack("<Q", size) + content[8:]
    if choice == 1:
        return _joined(_tree_lie(header, chance), tensors)
    if choice == 2:
        return struct.pack("<Q", 2 * 10**6) + b"{" * 10**6 + b"}" * 10**6
    entry = header[chance.choice([name for name in header if name != "__metadata__"])]
    entry["data_offsets"] = chance.choice([[0, 10**15], [-1, 5], [5, 1], [0], "x", [0.5, 1.5]])
    return _joined(header, tensors)


def _bytes_lie(content: bytes, chance: random.Random) -> bytes:
    return damaged(content, chance.choice(BYTES), chance)


LIES = {
    "recipe": _recipe_lie,
    "sizes": _size_lie,
    "tokenizers": _tokenizer_lie,
    "tensors": _tensor_lie,
    "version": _version_lie,
    "header": _header_lie,
    "bytes": _bytes_lie,
}
