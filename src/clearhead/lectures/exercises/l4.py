"""Five exercises on L4: complexity, parameters, scaling."""

import math

from clearhead.lectures.exercises.exercise import Exercise, Mistake


def _matmul(m: int, n: int, p: int) -> int:
    from clearhead.costing.forms.lecture import matmul_work

    return int(matmul_work(m, n, p))


def _attention(n: int, d: int) -> int:
    from clearhead.costing.forms.lecture import self_attention_layer

    return int(self_attention_layer(n, d).macs)


def _path(n: int, k: int) -> int:
    from clearhead.costing.forms.lecture import convolution_layer

    return int(convolution_layer(n, 1, k).path)


EXERCISES = (
    Exercise(
        "4.1",
        "L4.1",
        "A product of matrices",
        "How many multiplications does the product of an m × n and an n × p matrix take?",
        _matmul,
        (
            Mistake(lambda m, n, p: m * p, "that is the number of entries of the result; each takes n multiplications"),
            Mistake(
                lambda m, n, p: 2 * m * n * p,
                "those are multiplications and additions; the lecture counts multiplications",
            ),
            Mistake(lambda m, n, p: m * n + n * p, "that is the number of entries of the two matrices"),
            Mistake(lambda m, n, p: n * p, "those are the entries of the second matrix, its parameters"),
        ),
        ("m", "n", "p"),
        ((2, 3, 1), (4, 5, 6)),
    ),
    Exercise(
        "4.2",
        "L4.3",
        "The work of self-attention",
        "How many multiplications does self-attention over n tokens of width d take, with W_Q, W_K, W_V and W_O?",
        _attention,
        (
            Mistake(
                lambda n, d: n * n * d, "that is the printed order, O(n²d); it drops the projections and the factor 2"
            ),
            Mistake(lambda n, d: 2 * n * n * d, "the projections are missing: 4nd²"),
            Mistake(lambda n, d: 3 * n * d * d + 2 * n * n * d, "the output projection is missing: another nd²"),
            Mistake(lambda n, d: 4 * n * d * d + n * n * d, "scores and values take n²d each"),
            Mistake(
                lambda n, d: 8 * n * d * d + 4 * n * n * d, "those are FLOPs: a multiplication and an addition each"
            ),
        ),
        ("n", "d"),
        ((10, 16), (64, 8)),
    ),
    Exercise(
        "4.3",
        "L4.4",
        "The parameters of a feed-forward net",
        "A feed-forward net of width d = 64 with d_ff = 4d, without biases: how many parameters?",
        lambda: 2 * 64 * 256,
        (
            Mistake(lambda: 2 * 64 * 256 + 256 + 64, "that is with biases"),
            Mistake(lambda: 64 * 256, "that is one of the two maps"),
            Mistake(lambda: 4 * 64 * 64, "that is one of the two maps"),
            Mistake(lambda: 2 * 64 * 64, "the hidden layer has 4d features"),
        ),
    ),
    Exercise(
        "4.4",
        "L4.6",
        "The path of dilated convolutions",
        "How many layers of dilated convolutions of width k join the two ends of n tokens? (ceil and log are known in "
        "formulas: log(n, k).)",
        _path,
        (
            Mistake(
                lambda n, k: math.ceil(n / k), "that is without dilation; dilated, each layer reaches k times as far"
            ),
            Mistake(
                lambda n, k: math.ceil(math.log2(n)), "the base is k: each layer reaches k times as far, not twice"
            ),
            Mistake(lambda n, k: math.log(n) / math.log(k), "layers are whole: round up"),
            Mistake(lambda n, k: math.ceil(math.log(n)), "the base of the logarithm is k"),
            Mistake(lambda n, k: math.floor(math.log(n, k)), "round up, or the ends do not meet"),
        ),
        ("n", "k"),
        ((100, 3), (20, 5), (70, 4)),
    ),
    Exercise(
        "4.5",
        "L4.8",
        "The variance of a score",
        "The entries of q and k are independent, with mean 0 and variance 4, and d_k = 16. What is Var[q·k]?",
        lambda: 16 * (4 + 0) * (4 + 0),
        (
            Mistake(lambda: 16, "that is for entries of variance 1"),
            Mistake(lambda: 64, "the variance of a product of two entries is 4·4, not 4"),
            Mistake(lambda: 4, "variances add up: there are 16 products, of variance 4·4 each"),
            Mistake(lambda: 256 * 16, "16 terms have 16 variances: 16 · (4·4)"),
            Mistake(lambda: 128, "the variances of the two factors are multiplied, not added: 16 · (4·4)"),
        ),
    ),
)
