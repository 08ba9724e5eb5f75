"""The model file: whole, checked, and each way of being wrong named as such."""

import json
import pickle
import struct
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from clearhead.errors import ClearheadError, DamagedFile, ForeignFile, ModelFileError, NewerFile, TruncatedFile
from clearhead.models import SavedModel, build, load_model, save_model, stored_tensors
from clearhead.recipe import read_recipe
from clearhead.recipe.stored import VERSION
from tests.thorough import drawn

RECIPE = read_recipe(
    "small", "model.layers=1", "model.width=8", "model.heads=2", "model.feedforward.width=8", "model.embedding.tie=all"
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "model.safetensors"
    save_model(SavedModel(build(RECIPE, seed=1), RECIPE, {"shared": '{"version": "1.0"}'}), file)
    return file


def test_a_model_comes_back_as_it_was(path: Path) -> None:
    """Recipe, tokenizers and every weight, to the bit; the loaded model is ready to be used."""
    again = load_model(path)
    assert again.recipe == RECIPE
    assert again.tokenizers == {"shared": '{"version": "1.0"}'}
    assert not again.model.training
    original = stored_tensors(build(RECIPE, seed=1))
    for name, tensor in stored_tensors(again.model).items():
        assert torch.equal(tensor, original[name])


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_weight_that_is_not_finite_is_named(tmp_path: Path, value: float) -> None:
    """One is enough, under a checksum that is right."""
    model, file = build(RECIPE, seed=1), tmp_path / "model.safetensors"
    with torch.no_grad():
        model.get_parameter("encoder.layers.0.feedforward.up.weight")[3, 2] = value
    save_model(SavedModel(model, RECIPE), file)
    with pytest.raises(DamagedFile, match=r"feedforward\.up\.weight contains weights that are not finite"):
        load_model(file)


def test_tied_weights_are_stored_once_and_stay_tied(path: Path) -> None:
    names = [name for name in load_file(path) if load_file(path)[name].shape == (200, 8)]
    assert names == ["encoder.embedding.tokens.weight"]
    model = load_model(path).model
    assert model.get_parameter("output.weight") is model.get_parameter("encoder.embedding.tokens.weight")
    assert model.get_parameter("decoder.embedding.tokens.weight") is model.get_parameter("output.weight")


def test_a_damaged_file_is_named(path: Path) -> None:
    """One flipped bit among the weights."""
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        DamagedFile, match=r"model\.safetensors: is damaged \(its content does not match its checksum\)"
    ):
        load_model(path)


def test_an_edited_recipe_is_noticed(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(
        content.replace(b'\\"place\\":\\"pre\\"', b'\\"place\\":\\"mid\\"').replace(
            b'place\\": \\"pre', b'place\\": \\"mid'
        )
    )
    assert path.read_bytes() != content
    with pytest.raises(DamagedFile):
        load_model(path)


@pytest.mark.parametrize("keep", [0.999, 0.5, 0.01])
def test_a_truncated_file_is_named(path: Path, keep: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(TruncatedFile, match="is truncated"):
        load_model(path)


def test_an_empty_file_is_truncated(path: Path) -> None:
    path.write_bytes(b"")
    with pytest.raises(TruncatedFile, match="is empty"):
        load_model(path)


def test_foreign_files_are_named(tmp_path: Path) -> None:
    """A pickle, a text, and somebody else's safetensors; nothing is ever unpickled."""

    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path(tmp_path / "exploded").write_text, ("boom",))

    pickled, text, other = tmp_path / "model.pt", tmp_path / "notes.txt", tmp_path / "other.safetensors"
    pickled.write_bytes(pickle.dumps(Bomb()))
    text.write_text("not a model, but long enough to look like something")
    save_file({"weight": torch.zeros(2)}, other)
    for file in (pickled, text):
        with pytest.raises(ForeignFile, match="is not a clearhead model"):
            load_model(file)
    with pytest.raises(ForeignFile, match="but not a clearhead model"):
        load_model(other)
    assert not (tmp_path / "exploded").exists()


def test_a_newer_file_is_named(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(
        content.replace(f'"format_version":"{VERSION}"'.encode(), f'"format_version":"{VERSION + 8}"'.encode())
    )
    assert path.read_bytes() != content
    with pytest.raises(NewerFile, match=r"written in format 9 by a newer clearhead; .* upgrade"):
        load_model(path)


def test_a_missing_file_and_a_folder_are_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read: No such file"):
        load_model(tmp_path / "nowhere.safetensors")
    with pytest.raises(ModelFileError, match="cannot be read: Is a directory"):
        load_model(tmp_path)


def test_a_failed_write_leaves_the_old_file_and_no_debris(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are written whole or not at all."""
    before = path.read_bytes()

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        save_model(SavedModel(build(RECIPE, seed=2), RECIPE), path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@given(data=st.data())
@drawn(50, 2000, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_only_our_own_errors_come_out(path: Path, data: st.DataObject) -> None:
    """Fuzz: bytes flipped, cut or inserted anywhere, most of all in the header. What still loads is still right."""
    content = bytearray(save_once(path))
    (size,) = struct.unpack("<Q", content[:8])
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, min(len(content) - 1, size + 64)))
        kind = data.draw(st.sampled_from(["flip", "cut", "insert"]))
        if kind == "flip":
            content[place] ^= data.draw(st.integers(1, 255))
        elif kind == "cut":
            del content[place : place + data.draw(st.integers(1, 20))]
        else:
            content[place:place] = data.draw(st.binary(min_size=1, max_size=20))
    broken = path.with_name("broken.safetensors")
    broken.write_bytes(content)
    try:
        again = load_model(broken)
    except ClearheadError:
        return
    assert again.recipe == RECIPE
    original = stored_tensors(build(RECIPE, seed=1))
    assert all(torch.equal(tensor, original[name]) for name, tensor in stored_tensors(again.model).items())


def craft(path: Path, **changes: object) -> None:
    """Write the file again with other metadata and a checksum that fits: what a forger, or a bug, could write."""
    from clearhead.models import file as module

    tensors = load_file(path)
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + size])["__metadata__"] | changes
    metadata["fingerprint"] = module._fingerprint(metadata, tensors)
    save_file(tensors, path, metadata)


@pytest.mark.parametrize(
    "changes",
    [{"recipe": "[1]"}, {"tokenizers": "[1]"}, {"recipe": "nonsense"}, {"recipe": '{"model": {"new": 1}}'}],
)
def test_crafted_metadata_is_refused(path: Path, changes: dict[str, object]) -> None:
    craft(path, **changes)
    with pytest.raises(ModelFileError):
        load_model(path)


@pytest.mark.parametrize("offsets", ['[0, "12"]', "[0, 1e999]", "[0]", "7"])
def test_crafted_headers_are_refused(tmp_path: Path, offsets: str) -> None:
    header = '{"__metadata__":{"format":"clearhead","format_version":"1"},'
    header += '"x":{"dtype":"F32","shape":[3],"data_offsets":OFF}}'
    text = header.replace("OFF", offsets).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"\0" * 12)
    with pytest.raises(ModelFileError):
        load_model(tmp_path / "x.safetensors")


def test_a_model_of_another_recipe_is_not_written(path: Path) -> None:
    with pytest.raises(ModelFileError, match="was not built from this recipe"):
        save_model(SavedModel(build(RECIPE), read_recipe("tiny")), path)


_content: dict[str, bytes] = {}


def save_once(path: Path) -> bytes:
    return _content.setdefault("file", path.read_bytes())


def test_metadata_is_json(path: Path) -> None:
    """design.md: recipe, tokenizers and fingerprint stand in the metadata of an ordinary safetensors file."""
    content = path.read_bytes()
    (size,) = struct.unpack("<Q", content[:8])
    metadata = json.loads(content[8 : 8 + size])["__metadata__"]
    assert json.loads(metadata["recipe"])["model"]["encoder"]["layers"] == 1
    assert metadata["format"] == "clearhead"
    assert len(metadata["fingerprint"]) == 64
