"""The contracts for models of images, for every mechanism on a grid."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from clearhead.attention import from_tiles, to_tiles
from clearhead.models import SavedModel, build, load_model, save_model
from clearhead.positions import positions_of
from clearhead.recipe import kinds, read_recipe, slots
from tests.models.test_contracts import assert_alike
from tests.models.zoo import GRID_VARIANTS, RECURRENT, VARIANTS, make, make_grid
from tests.shapes import shapes_are_known

ROWS, COLUMNS, WINDOW = 8, 4, 4
CELLS = torch.arange(ROWS * COLUMNS)


def images(count: int, seed: int = 3) -> Tensor:
    return torch.randn(count, 16, 8, 2, generator=torch.Generator().manual_seed(seed))


def test_every_registered_kind_is_tested() -> None:
    """A kind stands in a text model, in one of images, or in a recurrent one, so that the contracts run over it."""
    tested = VARIANTS.keys() | GRID_VARIANTS.keys()
    for name in RECURRENT:
        model: Any = make("seq2seq", name).spec
        tested |= {f"encoder {model.encoder.kind}", f"decoder {model.decoder.kind}"}
        if model.decoder.kind == "recurrent":
            tested.add(f"{model.decoder.attention.slot} {model.decoder.attention.kind}")
    for slot in set(slots()) - {"family"}:
        assert {f"{slot} {kind}" for kind in kinds(slot)} <= tested


@pytest.mark.parametrize("variant", GRID_VARIANTS)
def test_an_image_does_not_depend_on_its_neighbours(variant: str) -> None:
    """Contract 1: batch and order do not matter."""
    model, pixels = make_grid("classifier", variant), images(5)
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        batch = model(pixels[order])
        for place, index in enumerate(order.tolist()):
            assert_alike(batch[place], model(pixels[index : index + 1])[0])
            shapes_are_known()
    assert not torch.allclose(batch[0], batch[1], atol=1e-3)  # and yet images differ


@pytest.mark.parametrize("variant", GRID_VARIANTS)
def test_every_weight_matters(variant: str) -> None:
    """No part is left out: each parameter has a gradient that is finite and not zero."""
    shapes_are_known()  # from the test before
    model = make_grid("classifier", variant)
    F.cross_entropy(model(images(4)), torch.tensor([0, 1, 1, 0])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        if not name.endswith("key.bias"):  # adds the same to all scores of a query, which no softmax sees
            assert parameter.grad.count_nonzero(), name


@pytest.mark.parametrize("variant", ["plain", "class token", *(f"attention {k}" for k in ("grid", "axial", "window"))])
def test_a_model_of_images_survives_its_file(variant: str, tmp_path: Path) -> None:
    recipe = read_recipe(
        None, "model.family=classifier", "model.layers=1", *GRID_VARIANTS[variant], "model.patches.size=1"
    )
    model = build(recipe, seed=1).eval()
    save_model(SavedModel(model, recipe), tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors")
    assert again.recipe == recipe
    pixels = torch.randn(2, 8, 8, 1)
    with torch.no_grad():
        assert torch.equal(again.model(pixels), model(pixels))


def blocks_shuffled(tile: tuple[int, int]) -> Tensor:
    """An order of the cells that moves whole tiles, and leaves each of them as it is."""
    tiles = to_tiles(CELLS[None], (ROWS, COLUMNS), tile)
    order = torch.randperm(len(tiles), generator=torch.Generator().manual_seed(1))
    return from_tiles(tiles[order], (ROWS, COLUMNS), tile)[0]


def moved(model: Any, order: Tensor) -> tuple[Tensor, Tensor]:
    """The states of an image whose patches were moved, and the moved states of the image."""
    pixels = images(1)
    patches = to_tiles(pixels.flatten(1, 2), (16, 8), (2, 2))  # (n, 4, channels)
    shuffled = torch.empty_like(pixels).view(1, ROWS, 2, COLUMNS, 2, 2)
    shuffled[:] = patches[order].view(1, ROWS, COLUMNS, 2, 2, 2).transpose(2, 3)
    with torch.no_grad():
        return model(shuffled.view(1, 16, 8, 2)), model(pixels)[:, order]


@pytest.mark.parametrize("kind", ["multihead", "grid"])
def test_L1_10_without_positions_an_image_is_a_set_of_patches(kind: str) -> None:
    """L1.10 on a grid: permuting the patches permutes the outputs, and not once positions are added."""
    order = torch.randperm(len(CELLS), generator=torch.Generator().manual_seed(1))
    assert_alike(*moved(make_grid("encoder", f"attention {kind}"), order))
    for position in ("sinusoidal", "sinusoidal-2d", "relative-2d", "learned"):
        model = make_grid("encoder", f"attention {kind}", f"model.position.kind={position}")
        mine, other = moved(model, order)
        assert not torch.allclose(mine, other, atol=1e-3), position


@pytest.mark.parametrize(
    ("kind", "tile", "broken"),
    [("axial", (1, COLUMNS), (2, 2)), ("axial", (ROWS, 1), (2, 2)), ("window", (WINDOW, WINDOW), (1, COLUMNS))],
)
def test_what_axial_and_window_attention_keep_apart(kind: str, tile: tuple[int, int], broken: tuple[int, int]) -> None:
    """Rows, columns and windows may change places; tiles of another shape may not."""
    model = make_grid("encoder", f"attention {kind}")
    assert_alike(*moved(model, blocks_shuffled(tile)))
    mine, other = moved(model, blocks_shuffled(broken))
    assert not torch.allclose(mine, other, atol=1e-3)


@pytest.mark.parametrize("kind", ["multihead", "grid", "axial", "window"])
def test_who_sees_whom(kind: str) -> None:
    """By derivative, through one layer: everybody, or in windows those of the same window alone."""
    model = make_grid("encoder", f"attention {kind}", "model.layers=1")
    embedded: list[Tensor] = []
    model.encoder.embedding.register_forward_hook(lambda _m, _i, out: embedded.append(out))
    out = model(images(1))
    seen = torch.stack(
        [
            torch.autograd.grad(out[0, i] @ torch.linspace(1, 2, 16), embedded, retain_graph=True)[0][0].abs().sum(-1)
            for i in CELLS.tolist()
        ]
    )
    window = CELLS // COLUMNS // WINDOW
    expected = window[:, None] == window[None, :] if kind == "window" else torch.ones(len(CELLS), len(CELLS)).bool()
    assert torch.equal(seen > 0, expected)


@pytest.mark.parametrize("kind", ["multihead", "grid", "axial", "window"])
def test_L2_11_relative_positions_do_not_notice_a_shift(kind: str) -> None:
    """L2.11 on a grid: an image that stands three rows lower looks the same to relative-2d, not to sinusoidal-2d."""
    for position, relative in (("relative-2d", True), ("sinusoidal-2d", False)):
        model = make_grid("encoder", f"attention {kind}", f"model.position.kind={position}")
        with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
            here = model(images(1))
            patch.setattr("clearhead.blocks.stack.positions_of", lambda *args: positions_of(*args) + 3 * COLUMNS)
            there = model(images(1))
        if relative:
            assert_alike(there, here)
        else:
            assert not torch.allclose(there, here, atol=1e-3)
