"""Matrices of weights as text: 16 bits for each number, in base64.

Every row has a scale of its own, its largest magnitude, so that no number is off by more than 1/131,070 of it (7.7e-6).
Rows are packed one after the other; a number below 0 is refused, as weights, norms and shares have none.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

STEPS = 65_535
"""The number that stands for the largest of a row."""

BY_HEAD = ("attention", "norms")
"""Entries of a document that hold a matrix for every stack, layer and head."""
BY_STACK = ("rollout",)
"""Entries that hold a matrix for every stack."""


def packed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document of ``View.as_dict()`` with its matrices packed; everything else is as it was."""
    kept = dict(document)
    for name in BY_HEAD:
        if name in kept:
            kept[name] = {
                stack: [[_matrix(head) for head in layer] for layer in layers] for stack, layers in kept[name].items()
            }
    for name in BY_STACK:
        if name in kept:
            kept[name] = {stack: _matrix(rows) for stack, rows in kept[name].items()}
    return kept


def _matrix(rows: Sequence[Sequence[float]] | None) -> dict[str, Any] | None:
    """One matrix; None stays None, as of a head that was left out, and rows of different lengths end with zeros."""
    if rows is None:
        return None
    longest = max((len(row) for row in rows), default=0)
    values: NDArray[np.float64] = np.zeros((len(rows), longest))
    for number, row in enumerate(rows):
        values[number, : len(row)] = row
    if values.size and (not np.isfinite(values).all() or values.min() < 0):
        raise ValueError("weights are finite and not below 0")
    scales = values.max(axis=1, initial=0.0).astype("<f4")  # (rows,)
    steps = np.divide(values, scales[:, None], out=np.zeros_like(values), where=scales[:, None] > 0) * STEPS
    return {
        "shape": list(values.shape),
        "scales": _base64(scales),
        "weights": _base64(np.minimum(np.rint(steps), STEPS).astype("<u2")),
    }


def unpacked(matrix: Mapping[str, Any]) -> NDArray[np.float64]:
    """The numbers of a packed matrix, (rows, columns), as the page reads them."""
    scales = np.frombuffer(base64.b64decode(matrix["scales"]), "<f4").astype(float)
    weights = np.frombuffer(base64.b64decode(matrix["weights"]), "<u2").reshape(matrix["shape"])
    numbers: NDArray[np.float64] = weights / STEPS * scales[:, None]
    return numbers


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()
