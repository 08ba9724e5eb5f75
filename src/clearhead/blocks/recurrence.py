"""One recurrent layer: a state that is carried from token to token.

There are two paths to the same result: a whole sequence by torch's kernel, and a single step, for decoders whose next
input depends on the previous state. A test holds them equal.

Shapes: b batch, n tokens, i input features, s features of the state, g features of all gates (s, 3s or 4s).
"""

from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.constants import GATES, STATE_PARTS

Cell = Literal["gru", "lstm", "elman"]
State = tuple[Tensor, ...]
"""The tensors carried from step to step, each (b, s): the hidden state, and for an LSTM also its cell."""


def elman_step(inputs: Float[Tensor, "b s"], carried: Float[Tensor, "b s"], state: State) -> State:
    """tanh(Wx + Us), the plain recurrent network."""
    del state
    return (torch.tanh(inputs + carried),)


def gru_step(inputs: Float[Tensor, "b g"], carried: Float[Tensor, "b g"], state: State) -> State:
    """s' = (1 − z) ⊙ n + z ⊙ s with r, z = σ(Wx + Us) and n = tanh(W_n x + r ⊙ U_n s) (Cho 2014, torch's form)."""
    (old,) = state
    size = old.shape[-1]
    reset, update = (inputs[:, : 2 * size] + carried[:, : 2 * size]).sigmoid().chunk(2, dim=-1)
    new = torch.tanh(inputs[:, 2 * size :] + reset * carried[:, 2 * size :])
    return (torch.lerp(new, old.to(new.dtype), update),)  # autocast may have computed the gates in bfloat16


def lstm_step(inputs: Float[Tensor, "b g"], carried: Float[Tensor, "b g"], state: State) -> State:
    """c' = f ⊙ c + i ⊙ tanh(g), s' = o ⊙ tanh(c') with i, f, o = σ(Wx + Us) (Hochreiter and Schmidhuber 1997)."""
    _, cell = state
    let_in, keep, new, let_out = (inputs + carried).chunk(4, dim=-1)
    cell = keep.sigmoid() * cell + let_in.sigmoid() * new.tanh()
    return let_out.sigmoid() * cell.tanh(), cell


_STEPS = {"gru": gru_step, "lstm": lstm_step, "elman": elman_step}


class Recurrence(nn.Module):
    """One recurrent layer in one direction; all gates share one linear map of the input and one of the state.

    Args:
        cell: ``gru``, ``lstm`` or ``elman``.
        inputs: input features, i.
        state: features of the state, s.
    """

    def __init__(self, *, cell: Cell, inputs: int, state: int) -> None:
        super().__init__()
        self.cell, self.size = cell, state
        self.input = nn.Linear(inputs, GATES[cell] * state)
        self.carry = nn.Linear(state, GATES[cell] * state)

    def extra_repr(self) -> str:
        return self.cell

    def forward(self, x: Float[Tensor, "b n i"], state: State | None = None) -> tuple[Float[Tensor, "b n s"], State]:
        """Return the hidden state after every token, and the final state; the initial state is 0 by default."""
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
        """Wx + b, the input's part of the gates. If x has fewer features than the input, it is its first part."""
        return F.linear(x, self.input.weight[:, : x.shape[-1]], self.input.bias)

    def more_gates(self, gates: Float[Tensor, "b g"], x: Float[Tensor, "b j"]) -> Float[Tensor, "b g"]:
        """Add the last part of the input, which becomes known later."""
        return torch.addmm(gates, x, self.input.weight[:, -x.shape[-1] :].T)

    def step(self, gates: Float[Tensor, "b g"], state: State) -> State:
        """Update the state by one token."""
        return _STEPS[self.cell](gates, self.carry(state[0]), state)
