"""Head gates: a head that is off equals zero rows of W_O, on every path and in decoding, and nothing stays behind."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from clearhead.attention import Heads
from clearhead.decoding import ModelStepper, lean_decoder
from clearhead.errors import ClearheadError, RecipeError
from clearhead.inspection import head_gates, head_names, headed_attentions, heads_off
from tests.models.zoo import GRID_VARIANTS, VARIANTS, make, make_grid

TEXT = [name for name in VARIANTS if name.startswith(("attention ", "position ", "Linformer ", "disentangled "))]
TEXT += ["plain", "free sizes", "no projections, no W_O", "other heads across", "hard", "additive"]
GRIDS = [name for name in GRID_VARIANTS if name.startswith("attention ")]


def outputs(model: nn.Module) -> Tensor:
    """The logits, teacher-forced, with padding."""
    generator = torch.Generator().manual_seed(3)
    source, target = (torch.randint(4, 40, (3, length), generator=generator) for length in (7, 6))
    source[1, 5:] = 0
    result: Tensor = model(source, target)
    return result


def seen(model: nn.Module) -> Tensor:
    """The logits of images."""
    result: Tensor = model(torch.randn(2, 16, 8, 2, generator=torch.Generator().manual_seed(3)))
    return result


def with_zero_rows(model: Any, name: str) -> Any:
    """A copy without this head: the columns of W_O's weight that read it (rows of W_O in the lecture) are 0."""
    changed = copy.deepcopy(model)
    attention, head = name.rpartition(".")[::2]
    (found,) = [one for one in headed_attentions(changed) if one.name == attention]
    number = int(head) - 1
    part = found.parts[number // found.parts[0].heads]
    number %= part.heads
    if isinstance(part.output, nn.Identity):  # what W_O would be
        part.output = nn.Linear(16, 16, bias=False)
        nn.init.eye_(part.output.weight)
    size = part.output.in_features // part.heads
    with torch.no_grad():
        part.output.weight[:, number * size : (number + 1) * size] = 0
    return changed


def check(model: Any, run: Any, name: str, other: str) -> None:
    before = run(model)
    with heads_off(model, [name]):
        off = run(model)
    torch.testing.assert_close(off, run(with_zero_rows(model, name)), atol=1e-6, rtol=1e-6)
    assert torch.equal(run(model), before), "something stays behind"
    assert not any(part.gated for part in model.modules() if isinstance(part, Heads))
    # the wrong variant: another head
    assert not torch.allclose(off, run(with_zero_rows(model, other)), atol=1e-4)


@pytest.mark.parametrize("variant", TEXT)
@torch.no_grad()
def test_a_head_that_is_off_equals_zero_rows_of_the_output_matrix(variant: str) -> None:
    model = make("seq2seq", variant)
    for stack in ("encoder", "decoder", "cross"):
        check(model, outputs, f"{stack}.2.1", f"{stack}.2.2")


@pytest.mark.parametrize("variant", GRIDS)
@torch.no_grad()
def test_the_same_on_grids(variant: str) -> None:
    model = make_grid("classifier", variant)
    check(model, seen, "encoder.1.2", "encoder.1.1")
    if "axial" in variant:  # two heads along rows, then two along columns
        assert head_names(model)[:4] == ["encoder.1.1", "encoder.1.2", "encoder.1.3", "encoder.1.4"]
        check(model, seen, "encoder.1.3", "encoder.1.1")


@pytest.mark.parametrize("path", ["explicit", "fused"])
@pytest.mark.parametrize("variant", ["plain", "position t5", "position shaw", "position alibi", "disentangled alone"])
@torch.no_grad()
def test_every_path_honours_gates(variant: str, path: str) -> None:
    """``fused`` is torch's kernel, by distance for ALiBi, and our blocks for Shaw and disentangled attention."""
    model = make("lm", variant)
    for part in model.modules():
        if isinstance(part, Heads):
            part.path = path  # type: ignore[assignment]
    ids = torch.randint(4, 40, (2, 40), generator=torch.Generator().manual_seed(1))
    check(model, lambda one: one(ids), "decoder.1.2", "decoder.1.1")


@torch.inference_mode()
def test_decoding_honours_gates() -> None:
    """The lean decoder steps aside, and comes back."""
    model, source = make("seq2seq", "plain"), torch.randint(4, 40, (3, 7))
    lean = lean_decoder(model)
    assert lean is not None
    without = with_zero_rows(model, "cross.1.2")
    for name, module in (("cross.1.2", model), ("decoder.2.1", model)):
        with heads_off(module, [name]):
            assert not lean.current()
            assert lean_decoder(model) is None
    with heads_off(model, ["cross.1.2"]):
        mine, other = (ModelStepper.reading(one, source, None) for one in (model, without))
        for token in (1, 7, 9):
            ids = torch.full((3, 1), token)
            torch.testing.assert_close(mine.step(ids), other.step(ids), atol=1e-5, rtol=1e-5)
    assert lean.current()


def test_gates_have_gradients_and_lines_may_differ() -> None:
    """∂L/∂gate is the central difference (1e-3), and a gate for every line gives each line's own derivative."""
    model = make("seq2seq", "plain").double()

    def loss(gates: dict[str, Tensor]) -> Tensor:
        with head_gates(model, gates):
            return outputs(model).log_softmax(-1)[..., 5].sum((1,))  # (b,)

    gate = torch.ones(2, dtype=torch.double, requires_grad=True)
    (gradient,) = torch.autograd.grad(loss({"cross.2": gate}).sum(), gate)
    step = torch.tensor([0.0, 1e-4], dtype=torch.double)
    with torch.no_grad():
        up, down = (loss({"cross.2": 1 + sign * step}) for sign in (1, -1))
    lines = (up - down) / 2e-4
    assert gradient[1].item() == pytest.approx(lines.sum().item(), rel=1e-3)
    assert gradient[0].item() != pytest.approx(lines.sum().item(), rel=1e-3)  # the wrong variant: another head
    each = torch.ones(3, 2, dtype=torch.double, requires_grad=True)
    (rows,) = torch.autograd.grad(loss({"cross.2": each}).sum(), each)
    torch.testing.assert_close(rows[:, 1], lines, rtol=1e-3, atol=1e-6)


def test_each_image_has_its_own_gates_in_tiles() -> None:
    model = make_grid("classifier", "attention window")
    off = torch.tensor([[1.0, 1.0], [0.0, 1.0]])
    with torch.no_grad():
        whole = seen(model)
        with head_gates(model, {"encoder.2": off}):
            mixed = seen(model)
        with heads_off(model, ["encoder.2.1"]):
            without = seen(model)
    torch.testing.assert_close(mixed, torch.stack([whole[0], without[1]]))


def test_what_is_not_there_is_named() -> None:
    model = make("seq2seq", "other heads across")
    with pytest.raises(RecipeError) as caught, heads_off(model, ["cross.2.5", "encoder.1.1"]):
        pass
    assert str(caught.value) == (
        "cross.2.5: no such head: a head is STACK.LAYER.HEAD, here encoder.1.1 … encoder.2.2, "
        "decoder.1.1 … decoder.2.2, cross.1.1 … cross.2.4; did you mean cross.2.4?"
    )
    with pytest.raises(RecipeError, match=r"cross\.3: the model has no such attention with heads, only encoder\.1, "):
        head_gates(model, {"cross.3": torch.ones(4)}).__enter__()
    with pytest.raises(ValueError, match=r"cross\.2 has 4 heads: gates of shape \(2,\) are not \(h,\) or \(b, h\)"):
        head_gates(model, {"cross.2": torch.ones(2)}).__enter__()


def test_a_recurrent_model_has_no_heads() -> None:
    model = make("seq2seq", "luong")
    assert head_names(model) == []
    with (
        pytest.raises(ClearheadError, match=r"has no heads \(RecurrentDecoder and RecurrentEncoder\)"),
        heads_off(model, []),
    ):
        pass
    assert head_names(make("seq2seq", "recurrent to Transformer"))[0] == "decoder.1.1"
