"""The tree of a model: all its weights, the shapes that really come out, and a model that is left as it was."""

from collections.abc import Iterable, Iterator

import pytest
import torch
from torch import Tensor, nn

from clearhead.errors import TooLong
from clearhead.models import Model, ModelBlock, block_tree, build, count_parameters
from clearhead.recipe import read_recipe
from tests.drawing.test_html import check, texts
from tests.models import zoo


def every(found: Iterable[ModelBlock]) -> Iterator[ModelBlock]:
    for block in found:
        yield block
        yield from every(block.inner)


def blocks(model: Model, line: str) -> tuple[ModelBlock, ...]:
    return block_tree(model, "a name", line).blocks


def named(model: Model, line: str = "hello") -> dict[str, ModelBlock]:
    return {block.name: block for block in every(blocks(model, line))}


def small(*overrides: str) -> Model:
    return build(read_recipe(None, *zoo.SIZES, *overrides), seed=1)


def test_shapes_and_weights_are_those_of_the_model() -> None:
    model = small()
    found = blocks(model, "hello")
    assert [block.name for block in found] == ["encoder", "decoder", "output"]
    encoder, _, output = found
    assert encoder.shape == (1, 5, 16)
    assert output.shape == (1, 5, 40)
    assert output.weights == "tied"
    assert encoder.parameters == count_parameters(model.get_submodule("encoder"))
    layers = next(block for block in encoder.inner if block.name.startswith("layers"))
    assert layers.name == "layers 1–2, each:"
    assert layers.parameters == count_parameters(model.get_submodule("encoder.layers.0"))
    query = next(block for block in every([layers]) if block.name == "query")
    assert (query.kind, query.weights, query.shape) == ("Linear 16→16", "272", (1, 5, 16))


def test_a_setting_that_changes_a_model_changes_its_tree() -> None:
    assert named(small()) != named(small("model.attention.kind=disentangled"))
    assert named(small("model.encoder.layers=1"))["layer 1:"].shape == (1, 5, 16)


@pytest.mark.parametrize("variant", [*zoo.RECURRENT, "attention linformer", "disentangled v2", "position t5"])
def test_every_kind_has_a_tree(variant: str) -> None:
    model = zoo.make("seq2seq", variant)
    assert blocks(model, "hello")[-1].shape[:2] == (1, 5)
    check(model._repr_html_())


def test_images() -> None:
    model = zoo.make_grid("classifier", "attention axial with relative-2d")
    html = model._repr_html_()
    assert "for an image" in html
    check(html)


def test_the_model_is_left_as_it_was() -> None:
    """No hook stays, nobody's hook runs, no weight is copied or changed, the mode and the random state stay."""
    model = small("model.dropout.residual=0.5").train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    calls: list[str] = []

    def note(_module: nn.Module, _inputs: object, _out: object) -> None:
        calls.append("ran")

    handle = model.register_forward_hook(note)
    state = torch.get_rng_state()
    first, second = model._repr_html_(), model._repr_html_()
    assert first == second
    assert calls == []
    assert torch.equal(state, torch.get_rng_state())
    assert all(module.training for module in model.modules())
    handle.remove()
    assert not any(module._forward_hooks for module in model.modules())
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())


def test_no_weight_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Tensor, memo: object) -> Tensor:
        raise AssertionError("a tensor was copied")

    monkeypatch.setattr(nn.Parameter, "__deepcopy__", refuse)
    blocks(small(), "hello")


def test_a_model_that_reads_little_is_shown_with_a_shorter_line() -> None:
    model = small("model.position.kind=learned", "model.position.size=4")
    with pytest.raises(TooLong):
        blocks(model, "too long")
    assert "for a line of 4 tokens" in model._repr_html_()


def test_one_honest_line() -> None:
    model = small("model.decoder.layers=1")
    count = f"{count_parameters(model):,}"
    assert repr(model) == f"Seq2Seq(encoder: 2 layers of width 16, decoder: 1 layer of width 16, parameters: {count})"
    assert str(model).count("\n") > 20  # print lists every module, as torch does


def test_the_html_holds_the_rows_of_the_tree() -> None:
    model = small()
    root = check(model._repr_html_())
    rows = [node for node in root.iter() if node.get("class") == "row" or node.tag == "summary"]
    assert len(rows) == len(list(every(blocks(model, "line"))))
    assert f"{count_parameters(model):,}" in texts(root, "dd")
    opened = [node for node in root.iter("details") if node.get("open") is not None]
    assert len(opened) == 2  # encoder and decoder


def test_a_tree_shows_itself() -> None:
    model = small()
    found = block_tree(model, "<script>", "hello", notes=("<b>a note</b>",))
    assert repr(found) == f"BlockTree(<script>: seq2seq, {count_parameters(model):,} parameters)"
    lines = str(found).splitlines()
    assert len(lines) == 1 + len(list(found.walk()))
    assert lines[1].split()[:2] == ["encoder", "Stack"]
    root = check(found._repr_html_())
    assert texts(root, "p") == ["<b>a note</b>", "Shapes: batch × tokens × features, for a line of 5 tokens."]
