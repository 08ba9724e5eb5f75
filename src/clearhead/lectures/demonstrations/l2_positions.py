"""L2.10 to L2.12: sinusoidal positions in three layouts, which schemes notice a shift, and learned relative ones."""

import math
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from clearhead.attention import AttentionContext, MultiHeadAttention
from clearhead.drawing.figure import Bars, Heat
from clearhead.errors import RecipeError
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, alike, far, gap
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.demonstrations.ways import alike_on_every_path, gaps
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.models import EncoderModel, build
from clearhead.positions import ShawPosition, sinusoids
from clearhead.recipe import PositionSpec, kinds, preset_names, read_recipe


def three_layouts() -> Evidence:
    """L2.10: each layout against its formula; a shift is a rotation; who uses it."""
    n, d = 50, 32
    half = d // 2

    def written(angle_of: object, interleaved: bool) -> Tensor:
        assert callable(angle_of)
        table = torch.empty(n, d)
        for p in range(n):
            for i in range(half):
                angle = p * angle_of(i)
                at = (2 * i, 2 * i + 1) if interleaved else (i, half + i)
                table[p, at[0]], table[p, at[1]] = math.sin(angle), math.cos(angle)
        return table

    def paper(i: int) -> float:
        return float(10_000 ** (-2 * i / d))

    def tensor2tensor(i: int) -> float:
        return float(10_000 ** (-i / (half - 1)))

    table = sinusoids(n, d)
    shift, rotated = 7, torch.empty(n, d)
    for i in range(half):
        c, s = math.cos(shift * paper(i)), math.sin(shift * paper(i))
        sine, cosine = table[:, 2 * i], table[:, 2 * i + 1]
        rotated[:, 2 * i], rotated[:, 2 * i + 1] = sine * c + cosine * s, cosine * c - sine * s
    users = [name for name in preset_names() if "sinusoidal" in _positions(name)]
    name = "sin, cos in turn, ω_i = 10000^(−2i/d)"
    return Evidence(
        measures=(
            alike(f"interleaved (the paper): {name}", table, written(paper, True), 1e-6),
            alike(
                "halves (MarianMT): all sines, then all cosines",
                sinusoids(n, d, layout="halves"),
                written(paper, False),
                1e-6,
            ),
            alike(
                "tensor2tensor: ω_i = 10000^(−i/(d/2−1))",
                sinusoids(n, d, layout="tensor2tensor"),
                written(tensor2tensor, False),
                1e-6,
            ),
            alike(f"row p + {shift} against row p turned by {shift} ω_i", sinusoids(n + shift, d)[shift:], rotated),
            Measure("presets here that use them", 1, len(users), relation="≥"),
        ),
        wrong=(
            Wrong(
                "MarianMT's table taken for the paper's",
                alike(name, sinusoids(n, d, layout="halves"), written(paper, True), 1e-6),
            ),
            Wrong(
                "tensor2tensor's table taken for MarianMT's",
                alike("halves", sinusoids(n, d, layout="tensor2tensor"), written(paper, False), 1e-6),
            ),
        ),
        figures=(
            Heat(
                title="The paper's table: 50 positions (down) of 32 features (across)",
                alt="Fast waves in the left columns, slow ones in the right columns.",
                x_label="feature",
                y_label="position",
                values=tuple(tuple(row) for row in table.tolist()),
                signed=True,
            ),
        ),
        notes=(f"Used by: {', '.join(users)}.",),
    )


def _positions(preset: str) -> set[str]:
    model = read_recipe(preset).model
    stacks = [getattr(model, part) for part in ("encoder", "decoder") if hasattr(model, part)]
    return {stack.position.kind for stack in stacks if hasattr(stack, "position")}


def shift_changes_nothing() -> Evidence:
    """L2.11: the same sequence, a few positions later: relative schemes see no difference, absolute ones do."""
    by = 5
    moved: dict[str, tuple[bool, Tensor, Tensor]] = {}
    for kind, entry in kinds("position").items():
        spec = entry.spec
        assert issubclass(spec, PositionSpec)
        try:
            model = _encoder(kind)
        except RecipeError:
            continue  # a scheme of two dimensions
        moved[kind] = (spec.enters == "attention" or kind == "none", _run(model, 0), _run(model, by))
    relative = [kind for kind, (is_relative, _, _) in moved.items() if is_relative]
    absolute = [kind for kind in moved if kind not in relative]
    still = max(gap(*moved[kind][1:]) for kind in relative)
    least = min(gap(*moved[kind][1:]) for kind in absolute)
    what = f"outputs {by} positions later: max|Δ|"
    return Evidence(
        measures=(
            Measure(f"{what}, {', '.join(relative)}", 0.0, still, tolerance=1e-4),
            Measure(f"{what}, {', '.join(absolute)}, the least", 0.01, least, relation="≥"),
        ),
        wrong=tuple(
            Wrong(
                f"{kind} positions taken for relative ones", Measure(what, 0.0, gap(*moved[kind][1:]), tolerance=1e-4)
            )
            for kind in absolute
        ),
        tables=(
            EvidenceTable(
                "Every scheme for lines",
                ("scheme", "enters", what),
                tuple(
                    (
                        kind,
                        "nowhere" if kind == "none" else "attention" if kind in relative else "embedding",
                        gap(*pair),
                    )
                    for kind, (_, *pair) in moved.items()
                ),
            ),
        ),
        figures=(
            Bars(
                title=f"How much the outputs change when a sequence starts {by} positions later",
                alt="Relative schemes do not change at all; sinusoidal and learned positions do.",
                y_label="max|Δ|",
                labels=tuple(moved),
                series=(("", tuple(gap(*pair) for _, *pair in moved.values())),),
            ),
        ),
    )


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
    ids = torch.tensor([[5, 6, 7, 8, 9, 10]])
    positions = torch.arange(6) + by
    context = AttentionContext(scheme=stack.scheme, queries=positions, keys=positions)
    with torch.no_grad():
        x: Tensor = stack.embedding(ids, positions, 6 + by)
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


def _shaw_pairs(module: MultiHeadAttention, scheme: ShawPosition, x: Tensor, seen: Tensor) -> Tensor:
    """Σ_j α_ij (v_j + b_{j−i}) with α_ij ∝ exp(q_i·(k_j + a_{j−i})/√d): a vector is formed for every pair."""
    n, reach = len(x), scheme.farthest
    q, k, v = (part(x).view(n, module.heads, -1).transpose(0, 1) for part in (module.query, module.key, module.value))
    size = q.shape[-1]
    row = torch.tensor([[max(-reach, min(reach, j - i)) + reach for j in range(n)] for i in range(n)])
    a, b = (torch.zeros(n, n, size) if part is None else part.weight[row] for part in (scheme.keys, scheme.values))
    scores = torch.einsum("hid,hijd->hij", q, k[:, None] + a) / size**0.5
    weights = scores.masked_fill(~seen, -torch.inf).softmax(-1)
    heads = torch.einsum("hij,hijd->ihd", weights, v[:, None] + b)
    out: Tensor = module.output(heads.flatten(1))
    return out
