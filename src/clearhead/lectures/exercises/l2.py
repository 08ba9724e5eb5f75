"""Five exercises on L2, the motivation of the Transformer and its tricks."""

import math
from typing import Any

from clearhead.lectures.exercises.exercise import Exercise, Mistake

QUERY, KEY = [1.0, -2.0, 0.5, 3.0], [2.0, 1.0, -1.0, 1.5]


def _norm(x: Any, eps: float) -> Any:
    from clearhead.blocks import LayerNorm

    return LayerNorm(width=len(x), eps=eps, eps_place="outside", affine=False)(x[None, None])[0, 0]


def _sinusoid(p: int, d: int, layout: Any = "interleaved") -> Any:
    from clearhead.positions import sinusoids

    return sinusoids(p + 1, d, layout=layout)[p]


def _longest() -> int:
    from clearhead.costing.forms.lecture import recurrent_layer, self_attention_layer

    d = 64
    cheaper = [n for n in range(d - 4, d + 5) if self_attention_layer(n, d).mixing < recurrent_layer(n, d).macs]
    return max(cheaper)


def _first_cheaper(k: int) -> int:
    return next(n for n in range(1, 10 * k) if 4 * n * k < 2 * n * n)


EXERCISES = (
    Exercise(
        "2.1",
        "L2.3",
        "How long may a sequence be?",
        "Attention without its projections takes 2n²d multiplications, a recurrent layer 2nd². For d = 64, what is the "
        "largest n at which attention is cheaper?",
        _longest,
        (
            Mistake(lambda: 64, "at n = d the two cost the same"),
            Mistake(lambda: 128, "2n²d < 2nd² is n < d: the factor 2 stands on both sides"),
            Mistake(lambda: 32, "2n²d < 2nd² is n < d: the factor 2 stands on both sides"),
        ),
    ),
    Exercise(
        "2.2",
        "L2.8",
        "The norm as the notes print it",
        "Write answer(x, eps) = (x − μ)/(σ + ε) for one vector x, with the population's deviation.",
        _norm,
        (
            Mistake(
                lambda x, eps: (x - x.mean()) / (x.var(correction=0) + eps).sqrt(),
                "that is √(σ² + ε), which torch and the models in use compute; the notes print σ + ε",
            ),
            Mistake(lambda x, eps: (x - x.mean()) / (x.std() + eps), "that is the deviation of a sample (n − 1)"),
            Mistake(lambda x, eps: (x - x.mean()) / x.std(correction=0), "ε is missing"),
            Mistake(lambda x, eps: (x - x.mean()) / (x.var(correction=0) + eps), "you divided by the variance, not σ"),
        ),
        ("x", "eps"),
        ((QUERY, 0.1), (KEY, 0.01)),
    ),
    Exercise(
        "2.3",
        "L2.9",
        "A score of variance 1",
        "The entries of q and k are independent, with mean 0 and variance 1. Write answer(q, k), their score, divided "
        "so that its variance is 1 for every size.",
        lambda q, k: q @ k / math.sqrt(len(q)),
        (
            Mistake(lambda q, k: q @ k / len(q), "you divided by d, not √d: the variance is 1/d, as the notes have it"),
            Mistake(lambda q, k: q @ k, "you did not divide: the variance of q·k is d"),
            Mistake(lambda q, k: q @ k * math.sqrt(len(q)), "you multiplied by √d: the variance is d²"),
            Mistake(
                lambda q, k: q @ k / (q.norm() * k.norm()),
                "that is the cosine: the lengths of q and k matter",
            ),
        ),
        ("q", "k"),
        ((QUERY, KEY), ([1.0, 2.0], [0.5, -3.0])),
    ),
    Exercise(
        "2.4",
        "L2.10",
        "A sinusoidal position",
        "Write answer(p, d): the d numbers of position p, sine and cosine in turn, PE(p, 2i) = sin(p/10000^(2i/d)).",
        _sinusoid,
        (
            Mistake(
                lambda p, d: _sinusoid(p, d, "halves"), "all sines first, then all cosines: that is another layout"
            ),
            Mistake(lambda p, d: _sinusoid(p, d, "tensor2tensor"), "those are the wavelengths of tensor2tensor"),
            Mistake(lambda p, d: _sinusoid(p + 1, d), "positions begin at 0"),
            Mistake(
                lambda p, d: [f(p / 10000 ** (i / d)) for i in range(d // 2) for f in (math.sin, math.cos)],
                "the exponent of column 2i is 2i/d, not i/d",
            ),
        ),
        ("p", "d"),
        ((3, 8), (10, 6)),
    ),
    Exercise(
        "2.5",
        "L2.14",
        "When Linformer pays",
        "Full attention takes 4nd² + 2n²d, Linformer with k slots 4nd² + 4nkd. From which n on is Linformer cheaper?",
        _first_cheaper,
        (
            Mistake(lambda k: 2 * k, "at n = 2k the two cost the same; it is cheaper from the next n on"),
            Mistake(lambda k: k, "the slots also cost something: keys and values are projected to k slots first"),
            Mistake(lambda k: k + 1, "the slots also cost something: keys and values are projected to k slots first"),
            Mistake(lambda k: 4 * k, "2n²d > 4nkd is n > 2k"),
        ),
        ("k",),
        ((16,), (64,), (5,)),
    ),
)
