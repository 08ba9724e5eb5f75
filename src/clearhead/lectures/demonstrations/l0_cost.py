"""L0.4 to L0.6, L0.8 and L0.9: time and space of matrix products, attention and multi-head attention."""

import random

import sympy
import torch
from torch import Tensor

from clearhead.attention import MultiHeadAttention, weigh
from clearhead.costing import (
    attention_space,
    attention_work,
    letter,
    matmul_space,
    matmul_work,
    multihead_space,
    multihead_work,
)
from clearhead.costing.tracing import counted_macs
from clearhead.lectures.demonstrations.compare import at, formula_gap, written
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong

N, M, h = letter("N"), letter("M"), letter("h")
d_q, d_v, d_o = letter("d_q"), letter("d_v"), letter("d_o")
head_q, head_v = letter("d̃_q"), letter("d̃_v")


def matmul() -> Evidence:
    """L0.4: multiplications and results of (m×n)(n×p), symbolic, and counted while torch multiplies."""
    m, n, p = letter("m"), letter("n"), letter("p")
    left, right = torch.randn(5, 7), torch.randn(7, 3)
    what = "multiplications in (5×7)(7×3)"
    counted = counted_macs(lambda: left @ right)
    return Evidence(
        measures=(
            formula_gap("time mnp", m * n * p, matmul_work(m, n, p)),
            formula_gap("space mp", m * p, matmul_space(m, n, p)),
            Measure(f"{what}, counted as it runs", 5 * 7 * 3, counted),
            Measure("numbers in the result", 5 * 3, (left @ right).numel()),
        ),
        wrong=(
            Wrong("time mp: one multiplication for each result", Measure(what, 5 * 3, counted)),
            Wrong("space mnp", formula_gap("space", m * n * p, matmul_space(m, n, p))),
        ),
    )


def attention_time() -> Evidence:
    """L0.5: scores, choice and values, term by term, derived and counted."""
    work = attention_work(N, M, d_q, d_v)
    query, keys, values = torch.randn(11, 8), torch.randn(13, 8), torch.randn(13, 6)
    weights = weigh(query, keys)
    scores, mixed = counted_macs(lambda: weigh(query, keys)), counted_macs(lambda: weights @ values)
    order = sympy.limit(work.choice / (N * M), M, sympy.oo)
    name = "AV: NMd_v, N = 11, M = 13, d_v = 6, counted"
    return Evidence(
        measures=(
            formula_gap("QKᵀ: NMd_q", N * M * d_q, work.scores),
            formula_gap("AV: NMd_v", N * M * d_v, work.values),
            Measure("a(·): operations over NM, as M grows, a constant", "5", str(order)),
            formula_gap("all: NMd_q + NMd_v, and what the choice takes", N * M * (d_q + d_v) + work.choice, work.total),
            Measure("QKᵀ: NMd_q, N = 11, M = 13, d_q = 8, counted", 11 * 13 * 8, scores),
            Measure(name, 11 * 13 * 6, mixed),
        ),
        wrong=(
            Wrong("all without AV", formula_gap("all", N * M * d_q, work.macs)),
            Wrong("AV with d_q features", Measure(name, 11 * 13 * 8, mixed)),
            Wrong(
                "a(·) in O(N): one operation a row", Measure("a(·) over N", "5", written(sympy.expand(work.choice / N)))
            ),
        ),
        notes=(f"The softmax takes exactly {written(work.choice)} operations: 5M − 2 a row.",),
    )


def attention_memory() -> Evidence:
    """L0.6: the numbers that attention makes: weights and result."""
    n, m, dq, dv = 9, 14, 8, 5
    weights = weigh(torch.randn(n, dq), torch.randn(m, dq))
    made = weights.numel() + (weights @ torch.randn(m, dv)).numel()
    what = f"numbers made, N = {n}, M = {m}, d_q = {dq}, d_v = {dv}"
    return Evidence(
        measures=(
            formula_gap("MN + Nd_v", M * N + N * d_v, attention_space(N, M, d_q, d_v)),
            Measure(what, n * m + n * dv, made),
        ),
        wrong=(
            Wrong("d_n, as printed, read as N", Measure(what, n * m + n * n, made)),
            Wrong(
                "d_n, as printed, read as d_q",
                formula_gap("MN + Nd_q", M * N + N * d_q, attention_space(N, M, d_q, d_v)),
            ),
        ),
    )


_SIZES = {"h": h, "d_q": d_q, "d_v": d_v, "head_q": head_q, "head_v": head_v, "d_o": d_o}


def multihead_time() -> Evidence:
    """L0.8: the formula of free sizes, term by term, and beside what runs for random sizes."""
    work = multihead_work(N, M, **_SIZES)
    projections = h * (d_q * head_q * (M + N) + d_v * head_v * M)
    attention = h * (N * M * head_q + N * M * head_v)
    output = N * h * head_v * d_o
    whole = projections + attention + output
    one = multihead_work(N, M, **(_SIZES | {"h": 1}))
    rows = [_random_sizes(seed) for seed in range(5)]
    counted = [_run(sizes)[0] for sizes in rows]
    off = sum(abs(at(whole, sizes) - seen) for sizes, seen in zip(rows, counted, strict=True))
    short = h * (d_q * head_q * N + d_v * head_v * M) + attention + output
    missed = sum(abs(at(short, sizes) - seen) for sizes, seen in zip(rows, counted, strict=True))
    what = "formula − multiplications counted, over five random sizes"
    names = ("N", "M", "h", "d_q", "d_v", "d̃_q", "d̃_v", "d_o")
    return Evidence(
        measures=(
            formula_gap("projections h(d_q d̃_q(M+N) + d_v d̃_v M)", projections, work.projections),
            formula_gap("attention h(NM d̃_q + NM d̃_v)", attention, work.attention),
            formula_gap("output N h d̃_v d_o", output, work.output),
            formula_gap("h = 1: NM d̃_q + NM d̃_v, its attention alone", N * M * (head_q + head_v), one.attention),
            Measure(what, 0, off),
        ),
        wrong=(
            Wrong("keys are not projected: N instead of M + N", Measure(what, 0, missed)),
            Wrong(
                "h = 1 taken for all of it: no projections", formula_gap("h = 1", N * M * (head_q + head_v), one.total)
            ),
        ),
        tables=(
            EvidenceTable(
                "Multiply-accumulates of MultiHeadAttention",
                (*names, "formula", "counted"),
                tuple(
                    (*(sizes[name] for name in names), at(whole, sizes), seen)
                    for sizes, seen in zip(rows, counted, strict=True)
                ),
            ),
        ),
    )


def multihead_memory() -> Evidence:
    """L0.9: the numbers that projections, attention and output make, term by term."""
    space = multihead_space(N, M, **_SIZES)
    projections = h * (head_q * (M + N) + head_v * M)
    attention = h * (M * N + N * head_v)
    output = N * d_o
    sizes = _random_sizes(9)
    made = _run(sizes)[1]
    terms = {"projections": projections, "attention": attention, "output": output}
    return Evidence(
        measures=(
            formula_gap("projections h(d̃_q(M+N) + d̃_v M)", projections, space.projections),
            formula_gap("attention h(MN + N d̃_v)", attention, space.attention),
            formula_gap("output N d_o", output, space.output),
            *(Measure(f"numbers made by the {name}", at(term, sizes), made[name]) for name, term in terms.items()),
        ),
        wrong=(
            Wrong(
                "one matrix of weights for all heads",
                Measure("numbers made by the attention", at(M * N + h * N * head_v, sizes), made["attention"]),
            ),
            Wrong("an output of h·d̃_v columns", formula_gap("output", N * h * head_v, space.output)),
        ),
        notes=("Counted with " + ", ".join(f"{name} = {size}" for name, size in sizes.items()) + ".",),
    )


def _random_sizes(seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    names = ("N", "M", "h", "d_q", "d_v", "d̃_q", "d̃_v", "d_o")
    return {name: rng.randint(2, 5) if name == "h" else rng.randint(3, 24) for name in names}


def _run(sizes: dict[str, int]) -> tuple[int, dict[str, int]]:
    """Run attention of these sizes: multiply-accumulates, and how many numbers its parts make."""
    module = MultiHeadAttention(
        width=sizes["d_q"],
        heads=sizes["h"],
        query_size=sizes["d̃_q"],
        value_size=sizes["d̃_v"],
        memory_width=sizes["d_q"],
        value_width=sizes["d_v"],
        out_width=sizes["d_o"],
        bias=False,
    )
    module.path = "explicit"
    made: dict[str, int] = {"projections": 0, "attention": 0, "output": 0}

    def note(name: str, tensor: Tensor) -> None:
        made[name] += tensor.numel()

    for part in (module.query, module.key, module.value):
        part.register_forward_hook(lambda _module, _inputs, out: note("projections", out))
    module.weights.register_forward_hook(lambda _module, _inputs, weights: note("attention", weights))
    module.output.register_forward_pre_hook(lambda _module, inputs: note("attention", inputs[0]))
    module.output.register_forward_hook(lambda _module, _inputs, out: note("output", out))
    query, keys = torch.randn(1, sizes["N"], sizes["d_q"]), torch.randn(1, sizes["M"], sizes["d_q"])
    values = torch.randn(1, sizes["M"], sizes["d_v"])
    return counted_macs(lambda: module(query, keys, values)), made
