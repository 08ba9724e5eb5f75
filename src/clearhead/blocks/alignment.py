"""Attention of recurrent decoders over the source: Bahdanau's, Luong's, or none (L1.3).

Shapes: b batch, n steps, m source tokens, k features of the memory, s features of a state, e features of an input
token, a features of a key, d features of the output.
"""

from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from clearhead.attention import Weights, additive, dot, weigh
from clearhead.attention.choice import Choice
from clearhead.blocks.dropout import Dropout
from clearhead.blocks.stack import Memory
from clearhead.recipe import BahdanauSpec, LuongSpec, NoAlignmentSpec


@dataclass(frozen=True)
class Pool:
    """The memory, with its keys projected once for all steps."""

    keys: Float[Tensor, "b m a"]
    values: Float[Tensor, "b m k"]
    valid: Bool[Tensor, "b m"] | None
    """True for tokens, False for padding; None without padding."""

    def select(self, rows: Int[Tensor, "r"]) -> "Pool":
        """Keep these rows of the batch, in this order."""
        return Pool(self.keys[rows], self.values[rows], None if self.valid is None else self.valid[rows])


class StateAttention(nn.Module):
    """Σ_j α(s, h_j) h_j: attention of a state s over the memory h, whose vectors are also the values (L1.1).

    Args:
        state: features of a state.
        memory_width: features of the memory.
        score: ``dot`` is s·h, ``general`` is s·Wh, ``concat`` is u·tanh(W[s; h]) = u·tanh(W₁s + W₂h), Bahdanau's.
        size: features of u, for ``concat``. Default: ``state``.
        choice: ``soft`` (the default) or ``hard``.
        dropout: probability of dropping an attention weight during training. Default: 0.
    """

    def __init__(
        self,
        *,
        state: int,
        memory_width: int,
        score: Literal["dot", "general", "concat"],
        size: int | None = None,
        choice: Choice = "soft",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.score, self.choice = score, choice
        size = (size or state) if score == "concat" else state
        self.query = nn.Linear(state, size, bias=False) if score == "concat" else nn.Identity()
        self.key = nn.Identity() if score == "dot" else nn.Linear(memory_width, size, bias=False)
        self.direction = nn.Parameter(torch.empty(size).normal_(std=size**-0.5)) if score == "concat" else None
        self.weights = Weights()
        self.drop = Dropout(dropout)

    def extra_repr(self) -> str:
        formula = {"dot": "s·h", "general": "s·Wh", "concat": "u·tanh(Ws + Uh)"}[self.score]
        return f"{self.choice}, {formula}"

    def prepare(self, memory: Memory) -> Pool:
        """Project the memory, once for all steps."""
        return Pool(self.key(memory.states), memory.states, memory.valid)

    def forward(self, states: Float[Tensor, "b n s"], pool: Pool) -> Float[Tensor, "b n k"]:
        """Compute the context vector of each state."""
        weights = weigh(
            self.query(states),
            pool.keys,
            score=dot if self.direction is None else partial(additive, direction=self.direction),
            scale="none",
            choice=self.choice,
            mask=None if pool.valid is None else pool.valid[:, None],
        )  # (b, n, m)
        seen: Tensor = self.weights(weights[:, None])[:, 0]  # hooks on weights expect a dimension for heads
        context: Tensor = self.drop(seen) @ pool.values
        return context


class Alignment(nn.Module):
    """The interface between a recurrent decoder and its attention."""

    feeds: Literal["nothing", "context", "output"] = "nothing"
    """What is fed to a step besides the token: nothing (then all steps can be computed in one call), the context
    vector of the previous state, or the previous output."""
    fed_width: int = 0
    """Features of what is fed."""

    def prepare(self, memory: Memory) -> Pool | None:
        """Project the memory once for all steps; None if it is not used."""
        raise NotImplementedError

    def context(self, states: Float[Tensor, "b n s"], pool: Pool | None) -> Float[Tensor, "b n k"]:
        """The context vectors of these states, if ``feeds`` is ``context``."""
        raise NotImplementedError

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        """The decoder's output, from the states after the steps, the input tokens, and the context vectors fed."""
        raise NotImplementedError


class NoAlignment(Alignment):
    """No attention: the output is the state, through a linear map if the widths differ.

    Args:
        width: features of the output, d.
        state: features of a state, s.
    """

    def __init__(self, *, width: int, state: int) -> None:
        super().__init__()
        self.map = nn.Identity() if state == width else nn.Linear(state, width)

    @classmethod
    def from_spec(
        cls, spec: NoAlignmentSpec, *, width: int, state: int, memory_width: int, dropout: float
    ) -> "NoAlignment":
        """Build from a recipe."""
        del spec, memory_width, dropout
        return cls(width=width, state=state)

    def prepare(self, memory: Memory) -> None: ...

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        del tokens, contexts, pool
        out: Tensor = self.map(states)
        return out


class BahdanauAlignment(Alignment):
    """c_i = Σ_j α(s_{i−1}, h_j) h_j is fed to the step to s_i; the output is maxout(U s_i + V y_{i−1} + C c_i).

    The query is the top layer's state *before* the step (Bahdanau et al. 2015).

    Args:
        width: features of a token and of the output, d.
        state: features of a state, s.
        memory_width: features of the memory, k.
        size: features in which state and memory are compared. Default: ``state``.
        choice: ``soft`` (the default) or ``hard``.
        readout: ``maxout`` keeps the larger of each two features (the default); ``tanh`` applies tanh instead.
        dropout: probability of dropping an attention weight during training. Default: 0.
    """

    feeds = "context"

    def __init__(
        self,
        *,
        width: int,
        state: int,
        memory_width: int,
        size: int | None = None,
        choice: Choice = "soft",
        readout: Literal["maxout", "tanh"] = "maxout",
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.fed_width, self.readout = memory_width, readout
        self.attention = StateAttention(
            state=state, memory_width=memory_width, score="concat", size=size, choice=choice, dropout=dropout
        )
        self.map = nn.Linear(state + width + memory_width, width * (2 if readout == "maxout" else 1))

    @classmethod
    def from_spec(
        cls, spec: BahdanauSpec, *, width: int, state: int, memory_width: int, dropout: float
    ) -> "BahdanauAlignment":
        """Build from a recipe."""
        settings = spec.model_dump(exclude={"kind"})
        return cls(width=width, state=state, memory_width=memory_width, dropout=dropout, **settings)

    def extra_repr(self) -> str:
        return f"query before the step, {self.readout}"

    def prepare(self, memory: Memory) -> Pool:
        return self.attention.prepare(memory)

    def context(self, states: Float[Tensor, "b n s"], pool: Pool | None) -> Float[Tensor, "b n k"]:
        context: Tensor = self.attention(states, pool)
        return context

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        del pool
        assert contexts is not None  # this attention feeds them
        mixed: Tensor = self.map(torch.cat((states, tokens, contexts), dim=-1))
        return torch.tanh(mixed) if self.readout == "tanh" else mixed.view(*mixed.shape[:-1], -1, 2).amax(-1)


class LuongAlignment(Alignment):
    """The output is h̃_t = tanh(W_c[c_t; s_t]) with c_t = Σ_j α(s_t, h_j) h_j (Luong et al. 2015, global).

    The query is the state *after* the step.

    Args:
        width: features of a token and of the output, d.
        state: features of a state, s.
        memory_width: features of the memory, k.
        score: ``dot``, ``general`` (the default) or ``concat``; see ``StateAttention``.
        choice: ``soft`` (the default) or ``hard``.
        input_feeding: whether h̃_{t−1} is fed to the step to s_t besides the token, so that the decoder knows what it
            attended to before; at first it is 0. Default: True.
        dropout: probability of dropping an attention weight during training. Default: 0.
    """

    def __init__(
        self,
        *,
        width: int,
        state: int,
        memory_width: int,
        score: Literal["dot", "general", "concat"] = "general",
        choice: Choice = "soft",
        input_feeding: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.feeds = "output" if input_feeding else "nothing"
        self.fed_width = width if input_feeding else 0
        self.attention = StateAttention(
            state=state, memory_width=memory_width, score=score, choice=choice, dropout=dropout
        )
        self.map = nn.Linear(memory_width + state, width, bias=False)

    @classmethod
    def from_spec(
        cls, spec: LuongSpec, *, width: int, state: int, memory_width: int, dropout: float
    ) -> "LuongAlignment":
        """Build from a recipe."""
        settings = spec.model_dump(exclude={"kind"})
        return cls(width=width, state=state, memory_width=memory_width, dropout=dropout, **settings)

    def extra_repr(self) -> str:
        return "query after the step" + (", input feeding" if self.feeds == "output" else "")

    def prepare(self, memory: Memory) -> Pool:
        return self.attention.prepare(memory)

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        del tokens, contexts
        seen: Tensor = self.attention(states, pool)
        return torch.tanh(self.map(torch.cat((seen, states), dim=-1)))
