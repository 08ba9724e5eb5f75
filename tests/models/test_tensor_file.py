"""Files that we write tensor by tensor are what the library of the format reads."""

import tracemalloc
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save

from clearhead.models.tensor_file import write_tensors

TENSORS = {
    "b": torch.randn(3, 5),
    "a": torch.arange(7),
    "scalar": torch.tensor(2.5, dtype=torch.float64),
    "none": torch.zeros(0, 4),
    "mask": torch.tensor([True, False]),
    "half": torch.randn(3).to(torch.bfloat16),
    "ü": torch.tensor([1, 2, 3], dtype=torch.uint8),
}


def test_the_library_reads_what_we_write(tmp_path: Path) -> None:
    """Reference: safetensors."""
    path = tmp_path / "x.safetensors"
    write_tensors(path, TENSORS, {"recipe": '{"ä": "\\u2028"}'})
    found = load_file(path)
    assert found.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
    with safe_open(path, "pt") as stream:
        assert stream.metadata() == {"recipe": '{"ä": "\\u2028"}'}


def test_nothing_is_copied(tmp_path: Path) -> None:
    """All bytes at once, as the library returns them, are noticed."""
    tensors = {str(number): torch.zeros(1 << 18) for number in range(8)}  # 8 MiB

    def peak(write: object) -> int:
        tracemalloc.start()
        write()  # type: ignore[operator]
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(lambda: write_tensors(tmp_path / "ours", tensors, {})) < 1 << 20
    assert peak(lambda: (tmp_path / "theirs").write_bytes(save(tensors))) > 8 << 20
