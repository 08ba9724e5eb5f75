"""Printing the blocks of a model while a line, or an image, runs through them. Imports torch."""

from collections.abc import Iterator
from itertools import cycle, islice
from math import prod

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor, nn

from clearhead.blocks import Patches
from clearhead.errors import DataError, TooLong
from clearhead.models import Model, count_parameters, use_cores
from clearhead.recipe import Seq2SeqSpec


def print_blocks(model: Model, name: str, line: str) -> None:
    """Run the line's bytes through the model, and print a table of its blocks."""
    image = next((part for part in model.modules() if isinstance(part, Patches)), None)
    inputs = _bytes_as_ids(line, model) if image is None else _bytes_as_pixels(line, image)
    use_cores()
    shapes = _shapes(model.eval(), inputs)
    title = f"{name}: {model.spec.family}, {count_parameters(model):,} parameters"
    table = Table(title=Text(title), box=None, expand=False, title_justify="left")
    table.add_column("block", no_wrap=True)
    table.add_column("what it is", style="dim", overflow="fold")
    table.add_column("parameters", justify="right", no_wrap=True)
    table.add_column("shape out", justify="right", no_wrap=True)
    seen: set[int] = set()
    for label, module in _rows(model, 0):
        shape = " × ".join(map(str, shapes.get(id(module), ())))
        table.add_row(Text(label), Text(_kind(module)), _new_parameters(module, seen), shape)
    console = Console()
    # numbers are never cut: a terminal that is too narrow scrolls
    console.print(table, width=max(console.width, 72) if console.is_terminal else max(console.width, 100))


def _bytes_as_ids(line: str, model: Model) -> Tensor:
    """The line's UTF-8 bytes as token ids, folded into the vocabulary: an untrained model has no tokenizer."""
    size = min(getattr(model.spec.vocabulary, side) for side in model.spec.sides)
    return torch.tensor([[byte % size for byte in _content(line)]])


def _bytes_as_pixels(line: str, image: Patches) -> Tensor:
    """The line's UTF-8 bytes as brightness, over and over until the image is full."""
    shape = (1, *image.image, image.channels)
    return torch.tensor([byte / 255 for byte in islice(cycle(_content(line)), prod(shape))]).view(shape)


def _content(line: str) -> bytes:
    content = line.encode("utf-8", "replace")
    if not content:
        raise DataError("--line: is empty: there is nothing to run through the model")
    return content


def _shapes(model: Model, inputs: Tensor) -> dict[int, tuple[int, ...]]:
    """The shape of what each module puts out."""
    shapes: dict[int, tuple[int, ...]] = {}

    def note(module: nn.Module, _inputs: object, out: object) -> None:
        if isinstance(out, Tensor):
            shapes[id(module)] = tuple(out.shape)

    for module in model.modules():
        if _is_block(module):
            module.register_forward_hook(note)
    with torch.inference_mode():
        try:
            _ = model(inputs, inputs) if isinstance(model.spec, Seq2SeqSpec) else model(inputs)
        except TooLong as error:
            raise TooLong(f"--line: {error}") from None
    return shapes


def _is_block(module: nn.Module) -> bool:
    """Whether a reader of the lectures would draw a box for it: it has weights, or settings of its own."""
    ours = type(module).__module__.startswith("clearhead") and bool(module.extra_repr())
    return ours or next(module.parameters(), None) is not None


def _rows(module: nn.Module, depth: int) -> Iterator[tuple[str, nn.Module]]:
    """Label and module of every block, depth first; equal layers are shown once."""
    # a module that stands in two places is shown in both
    for name, child in module._modules.items():
        if child is None or not _is_block(child):
            continue
        label = "  " * depth + name
        if isinstance(child, nn.ModuleList):
            for first, last in _alike(list(child)):
                yield f"{label} {first}–{last}, each:" if last > first else f"{label[:-1]} {first}:", child[first - 1]
                yield from _rows(child[first - 1], depth + 1)
        else:
            yield label, child
            yield from _rows(child, depth + 1)


def _alike(layers: list[nn.Module]) -> Iterator[tuple[int, int]]:
    """The first and the last number of layers in a row that have weights of the same shapes."""
    shapes = [[parameter.shape for parameter in layer.parameters()] for layer in layers]
    first = 1
    for last in range(1, len(layers) + 1):
        if last == len(layers) or shapes[last] != shapes[first - 1]:
            yield first, last
            first = last + 1


def _kind(module: nn.Module) -> str:
    """A linear map or a table by its size, everything else by its class and settings."""
    if isinstance(module, nn.Linear | nn.Embedding):
        rows, columns = module.weight.shape
        left, right = (columns, rows) if isinstance(module, nn.Linear) else (rows, columns)
        return f"{type(module).__name__} {left}→{right}"
    return " ".join(part for part in (type(module).__name__, module.extra_repr()) if part)


def _new_parameters(module: nn.Module, seen: set[int]) -> str:
    """How many weights a module has; a mark if it has only such as were shown before."""
    parameters = list(module.parameters())
    leaf = not list(module.children())
    if leaf and parameters and all(id(parameter) in seen for parameter in parameters):
        return "tied"
    if leaf:
        seen.update(id(parameter) for parameter in parameters)
    return f"{sum(parameter.numel() for parameter in parameters):,}" if parameters else "–"
