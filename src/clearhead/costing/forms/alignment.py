"""What the attention of a recurrent decoder over its source costs: Bahdanau's, Luong's, or none (L1.3)."""

from dataclasses import replace
from typing import Any, Literal

from sympy import Expr

from clearhead.costing.forms.attention import choose
from clearhead.costing.forms.letters import B
from clearhead.costing.forms.sketch import ONE, ZERO, Ledger, Sketch, Storage, Time
from clearhead.recipe import BahdanauSpec, LuongSpec, NoAlignmentSpec


class AlignmentForm:
    """What enters a step, and what comes out of it."""

    feeds: Literal["nothing", "context", "output"] = "nothing"

    def __init__(self, spec: Any, ledger: Ledger, *, width: Expr, state: Expr, memory: Sketch | None) -> None:
        self.spec, self.ledger, self.width, self.state, self.memory = spec, ledger, width, state, memory
        self.copies: dict[str, Storage | None] = {}
        """The bfloat16 copies of its matrices."""

    @property
    def fed(self) -> Expr:
        """Features of what enters a step beside the token."""
        return ZERO

    def declare(self) -> None:
        """Its parameters."""

    def _declare(self, name: str, inputs: Expr, features: Expr, *, bias: bool = False) -> None:
        """A map of this name."""
        self.copies[name] = self.ledger.linear(inputs, features, bias=bias, name=f"alignment.{name}")

    def _mapped(self, name: str, x: Sketch, features: Expr, *, bias: bool = False) -> Sketch:
        """x through the map of this name."""
        return x.linear(features, bias=bias, known=True, copied=self.copies.get(name))

    def prepare(self) -> None:
        """Project the memory, once for all steps."""

    def enters(self, state: Sketch, last: list[Sketch]) -> Sketch | None:
        """What enters a step: nothing, what this state sees, or the last output."""
        del state, last
        return None

    def contexts(self, length: Expr, time: Time) -> Sketch | None:
        """What was seen before each step, once all steps are done."""
        del length, time
        return None

    def output(self, states: Sketch, tokens: Sketch, contexts: Sketch | None) -> Sketch:
        """The decoder's vectors."""
        raise NotImplementedError


class NoAlignmentForm(AlignmentForm):
    """The states themselves; if they have another width, through a linear map."""

    spec: NoAlignmentSpec

    def declare(self) -> None:
        """A map, if the widths differ."""
        if self.state != self.width:
            self._declare("map", self.state, self.width, bias=True)

    def output(self, states: Sketch, tokens: Sketch, contexts: Sketch | None) -> Sketch:
        """The states."""
        del tokens, contexts
        return states if self.state == self.width else self._mapped("map", states, self.width, bias=True)


class _AttendingForm(AlignmentForm):
    """A state attends to the memory, whose vectors are their own values."""

    keys: Sketch | None = None

    @property
    def _score(self) -> str:
        return "concat"

    @property
    def _size(self) -> Expr:
        """Features in which state and memory meet."""
        return self.state

    @property
    def _memory(self) -> Sketch:
        assert self.memory is not None  # a recipe that looks has an encoder
        return self.memory

    def declare(self) -> None:
        """The maps of state and memory, and the direction in which they meet."""
        if self._score != "dot":
            self._declare("attention.key", self._memory.shape[-1], self._size)
        if self._score == "concat":
            self._declare("attention.query", self.state, self._size)
            self.ledger.parameter(self._size, kind="vector", name="alignment.attention.direction")

    def prepare(self) -> None:
        """n·k·a for the keys."""
        memory = self._memory
        self.keys = memory if self._score == "dot" else self._mapped("attention.key", memory, self._size)

    def attend(self, states: Sketch) -> Sketch:
        """The context of each state."""
        memory, (_, steps, _) = self._memory, states.shape
        keys = self.keys or self.ledger.constant(B, memory.shape[-2], self._size)
        if self._score == "concat":
            query = self._mapped("attention.query", states, self._size)
            meeting = query.add(keys, (B, steps, memory.shape[-2], self._size)).apply(keeps="output")
            scores = meeting.scale(learned=True).sum(B, steps, memory.shape[-2])
        else:
            scores = states.matmul(keys.transpose())
        weights = choose(scores, hard=self.spec.choice == "hard")
        return weights.matmul(memory)


class BahdanauForm(_AttendingForm):
    """The state before the step is the query; what it attends to enters the step, and the readout."""

    spec: BahdanauSpec
    feeds = "context"

    @property
    def fed(self) -> Expr:
        """The context."""
        return self._memory.shape[-1]

    @property
    def _size(self) -> Expr:
        return self.ledger.letters("a", self.spec.size) if self.spec.size else self.state

    def declare(self) -> None:
        """The attention's, and the readout."""
        super().declare()
        twice = 2 if self.spec.readout == "maxout" else 1
        self._declare("map", self.state + self.width + self.fed, twice * self.width, bias=True)

    def enters(self, state: Sketch, last: list[Sketch]) -> Sketch:
        """What the state sees."""
        del last
        context = self.attend(state.view(B, ONE, self.state))
        return context.view(B, self.fed)

    def contexts(self, length: Expr, time: Time) -> Sketch:
        """All contexts, side by side."""
        return self.ledger.input(B, length, self.fed, time=time, size=self._memory.factor().itemsize)

    def output(self, states: Sketch, tokens: Sketch, contexts: Sketch | None) -> Sketch:
        """The readout of state, token and context: the larger of each two features, or tanh."""
        assert contexts is not None
        _, length, _ = states.shape
        states = states.beside(tokens, *states.shape)
        joined = states.beside(contexts, B, length, self.state + self.width + self.fed)
        if self.spec.readout == "tanh":
            return self._mapped("map", joined, self.width, bias=True).apply(keeps="output")
        mixed = self._mapped("map", joined, 2 * self.width, bias=True)
        result = mixed.kernel(B * length * self.width, ONE, shape=(B, length, self.width), keeps=[mixed.storage])
        self.ledger.save(result.storage)
        return result


class LuongForm(_AttendingForm):
    """The state after the step is the query; what it attends to makes the output, which may enter the next step."""

    spec: LuongSpec

    @property
    def feeds(self) -> Literal["nothing", "output"]:  # type: ignore[override]
        """The last output, with input feeding."""
        return "output" if self.spec.input_feeding else "nothing"

    @property
    def fed(self) -> Expr:
        """The last output."""
        return self.width if self.spec.input_feeding else ZERO

    @property
    def _score(self) -> str:
        return self.spec.score

    def declare(self) -> None:
        """The attention's, and the map to the output."""
        super().declare()
        self._declare("map", self._memory.shape[-1] + self.state, self.width)

    def enters(self, state: Sketch, last: list[Sketch]) -> Sketch | None:
        """The last output; before the first there is none, and zeros enter."""
        if not self.spec.input_feeding:
            return None
        zero = replace(self.ledger.constant(B, self.width), data=True)
        return replace((last[0] if last else zero).view(B, self.width), time=state.time)

    def output(self, states: Sketch, tokens: Sketch, contexts: Sketch | None) -> Sketch:
        """tanh(W[c; s])."""
        del tokens, contexts
        _, length, _ = states.shape
        joined = self.attend(states).beside(states, B, length, self._memory.shape[-1] + self.state)
        return self._mapped("map", joined, self.width).apply(keeps="output")
