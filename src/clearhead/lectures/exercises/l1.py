"""Five exercises on L1, from seq2seq to the Transformer."""

import math
from typing import Any

from clearhead.lectures.exercises.exercise import Exercise, Mistake


def _mask(n: int, m: int) -> Any:
    from clearhead.attention import causal_mask

    return causal_mask(n, m)


def _tril(n: int, m: int, offset: int) -> Any:
    return _mask(n, m).logical_or(_mask(n, m).logical_not()).tril(offset)


def _pooled(closeness: float) -> float:
    return (10 * closeness + 20) / (closeness + 1)


def _attended() -> float:
    import torch

    from clearhead.attention import attend

    query, keys = torch.tensor([2.0, 0.0]), torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    return float(attend(query, keys, torch.tensor([[10.0], [20.0]])))


HEADS = [[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [[7.0, 8.0], [9.0, 10.0], [11.0, 12.0]]]

EXERCISES = (
    Exercise(
        "1.1",
        "L1.1",
        "One query over two candidates",
        "q = (2, 0), k₁ = (1, 0), k₂ = (0, 1), v₁ = 10, v₂ = 20. What is Attention(q, D), with scores divided by √d?",
        _attended,
        (
            Mistake(lambda: _pooled(math.exp(2)), "you did not divide the scores by √d = √2"),
            Mistake(lambda: _pooled(math.exp(1)), "you divided by d, not √d"),
            Mistake(lambda: 10.0, "that is hard attention: soft attention takes a share of both values"),
            Mistake(lambda: 15.0, "that is the plain mean: the query is closer to the first key"),
            Mistake(
                lambda: (20 * math.exp(math.sqrt(2)) + 10) / (math.exp(math.sqrt(2)) + 1), "you swapped the values"
            ),
        ),
    ),
    Exercise(
        "1.2",
        "L1.9",
        "The causal mask, with a cache",
        "Write answer(n, m): True where a query may attend to a key, as n rows of m, when the queries are the last n "
        "of m tokens.",
        _mask,
        (
            Mistake(
                lambda n, m: _tril(n, m, 0),
                "your mask starts at the top left: with a cache query i is at position m − n + i, at the lower right",
            ),
            Mistake(lambda n, m: _tril(n, m, m - n - 1), "a token may attend to itself"),
            Mistake(lambda n, m: _tril(n, m, m - n + 1), "off by one: a token sees the next one"),
            Mistake(lambda n, m: _mask(n, m).logical_not(), "the other way round: True where a query may attend"),
        ),
        ("n", "m"),
        ((2, 5), (4, 4), (3, 4)),
    ),
    Exercise(
        "1.3",
        "L1.5",
        "What is d_k?",
        "A model has width 512 and 8 heads of size d/h. By which number are the scores of a head divided?",
        lambda: math.sqrt(512 // 8),
        (
            Mistake(lambda: math.sqrt(512), "d_k is the size of a head, 512/8, not the width of the model"),
            Mistake(lambda: 64, "that is d_k; the scores are divided by its root"),
            Mistake(lambda: 512, "that is the width; take the root of a head's size"),
            Mistake(lambda: math.sqrt(8), "that is the root of the number of heads; take the root of a head's size"),
        ),
    ),
    Exercise(
        "1.4",
        "L1.6",
        "Concatenate the heads",
        "Write answer(heads): the results of h heads (h × n × e) concatenated to one row a token (n × h·e).",
        lambda heads: heads.transpose(0, 1).flatten(1),
        (
            Mistake(
                lambda heads: heads.reshape(heads.shape[1], -1),
                "a plain reshape mixes tokens: the axis of the heads must come after that of the tokens first",
            ),
            Mistake(lambda heads: heads.sum(0), "you added the heads; concatenate them"),
            Mistake(
                lambda heads: heads.permute(1, 2, 0).flatten(1),
                "your features alternate between the heads; each head's features stay together",
            ),
            Mistake(lambda heads: heads.flatten(0, 1), "you concatenated along the tokens, not along the features"),
        ),
        ("heads",),
        ((HEADS,),),
    ),
    Exercise(
        "1.5",
        "L1.11",
        "The memory of the weights",
        "How many bytes do the attention weights of h heads over n tokens take, in float32?",
        lambda h, n: 4 * h * n**2,
        (
            Mistake(lambda h, n: h * n**2, "that is the number of weights; each takes 4 bytes"),
            Mistake(lambda h, n: 4 * n**2, "each head has weights of its own"),
            Mistake(lambda h, n: 4 * h * n, "every pair of tokens has a weight: n²"),
            Mistake(lambda h, n: 8 * h * n**2, "float32 takes 4 bytes, float64 takes 8"),
            Mistake(lambda h, n: n**2, "each head has weights of its own, of 4 bytes each"),
        ),
        ("h", "n"),
        ((8, 100), (12, 512)),
    ),
)
