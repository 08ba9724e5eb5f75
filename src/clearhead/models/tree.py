"""The blocks of a model as a tree: what each is, how many weights it has, and the shape that comes out of it."""

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from itertools import cycle, islice
from math import prod

import torch
from torch import Tensor, nn

from clearhead.blocks import Patches
from clearhead.drawing.html import Branch, fragment, tree
from clearhead.errors import DataError, TooLong
from clearhead.recipe import JointSpec, ModelSpec, Seq2SeqSpec, StackSpec

TOKENS = 16
"""How many tokens run through a model that is shown by itself, if it reads as many."""

Shapes = dict[int, tuple[int, ...]]


@dataclass(frozen=True)
class ModelBlock:
    """A box that a reader of the lectures would draw."""

    name: str
    """Its name in the model; of equal layers in a row: ``layers 1–4, each:``."""
    kind: str
    """Its class and settings."""
    parameters: int
    """Its weights, those of the blocks inside it among them."""
    tied: bool
    """Whether all its weights are those of an earlier block."""
    shape: tuple[int, ...]
    """Of what it puts out; () if that is no tensor, or if it did not run."""
    inner: tuple["ModelBlock", ...]
    """The blocks inside it."""

    @property
    def weights(self) -> str:
        """The number of its weights as people read it."""
        return "tied" if self.tied else f"{self.parameters:,}" if self.parameters else "–"

    @property
    def shape_out(self) -> str:
        """The shape as people read it."""
        return " × ".join(map(str, self.shape))


@dataclass(frozen=True, repr=False)
class BlockTree:
    """A model's blocks, while one input runs through them. Print it for a table; a notebook shows it."""

    title: str
    """Name, family and parameters."""
    blocks: tuple[ModelBlock, ...]
    inputs: str
    """What ran through them: ``a line of 26 tokens``, ``an image``."""
    notes: tuple[str, ...] = ()
    """What the settings of the recipe bring along."""

    def walk(self) -> Iterator[tuple[int, ModelBlock]]:
        """Every block with its depth, depth first."""
        yield from _walk(self.blocks, 0)

    def __str__(self) -> str:
        rows = [("  " * depth + one.name, one.kind, one.weights, one.shape_out) for depth, one in self.walk()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = (
            f"{name:{widths[0]}}  {kind:{widths[1]}}  {weights:>{widths[2]}}  {shape:>{widths[3]}}".rstrip()
            for name, kind, weights, shape in rows
        )
        return "\n".join([self.title, *lines])

    def __repr__(self) -> str:
        return f"BlockTree({self.title})"

    def _repr_html_(self) -> str:
        notes = "".join(f'<p class="soft">{escape(note)}</p>' for note in self.notes)
        return fragment(f"<h3>{escape(self.title)}</h3>{notes}{self.html()}")

    def html(self) -> str:
        """The rows alone, as a part of something larger; the first level is opened."""
        header = ("block", "what it is", "parameters", "shape out")
        rows = tree(header, [_branch(block, depth=0) for block in self.blocks], numbers={2, 3})
        return f'{rows}<p class="soft">Shapes: batch × tokens × features, for {self.inputs}.</p>'


def block_tree(model: nn.Module, name: str, line: str, notes: tuple[str, ...] = ()) -> BlockTree:
    """The blocks of a model, with the shapes that come out while a line's bytes run through it, as tokens or pixels.

    The model itself is left alone: what runs is a copy that shares its weights.
    """
    if not line:
        raise DataError("line: is empty: there is nothing to run through the model")
    running = _sharing_weights(model).eval()
    inputs = _inputs(running, line)
    try:
        found = tuple(_blocks(running, _shapes(running, inputs), set()))
    except TooLong as error:
        raise TooLong(f"line: {error}") from None
    title = f"{name}: {_spec(model).family}, {sizes(model)['parameters']} parameters"
    return BlockTree(title, found, _words(inputs), notes)


def shown_alone(model: nn.Module) -> str:
    """The rows for a model that shows itself in a notebook, where nobody says what runs through it."""
    tokens = TOKENS
    while True:
        try:
            return block_tree(model, "", "x" * tokens).html()
        except TooLong:  # learned positions of a small model may end before
            if tokens == 1:
                raise
            tokens //= 2


def sizes(model: nn.Module) -> dict[str, str]:
    """The depth and width of each stack, the number of parameters, and that of joint n-grams, if there are any."""
    spec = _spec(model)
    parts = {name: getattr(spec, name) for name in type(spec).model_fields}
    stacks = {name: part for name, part in parts.items() if isinstance(part, StackSpec)}
    deep = {name: f"{part.layers} layer{'s'[: part.layers > 1]} of width {part.width}" for name, part in stacks.items()}
    found = deep | {"parameters": f"{sum(parameter.numel() for parameter in model.parameters()):,}"}
    joint = parts.get("joint")
    return found | ({"joint n-grams": f"{joint.nodes:,}"} if isinstance(joint, JointSpec) and joint.nodes else {})


def in_one_line(name: str, facts: Mapping[str, str]) -> str:
    """What ``__repr__`` says of something with these facts.

    >>> in_one_line("Seq2Seq", {"encoder": "4 layers of width 128", "parameters": "3,885,568"})
    'Seq2Seq(encoder: 4 layers of width 128, parameters: 3,885,568)'
    """
    return f"{name}({', '.join(f'{key}: {value}' for key, value in facts.items())})"


def _branch(block: ModelBlock, depth: int) -> Branch:
    cells = (block.name, block.kind, block.weights, block.shape_out)
    return Branch(cells, tuple(_branch(inner, depth + 1) for inner in block.inner), opened=depth == 0)


def _walk(found: Iterable[ModelBlock], depth: int) -> Iterator[tuple[int, ModelBlock]]:
    for block in found:
        yield depth, block
        yield from _walk(block.inner, depth + 1)


def _words(inputs: Tensor) -> str:
    if inputs.is_floating_point():
        return "an image"
    return "one token" if inputs.shape[1] == 1 else f"a line of {inputs.shape[1]} tokens"


def _sharing_weights(model: nn.Module) -> nn.Module:
    """A copy whose modules are its own and whose weights are the model's, without anybody's hooks."""
    shared = {id(tensor): tensor for tensor in [*model.parameters(), *model.buffers()]}
    copied = copy.deepcopy(model, shared)
    for module in copied.modules():
        module._forward_hooks.clear()
        module._forward_pre_hooks.clear()
    return copied


def _image(model: nn.Module) -> Patches | None:
    return next((part for part in model.modules() if isinstance(part, Patches)), None)


def _inputs(model: nn.Module, line: str) -> Tensor:
    """The line's UTF-8 bytes as token ids, folded into the vocabulary; for images as pixels, over and over."""
    content = line.encode("utf-8", "replace")
    spec = _spec(model)
    device = next(model.parameters()).device
    image = _image(model)
    if image is None:
        size = min(getattr(spec.vocabulary, side) for side in spec.sides)
        return torch.tensor([[byte % size for byte in content]], device=device)
    shape = (1, *image.image, image.channels)
    return torch.tensor([byte / 255 for byte in islice(cycle(content), prod(shape))], device=device).view(shape)


def _spec(model: nn.Module) -> ModelSpec:
    spec = model.spec
    assert isinstance(spec, ModelSpec)
    return spec


def _shapes(model: nn.Module, inputs: Tensor) -> Shapes:
    """The shape of what each module puts out."""
    shapes: Shapes = {}

    def note(module: nn.Module, _inputs: object, out: object) -> None:
        if isinstance(out, Tensor):
            shapes[id(module)] = tuple(out.shape)

    for module in model.modules():
        if _is_block(module):
            module.register_forward_hook(note)
    with torch.inference_mode():
        _ = model(inputs, inputs) if isinstance(_spec(model), Seq2SeqSpec) else model(inputs)
    return shapes


def _is_block(module: nn.Module) -> bool:
    """Whether a reader of the lectures would draw a box for it: it has weights, or settings of its own."""
    ours = type(module).__module__.startswith("clearhead") and bool(module.extra_repr())
    return ours or next(module.parameters(), None) is not None


def _blocks(module: nn.Module, shapes: Shapes, seen: set[int]) -> Iterator[ModelBlock]:
    """The blocks inside a module; equal layers are shown once."""
    # a module that stands in two places is shown in both
    for name, child in module._modules.items():
        if child is None or not _is_block(child):
            continue
        if isinstance(child, nn.ModuleList):
            for first, last in _alike(list(child)):
                label = f"{name} {first}–{last}, each:" if last > first else f"{name[:-1]} {first}:"
                yield _block(label, child[first - 1], shapes, seen)
        else:
            yield _block(name, child, shapes, seen)


def _block(name: str, module: nn.Module, shapes: Shapes, seen: set[int]) -> ModelBlock:
    parameters = list(module.parameters())
    leaf = not list(module.children())
    tied = leaf and bool(parameters) and all(id(parameter) in seen for parameter in parameters)
    if leaf:
        seen.update(id(parameter) for parameter in parameters)
    return ModelBlock(
        name,
        _kind(module),
        sum(parameter.numel() for parameter in parameters),
        tied,
        shapes.get(id(module), ()),
        tuple(_blocks(module, shapes, seen)),
    )


def _alike(layers: list[nn.Module]) -> Iterator[tuple[int, int]]:
    """The first and the last number of layers in a row that have the same settings, and weights of the same shapes."""
    shapes = [
        ([parameter.shape for parameter in layer.parameters()], [part.extra_repr() for part in layer.modules()])
        for layer in layers
    ]
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
