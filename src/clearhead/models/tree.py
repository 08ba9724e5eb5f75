"""The blocks of a model as a table: what each is, its parameters, and the shape that comes out of it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn

from clearhead.blocks import Patches
from clearhead.errors import DataError, TooLong
from clearhead.models.base import Model
from clearhead.models.build import count_parameters
from clearhead.recipe import Seq2SeqSpec


class Block(NamedTuple):
    """One row of the tree."""

    label: str
    """Its name, indented by its depth; layers that are alike stand there once, with their numbers."""
    kind: str
    """Its class and settings."""
    parameters: str
    """How many it has; ``tied`` if they were counted before, a dash if there are none."""
    shape: str
    """What comes out of it: batch × tokens × features."""
    depth: int


@dataclass(frozen=True)
class BlockTree:
    """A model's blocks, while one input runs through them."""

    title: str
    """Name, family and parameters."""
    rows: tuple[Block, ...]
    notes: tuple[str, ...] = ()
    """What the settings of the recipe bring along."""

    def __str__(self) -> str:
        return "\n".join([self.title, *("  ".join(row[:4]) for row in self.rows)])


def block_tree(model: Model, name: str, line: str, notes: tuple[str, ...] = ()) -> BlockTree:
    """Run a line's bytes through the model, as tokens or as pixels, and note every block."""
    image = next((part for part in model.modules() if isinstance(part, Patches)), None)
    inputs = _bytes_as_ids(line, model) if image is None else _bytes_as_pixels(line, image)
    shapes = _shapes(model.eval(), inputs)
    seen: set[int] = set()
    rows = tuple(
        Block(
            "  " * depth + label,
            _kind(module),
            _new_parameters(module, seen),
            " × ".join(map(str, shapes.get(id(module), ()))),
            depth,
        )
        for depth, label, module in _rows(model, 0)
    )
    return BlockTree(f"{name}: {model.spec.family}, {count_parameters(model):,} parameters", rows, notes)


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
        raise DataError("line: is empty: there is nothing to run through the model")
    return content


def _shapes(model: Model, inputs: Tensor) -> dict[int, tuple[int, ...]]:
    """The shape of what each module puts out."""
    shapes: dict[int, tuple[int, ...]] = {}

    def note(module: nn.Module, _inputs: object, out: object) -> None:
        if isinstance(out, Tensor):
            shapes[id(module)] = tuple(out.shape)

    hooks = [module.register_forward_hook(note) for module in model.modules() if _is_block(module)]
    try:
        with torch.inference_mode():
            _ = model(inputs, inputs) if isinstance(model.spec, Seq2SeqSpec) else model(inputs)
    except TooLong as error:
        raise TooLong(f"line: {error}") from None
    finally:
        for hook in hooks:
            hook.remove()
    return shapes


def _is_block(module: nn.Module) -> bool:
    """Whether a reader of the lectures would draw a box for it: it has weights, or settings of its own."""
    ours = type(module).__module__.startswith("clearhead") and bool(module.extra_repr())
    return ours or next(module.parameters(), None) is not None


def _rows(module: nn.Module, depth: int) -> Iterator[tuple[int, str, nn.Module]]:
    """Depth, label and module of every block, depth first; equal layers are shown once."""
    # a module that stands in two places is shown in both
    for name, child in module._modules.items():
        if child is None or not _is_block(child):
            continue
        if isinstance(child, nn.ModuleList):
            for first, last in _alike(list(child)):
                label = f"{name} {first}–{last}, each:" if last > first else f"{name[:-1]} {first}:"
                yield depth, label, child[first - 1]
                yield from _rows(child[first - 1], depth + 1)
        else:
            yield depth, name, child
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
