"""What recurrent encoders and decoders cost (L1.2, L1.3, L4.6): one token after the other.

A step keeps of the states what its gates need. With bfloat16, gates are computed in it, and a state stays what the
first one was: float32 if it was zero. The LSTM is counted as torch writes it out; its oneDNN kernel multiplies
as much, and keeps a workspace of its own instead.
"""

from dataclasses import dataclass, replace

from sympy import Expr

from clearhead.constants import GATES, STATE_PARTS
from clearhead.costing.forms.alignment import AlignmentForm
from clearhead.costing.forms.inputs import Inputs, StackRole, embed
from clearhead.costing.forms.letters import B
from clearhead.costing.forms.sketch import INDEX, ONE, Ledger, Sketch, Storage, product
from clearhead.recipe import RecurrentDecoderSpec, RecurrentEncoderSpec, cost_of

OPERATIONS = {"gru": 10, "lstm": 13, "elman": 2}
"""Operations for each feature of the state, after the two maps."""
CHAIN = {"gru": 8, "lstm": 6, "elman": 2}
"""How many of them are sequential."""


@dataclass(frozen=True)
class Cell:
    """One layer in one direction."""

    kind: str
    state: Expr

    @property
    def gates(self) -> Expr:
        """Features of all gates."""
        return GATES[self.kind] * self.state

    def declare(self, ledger: Ledger, inputs: Expr, where: str = "") -> "CellCopies":
        """Its parameters; ``where`` it stands in the block around it."""
        return CellCopies(
            ledger.linear(inputs, self.gates, name=f"{where}input"),
            ledger.linear(self.state, self.gates, name=f"{where}carry"),
        )

    def step(
        self, gates: Sketch, state: Sketch, memory: list[Storage], copies: "CellCopies", *, alone: bool = False
    ) -> Sketch:
        """Carry the state over one token: s·gates·s multiply-accumulates, and what the gates do.

        ``memory`` fills with the LSTM's memory cell, which at first lies where the state does. ``alone`` if this is no
        step of torch's own: then the state of a GRU has the type of its gates.
        """
        ledger, size = gates.ledger, self.state
        carried = state.linear(self.gates, known=True, copied=copies.carry)
        narrow = self.kind == "elman" or (self.kind == "gru" and alone)
        wider = carried.itemsize if narrow else max(carried.itemsize, state.itemsize)

        def vectors(count: int, itemsize: int) -> list[Storage]:
            return [Storage(product(B, size, itemsize)) for _ in range(count)]

        cell = vectors(1, wider)
        kept = {
            "gru": [carried.storage, *vectors(2, carried.itemsize), *vectors(1, wider)],
            "lstm": [*(cell if memory else [state.storage]), *vectors(4, carried.itemsize), *vectors(1, wider)],
            "elman": [],
        }[self.kind]
        if self.kind == "gru" and alone:
            ledger.save(state.factor().storage)
        memory[:] = cell
        ready = replace(carried.typed(wider), time=carried.time.join(gates.time))
        new = ready.kernel(OPERATIONS[self.kind] * B * size, CHAIN[self.kind], shape=(B, size), keeps=kept)
        if self.kind == "elman":
            ledger.save(new.storage)
        return new

    def run(self, x: Sketch, state: Sketch | None, copies: "CellCopies") -> Sketch:
        """All tokens of a sequence: the input's maps at once, then step by step."""
        ledger, (_, length, _) = x.ledger, x.shape
        gates = replace(x, packed=False).linear(self.gates, known=True, copied=copies.input)
        start = ledger.constant(B, self.state, size=x.itemsize) if state is None else state
        memory: list[Storage] = []

        def step(carried: Sketch) -> Sketch:
            return self.step(gates, carried, memory, copies)

        last = ledger.repeat("steps", 2, length, step, start, uneven=True)
        ledger.mixes(sequential=length, path=length)
        states = ledger.input(B, length, self.state, time=last.time, size=last.itemsize)
        return replace(states, packed=False)  # tokens come first in memory


@dataclass(frozen=True)
class CellCopies:
    """The bfloat16 copies of a layer's two matrices (``Ledger.copy``)."""

    input: Storage | None
    carry: Storage | None


class RecurrentEncoderForm:
    """Reads token by token, in one direction or in both: 2·gates·n·d² a layer and direction."""

    def __init__(self, spec: RecurrentEncoderSpec) -> None:
        self.spec = spec

    def _sizes(self, ledger: Ledger) -> tuple[Expr, int]:
        spec = self.spec
        state = ledger.letters("s", spec.state_size, "enc") if spec.state else ledger.letters("d", spec.width, "enc")
        return state, 2 if spec.bidirectional else 1

    def out_width(self, ledger: Ledger) -> Expr:
        """The states of all directions, side by side."""
        state, ways = self._sizes(ledger)
        return ways * state

    def run(self, ledger: Ledger, inputs: Inputs, role: StackRole) -> Sketch:
        """All tokens, layer by layer."""
        spec = self.spec
        state, ways = self._sizes(ledger)
        cell = Cell(spec.cell, state)
        with ledger.block(role.name) as block:
            x = embed(ledger, spec, inputs, role)
            mirror = Storage(product(B, inputs.length, INDEX))

            def layer(y: Sketch) -> Sketch:
                copies = [cell.declare(ledger, y.shape[-1], way) for way in ("rightward.", "leftward.")[:ways]]
                forth = cell.run(y, None, copies[0])
                if ways == 1:
                    return forth
                back = cell.run(y.gathered(mirror, *y.shape), None, copies[1])
                return forth.beside(back.gathered(mirror, *back.shape), B, inputs.length, 2 * state)

            x = ledger.measured("layers.0", layer, x)
            if spec.layers > 1:
                rest = ledger.letters("L", spec.layers, role.part) - 1
                x = ledger.repeat("layers", spec.layers - 1, rest, layer, x)
            block.span = x.time
        return x


class RecurrentDecoderForm:
    """Writes token by token; where nothing but tokens enters a step, all tokens are one call while training."""

    def __init__(self, spec: RecurrentDecoderSpec) -> None:
        self.spec = spec

    def run(self, ledger: Ledger, inputs: Inputs, role: StackRole) -> Sketch:
        """All tokens of the inputs; with ``so_far`` one step from the state before it."""
        spec, memory = self.spec, role.memory
        state = self._state(ledger, role)
        with ledger.block(role.name) as block:
            tokens = embed(ledger, spec, inputs, role)
            width = tokens.shape[-1]
            alignment: AlignmentForm = cost_of(spec.attention)(
                spec.attention, ledger, width=width, state=state, memory=memory
            )
            cells = [Cell(spec.cell, state) for _ in range(spec.layers)]
            copies = [
                cell.declare(ledger, state if number else width + alignment.fed, f"layers.{number}.")
                for number, cell in enumerate(cells)
            ]
            alignment.declare()
            stepping = inputs.length == 1
            begun = self._begun(ledger, role, state)
            if not role.stored:
                alignment.prepare()
            if alignment.feeds == "nothing" and not stepping:
                x = tokens
                for cell, start, own in zip(cells, begun, copies, strict=True):
                    x = cell.run(x, start, own)
                x = alignment.output(x, tokens, None)
            else:
                x = self._one_by_one(tokens, cells, begun, alignment, copies)
            block.span = x.time
        return x

    def _state(self, ledger: Ledger, role: StackRole) -> Expr:
        spec = self.spec
        name = ("s", spec.state_size) if spec.state else ("d", spec.width)
        return ledger.letters(*name, role.part)

    def _begun(self, ledger: Ledger, role: StackRole, state: Expr) -> list[Sketch]:
        """The first states: tanh(W·x + b) of the memory's ends or mean, or zero."""
        spec, memory = self.spec, role.memory
        carried = spec.layers * STATE_PARTS[spec.cell] * state
        if memory is None or spec.start == "zero":
            zero = ledger.constant(B, carried)
            return [zero.view(B, state) for _ in range(spec.layers)]
        features = memory.shape[-1] * (2 if spec.start == "ends" else 1)
        if role.stored:
            ledger.linear(features, carried, name="first")
            return [replace(ledger.constant(B, state), data=True) for _ in range(spec.layers)]
        with ledger.block("first"):
            summary = memory.beside(memory, B, features) if spec.start == "ends" else memory.sum(B, features, mean=True)
            first = summary.linear(carried).apply(keeps="output")
        return [first.view(B, state) for _ in range(spec.layers)]

    def _one_by_one(
        self,
        tokens: Sketch,
        cells: list[Cell],
        begun: list[Sketch],
        alignment: AlignmentForm,
        copies: list[CellCopies],
    ) -> Sketch:
        """All layers, token by token; the input's matrix is taken in slices, one for what is known before."""
        ledger, (_, length, width) = tokens.ledger, tokens.shape

        def gates_of(x: Sketch, cell: Cell) -> Sketch:
            copied = ledger.copy(x.shape[-1], cell.gates, part=True)
            return x.linear(cell.gates, known=True, copied=copied)

        gates = gates_of(tokens, cells[0])
        states = list(begun)
        memories: list[list[Storage]] = [[] for _ in cells]
        last: list[Sketch] = []

        def step(carried: Sketch) -> Sketch:
            here = gates
            states[-1] = carried
            fed = alignment.enters(carried, last)
            if fed is not None:
                # one operator: what the token says to the gates is added as a bias is
                here = gates_of(replace(fed, time=fed.time.join(gates.time)), cells[0])
            for number, cell in enumerate(cells):
                here = gates_of(states[number - 1], cell) if number else here
                states[number] = cell.step(here, states[number], memories[number], copies[number], alone=True)
            top = states[-1]
            if alignment.feeds == "output":
                last[:] = [alignment.output(top.view(B, ONE, top.shape[-1]), tokens, None)]
                return replace(top, time=top.time.join(last[0].time))
            return top

        end = ledger.repeat("steps", 2, length, step, begun[-1], uneven=True)
        ledger.mixes(sequential=length, path=length)
        if alignment.feeds == "output":
            return ledger.input(B, length, width, time=end.time, size=last[0].itemsize)
        tops = ledger.input(B, length, end.shape[-1], time=end.time, size=end.itemsize)
        return alignment.output(tops, tokens, alignment.contexts(length, end.time))

    def prepare(self, ledger: Ledger, role: StackRole) -> None:
        """What decoding does once: the first states, and the memory's keys."""
        state = self._state(ledger, role)
        width = ledger.letters("d", self.spec.width, role.part)
        with ledger.block(role.name):
            self._begun(ledger, role, state)
            formula = cost_of(self.spec.attention)
            formula(self.spec.attention, ledger, width=width, state=state, memory=role.memory).prepare()

    def out_width(self, ledger: Ledger) -> Expr:
        """Features of a token."""
        return ledger.letters("d", self.spec.width, "dec")
