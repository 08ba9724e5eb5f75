"""What a model costs, block by block: the answer of ``clearhead.cost``."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property

from sympy import Expr, Integer, Symbol

from clearhead.costing.forms.family import Form, WritingForm
from clearhead.costing.forms.formula import Formula, total_over_steps
from clearhead.costing.forms.html import cost_html
from clearhead.costing.forms.lengths import USUAL, lengths_of
from clearhead.costing.forms.letters import Letters
from clearhead.costing.forms.sketch import FLOAT, ZERO, Ledger, LedgerBlock, Sketch
from clearhead.errors import ClearheadError
from clearhead.recipe import Precision, Recipe, cost_of


@dataclass(frozen=True, repr=False)
class Cost:
    """What a block costs with all its parts; every field is a formula in n, m, B (and t, in a step of decoding)."""

    name: str
    times: Formula
    """How many such blocks there are; what stands here is the cost of one."""
    parts: tuple["Cost", ...]
    matrices: Formula
    """Parameters in matrices."""
    vectors: Formula
    """Parameters in biases, gains and shifts."""
    tables: Formula
    """Parameters in embedding tables and in an output matrix of its own."""
    macs: Formula
    """Multiply-accumulates of the forward pass; a causal mask saves nothing."""
    causal_macs: Formula
    """The same without the pairs that a causal mask hides."""
    backward: Formula
    """Multiply-accumulates of the backward pass."""
    operations: Formula
    """Operations of the forward pass that are no matrix product."""
    saved: Formula
    """Bytes that autograd keeps from forward to backward, without dropout, when attention forms its weights."""
    copies: Formula
    """Those of them that are bfloat16 copies of weights."""
    span: Formula
    """The longest chain of operations, sums as trees."""
    serial_span: Formula
    """The same with dot products one term after the other."""
    cache: Formula
    """Bytes of keys and values kept between steps of decoding."""
    sequential: Formula
    """Operations along the sequence that wait for each other."""
    path: Formula | None
    """The longest way between two positions; None where positions do not meet."""

    @property
    def parameters(self) -> Formula:
        """Learned numbers; shared ones count once."""
        return self.matrices + self.vectors + self.tables

    @property
    def without_embeddings(self) -> Formula:
        """Parameters without embedding tables and output matrix."""
        return self.matrices + self.vectors

    @property
    def flops(self) -> Formula:
        """Twice the multiply-accumulates."""
        return self.macs * 2

    @property
    def training(self) -> Formula:
        """Multiply-accumulates of a training step, forward and backward."""
        return self.macs + self.backward

    @property
    def weights(self) -> Formula:
        """Bytes of the weights; the gradients take as many."""
        return self.parameters * FLOAT

    def __getitem__(self, name: str) -> "Cost":
        """A part by its name, which is that of the module: ``cost["encoder"]["layers"]["attention"]``."""
        for part in self.parts:
            if part.name == name:
                return part
        raise KeyError(f"{self.name} has no part {name!r} (there are: {', '.join(part.name for part in self.parts)})")

    def walk(self, depth: int = 0) -> Iterator[tuple[int, "Cost"]]:
        """This block and all inside it, each with its depth."""
        yield depth, self
        for part in self.parts:
            yield from part.walk(depth + 1)

    def __add__(self, other: "Cost") -> "Cost":
        """Two blocks, one after the other."""
        summed = {
            part.name: getattr(self, part.name) + getattr(other, part.name)
            for part in fields(Cost)
            if part.name not in ("name", "times", "parts", "path")
        }
        path = self.path or other.path
        return Cost(
            name=f"{self.name} + {other.name}",
            times=Formula(Integer(1)),
            parts=(self, other),
            path=path,
            **summed,
        )

    @property
    def label(self) -> str:
        """What the block is called, and of how many it is one."""
        return self.name if self.times == 1 else f"{self.name}, one of {self.times.at()}"

    @property
    def usual_lengths(self) -> Mapping[str, int]:
        """Lengths at which the cost is shown where none are given."""
        return {"n": USUAL, "m": USUAL, "B": 1, "t": USUAL}

    def __repr__(self) -> str:
        place = self.usual_lengths
        letters = sorted({symbol.name for symbol in self.macs.numbers.free_symbols}, key="nmtB".index)
        where = f" at {', '.join(f'{name} = {place[name]}' for name in letters)}" if letters else ""
        numbers = f"{self.parameters.at(**place):,} parameters, {self.macs.at(**place):,} MACs"
        return f"{type(self).__name__}({self.label}: {numbers}{where})"

    def _repr_html_(self) -> str:
        return cost_html(self)

    def _repr_latex_(self) -> str:
        return self.macs._repr_latex_()


_SUMMED = ("matrices", "vectors", "tables", "macs", "backward", "operations", "saved", "copies", "cache", "sequential")


def _path(block: LedgerBlock) -> Expr | None:
    """The shortest of the parts' ways: one layer in which everybody meets is enough."""
    paths = [path for path in (block.path, *map(_path, block.parts)) if path is not None]
    return min(paths, key=lambda path: (not path.is_number, path.sort_key())) if paths else None


def cost_tree(block: LedgerBlock, sizes: Mapping[Symbol, int]) -> Cost:
    """From a ledger's blocks to formulas."""
    path = _path(block)
    return Cost(
        name=block.name,
        times=Formula(block.times, sizes),
        parts=tuple(cost_tree(part, sizes) for part in block.parts),
        causal_macs=Formula(block.total("visible"), sizes),
        span=Formula(block.span.tree, sizes),
        serial_span=Formula(block.span.serial, sizes),
        path=None if path is None else Formula(path, sizes),
        **{what: Formula(block.total(what), sizes) for what in _SUMMED},
    )


@dataclass(frozen=True, repr=False)
class ModelFormulas(Cost):
    """What a whole model costs, in formulas: to hold, to train, to decode with."""

    title: str = field(kw_only=True)
    """What the model was called: a preset or a file, and changes to it."""
    recipe: Recipe = field(kw_only=True)
    letters: Letters = field(kw_only=True)
    block: LedgerBlock = field(kw_only=True)
    precision: Precision = field(kw_only=True)
    """What training computes products in: the recipe's own word, or what ``auto`` means on this machine."""

    @cached_property
    def form(self) -> Form:
        """What the family does."""
        form: Form = cost_of(self.recipe.model)(self.recipe.model)
        return form

    @property
    def sizes(self) -> Mapping[Symbol, int]:
        """What the letters stand for."""
        return self.letters.values

    @property
    def label(self) -> str:
        """What the model was called."""
        return self.title

    @property
    def usual_lengths(self) -> Mapping[str, int]:
        """512 tokens, or as many as the model's positions hold; one sequence."""
        return lengths_of(self.recipe)

    # -- training ------------------------------------------------------------------------------------------------

    @cached_property
    def fused(self) -> Cost:
        """The forward pass when attention never holds its weights (torch's fused kernel): only ``saved`` differs."""
        ledger = Ledger(
            letters=self.letters,
            path="fused",
            name=self.name,
            once=self._equal_layers,
            recompute=self.recipe.training.recompute,
            precision=self.precision,
        )
        return run_cost(ledger, self.form.forward)

    @property
    def _equal_layers(self) -> bool:
        """Whether no first layer costs something else than those after it."""
        return not any(part.name.endswith(".0") for _, part in self.walk())

    @property
    def is_tuned(self) -> bool:
        """Whether the recipe trains a part of the model, or adapters, instead of all of it."""
        return bool(self.recipe.training.freeze) or self.recipe.training.adapters is not None

    @property
    def trained(self) -> Formula:
        """Parameters that the recipe trains: all, or what training.freeze and training.adapters leave."""
        return Formula(self.block.total("trained"), self.sizes)

    @property
    def adapters(self) -> Formula:
        """Parameters of adapters: they are beside the model's own while it is trained, and merged into them after."""
        return Formula(self.block.total("adapters"), self.sizes)

    @property
    def gradients(self) -> Formula:
        """Bytes of the gradients, which only trained parameters have."""
        return self.trained * FLOAT

    @property
    def optimizer(self) -> Formula:
        """Bytes that the recipe's optimizer keeps: two numbers a parameter for AdamW, one for Muon's matrices."""
        states = 2 * self.block.total("trained")
        steps = self.block.total("trained_tensors")  # AdamW counts the steps of each tensor
        if self.recipe.training.optimizer.kind == "muon":
            hidden = self.block.total("trained_hidden"), self.block.total("trained_hidden_tensors")
            states, steps = states - hidden[0], steps - hidden[1]
        return Formula(FLOAT * (states + steps), self.sizes)

    @property
    def average(self) -> Formula:
        """Bytes of the moving average of the trained parameters, if the recipe keeps one; frozen ones are shared."""
        return self.gradients if self.recipe.training.average else Formula(ZERO)

    # -- decoding ------------------------------------------------------------------------------------------------

    @property
    def writes(self) -> bool:
        """Whether the family decodes."""
        return isinstance(self.form, WritingForm)

    @property
    def _writing(self) -> WritingForm:
        if not isinstance(self.form, WritingForm):
            raise ClearheadError(
                f"{self.title}: a model of the family {self.name} writes nothing, so it has no decoding"
            )
        return self.form

    @cached_property
    def read(self) -> Cost:
        """Before the first step of decoding: the source, or the prompt."""
        ledger = Ledger(letters=self.letters, name="read", once=True)
        return run_cost(ledger, self._writing.read)

    @cached_property
    def step(self) -> Cost:
        """One step of greedy decoding with a cache and t tokens so far."""
        ledger = Ledger(letters=self.letters, name="step", once=True)
        return run_cost(ledger, self._writing.step)

    def _decoded(self, what: str) -> Formula:
        first, last = self._writing.steps
        step: Formula = getattr(self.step, what)
        read: Formula = getattr(self.read, what)
        return read + Formula(total_over_steps(step.expression, first, last), self.sizes)

    @property
    def decode_macs(self) -> Formula:
        """Multiply-accumulates of writing m tokens greedily with a cache."""
        return self._decoded("macs")

    @property
    def decode_operations(self) -> Formula:
        """What is no matrix product in writing m tokens."""
        return self._decoded("operations")

    @property
    def decode_span(self) -> Formula:
        """The longest chain of operations in writing m tokens, each step whole before the next begins.

        A cache lowers work, not span (L2.2).
        """
        return self._decoded("span")

    @property
    def decode_serial_span(self) -> Formula:
        """The same with dot products one term after the other."""
        return self._decoded("serial_span")


def run_cost(ledger: Ledger, run: Callable[[Ledger], Sketch]) -> Cost:
    """What a run costs that begins with this ledger; it is over when its result is ready."""
    ledger.root.span = run(ledger).time
    return cost_tree(ledger.root, ledger.letters.values)
