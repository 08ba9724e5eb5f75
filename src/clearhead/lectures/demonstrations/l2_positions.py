"""L2.10 to L2.12: sinusoidal positions in three layouts, which schemes notice a shift, and learned relative ones."""

import math
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead.attention import AttentionContext, MultiHeadAttention
from clearhead.costing.tracing import attention_path
from clearhead.drawing.figure import Bars, Heat
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, alike, far, gap
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.demonstrations.ways import alike_on_every_path, gaps
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import EncoderModel, build
from clearhead.positions import ShawPosition, SinusoidalPosition
from clearhead.recipe import PositionSpec, kinds, preset_names, read_recipe

SINUSOIDS = "clearhead.positions.absolute.sinusoids"


def three_layouts() -> Evidence:
    """L2.10: the module in each layout against its formula, a shift as a rotation, and who uses it."""
    n, d, shift = 300, 32, 7  # more positions than the table begins with
    half = d // 2
    at = torch.arange(n)
    tables = {
        "interleaved": _sines(n, d, lambda i: 10_000 ** (-2 * i / d), interleaved=True),
        "halves": _sines(n, d, lambda i: 10_000 ** (-2 * i / d), interleaved=False),
        "tensor2tensor": _sines(n, d, lambda i: 10_000 ** (-i / (half - 1)), interleaved=False),
    }
    names = {
        "interleaved": "interleaved (the paper): sin, cos in turn, ω_i = 10000^(−2i/d)",
        "halves": "halves (MarianMT): all sines, then all cosines",
        "tensor2tensor": "tensor2tensor: the same with ω_i = 10000^(−i/(d/2−1))",
    }

    def table(layout: Any) -> Measure:
        module = SinusoidalPosition(width=d, layout=layout)
        # the last layout is computed in float32, as where it comes from: its rates and angles, up to n, have 24 bits
        return alike(names[layout], module(at, n), tables[layout], n * 2**-22 if layout == "tensor2tensor" else 1e-6)

    def turned() -> Measure:
        """Row p + s is row p with each pair turned by s·ω_i: an offset looks the same everywhere."""
        module = SinusoidalPosition(width=d)
        here, there = module(at, n), module(at + shift, n + shift)
        angles = shift * 10_000 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
        sine, cosine = here[:, 0::2], here[:, 1::2]
        c, s = angles.cos(), angles.sin()
        rotated = torch.stack((sine * c + cosine * s, cosine * c - sine * s), dim=-1).flatten(1)
        return alike(f"row p + {shift} against row p turned by {shift}·ω_i", there, rotated)

    users = [name for name in preset_names() if "sinusoidal" in _positions(name)]
    return Evidence(
        measures=(
            *(table(layout) for layout in tables),
            turned(),
            Measure("presets here that use them", 1, len(users), relation="≥"),
        ),
        wrong=(
            broken_block(
                "MarianMT's layout where the paper's was asked for",
                SINUSOIDS,
                lambda right: lambda length, width, *, layout, base: right(length, width, layout="halves", base=base),
                partial(table, "interleaved"),
            ),
            broken_block(
                "tensor2tensor's frequencies where MarianMT's were asked for",
                SINUSOIDS,
                lambda right: lambda length, width, *, layout, base: right(length, width, layout="tensor2tensor"),
                partial(table, "halves"),
            ),
            broken_block(
                "positions counted from 1",
                SINUSOIDS,
                lambda right: lambda length, width, **more: right(length + 1, width, **more)[1:],
                partial(table, "interleaved"),
            ),
            broken_block(
                "waves of one length for all features",
                SINUSOIDS,
                lambda right: lambda length, width, **more: right(length, width, **(more | {"base": 1.0})),
                turned,
            ),
        ),
        figures=(
            Heat(
                title="The paper's table: 50 positions (down) of 32 features (across)",
                alt="Fast waves in the left columns, slow ones in the right columns.",
                x_label="feature",
                y_label="position",
                values=tuple(tuple(row) for row in SinusoidalPosition(width=d)(at[:50], 50).tolist()),
                signed=True,
            ),
        ),
        notes=(f"Used by: {', '.join(users)}.",),
    )


def _sines(n: int, d: int, frequency: Callable[[int], float], *, interleaved: bool) -> Tensor:
    """sin(p·ω_i) and cos(p·ω_i), one number at a time."""
    rows = []
    for p in range(n):
        pairs = [(math.sin(p * frequency(i)), math.cos(p * frequency(i))) for i in range(d // 2)]
        rows.append(
            [wave for pair in pairs for wave in pair]
            if interleaved
            else [wave for part in zip(*pairs, strict=True) for wave in part]
        )
    return torch.tensor(rows)


def _positions(preset: str) -> set[str]:
    model = read_recipe(preset).model
    stacks = [getattr(model, part) for part in ("encoder", "decoder") if hasattr(model, part)]
    return {stack.position.kind for stack in stacks if hasattr(stack, "position")}


def shift_changes_nothing() -> Evidence:
    """L2.11: the same sequence, a few positions later: relative schemes see no difference, absolute ones do."""
    by = 5
    models: dict[str, EncoderModel] = {}
    for kind in kinds("position"):
        with suppress(RecipeError):  # a scheme of two dimensions
            models[kind] = _encoder(kind)
    moved = {kind: {path: _moved(model, by, path) for path in PATHS} for kind, model in models.items()}
    relative = [kind for kind in models if kind == "none" or _enters(kind) == "attention"]
    absolute = [kind for kind in models if kind not in relative]
    what = f"outputs {by} positions later: max|Δ|"

    def still(kind: str) -> Measure:
        found = max(_moved(models[kind], by, path) for path in PATHS)
        return Measure(f"{what}, {kind}, on every path", 0.0, found, tolerance=1e-4)

    def padded(kind: str) -> float:
        """The same line after ``by`` tokens of padding."""
        ids, line = torch.zeros(1, by + len(LINE), dtype=torch.long), torch.tensor([LINE])
        ids[:, by:] = line
        with torch.no_grad():
            return gap(models[kind](ids, torch.arange(by + len(LINE))[None] >= by)[:, by:], models[kind](line))

    return Evidence(
        measures=(
            *(still(kind) for kind in relative),
            *(
                Measure(f"{what}, {kind}, the least of all paths", 0.01, min(moved[kind].values()), relation="≥")
                for kind in absolute
            ),
            Measure(
                "after padding, whose positions do not count: max|Δ| of all schemes",
                0.0,
                max(map(padded, models)),
                tolerance=1e-4,
            ),
        ),
        wrong=(
            broken_block(
                "T5's buckets of the key's position, not of its distance",
                "clearhead.positions.base.neighbouring_distances",
                lambda right: lambda queries, keys: right(queries, keys) + queries[0],
                partial(still, "t5"),
            ),
            broken_block(
                "rotated keys beside queries that are not",
                "clearhead.attention.context.AttentionContext.rotate_queries",
                lambda _right: lambda _self, queries: queries,
                partial(still, "rope"),
            ),
            broken_block(
                "Shaw's rows of the key's position, not of its distance",
                "clearhead.positions.shaw.shaw_index",
                lambda right: lambda queries, keys, far: right(torch.zeros_like(queries), keys, far),
                partial(still, "shaw"),
            ),
        ),
        tables=(
            EvidenceTable(
                "Every scheme for lines, and on which path",
                ("scheme", "enters", *PATHS),
                tuple((kind, _enters(kind), *moved[kind].values()) for kind in models),
            ),
        ),
        figures=(
            Bars(
                title=f"How much the outputs change when a sequence starts {by} positions later",
                alt="Relative schemes do not change at all; sinusoidal and learned positions do.",
                y_label="max|Δ|",
                labels=tuple(moved),
                series=(("", tuple(max(paths.values()) for paths in moved.values())),),
            ),
        ),
    )


PATHS = ("explicit", "auto", "fused")
LINE = (5, 6, 7, 8, 9, 10)


def _enters(kind: str) -> str:
    spec = kinds("position")[kind].spec
    assert issubclass(spec, PositionSpec)
    return "nowhere" if kind == "none" else spec.enters


def _moved(model: EncoderModel, by: int, path: str) -> float:
    """How much the outputs change when the sequence starts ``by`` positions later."""
    attention_path(model, path)
    found = gap(_run(model, 0), _run(model, by))
    attention_path(model, "auto")
    return found


def _encoder(kind: str) -> EncoderModel:
    sizes = ["model.layers=2", "model.width=16", "model.heads=2", "model.vocabulary.source=40"]
    model = build(read_recipe(None, "model.family=encoder", *sizes, f"model.position.kind={kind}"), seed=5).eval()
    assert isinstance(model, EncoderModel)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)  # learned tables start so small that their part would not be seen
    return model


def _run(model: EncoderModel, by: int) -> Tensor:
    """The encoder's layers on a sequence that starts at position ``by``."""
    stack: Any = model.encoder
    ids = torch.tensor([LINE])
    positions = torch.arange(len(LINE)) + by
    context = AttentionContext(scheme=stack.scheme, queries=positions, keys=positions)
    with torch.no_grad():
        x: Tensor = stack.embedding(ids, positions, len(LINE) + by)
        for layer in stack.layers:
            x = layer(x, context)
    return x


def learned_relative() -> Evidence:
    """L2.12: Shaw's vectors, for keys, for values and for both, against a sum over pairs, on every path."""
    reach, width, heads, n = 2, 16, 2, 9
    module = MultiHeadAttention(width=width, heads=heads)
    randomise(module)
    x = torch.randn(n, width)
    halves: tuple[Literal["keys", "values", "both"], ...] = ("values", "keys", "both")
    schemes = {
        half: ShawPosition(head_size=width // heads, value_size=width // heads, farthest=reach, relative=half)
        for half in halves
    }
    for scheme in schemes.values():
        randomise(scheme)
    names = {"values": "values (the notes)", "keys": "keys", "both": "both (published)"}

    def worst(half: Literal["keys", "values", "both"], path: str) -> Measure:
        scheme = schemes[half]
        found = gaps(module, x, lambda seen: _shaw_pairs(module, scheme, x, seen), scheme)
        return Measure(f"{half}, path {path}: max|Δ|", 0.0, found[path], tolerance=ROUNDING)

    with torch.no_grad():
        seen = torch.ones(n, n, dtype=torch.bool)
        alone, together = (_shaw_pairs(module, schemes[half], x, seen) for half in ("values", "both"))
        measures = [
            measure
            for half in halves
            for measure in alike_on_every_path(
                f"{names[half]} against a sum over pairs",
                module,
                x,
                partial(_shaw_pairs, module, schemes[half], x),
                schemes[half],
            )
        ]
        wrong = (
            broken_block(
                "no vectors for values",
                "clearhead.positions.shaw.ShawPosition.value_term",
                lambda _right: lambda *_given: None,
                partial(worst, "values", "explicit"),
            ),
            broken_block(
                "vectors for keys as well, where those for values were asked for",
                "clearhead.positions.shaw.ShawPosition.key_term",
                lambda _right: _with_keys_as_values,
                partial(worst, "values", "explicit"),
            ),
            broken_block(
                "distances from key to query, i − j",
                "clearhead.positions.shaw.shaw_index",
                lambda right: lambda queries, keys, far: right(-queries, -keys, far),
                partial(worst, "both", "explicit"),
            ),
            broken_block(
                "in blocks alone, one distance less is told apart",
                "clearhead.positions.shaw.ShawPosition.tables",
                lambda right: lambda self, distances: right(self, distances.clamp(1 - reach, reach - 1)),
                partial(worst, "both", "blocks"),
            ),
            broken_block(
                "with a cache, positions counted from 0 again",
                "clearhead.positions.shaw.shaw_index",
                lambda right: lambda queries, keys, far: right(queries - queries[0], keys, far),
                partial(worst, "both", "cache"),
            ),
        )
    return Evidence(
        measures=(*measures, far("values alone against both", alone, together, 0.05)),
        wrong=wrong,
        notes=(
            f"Distances beyond {reach} share a vector; both tables have 2k + 1 = {2 * reach + 1} rows for all heads. "
            "The notes' version is model.position.relative = values; published models add vectors to the keys too, or "
            "to the keys alone.",
        ),
    )


def _with_keys_as_values(self: ShawPosition, query: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
    """Break ``ShawPosition.key_term``: without a table for keys it takes the one for values."""
    table = self.values if self.keys is None else self.keys
    assert table is not None
    return (query @ table.weight.T).gather(-1, self._index(query, queries, keys))


def _shaw_pairs(module: MultiHeadAttention, scheme: ShawPosition, x: Tensor, seen: Tensor) -> Tensor:
    """Σ_j α_ij (v_j + b_{j−i}) with α_ij ∝ exp(q_i·(k_j + a_{j−i})/√d): a vector is formed for every pair.

    Which of the two tables there are follows from the setting, not from what was built.
    """
    n, reach = len(x), scheme.farthest
    q, k, v = (part(x).view(n, module.heads, -1).transpose(0, 1) for part in (module.query, module.key, module.value))
    size = q.shape[-1]
    row = torch.tensor([[max(-reach, min(reach, j - i)) + reach for j in range(n)] for i in range(n)])
    given = {"keys": ("keys",), "values": ("values",), "both": ("keys", "values")}[scheme.relative]
    a, b = (
        scheme.get_parameter(f"{part}.weight")[row] if part in given else torch.zeros(n, n, size)
        for part in ("keys", "values")
    )
    scores = torch.einsum("hid,hijd->hij", q, k[:, None] + a) / size**0.5
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    heads = torch.einsum("hij,hijd->ihd", weights, v[:, None] + b)
    out: Tensor = module.output(heads.flatten(1))
    return out
