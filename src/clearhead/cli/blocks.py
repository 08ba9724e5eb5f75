"""Printing the blocks of a model while a line runs through them. Imports torch."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from clearhead.blocks import AddNorm
from clearhead.errors import DataError, Problem, RecipeError
from clearhead.models import Model, build, count_parameters, load_model
from clearhead.recipe import Seq2Seq, read_recipe


def print_blocks(source: str, overrides: Sequence[str], line: str, seed: int) -> None:
    """Build or load the model, run the line's bytes through it, and print a table of its blocks."""
    model = _model(source, overrides, seed).eval()
    shapes = _shapes(model, _bytes_as_ids(line, model))
    table = Table(title=f"{source}: {model.spec.family}, {count_parameters(model):,} parameters", box=None)
    table.add_column("block", no_wrap=True)
    table.add_column("what it is", style="dim", no_wrap=True)
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("out: b × n × d", justify="right", no_wrap=True)
    for label, module, name in _rows(model, "", 0):
        shape = " × ".join(map(str, shapes.get(name, ())))
        table.add_row(label, _kind(module), f"{count_parameters(module):,}", shape)
    Console().print(table)


def _model(source: str, overrides: Sequence[str], seed: int) -> Model:
    if Path(source).suffix != ".safetensors":
        return build(read_recipe(source, *overrides), seed=seed)
    if overrides:
        raise RecipeError([Problem("command line", overrides[0], "a trained model cannot be changed by overrides")])
    return load_model(source).model


def _bytes_as_ids(line: str, model: Model) -> Tensor:
    """The line's UTF-8 bytes as token ids, folded into the vocabulary: an untrained model has no tokenizer."""
    size = min(getattr(model.spec.vocabulary, side) for side in model.spec.sides)
    content = line.encode("utf-8", "replace")
    if not content:
        raise DataError("--line: is empty: there is nothing to run through the model")
    return torch.tensor([[byte % size for byte in content]])


def _shapes(model: Model, ids: Tensor) -> dict[str, tuple[int, ...]]:
    """The shape of what each module puts out, by the module's name."""
    shapes: dict[str, tuple[int, ...]] = {}

    def watch(name: str, module: nn.Module) -> None:
        def note(_module: nn.Module, _inputs: object, out: object) -> None:
            if isinstance(out, Tensor):
                shapes[name] = tuple(out.shape)

        module.register_forward_hook(note)

    for name, module in model.named_modules():
        # watching the attention weights would turn fused attention off
        if next(module.parameters(), None) is not None:
            watch(name, module)
    with torch.inference_mode():
        _ = model(ids, ids) if isinstance(model.spec, Seq2Seq) else model(ids)
    return shapes


def _rows(module: nn.Module, name: str, depth: int) -> Iterator[tuple[str, nn.Module, str]]:
    """Label, module and name of every block that has weights, depth first; equal layers are shown once."""
    for child_name, child in module.named_children():
        full = f"{name}.{child_name}" if name else child_name
        label = "  " * depth + child_name
        if isinstance(child, nn.ModuleList):
            yield f"{label} 1–{len(child)}, each:" if len(child) > 1 else label, child[0], f"{full}.0"
            yield from _rows(child[0], f"{full}.0", depth + 1)
        elif count_parameters(child):
            yield label, child, full
            if not isinstance(child, AddNorm):  # its norm is named beside it
                yield from _rows(child, full, depth + 1)


def _kind(module: nn.Module) -> str:
    """A linear map or a table by its size, Add & Norm with its norm, everything else by its class."""
    if isinstance(module, nn.Linear | nn.Embedding):
        rows, columns = module.weight.shape
        size = (columns, rows) if isinstance(module, nn.Linear) else (rows, columns)
        return f"{type(module).__name__} {size[0]}→{size[1]}"
    if isinstance(module, AddNorm):
        return f"{module.place}-{type(module.norm).__name__}"
    return type(module).__name__
