"""Writes ``.safetensors`` files tensor by tensor, so that saving takes no second copy of everything in memory.

The format: eight bytes with the length of the header, the header as JSON (metadata, and the type, shape and place of
each tensor), the bytes of the tensors. The library of the format can write to a name, where a full disk and a crash are
its own business, or return all bytes at once, where it aborts the process if memory does not suffice.
"""

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from clearhead.files import whole_file

_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a file whole or not at all.

    Args:
        path: the file.
        tensors: tensors on the CPU, contiguous, by name.
        metadata: texts by name.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # wide types first: aligned
    header: dict[str, object] = {"__metadata__": dict(metadata)}
    end = 0
    for name in order:
        tensor = tensors[name]
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path) as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            stream.write(raw_bytes(tensors[name]))


def raw_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a contiguous tensor, not copied."""
    view: memoryview = tensor.flatten().view(torch.uint8).numpy().data
    return view
