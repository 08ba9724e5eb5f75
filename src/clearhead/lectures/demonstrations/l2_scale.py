"""L2.9: variances add up, and what the scores are divided by, measured on the weights that every path gives."""

from functools import partial
from typing import Any

import torch

from clearhead.attention import dot, weigh
from clearhead.drawing.figure import Lines, Series
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.ways import spread_of_scores, weights_on_every_path
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure

SIZES, AT, COUNT = (4, 16, 64, 256), 64, 256
SCALES = {"none": "q·k", "sqrt": "q·k/√d", "dim": "q·k/d (the notes)"}


def scale_by_the_root() -> Evidence:
    """L2.9: sums of d products have variance d: dividing by √d brings it to 1, by d far below."""
    drawn = {d: tuple(torch.randn(COUNT, d, dtype=torch.float64) for _ in range(2)) for d in SIZES}
    predicted = {"none": lambda d: 1.0 * d, "sqrt": lambda d: 1.0, "dim": lambda d: 1 / d}

    def spread(d: int, scale: Any) -> float:
        return spread_of_scores(weigh(*drawn[d], scale=scale))

    def at(scale: str, path: str) -> Measure:
        weights = weights_on_every_path(*drawn[AT], scale=scale)[path]
        value = predicted[scale](AT)
        what = f"variance of {SCALES[scale]} at d = {AT}, path {path}"
        return Measure(what, value, spread_of_scores(weights), tolerance=0.05 * value)

    def means() -> Measure:
        """The mean of a sum: Σ E[q_i] E[k_i] for entries with means."""
        query, keys = (1 + 0.5 * part for part in drawn[AT])
        expected = float((query.mean(0) * keys.mean(0)).sum())
        return Measure("mean of q·k against Σ E[q_i]·E[k_i]", expected, float(dot(query, keys).mean()), tolerance=1e-6)

    paths = list(weights_on_every_path(*drawn[AT]))
    table = {scale: [spread(d, scale) for d in SIZES] for scale in SCALES}
    even = float(weigh(*drawn[AT], scale="dim").amax(-1).mean())
    return Evidence(
        measures=(
            *(
                Measure(
                    f"variance of {SCALES[scale]} at d = {d}, by weigh",
                    predicted[scale](d),
                    value,
                    tolerance=0.05 * predicted[scale](d),
                )
                for scale, values in table.items()
                for d, value in zip(SIZES, values, strict=True)
                if d >= AT
            ),
            *(at(scale, path) for scale in ("sqrt", "dim") for path in paths),
            means(),
        ),
        wrong=(
            broken_block(
                "divided by d_k, as the notes print it",
                "clearhead.attention.score.divisor",
                lambda right: lambda _scale, size: right("dim", size),
                partial(at, "sqrt", "explicit"),
            ),
            broken_block(
                "not divided at all, on the fused path alone",
                "clearhead.attention.attend.fused",
                lambda right: lambda *given, **more: right(*given, **(more | {"scale": "none"})),
                partial(at, "sqrt", "fused"),
            ),
            broken_block(
                "not divided at all, in blocks alone",
                "clearhead.attention.paths.attend_by_distance",
                lambda right: lambda *given, **more: right(*given, **(more | {"scale": 1.0})),
                partial(at, "sqrt", "blocks"),
            ),
            broken_block(
                "a score that leaves out the last feature",
                "clearhead.attention.score.dot",
                lambda right: lambda query, keys: right(query[..., :-1], keys[..., :-1]),
                means,
            ),
        ),
        tables=(
            EvidenceTable(
                "Variance of a score, from the weights that weigh gives",
                ("d", *SCALES.values()),
                tuple((d, *(values[row] for values in table.values())) for row, d in enumerate(SIZES)),
            ),
        ),
        figures=(
            Lines(
                title="Variance of a score over the size of a head",
                alt="Not scaled it grows as d, divided by d it falls as 1/d, divided by the root of d it stays at 1.",
                x_label="d",
                y_label="variance",
                log_x=True,
                log_y=True,
                series=tuple(
                    Series(SCALES[scale], tuple(map(float, SIZES)), tuple(values)) for scale, values in table.items()
                ),
            ),
        ),
        notes=(
            f"Divided by {AT}, the best of {COUNT} keys gets a weight of {even:.4f} on average, where even weights are "
            f"{1 / COUNT:.4f}: the softmax hardly chooses.",
        ),
    )
