"""Watches a model during one forward pass: hooks that exist only inside ``recording`` and write to its own tables.

Nothing is left on the modules. Hooks on the weights make every attention take the explicit path.

Shapes: b lines, n queries, m keys, h heads, e features of a value.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from clearhead.attention import AttentionContext, Heads, for_every_head, split_heads
from clearhead.blocks import AddNorm, Stack, StateAttention
from clearhead.inspection.gates import HeadedAttention, headed_attentions
from clearhead.inspection.record import (
    AttentionRecord,
    EmbeddingRecord,
    LayerRecord,
    Record,
    StackRecord,
    SublayerRecord,
    Tiles,
)
from clearhead.inspection.replaying import replaying, run
from clearhead.models import AttentionChoice, Model, device_of

Calls = dict[int, list[tuple[tuple[Any, ...], dict[str, Any], Any]]]
"""For every watched module, by its id: the arguments and the result of each of its calls."""


def record(
    model: Model,
    source: Tensor | None = None,
    target: Tensor | None = None,
    valid: Bool[Tensor, "b n"] | None = None,
    *,
    attention: AttentionChoice = "trained",
    off: Iterable[str] = (),
) -> Record:
    """Run a model on b lines, teacher-forced and on the explicit path, and record what it computes.

    The model is locked meanwhile, so that threads can share it.

    Args:
        model: a model of any family.
        source: the ids that an encoder reads, (b, n), or the pixels of images.
        target: the inputs of a decoder, (b, m): the start token and the answer; of a language model, the text.
        valid: True for source tokens, False for padding. Default: everything except ``pad``.
        attention: soft or hard attention. Default: as the model was trained.
        off: names of heads that are switched off.
    """
    off = tuple(off)
    device = device_of(model)
    source, target, valid = (None if part is None else part.to(device) for part in (source, target, valid))
    with replaying(model, attention, off), _watching(model) as calls:
        logits = run(model, source, target, valid)
        made = _Reader(model, calls, off)
        stacks = {name: made.stack(stack) for name, stack in _stacks(model).items()}
        alignment = made.alignment()
    inputs = {"source": source, "target": target, "valid": valid}
    given = {name: part for name, part in inputs.items() if part is not None}
    return Record(logits, stacks, alignment, given, off)


def _stacks(model: Model) -> dict[str, Stack]:
    found = {name: getattr(model, name, None) for name in ("encoder", "decoder")}
    return {name: stack for name, stack in found.items() if isinstance(stack, Stack)}


@contextmanager
def _watching(model: Model) -> Iterator[Calls]:
    """Write down every call of the modules that matter, inside the ``with`` block."""
    calls: Calls = defaultdict(list)

    def note(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> None:
        calls[id(module)].append((args, kwargs, out))

    with ExitStack() as hooks:
        for module in dict.fromkeys(_watched(model)):
            hooks.callback(module.register_forward_hook(note, with_kwargs=True).remove)
        yield calls


def _watched(model: Model) -> Iterator[nn.Module]:
    for stack in _stacks(model).values():
        yield from (stack, stack.embedding)
        for layer in stack.layers:
            for _, sublayer, around in _sublayers(layer):
                yield from (sublayer, around)
    for attention in headed_attentions(model):
        for part in attention.parts:
            yield from (part, part.weights, part.value, part.output)
    for state_attention in _alignments(model):
        yield from (state_attention, state_attention.weights)


def _sublayers(layer: nn.Module) -> Iterator[tuple[str, nn.Module, AddNorm]]:
    """Every sublayer of a layer with its name and the Add & Norm around it, in the order in which they run."""
    for name, around in layer.named_children():
        if isinstance(around, AddNorm):
            inner = name.removeprefix("around_")
            yield inner, layer.get_submodule(inner), around


def _alignments(model: Model) -> list[StateAttention]:
    return [part for part in model.modules() if isinstance(part, StateAttention)]


class _Reader:
    """Reads the tables of calls into a record."""

    def __init__(self, model: Model, calls: Calls, off: tuple[str, ...]) -> None:
        self._calls, self._off = calls, off
        self._headed = {id(attention.module): attention for attention in headed_attentions(model)}
        self._alignments = _alignments(model)

    def stack(self, stack: Stack) -> StackRecord:
        embedding = stack.embedding
        args, _, embedded = self._calls[id(embedding)][0]
        inputs, positions, end, segments, valid = args
        layers = tuple(LayerRecord(tuple(self._sublayers(layer))) for layer in stack.layers)
        return StackRecord(
            stack,
            EmbeddingRecord(embedding, inputs, positions, end, segments, valid, embedded),
            layers,
            self._out(stack),
        )

    def _sublayers(self, layer: nn.Module) -> Iterator[SublayerRecord]:
        for name, module, around in _sublayers(layer):
            (args, _, y), change = self._calls[id(around)][0], self._out(module)
            headed = self._headed.get(id(module))
            attentions = () if headed is None else tuple(self._attentions(headed))
            yield SublayerRecord(name, module, around, args[0], change, y, attentions)

    def _attentions(self, headed: HeadedAttention) -> Iterator[AttentionRecord]:
        """The attentions with heads inside a sublayer; nothing if one of them formed no weights."""
        names = dict(zip(headed.head_names, range(headed.heads), strict=True))
        off = {names[name] for name in self._off if name in names}
        sizes, first = getattr(headed.module, "tiles", {}), 0
        paths = {id(part): path for path, part in headed.module.named_modules()}
        if not all(self._calls[id(part.weights)] for part in headed.parts):
            return
        for part in headed.parts:
            tile = sizes.get(paths[id(part)])
            on = torch.tensor([first + head not in off for head in range(part.heads)])
            first += part.heads
            yield self._attention(part, on, None if tile is None else Tiles(headed.module.grid, tile))  # type: ignore[arg-type]

    def _attention(self, part: Heads, on: Bool[Tensor, "h"], tiles: Tiles | None) -> AttentionRecord:
        joined_values = self._out(part.value)
        values = for_every_head(split_heads(joined_values, part.kv_heads), part.heads)  # (b, h, m, e)
        if not bool(on.all()):
            values = values * on.to(values)[:, None, None]
        (joined,), _, out = self._calls[id(part.output)][0]
        _, kwargs, _ = self._calls[id(part)][0]
        context = kwargs.get("context") or AttentionContext()
        return AttentionRecord(part, self._out(part.weights), values, joined, out, context, tiles)

    def alignment(self) -> AttentionRecord | None:
        """The single attention of a recurrent decoder, over all its steps."""
        for part in self._alignments:
            calls = self._calls[id(part)]
            if not calls:
                continue
            pool = calls[0][0][1]
            steps = [out for _, _, out in self._calls[id(part.weights)]]
            contexts = torch.cat([out for _, _, out in calls], dim=1)  # (b, n, k)
            context = AttentionContext(valid=pool.valid)
            return AttentionRecord(part, torch.cat(steps, dim=2), pool.values[:, None], contexts, contexts, context)
        return None

    def _out(self, module: nn.Module) -> Float[Tensor, "..."]:
        out: Tensor = self._calls[id(module)][0][2]
        return out
