"""Recurrent encoders and decoders (L1.2, L1.3), interchangeable with Transformer stacks.

Shapes: b batch, n tokens, e features of a token, s features of a state, m tokens and k features of the memory, d
features of the output.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.blocks.alignment import Alignment, Pool
from clearhead.blocks.dropout import Dropout
from clearhead.blocks.embedding import Embedding
from clearhead.blocks.recurrence import Recurrence, State
from clearhead.blocks.stack import Decoder, Memory
from clearhead.constants import STATE_PARTS
from clearhead.positions import NoPosition
from clearhead.positions.numbering import is_left_aligned
from clearhead.recipe import (
    CrossSpec,
    EmbeddingSpec,
    RecurrentDecoderSpec,
    RecurrentEncoderSpec,
    StackSpec,
    dropout_rate,
    module_of,
)


class BothWays(nn.Module):
    """A uni- or bidirectional recurrent layer; the states of both directions are concatenated.

    Args:
        rightward: the layer that reads from the left.
        leftward: the layer that reads from the right. Default: none.
    """

    def __init__(self, rightward: Recurrence, leftward: Recurrence | None = None) -> None:
        super().__init__()
        self.rightward, self.leftward = rightward, leftward

    def extra_repr(self) -> str:
        return "rightward" if self.leftward is None else "rightward and leftward"

    def forward(self, x: Float[Tensor, "b n i"], mirror: Int[Tensor, "b n"]) -> Float[Tensor, "b n k"]:
        """Return the states; ``mirror`` holds, for each place, the place it has in the reversed line."""
        states: Tensor = self.rightward(x)[0]
        if self.leftward is None:
            return states
        back: Tensor = self.leftward(_gather(x, mirror))[0]
        return torch.cat((states, _gather(back, mirror)), dim=-1)


class RecurrentEncoder(nn.Module):
    """Embeds tokens and runs them through recurrent layers.

    Args:
        embedding: the embedding.
        layers: the layers, each in one or both directions.
        dropout: probability of dropping a layer's output feature during training. Default: 0.
    """

    def __init__(self, *, embedding: Embedding, layers: Iterable[BothWays], dropout: float = 0.0) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.drop = Dropout(dropout)

    @classmethod
    def from_spec(
        cls, spec: RecurrentEncoderSpec, *, tokens: nn.Embedding, embedding: EmbeddingSpec
    ) -> "RecurrentEncoder":
        """Build from a recipe."""

        def layer(inputs: int) -> BothWays:
            ways = 2 if spec.bidirectional else 1
            return BothWays(*(Recurrence(cell=spec.cell, inputs=inputs, state=spec.state_size) for _ in range(ways)))

        return cls(
            embedding=_embedding(spec, tokens, embedding),
            layers=[layer(spec.out_width if number else spec.width) for number in range(spec.layers)],
            dropout=dropout_rate(spec.dropout.residual),
        )

    def forward(
        self,
        ids: Int[Tensor, "b n"],
        valid: Bool[Tensor, "b n"] | None = None,
        *,
        segments: Int[Tensor, "b n"] | None = None,
    ) -> Float[Tensor, "b n k"]:
        """Return a vector for every token; padding may be anywhere and does not change the states."""
        length = ids.shape[1]
        places = torch.arange(length, device=ids.device)
        x: Tensor = self.embedding(ids, places, length, segments, valid)
        order = None
        if valid is not None and not is_left_aligned(valid):
            order = valid.int().argsort(dim=1, descending=True, stable=True)  # tokens first, then padding
            x = _gather(x, order)
        ends = valid.sum(1, keepdim=True) if valid is not None else torch.full_like(ids[:, :1], length)
        mirror = torch.where(places < ends, ends - 1 - places, places)  # (b, n)
        for layer in self.layers:
            x = self.drop(layer(x, mirror))
        return x if order is None else _gather(x, order.argsort(dim=1))


@dataclass
class RecurrentCache:
    """The state of a recurrent decoder between steps; its size does not grow."""

    states: list[State] | None = None
    """The state of each layer; None before the first token."""
    output: Float[Tensor, "b d"] | None = None
    """The last output."""
    pool: Pool | None = None
    """The memory, projected once."""
    length: int = 0
    """Tokens so far."""

    def select(self, rows: Int[Tensor, "r"]) -> None:
        """Keep these rows of the batch, in this order: beams are reordered, finished lines dropped."""
        if self.states is not None:
            self.states = [tuple(part[rows] for part in state) for state in self.states]
        self.output = None if self.output is None else self.output[rows]
        self.pool = None if self.pool is None else self.pool.select(rows)


class RecurrentDecoder(Decoder):
    """Embeds tokens and runs them through recurrent layers, from an initial state made from the memory.

    If only tokens are fed to a step, all tokens are computed in one call. If a step also needs the previous state or
    output (``alignment.feeds``), tokens are computed one by one, during training too.

    Args:
        embedding: the embedding.
        layers: the recurrent layers.
        alignment: the attention over the memory.
        start: what the initial state is made from: the ``ends`` or the ``mean`` of the memory, or ``zero``.
        memory_width: features of the memory, k; None for a language model.
        dropout: probability of dropping a layer's output feature during training. Default: 0.
    """

    def __init__(
        self,
        *,
        embedding: Embedding,
        layers: Iterable[Recurrence],
        alignment: Alignment,
        start: Literal["ends", "mean", "zero"],
        memory_width: int | None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.layers = nn.ModuleList(layers)
        self.alignment = alignment
        self.start = start if memory_width is not None else "zero"
        self.first = None
        if memory_width is not None and start != "zero":
            carried = sum(STATE_PARTS[layer.cell] * layer.size for layer in self._recurrences())
            self.first = nn.Linear(memory_width * (2 if start == "ends" else 1), carried)
        self.drop = Dropout(dropout)

    @classmethod
    def from_spec(
        cls,
        spec: RecurrentDecoderSpec,
        *,
        tokens: nn.Embedding,
        embedding: EmbeddingSpec,
        cross: CrossSpec | None,
        memory_width: int | None,
    ) -> "RecurrentDecoder":
        """Build from a recipe; ``memory_width`` is None for a language model."""
        del cross  # the recipe's attention for Transformers
        alignment: Alignment = module_of(spec.attention).from_spec(
            spec.attention,
            width=spec.width,
            state=spec.state_size,
            memory_width=memory_width or 0,
            dropout=spec.dropout.attention,
        )
        inputs = [spec.width + alignment.fed_width, *[spec.state_size] * (spec.layers - 1)]
        return cls(
            embedding=_embedding(spec, tokens, embedding),
            layers=[Recurrence(cell=spec.cell, inputs=features, state=spec.state_size) for features in inputs],
            alignment=alignment,
            start=spec.start,
            memory_width=memory_width,
            dropout=dropout_rate(spec.dropout.residual),
        )

    def extra_repr(self) -> str:
        return {"ends": "starts from the ends", "mean": "starts from the mean", "zero": "starts from zero"}[self.start]

    def new_cache(self) -> RecurrentCache:
        return RecurrentCache()

    def forward(
        self,
        ids: Int[Tensor, "b n"],
        valid: Bool[Tensor, "b n"] | None = None,
        *,
        memory: Memory | None = None,
        cache: RecurrentCache | None = None,
    ) -> Float[Tensor, "b n d"]:
        """Return the vectors before the logits. With a cache, ``ids`` are the tokens that follow those in it."""
        length = ids.shape[1]
        tokens: Tensor = self.embedding(ids, torch.arange(length, device=ids.device), length)
        run = self._begun(tokens, memory) if cache is None or cache.states is None else replace(cache)
        # padding on the right comes after every token: it changes no output, and no state unless there is a cache
        passed = valid if valid is not None and (cache is not None or not is_left_aligned(valid)) else None
        if self.alignment.feeds == "nothing" and passed is None and length > 1:
            out = self._together(tokens, run)
        else:
            out = self._one_by_one(tokens, run, passed)
        if cache is not None:
            cache.states, cache.output, cache.pool, cache.length = run.states, run.output, run.pool, run.length + length
        return out

    def _begun(self, tokens: Float[Tensor, "b n e"], memory: Memory | None) -> RecurrentCache:
        """The initial state: tanh(W·x + b) of a summary x of the memory, or 0; the first output that is fed is 0."""
        batch, first = len(tokens), self._recurrences()[0]
        parts, size = STATE_PARTS[first.cell], first.size
        if self.first is None or memory is None:
            carried = tokens.new_zeros(batch, len(self.layers) * parts * size)
        else:
            carried = torch.tanh(self.first(_ends(memory) if self.start == "ends" else _mean(memory)))
        vectors = carried.view(batch, len(self.layers), parts, size)
        return RecurrentCache(
            states=[tuple(vectors[:, layer, part] for part in range(parts)) for layer in range(len(self.layers))],
            output=tokens.new_zeros(batch, self.alignment.fed_width) if self.alignment.feeds == "output" else None,
            pool=None if memory is None else self.alignment.prepare(memory),
        )

    def _together(self, tokens: Float[Tensor, "b n e"], run: RecurrentCache) -> Float[Tensor, "b n d"]:
        """Compute all tokens at once, layer by layer."""
        assert run.states is not None
        x, carried = tokens, []
        for layer, state in zip(self._recurrences(), run.states, strict=True):
            x, end = layer(x, state)
            x = self.drop(x)
            carried.append(end)
        run.states = carried
        return self.alignment.output(x, tokens, None, run.pool)

    def _one_by_one(
        self, tokens: Float[Tensor, "b n e"], run: RecurrentCache, valid: Bool[Tensor, "b n"] | None
    ) -> Float[Tensor, "b n d"]:
        """Compute all layers, token by token; padding does not change the state."""
        feeds, first = self.alignment.feeds, self._recurrences()[0]
        gates = first.gates(tokens)  # (b, n, g)
        tops: list[Tensor] = []
        contexts: list[Tensor] = []
        outputs: list[Tensor] = []
        for place in range(tokens.shape[1]):
            assert run.states is not None
            here = gates[:, place]
            if feeds == "context":
                contexts.append(self.alignment.context(run.states[-1][0][:, None], run.pool)[:, 0])
            fed = contexts[-1] if feeds == "context" else run.output
            if fed is not None:
                here = first.more_gates(here, fed)
            there = None if valid is None else valid[:, place, None]
            run.states = self._step(here, run.states, there)
            tops.append(self.drop(run.states[-1][0]))
            if feeds == "output":
                out = self.alignment.output(tops[-1][:, None], tokens[:, place, None], None, run.pool)[:, 0]
                run.output = out if there is None or run.output is None else torch.where(there, out, run.output)
                outputs.append(out)
        if outputs:
            return torch.stack(outputs, dim=1)
        seen = torch.stack(contexts, dim=1) if contexts else None
        return self.alignment.output(torch.stack(tops, dim=1), tokens, seen, run.pool)

    def _step(self, gates: Float[Tensor, "b g"], states: list[State], there: Bool[Tensor, "b 1"] | None) -> list[State]:
        """One token through all layers."""
        carried: list[State] = []
        for layer, old in zip(self._recurrences(), states, strict=True):
            new = layer.step(layer.gates(self.drop(carried[-1][0])) if carried else gates, old)
            if there is not None:
                new = tuple(torch.where(there, *pair) for pair in zip(new, old, strict=True))
            carried.append(new)
        return carried

    def _recurrences(self) -> list[Recurrence]:
        return [layer for layer in self.layers if isinstance(layer, Recurrence)]


def _embedding(spec: StackSpec, tokens: nn.Embedding, embedding: EmbeddingSpec) -> Embedding:
    """An embedding without positions: a recurrent network knows the order of its tokens."""
    return Embedding(
        tokens,
        NoPosition(),
        scaled=embedding.scale == "sqrt",
        segments=embedding.segments,
        dropout=dropout_rate(spec.dropout.embedding),
    )


def _gather(x: Float[Tensor, "b n i"], places: Int[Tensor, "b n"]) -> Float[Tensor, "b n i"]:
    """Reorder the tokens of each line: token ``places[b, n]`` of line b comes to place n."""
    return x.gather(1, places[:, :, None].expand_as(x))


def _ends(memory: Memory) -> Float[Tensor, "b k2"]:
    """The first and the last vector without padding, concatenated: both final states of a bidirectional encoder."""
    states, valid = memory.states, memory.valid
    if valid is None:
        return torch.cat((states[:, 0], states[:, -1]), dim=-1)
    rows, places = torch.arange(len(states), device=states.device), torch.arange(states.shape[1], device=states.device)
    first, last = valid.int().argmax(1), (valid * places).argmax(1)
    return torch.cat((states[rows, first], states[rows, last]), dim=-1)


def _mean(memory: Memory) -> Float[Tensor, "b k"]:
    """The mean of the vectors without padding."""
    if memory.valid is None:
        return memory.states.mean(1)
    there = memory.valid.unsqueeze(-1).to(memory.states.dtype)  # (b, m, 1)
    mean: Tensor = (memory.states * there).sum(1) / there.sum(1).clamp(min=1)
    return mean
