"""Five exercises on L0, the formulas of the Transformer."""

import math
from typing import Any

from clearhead.lectures.exercises.exercise import Exercise, Mistake

TOKENS = [[0.5, -1.0, 2.0, 0.0], [1.5, 0.25, -0.5, 1.0], [-2.0, 1.0, 0.75, 0.5]]
KEYS = [[1.0, 0.5, -0.5, 2.0], [0.0, -1.0, 1.0, 0.25]]
VALUES = [[1.0, 0.0, 3.0], [-1.0, 2.0, 0.5]]


def _attend(scale: Any = "sqrt") -> Any:
    def answer(Q: Any, K: Any, V: Any) -> Any:
        from clearhead.attention import attend

        return attend(Q, K, V, scale=scale)

    return answer


def _over_queries(Q: Any, K: Any, V: Any) -> Any:
    return (Q @ K.T / math.sqrt(Q.shape[1])).softmax(0) @ V


def _hard(scores: Any) -> Any:
    from clearhead.attention import choose

    return choose(scores, choice="hard")


def _normalised(x: Any) -> Any:
    from clearhead.blocks import LayerNorm

    return LayerNorm(width=x.shape[-1], affine=False)(x[None])[0]


def _work(N: int, M: int, h: int, d: int) -> Any:
    from clearhead.costing.forms.lecture import multihead_work

    return int(multihead_work(N, M, h=h, d_q=d, d_v=d, head_q=d // h, head_v=d // h, d_o=d).total)


EXERCISES = (
    Exercise(
        "0.1",
        "L0.1",
        "The loss of one target",
        "A model gives the three tokens of a target, each given those before it, the probabilities 1/2, 1/4 and 4/5. "
        "What is the target's negative log-likelihood (natural logarithm)?",
        lambda: -(math.log(1 / 2) + math.log(1 / 4) + math.log(4 / 5)),
        (
            Mistake(lambda: 0.1, "that is the probability of the target; the loss is −ln of it"),
            Mistake(lambda: 1.55, "you added the probabilities; the probability of the target is their product"),
            Mistake(lambda: math.log2(10), "that is in bits: take the natural logarithm, not the logarithm of base 2"),
            Mistake(lambda: math.log(10) / 3, "that is the mean over the tokens; the product takes their sum"),
            Mistake(lambda: math.log(0.1), "the sign: the loss is minus the log-likelihood"),
        ),
    ),
    Exercise(
        "0.2",
        "L0.2",
        "Attention of N queries over M keys",
        "Write answer(Q, K, V) = softmax(QKᵀ/√d_q)V for Q (N × d_q), K (M × d_q) and V (M × d_v).",
        _attend(),
        (
            Mistake(_attend("dim"), "you divided by d, not √d"),
            Mistake(_attend("none"), "you did not divide the scores by √d_q"),
            Mistake(
                _over_queries, "your softmax runs over the queries; each query's weights over the keys add up to 1"
            ),
            Mistake(lambda Q, K, V: _attend(math.sqrt(V.shape[1]))(Q, K, V), "you divided by √d_v, not √d_q"),
            Mistake(lambda Q, K, V: (Q @ K.T / math.sqrt(Q.shape[1])) @ V, "the softmax is missing"),
        ),
        ("Q", "K", "V"),
        ((TOKENS, KEYS, VALUES), (KEYS, TOKENS, [[1.0], [2.0], [4.0]])),
    ),
    Exercise(
        "0.3",
        "L0.3",
        "Hard attention",
        "Write answer(scores), the weights of hard attention for scores (N × M).",
        _hard,
        (
            Mistake(
                lambda scores: scores.argmax(-1), "that is the index of the best key; weights need its one-hot row"
            ),
            Mistake(lambda scores: scores.softmax(-1), "that is soft attention"),
            Mistake(
                lambda scores: _hard(scores.T).T, "you took the best query of each key, not the best key of each query"
            ),
        ),
        ("scores",),
        (([[0.1, 2.0, -1.0], [3.0, 0.0, 1.0]],), ([[0.5, 0.25]],)),
    ),
    Exercise(
        "0.4",
        "L0.8",
        "The work of multi-head attention",
        "N queries, M keys, h heads of size d/h, and d_q = d_v = d_o = d: how many multiplications do the projections, "
        "the attention and the output take together?",
        _work,
        (
            Mistake(lambda N, M, h, d: d * d * (N + 2 * M) + 2 * N * M * d, "you forgot the output projection, N·d²"),
            Mistake(
                lambda N, M, h, d: h * d * d * (N + 2 * M) + 2 * h * N * M * d + h * N * d * d,
                "your heads have size d; here they have size d/h, so that h cancels",
            ),
            Mistake(lambda N, M, h, d: 2 * N * M * d, "that is the attention alone, without its projections"),
            Mistake(lambda N, M, h, d: 4 * N * d * d + 2 * N * N * d, "you took M = N; keys and values have M rows"),
            Mistake(
                lambda N, M, h, d: 2 * d * d * (N + M) + N * M * d,
                "attention has two products, the scores and the values: 2NMd",
            ),
        ),
        ("N", "M", "h", "d"),
        ((3, 5, 2, 8), (7, 4, 4, 16)),
    ),
    Exercise(
        "0.5",
        "L0.10",
        "Layer norm",
        "Write answer(X), layer norm of the tokens X (n × d) as models use it: over each token's features, the "
        "population's deviation, ε = 1e-5 under the root, no gain and no shift.",
        _normalised,
        (
            Mistake(lambda X: _normalised(X.T).T, "you normalised over the sequence: a token would see the others"),
            Mistake(
                lambda X: (X - X.mean(-1, keepdim=True)) / X.std(-1, keepdim=True),
                "that is the deviation of a sample (n − 1); the norm takes the population's (n)",
            ),
            Mistake(
                lambda X: (X - X.mean(-1, keepdim=True)) / X.var(-1, keepdim=True, correction=0),
                "you divided by the variance, not by its root",
            ),
            Mistake(
                lambda X: (X - X.mean()) / X.std(correction=0),
                "one μ and σ over all tokens: a token would see the others",
            ),
            Mistake(lambda X: X - X.mean(-1, keepdim=True), "you subtracted the mean; now divide by the deviation"),
        ),
        ("X",),
        ((TOKENS,),),
    ),
)
