"""Five exercises on L3, problems on parallel time and two dimensions."""

import math
from typing import Any

from clearhead.lectures.exercises.exercise import Exercise, Mistake

QUERIES = [[[1.0, 0.5], [0.0, -1.0]], [[0.5, 0.5], [1.0, 0.0]]]
KEYS = [[[0.0, 1.0], [1.0, 1.0]], [[-1.0, 0.5], [0.25, 2.0]]]
VALUES = [[[1.0, 0.0], [2.0, 1.0]], [[0.0, 1.0], [-1.0, 1.0]]]
INPUT = [[1.0, 2.0], [0.0, -1.0], [0.5, 0.25]]
IMAGE = [[[1.0, 0.0], [0.5, -1.0], [0.0, 2.0]], [[-1.0, 0.5], [1.5, 1.0], [0.25, 0.0]]]


def _layer(WQ: Any, WK: Any, WV: Any, h_in: Any, scale: Any = "none") -> list[Any]:
    from clearhead.attention import attend

    return [attend(h_in @ q.T, h_in @ k.T, h_in @ v.T, scale=scale) for q, k, v in zip(WQ, WK, WV, strict=True)]


def _joined(WQ: Any, WK: Any, WV: Any, h_in: Any, scale: Any = "none") -> Any:
    import torch

    return torch.cat(_layer(WQ, WK, WV, h_in, scale), dim=-1)


def _over_t1(WQ: Any, WK: Any, WV: Any, h_in: Any) -> Any:
    import torch

    heads = [((h_in @ q.T) @ (h_in @ k.T).T).softmax(0) @ (h_in @ v.T) for q, k, v in zip(WQ, WK, WV, strict=True)]
    return torch.cat(heads, dim=-1)


def _grid(image: Any, scale: Any = "none") -> Any:
    from clearhead.attention import attend

    cells = image.flatten(0, 1)
    return attend(cells, cells, cells, scale=scale).view(image.shape)


def _rows_only(image: Any) -> Any:
    from clearhead.attention import attend

    return attend(image, image, image, scale="none")


def _dot(terms: int, *, serial: bool = False) -> int:
    from clearhead.costing.forms.lecture import span_of_dot

    return int(span_of_dot(terms, serial=serial))


EXERCISES = (
    Exercise(
        "3.1",
        "L3.1",
        "The indexed equations",
        "Write answer(WQ, WK, WV, h_in) → h_out (T × K·I) by the equations of the problem: K heads, W (K × U × J), "
        "h_in (T × J), scores that are not scaled, heads concatenated.",
        _joined,
        (
            Mistake(
                lambda *given: _joined(*given, "sqrt"), "you divided the scores by √U; these equations do not scale"
            ),
            Mistake(_over_t1, "your softmax runs over t₁; the weights of each t₁ add up to 1 over t₂"),
            Mistake(lambda *given: sum(_layer(*given)), "you added the heads; h_out concatenates them"),
        ),
        ("WQ", "WK", "WV", "h_in"),
        ((QUERIES, KEYS, VALUES, INPUT),),
    ),
    Exercise(
        "3.2",
        "L3.2",
        "A weight is its share of Z",
        "A query has the scores ln 1, ln 2 and ln 5 with three keys. What is the weight of the third?",
        lambda: 5 / 8,
        (
            Mistake(lambda: 5, "that is e^s; divide it by Z, the sum over all keys"),
            Mistake(
                lambda: math.log(5) / math.log(10), "you took the scores' own shares; take those of their exponentials"
            ),
            Mistake(lambda: 1, "that is hard attention"),
            Mistake(lambda: 5 / 3, "you left the third key out of Z: all three belong to it"),
            Mistake(lambda: 1 / 3, "that would be the weight if all scores were equal"),
        ),
    ),
    Exercise(
        "3.3",
        "L3.3",
        "A dot product in parallel",
        "How many steps does a dot product over U = 64 features take with as many processors as could be used? A step "
        "multiplies or adds two numbers.",
        lambda: _dot(64),
        (
            Mistake(lambda: 6, "that is the tree of additions; the multiplications take one step before it"),
            Mistake(lambda: 64, "that is the serial time; in a tree 64 numbers are added in log₂ 64 steps"),
            Mistake(lambda: 127, "those are all operations; many of them run at the same time"),
            Mistake(lambda: 63, "those are the additions one by one; a tree takes log₂ 64 steps"),
            Mistake(lambda: 1 + math.log(64), "a tree halves the numbers at each step: log₂, not ln"),
        ),
    ),
    Exercise(
        "3.4",
        "L3.4",
        "The layer with serial inner products",
        "T positions, J features, K heads of U = J/K: with serial inner products of D terms in D steps, how many steps "
        "do projection, scores and mixing the values take one after the other? Leave the softmax out.",
        lambda T, J, K: _dot(J, serial=True) + _dot(J // K, serial=True) + _dot(T, serial=True),
        (
            Mistake(
                lambda T, J, K: J + J / K + math.ceil(math.log2(T)),
                "mixing the values is an inner product over T as well, so it takes T steps; the printed solution slips",
            ),
            Mistake(lambda T, J, K: J + T, "you left the scores out, an inner product over U = J/K"),
            Mistake(lambda T, J, K: J / K + T, "you left the projection out, an inner product over J"),
            Mistake(lambda T, J, K: 2 * J + T, "a score sums over the features of one head, U = J/K"),
            Mistake(lambda T, J, K: J + J / K, "you left out mixing the values, an inner product over T"),
        ),
        ("T", "J", "K"),
        ((100, 64, 4), (30, 48, 3)),
    ),
    Exercise(
        "3.5",
        "L3.5",
        "Attention over an image",
        "Write answer(image) for an image (X × Y × d): self-attention with queries, keys and values that are the cells "
        "themselves, not scaled, softmax jointly over both coordinates. The result is X × Y × d.",
        _grid,
        (
            Mistake(_rows_only, "each cell attends to its own row only; the softmax runs jointly over x and y"),
            Mistake(
                lambda image: _rows_only(image.transpose(0, 1)).transpose(0, 1),
                "each cell attends to its own column only; the softmax runs jointly over x and y",
            ),
            Mistake(lambda image: _grid(image, "sqrt"), "you divided by √d; these equations do not scale"),
            Mistake(lambda image: _grid(image).flatten(0, 1), "the values are right; give them the shape X × Y × d"),
        ),
        ("image",),
        ((IMAGE,),),
    ),
)
