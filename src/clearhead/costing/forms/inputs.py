"""What enters a stack, and what embedding it costs: token ids, or the patches of an image."""

from dataclasses import dataclass

from sympy import Expr, Integer

from clearhead.constants import ngrams_within
from clearhead.costing.forms.letters import B
from clearhead.costing.forms.sketch import INDEX, Ledger, Sketch
from clearhead.recipe import (
    CrossSpec,
    EmbeddingSpec,
    NgramsSpec,
    NormSpec,
    PatchesSpec,
    PositionSpec,
    StackSpec,
    TransformerEncoderSpec,
    cost_of,
)


@dataclass(frozen=True)
class Inputs:
    """What a stack reads."""

    length: Expr
    """How many tokens; an image has as many as its patches."""
    tokens: Expr
    """Size of the vocabulary."""
    tied: bool = False
    """The table of tokens belongs to another part."""
    names: tuple[str, ...] = ()
    """Other names of the table of tokens, if it is tied."""
    patches: PatchesSpec | None = None
    """For images."""


@dataclass(frozen=True)
class StackRole:
    """How a stack reads: what it is called, and what it attends to."""

    name: str
    embedding: EmbeddingSpec
    so_far: Expr | None = None
    """With a cache: how many tokens there are with the new ones."""
    cross: CrossSpec | None = None
    """How a Transformer, or a convolutional stack, attends to the memory."""
    memory: Sketch | None = None
    """The encoder's vectors."""
    stored: bool = False
    """What can be made from the memory is in the cache already."""

    @property
    def part(self) -> str:
        """Marks the letters of this part where they differ from those of another."""
        return self.name[:3]


def run_norm(spec: NormSpec, x: Sketch, name: str = "norm") -> Sketch:
    """A norm in a block of its own."""
    return x.ledger.measured(name, lambda y: cost_of(spec)(spec, y), x)


def patch_grid(ledger: Ledger, patches: PatchesSpec) -> tuple[Expr, Expr]:
    """Rows and columns of patches, X and Y."""
    rows, columns = patches.grid
    return ledger.letters("X", rows), ledger.letters("Y", columns)


def embed(
    ledger: Ledger,
    spec: StackSpec,
    inputs: Inputs,
    role: StackRole,
    *,
    position: PositionSpec | None = None,
    norm: NormSpec | None = None,
) -> Sketch:
    """scale · (tokens[id] + n-grams) + position + segment, normalised where the recipe asks for it."""
    embedding = role.embedding
    width = ledger.letters("d", spec.width, role.part)
    table = ledger.letters("E", embedding.width, role.part) if embedding.width not in (None, spec.width) else width
    with ledger.block("embedding") as block:
        if inputs.patches is None:
            if not inputs.tied:
                ledger.parameter(inputs.tokens, table, kind="table", name="tokens.weight", also=inputs.names)
            ledger.save(ledger.constant(B, inputs.length, size=INDEX).storage)
            x = ledger.input(B, inputs.length, table)
            if isinstance(spec, TransformerEncoderSpec) and spec.ngrams.reach:
                x = x.add(_ngrams(ledger, spec.ngrams, inputs.length, table))
            x = x.scale() if embedding.scale == "sqrt" else x
        else:
            with ledger.block("tokens"):
                x = _patches(ledger, inputs.patches, width)
        if position is not None and position.enters == "embedding":
            x = cost_of(position)(position, x)
        if embedding.segments:
            ledger.parameter(embedding.segments, table, kind="table", name="segments.weight")
            x = x.scale()
        if embedding.norm and norm is not None:
            x = run_norm(norm, x)
        if table != width:
            x = ledger.measured("project", lambda y: y.linear(width), x)
        block.span = x.time
    return x


def _ngrams(ledger: Ledger, spec: NgramsSpec, length: Expr, width: Expr) -> Sketch:
    """Rows of a table, free to look up, through one linear map."""
    count, buckets = Integer(ngrams_within(spec.reach)), ledger.letters("N_b", spec.buckets)
    row = ledger.letters("w_b", spec.width)
    with ledger.block("ngrams"):
        ledger.parameter(count * buckets, row, kind="table", name="table.weight")
        ledger.save(ledger.constant(B, length, count, size=INDEX).storage)
        return ledger.input(B, length, count * row).linear(width, bias=False, name="project")


def _patches(ledger: Ledger, patches: PatchesSpec, width: Expr) -> Sketch:
    """Patches through one linear map: HWCd; an image has no gradient. A class token stands before them."""
    rows, columns = patch_grid(ledger, patches)
    size, channels = ledger.letters("p", patches.size), ledger.letters("C", patches.channels)
    pixels = ledger.input(B, rows * columns, size**2 * channels).detach()
    x = pixels.linear(width, name="map")
    if not patches.class_token:
        return x
    ledger.parameter(1, width, kind="table", name="class_token.weight")
    return x.beside(x, B, rows * columns + 1, width)
