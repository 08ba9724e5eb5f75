"""What several devices send each other in a step of training, and what each of them holds.

``ddp``: every device has the whole model, and the gradients are summed by an all-reduce. ``fsdp``: each has a part of
every parameter, cut along the first dimension into W pieces of ⌈rows / W⌉; a layer is gathered for the forward pass and
again for the backward pass, what is outside of layers once, and the gradients are summed and scattered once
(``clearhead.training.parallel``). All of it is proved by counting what torch really sends (tests/costing).

A ring of W devices sends (W − 1)/W of what is gathered or scattered, and twice as much of what is reduced for all.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from sympy import Expr, Integer, Rational, Symbol

from clearhead.costing.forms.bill import ModelFormulas
from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.letters import W, letter, lg
from clearhead.costing.forms.sketch import FLOAT, HALF, ZERO, LedgerBlock
from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.recipe import ConvolutionalSpec, TransformerSpec

Kind = Literal["ddp", "fsdp"]
FLAG = 4
"""Bytes by which DDP says whether a parameter has a gradient."""
_BATCHES = letter("A")


@dataclass(frozen=True)
class Sent:
    """Something that devices send each other in every step."""

    name: str
    call: Literal["all-reduce", "all-gather", "reduce-scatter"]
    payload: Formula
    """Bytes of the whole tensors: what is reduced, what is there after gathering, or before scattering."""

    @property
    def bytes(self) -> Formula:
        """Bytes that each device sends, in a ring."""
        around = 2 if self.call == "all-reduce" else 1
        found: Formula = self.payload * (around * (W - 1) / W)
        return found


@dataclass(frozen=True)
class Held:
    """Something that each device holds, in bytes."""

    name: str
    bytes: Formula


class Parallel:
    """Training on several devices, each with a batch of its own.

    Args:
        cost: what the model costs on one.
        devices: how many there are, W.
        kind: ``ddp`` or ``fsdp``.
    """

    def __init__(self, cost: ModelFormulas, devices: int, kind: Kind) -> None:
        if kind not in get_args(Kind):
            words = f"must be {' or '.join(get_args(Kind))}{did_you_mean(kind, get_args(Kind))}"
            raise RecipeError([Problem("", f"parallel {kind}", words)])
        if devices < 1:
            raise RecipeError([Problem("", f"devices {devices}", "must be 1 or more")])
        if kind == "fsdp" and cost.is_tuned:
            raise RecipeError([Problem("", "parallel fsdp", "is counted for recipes that train the whole model")])
        if any(getattr(stack, "shared", False) for stack in _stacks(cost)):
            raise RecipeError([Problem("", "devices", "is not counted for layers that share their weights")])
        if kind == "fsdp" and any(map(_shares_weights, _stacks(cost))):
            raise RecipeError([Problem("", "parallel fsdp", "cannot divide layers that share weights: use ddp")])
        self.cost, self.devices, self.kind = cost, devices, kind
        training = cost.recipe.training
        self.sizes: dict[Symbol, Integer] = {**cost.sizes, W: Integer(devices), _BATCHES: Integer(training.accumulate)}
        self._gathered_bytes = HALF if training.precision == "bfloat16" else FLOAT
        """Bytes of a number of a layer that is gathered; ``auto`` is bfloat16 on CPUs alone, which gather float32."""

    def _formula(self, expression: Expr) -> Formula:
        return Formula(expression, self.sizes)

    def _all(self, what: str) -> Expr:
        return self.cost.block.total(what)

    def _layers(self, what: str) -> Expr:
        """What all layers have of something; they are gathered one by one."""
        return sum((block.times * block.total(what) for block in self._layer_blocks()), ZERO)

    def _layer_blocks(self) -> Iterator[LedgerBlock]:
        for stack in self.cost.block.parts:
            if isinstance(getattr(self.cost.recipe.model, stack.name, None), TransformerSpec | ConvolutionalSpec):
                yield from (block for block in stack.parts if block.name.partition(".")[0] == "layers")

    # -- communication -------------------------------------------------------------------------------------------

    def sent(self) -> list[Sent]:
        """What is sent in a step; a step of A batches gathers and scatters A times, and all-reduces once."""
        if self.devices == 1:
            return []
        if self.kind == "ddp":
            return [
                Sent("gradients", "all-reduce", self._formula(FLOAT * self._all("trained"))),
                Sent("which have one", "all-reduce", self._formula(FLAG * self._all("trained_tensors") + FLAG)),
            ]
        layers, rest = self._layers("shards"), self._all("shards") - self._layers("shards")
        once = self._formula(_BATCHES * W * (self._gathered_bytes * layers + FLOAT * rest))
        return [
            Sent("weights, forward", "all-gather", once),
            Sent("weights, backward", "all-gather", self._formula(_BATCHES * W * self._gathered_bytes * layers)),
            Sent("gradients", "reduce-scatter", self._formula(_BATCHES * W * FLOAT * self._all("trained_shards"))),
        ]

    @property
    def bytes_sent(self) -> Formula:
        """Bytes that each device sends in a step."""
        return sum((part.bytes for part in self.sent()), self._formula(ZERO))

    @property
    def messages(self) -> Formula:
        """How many messages each device sends in a step, one after the other: ⌈log₂ W⌉ of each collective.

        Recursive doubling and halving send the bytes of a ring in so many messages; a ring would send W − 1.
        """
        if self.devices == 1:
            return self._formula(ZERO)
        if self.kind == "ddp":
            return self._formula(2 * lg(W) * (self._buckets + 1))
        groups = sum((block.times for block in self._layer_blocks()), ZERO)
        return self._formula(_BATCHES * lg(W) * (3 * groups + 2))

    @property
    def _buckets(self) -> Expr:
        """DDP's buckets of gradients: 1 MiB, then 25 MiB each, roughly."""
        bytes_ = int(self._formula(FLOAT * self._all("trained")).at())
        return Integer(1 + -(-max(0, bytes_ - 2**20) // (25 * 2**20)))

    # -- memory --------------------------------------------------------------------------------------------------

    def held(self) -> list[Held]:
        """What each device holds: the whole model, or its part of it and what is gathered at a time."""
        cost = self.cost
        copies = self._formula(self._all("copies"))
        activations = [Held("activations", cost.fused.saved - copies)]
        if cost.precision == "bfloat16":  # layers that are gathered in bfloat16 need no copies
            gathered = self.kind == "fsdp" and self.devices > 1 and self._gathered_bytes == HALF
            kept = copies - self._formula(self._layers("copies")) if gathered else copies
            activations.append(Held("copies of weights", kept))
        if self.kind == "ddp" or self.devices == 1:
            return [
                Held("weights", cost.weights + cost.adapters * FLOAT),
                Held("gradients", cost.gradients),
                Held("optimizer", cost.optimizer),
                Held("average", cost.average),
                *activations,
            ]
        part = self._formula(FLOAT * self._all("shards"))
        states = 2 * self._all("trained_shards")
        steps = self._all("trained_tensors")
        if cost.recipe.training.optimizer.kind == "muon":
            states, steps = states - self._all("trained_hidden_shards"), steps - self._all("trained_hidden_tensors")
        blocks = [W * self._gathered_bytes * block.total("shards") for block in self._layer_blocks()]
        largest = max(blocks, key=lambda size: int(self._formula(size).at()), default=ZERO)
        rest = self._all("shards") - self._layers("shards")
        return [
            Held("weights", part),
            Held("gathered", self._formula(FLOAT * W * rest + 2 * largest)),
            Held("gradients", part),
            Held("optimizer", self._formula(FLOAT * (states + steps))),
            Held("average", part if cost.recipe.training.average else self._formula(ZERO)),
            *activations,
        ]

    @property
    def bytes_held(self) -> Formula:
        """Bytes that each device holds."""
        return sum((part.bytes for part in self.held()), self._formula(ZERO))


def _shares_weights(stack: object) -> bool:
    """Whether layers have weights in common: positions of disentangled attention, Linformer's maps if it is asked."""
    attention = getattr(stack, "attention", None)
    common = getattr(attention, "kind", "") == "disentangled" or getattr(attention, "sharing", "") == "layerwise"
    return common and getattr(stack, "layers", 1) > 1


def _stacks(cost: ModelFormulas) -> Iterator[object]:
    model = cost.recipe.model
    for name in ("encoder", "decoder"):
        if (stack := getattr(model, name, None)) is not None:
            yield stack


@dataclass(frozen=True)
class Cluster:
    """The constants of the α–β model: sending b bytes takes α + b·β seconds.

    The defaults are those of eight H100 in a machine and 400 Gbit/s for each of them between machines.
    """

    flops: float = 989e12
    """Floating-point operations a second of a device at its best: dense bfloat16."""
    utilisation: float = 0.4
    """The share of these that training reaches."""
    node: int = 8
    """Devices of a machine."""
    latency_inside: float = 5e-6
    """α between the devices of a machine, in seconds."""
    bandwidth_inside: float = 450e9
    """1/β there, in bytes a second."""
    latency_between: float = 15e-6
    """α between machines."""
    bandwidth_between: float = 50e9
    """1/β there, of each device."""
    memory: float = 80e9
    """Bytes of a device."""
    overlap: float = 1.0
    """The share of communication that can be hidden behind the computing that it does not wait for."""


@dataclass(frozen=True)
class Prediction:
    """A step of training, as the α–β model sees it."""

    devices: int
    tokens: float
    """Tokens of each device in a step."""
    computing: float
    """Seconds."""
    latency: float
    """Seconds of the messages, however short they are."""
    transfer: float
    """Seconds of the bytes."""
    hidden: float
    """Seconds of both that are hidden behind computing."""

    @property
    def seconds(self) -> float:
        """Of a step."""
        return self.computing + self.latency + self.transfer - self.hidden

    @property
    def efficiency(self) -> float:
        """The share of a step in which devices compute."""
        return self.computing / self.seconds


def predicted(parallel: Parallel, cluster: Cluster, *, lines: float, **lengths: int) -> Prediction:
    """The time of a step in which each device computes so many lines of these lengths.

    DDP's all-reduce runs beside the backward pass, two thirds of the work; what FSDP gathers and scatters beside all of
    it. What goes around is as slow as the slowest link: that between machines, if there are several.
    """
    devices = parallel.devices
    inside = devices <= cluster.node
    alpha = cluster.latency_inside if inside else cluster.latency_between
    bandwidth = cluster.bandwidth_inside if inside else cluster.bandwidth_between
    macs = int(parallel.cost.training.at(B=1, **lengths))
    computing = 2 * macs * lines / (cluster.flops * cluster.utilisation)
    transfer = float(Rational(parallel.bytes_sent.at())) / bandwidth
    latency = alpha * int(parallel.messages.at())
    room = computing * (2 / 3 if parallel.kind == "ddp" else 1.0)
    hidden = min(cluster.overlap * (transfer + latency), room)
    tokens = lines * max(lengths.values())
    return Prediction(devices, tokens, computing, latency, transfer, hidden)
