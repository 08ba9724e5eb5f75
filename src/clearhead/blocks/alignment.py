"""What a recurrent decoder knows of the source at each step: Bahdanau's and Luong's attention, or none (L1.3).

Shapes: b batch, n steps, m source tokens, k features of the memory, s of a state, e of a token that is fed in, a
features in which state and memory meet, d features out.
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
    """The candidates that states look at: the memory, with its keys projected once for all steps."""

    keys: Float[Tensor, "b m a"]
    values: Float[Tensor, "b m k"]
    valid: Bool[Tensor, "b m"] | None
    """False for padding; None if there is none."""

    def select(self, rows: Int[Tensor, "r"]) -> "Pool":
        """Keep these rows of the batch, in this order."""
        return Pool(self.keys[rows], self.values[rows], None if self.valid is None else self.valid[rows])


class StateAttention(nn.Module):
    """Σ_j α(s, h_j) h_j: a state looks at the memory, whose vectors are their own values (L1.1).

    The score is s·h (dot), s·Wh (general), or u·tanh(W[s; h]) = u·tanh(W₁s + W₂h) (concat), which is Bahdanau's.
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
        """Settings, for people."""
        formula = {"dot": "s·h", "general": "s·Wh", "concat": "u·tanh(Ws + Uh)"}[self.score]
        return f"{self.choice}, {formula}"

    def prepare(self, memory: Memory) -> Pool:
        """Project the memory, once for all steps."""
        return Pool(self.key(memory.states), memory.states, memory.valid)

    def forward(self, states: Float[Tensor, "b n s"], pool: Pool) -> Float[Tensor, "b n k"]:
        """The context of each state."""
        weights = weigh(
            self.query(states),
            pool.keys,
            score=dot if self.direction is None else partial(additive, direction=self.direction),
            scale="none",
            choice=self.choice,
            mask=None if pool.valid is None else pool.valid[:, None],
        )  # (b, n, m)
        seen: Tensor = self.weights(weights[:, None])[:, 0]  # those who watch weights expect heads
        context: Tensor = self.drop(seen) @ pool.values
        return context


class Alignment(nn.Module):
    """What a decoder asks of its attention: what enters a step, and what comes out of it."""

    feeds: Literal["nothing", "context", "output"] = "nothing"
    """What enters a step beside the token: nothing, so that all steps may be one call; the context that the state
    before it asked for; or the last output."""
    fed_width: int = 0
    """Features of what enters."""

    def prepare(self, memory: Memory) -> Pool | None:
        """What all steps share; None if nothing of the memory is looked at."""
        raise NotImplementedError

    def context(self, states: Float[Tensor, "b n s"], pool: Pool | None) -> Float[Tensor, "b n k"]:
        """What these states see, for an attention that feeds the context."""
        raise NotImplementedError

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        """The decoder's vectors, from the states after the steps, what was fed in, and what was seen before them."""
        raise NotImplementedError


class NoAlignment(Alignment):
    """The states themselves are the output; if they have another width, through a linear map."""

    def __init__(self, *, width: int, state: int) -> None:
        super().__init__()
        self.map = nn.Identity() if state == width else nn.Linear(state, width)

    @classmethod
    def from_spec(
        cls, spec: NoAlignmentSpec, *, width: int, state: int, memory_width: int, dropout: float
    ) -> "NoAlignment":
        """Build from a recipe; no memory is looked at."""
        del spec, memory_width, dropout
        return cls(width=width, state=state)

    def prepare(self, memory: Memory) -> None:
        """Nothing."""

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        """The states."""
        del tokens, contexts, pool
        out: Tensor = self.map(states)
        return out


class BahdanauAlignment(Alignment):
    """c_i = Σ_j α(s_{i−1}, h_j) h_j enters the step to s_i; out comes maxout(U s_i + V y_{i−1} + C c_i).

    The state that asks is the one *before* the step, the top layer's; maxout keeps the larger of each two features.
    With ``readout = "tanh"`` it is tanh(U s_i + V y_{i−1} + C c_i) instead. (Bahdanau et al. 2015)
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
        """Settings, for people."""
        return f"asks before the step, {self.readout}"

    def prepare(self, memory: Memory) -> Pool:
        """The projected memory."""
        return self.attention.prepare(memory)

    def context(self, states: Float[Tensor, "b n s"], pool: Pool | None) -> Float[Tensor, "b n k"]:
        """What the states before the steps see."""
        context: Tensor = self.attention(states, pool)
        return context

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        """The readout of state, token and context."""
        del pool
        assert contexts is not None  # this attention feeds them
        mixed: Tensor = self.map(torch.cat((states, tokens, contexts), dim=-1))
        return torch.tanh(mixed) if self.readout == "tanh" else mixed.view(*mixed.shape[:-1], -1, 2).amax(-1)


class LuongAlignment(Alignment):
    """The output is h̃_t = tanh(W_c[c_t; s_t]) with c_t = Σ_j α(s_t, h_j) h_j (Luong et al. 2015, global).

    The state that asks is the one *after* the step. With input feeding h̃_{t−1} enters the step to s_t beside the token,
    so that the decoder knows what it looked at before; the first time it is 0.
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
        """Settings, for people."""
        return "asks after the step" + (", input feeding" if self.feeds == "output" else "")

    def prepare(self, memory: Memory) -> Pool:
        """The projected memory."""
        return self.attention.prepare(memory)

    def output(
        self,
        states: Float[Tensor, "b n s"],
        tokens: Float[Tensor, "b n e"],
        contexts: Float[Tensor, "b n k"] | None,
        pool: Pool | None,
    ) -> Float[Tensor, "b n d"]:
        """h̃: what the states after the steps see, and themselves."""
        del tokens, contexts
        seen: Tensor = self.attention(states, pool)
        return torch.tanh(self.map(torch.cat((seen, states), dim=-1)))
