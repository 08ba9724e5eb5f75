"""One recurrent layer: the state that is carried from token to token.

Two ways to the same result: a whole sequence by torch's kernel, and a single step, for decoders whose next input
depends on their last state. A test holds them equal.

Shapes: b batch, n tokens, i features in, s features of the state, g features of all gates (s, 3s or 4s).
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.constants import GATES, STATE_PARTS

Cell = Literal["gru", "lstm", "elman"]
State = tuple[Tensor, ...]
"""What is carried on, each (b, s): the state that others see, and for an LSTM its memory cell."""


def elman_step(inputs: Float[Tensor, "b s"], carried: Float[Tensor, "b s"], state: State) -> State:
    """tanh(Wx + Us), the plain recurrent net."""
    del state
    return (torch.tanh(inputs + carried),)


def gru_step(inputs: Float[Tensor, "b g"], carried: Float[Tensor, "b g"], state: State) -> State:
    """s' = (1 − z) ⊙ n + z ⊙ s with r, z = σ(Wx + Us) and n = tanh(W_n x + r ⊙ U_n s) (Cho 2014, torch's form)."""
    (old,) = state
    size = old.shape[-1]
    reset, update = (inputs[:, : 2 * size] + carried[:, : 2 * size]).sigmoid().chunk(2, dim=-1)
    new = torch.tanh(inputs[:, 2 * size :] + reset * carried[:, 2 * size :])
    return (torch.lerp(new, old, update),)


def lstm_step(inputs: Float[Tensor, "b g"], carried: Float[Tensor, "b g"], state: State) -> State:
    """c' = f ⊙ c + i ⊙ tanh(g), s' = o ⊙ tanh(c') with i, f, o = σ(Wx + Us) (Hochreiter and Schmidhuber 1997)."""
    _, cell = state
    let_in, keep, new, let_out = (inputs + carried).chunk(4, dim=-1)
    cell = keep.sigmoid() * cell + let_in.sigmoid() * new.tanh()
    return let_out.sigmoid() * cell.tanh(), cell


_STEPS = {"gru": gru_step, "lstm": lstm_step, "elman": elman_step}


class Recurrence(nn.Module):
    """One layer in one direction; the gates' maps of the input are one map, and so are those of the state."""

    def __init__(self, *, cell: Cell, inputs: int, state: int) -> None:
        super().__init__()
        self.cell, self.size = cell, state
        self.input = nn.Linear(inputs, GATES[cell] * state)
        self.carry = nn.Linear(state, GATES[cell] * state)

    def extra_repr(self) -> str:
        """Settings, for people."""
        return self.cell

    def forward(self, x: Float[Tensor, "b n i"], state: State | None = None) -> tuple[Float[Tensor, "b n s"], State]:
        """The state after every token, and what is carried on; without a state it starts from 0."""
        if state is None:
            state = (x.new_zeros(len(x), self.size),) * STATE_PARTS[self.cell]
        begin = [part[None] for part in state]
        weights = [self.input.weight, self.carry.weight, self.input.bias, self.carry.bias]
        rest = (weights, True, 1, 0.0, False, False, True)  # biases, one layer, no dropout, one direction, batch first
        if self.cell == "lstm":
            states, *end = torch.lstm(x, begin, *rest)
        else:
            states, *end = (torch.gru if self.cell == "gru" else torch.rnn_tanh)(x, begin[0], *rest)
        return states, tuple(part[0] for part in end)

    def gates(self, x: Float[Tensor, "*b i"]) -> Float[Tensor, "*b g"]:
        """Wx + b: what the input says to the gates. An input of fewer features is the first part of a longer one."""
        return F.linear(x, self.input.weight[:, : x.shape[-1]], self.input.bias)

    def more_gates(self, gates: Float[Tensor, "b g"], x: Float[Tensor, "b j"]) -> Float[Tensor, "b g"]:
        """The same with the last part of the input, which is known only now."""
        return torch.addmm(gates, x, self.input.weight[:, -x.shape[-1] :].T)

    def step(self, gates: Float[Tensor, "b g"], state: State) -> State:
        """Carry the state over one token."""
        return _STEPS[self.cell](gates, self.carry(state[0]), state)
