"""L0.4 to L0.6, L0.8 and L0.9: time and space of matrix products, attention and multi-head attention."""

import dataclasses
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import sympy
import torch
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention, attend, choose, weigh
from clearhead.attention.attend import fused
from clearhead.costing import (
    attention_space,
    attention_work,
    letter,
    matmul_space,
    matmul_work,
    multihead_space,
    multihead_work,
)
from clearhead.costing.tracing import counted_macs, watch
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import at, formula_gap, written
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure

N, M, h = letter("N"), letter("M"), letter("h")
d_q, d_v, d_o = letter("d_q"), letter("d_v"), letter("d_o")
head_q, head_v = letter("d̃_q"), letter("d̃_v")


def matmul() -> Evidence:
    """L0.4: multiplications and results of (m×n)(n×p), symbolic, and counted while torch multiplies random sizes."""
    m, n, p = letter("m"), letter("n"), letter("p")
    rng = random.Random(4)
    shapes = [(rng.randint(2, 9), rng.randint(2, 9), rng.randint(2, 9)) for _ in range(5)]
    runs = []
    for rows, inner, columns in shapes:
        left, right = torch.randn(rows, inner), torch.randn(inner, columns)
        runs.append((counted_macs(partial(torch.mm, left, right)), torch.mm(left, right).numel()))

    def time() -> Measure:
        return formula_gap("time mnp", m * n * p, matmul_work(m, n, p))

    def space() -> Measure:
        return formula_gap("space mp", m * p, matmul_space(m, n, p))

    def counted() -> Measure:
        off = sum(abs(int(matmul_work(*shape)) - run[0]) for shape, run in zip(shapes, runs, strict=True))
        return Measure("formula − multiplications counted as torch runs, over five random sizes", 0, off)

    def kept() -> Measure:
        off = sum(abs(int(matmul_space(*shape)) - run[1]) for shape, run in zip(shapes, runs, strict=True))
        return Measure("formula − numbers in the result, over five random sizes", 0, off)

    forms = "clearhead.costing.forms.lecture"
    return Evidence(
        measures=(time(), space(), counted(), kept()),
        wrong=(
            broken_block(
                "the product's formula of time is mp: one multiplication for each result",
                f"{forms}.matmul_work",
                lambda right: lambda rows, inner, columns: right(rows, 1, columns),
                counted,
            ),
            broken_block(
                "the product's formula of space is mnp",
                f"{forms}.matmul_space",
                lambda right: lambda rows, inner, columns: inner * right(rows, inner, columns),
                kept,
            ),
        ),
        tables=(
            EvidenceTable(
                "Products that ran",
                ("m", "n", "p", "multiplications", "numbers"),
                tuple((*shape, *run) for shape, run in zip(shapes, runs, strict=True)),
            ),
        ),
    )


def attention_time() -> Evidence:
    """L0.5: scores, choice and values, term by term, derived, and counted while the product runs on both paths."""
    work = attention_work(N, M, d_q, d_v)
    sizes = n, m, dq, dv = 11, 13, 8, 6
    query, keys, values = torch.randn(n, dq), torch.randn(m, dq), torch.randn(m, dv)
    scores = torch.randn(n, m)

    def score_products() -> Measure:
        predicted = int(attention_work(*sizes).scores)
        return Measure("QKᵀ: NMd_q, counted as it runs", predicted, counted_macs(lambda: weigh(query, keys)))

    def choice_operations() -> Measure:
        seen = watch(lambda: choose(scores), nn.Identity(), [scores]).operations
        return Measure("a(·): operations, counted as it runs", int(attention_work(*sizes).choice), seen)

    def all_products(path: str) -> Measure:
        def run() -> Tensor:
            if path == "fused":
                return fused(query[None, None], keys[None, None], values[None, None])
            return attend(query, keys, values)

        predicted = int(attention_work(*sizes).macs)
        return Measure(f"NMd_q + NMd_v, counted as it runs, {path} path", predicted, counted_macs(run))

    per_pair = sympy.limit(work.choice / (N * M), M, sympy.oo)
    return Evidence(
        measures=(
            formula_gap("QKᵀ: NMd_q", N * M * d_q, work.scores),
            formula_gap("AV: NMd_v", N * M * d_v, work.values),
            Measure("a(·): letters in operations / NM, as M grows", "none", _letters(per_pair)),
            formula_gap("all: NMd_q + NMd_v, and what the choice takes", N * M * (d_q + d_v) + work.choice, work.total),
            score_products(),
            choice_operations(),
            all_products("explicit"),
            all_products("fused"),
        ),
        wrong=(
            broken_block(
                "attention that scores every pair twice",
                "clearhead.attention.attend.weigh",
                lambda right: lambda *given, **rest: (right(*given, **rest) + right(*given, **rest)) / 2,
                lambda: all_products("explicit"),
            ),
            broken_block(
                "a fused path whose values have the features of the keys",
                "clearhead.attention.attend.fused",
                lambda right: lambda query, keys, values, **rest: right(query, keys, keys, **rest),
                lambda: all_products("fused"),
            ),
            broken_block(
                "a choice that takes its softmax twice",
                "clearhead.attention.choice.choose",
                lambda right: lambda *given: right(right(*given)),
                choice_operations,
            ),
            broken_block(
                "the product's formula without AV",
                "clearhead.costing.forms.lecture.attention_work",
                lambda right: lambda *sizes: dataclasses.replace(right(*sizes), values=sympy.Integer(0)),
                lambda: all_products("explicit"),
            ),
        ),
        notes=(f"The softmax takes exactly {written(work.choice)} operations: 5M − 2 a row.",),
    )


def _letters(expression: sympy.Expr) -> str:
    return ", ".join(sorted(symbol.name for symbol in expression.free_symbols)) or "none"


def attention_memory() -> Evidence:
    """L0.6: the numbers that attention makes: weights and result, counted by hooks on a module of one head."""
    sizes = _random_sizes(6) | {"h": 1}
    own = (sizes["N"], sizes["M"], sizes["d̃_q"], sizes["d̃_v"])  # a head without its projections is plain attention

    def made() -> Measure:
        what = "numbers made by one head, its projections apart"
        return Measure(what, int(attention_space(*own)), _run(sizes)[1]["attention"])

    def formula() -> Measure:
        return formula_gap("MN + Nd_v", M * N + N * d_v, attention_space(N, M, d_q, d_v))

    space = "clearhead.costing.forms.lecture.attention_space"
    return Evidence(
        measures=(formula(), made()),
        wrong=(
            broken_block(
                "weights that are formed twice",
                "clearhead.attention.paths._explicit",
                lambda right: lambda *given: (right(*given) + right(*given)) / 2,
                made,
            ),
            broken_block(
                "the product's formula with d_q, one way to read the printed d_n",
                space,
                lambda right: lambda N, M, d_q, d_v: right(N, M, d_q, d_q),
                made,
            ),
            broken_block(
                "the product's formula with N, another way to read the printed d_n",
                space,
                lambda right: lambda N, M, d_q, d_v: right(N, M, d_q, N),
                made,
            ),
        ),
        notes=("Counted with " + ", ".join(f"{name} = {size}" for name, size in sizes.items()) + ".",),
    )


_SIZES = {"h": h, "d_q": d_q, "d_v": d_v, "head_q": head_q, "head_v": head_v, "d_o": d_o}


def multihead_time() -> Evidence:
    """L0.8: the formula of free sizes, term by term, and beside what runs for random sizes, on both paths."""
    work = multihead_work(N, M, **_SIZES)
    projections = h * (d_q * head_q * (M + N) + d_v * head_v * M)
    attention = h * (N * M * head_q + N * M * head_v)
    output = N * h * head_v * d_o
    whole = projections + attention + output
    one_head = multihead_work(N, M, **(_SIZES | {"h": 1}))
    rows = [_random_sizes(seed) for seed in range(5)]
    counted = [_run(sizes)[0] for sizes in rows]

    def off(path: str) -> Measure:
        seen = [_run(sizes, path)[0] for sizes in rows]
        missed = sum(abs(at(whole, sizes) - macs) for sizes, macs in zip(rows, seen, strict=True))
        return Measure(f"formula − multiplications counted, over five random sizes, {path} path", 0, missed)

    def with_one_head() -> Measure:
        alone, formula = rows[0] | {"h": 1}, multihead_work(N, M, **(_SIZES | {"h": 1}))
        what = "h = 1 with its projections, formula and counted"
        return Measure(what, at(formula.total, alone), _run(alone)[0])

    names = ("N", "M", "h", "d_q", "d_v", "d̃_q", "d̃_v", "d_o")
    return Evidence(
        measures=(
            formula_gap("projections h(d_q d̃_q(M+N) + d_v d̃_v M)", projections, work.projections),
            formula_gap("attention h(NM d̃_q + NM d̃_v)", attention, work.attention),
            formula_gap("output N h d̃_v d_o", output, work.output),
            formula_gap("h = 1: NM d̃_q + NM d̃_v, its attention alone", N * M * (head_q + head_v), one_head.attention),
            with_one_head(),
            off("explicit"),
            off("fused"),
        ),
        wrong=(
            broken_block(
                "heads that project their keys twice",
                "clearhead.attention.heads.Heads.candidates",
                lambda right: lambda self, *tokens: (right(self, *tokens)[0], right(self, *tokens)[1]),
                lambda: off("explicit"),
            ),
            broken_block(
                "one head's scores for all heads",
                "clearhead.attention.score.dot",
                lambda right: lambda query, keys: right(query[:, :1], keys[:, :1]).expand(-1, query.shape[1], -1, -1),
                lambda: off("explicit"),
            ),
            broken_block(
                "the product's formula as the line for h = 1 has it: no projections",
                "clearhead.costing.forms.lecture.multihead_work",
                _attention_alone,
                with_one_head,
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


def _attention_alone(right: Callable[..., Any]) -> Callable[..., Any]:
    """Break a formula: neither projections nor output."""
    nothing = sympy.Integer(0)
    return lambda *sizes, **more: dataclasses.replace(right(*sizes, **more), projections=nothing, output=nothing)


def multihead_memory() -> Evidence:
    """L0.9: the numbers that projections, attention and output make, term by term, with many heads and with one."""
    space = multihead_space(N, M, **_SIZES)
    projections = h * (head_q * (M + N) + head_v * M)
    attention = h * (M * N + N * head_v)
    output = N * d_o
    sizes = _random_sizes(9)
    terms = {"projections": projections, "attention": attention, "output": output}
    single = multihead_space(N, M, **(_SIZES | {"h": 1}))

    def made(name: str) -> Measure:
        return Measure(f"numbers made by the {name}", at(terms[name], sizes), _run(sizes)[1][name])

    alone = sizes | {"h": 1}

    def one_head() -> Measure:
        return Measure("h = 1: numbers made by the attention", at(single.attention, alone), _run(alone)[1]["attention"])

    def all_of_one_head() -> Measure:
        formula = multihead_space(N, M, **(_SIZES | {"h": 1})).total
        return Measure("h = 1: numbers made by all parts", at(formula, alone), sum(_run(alone)[1].values()))

    return Evidence(
        measures=(
            formula_gap("projections h(d̃_q(M+N) + d̃_v M)", projections, space.projections),
            formula_gap("attention h(MN + N d̃_v)", attention, space.attention),
            formula_gap("output N d_o", output, space.output),
            formula_gap("h = 1: MN + N d̃_v, its attention alone", M * N + N * head_v, single.attention),
            *map(made, terms),
            one_head(),
            all_of_one_head(),
        ),
        wrong=(
            broken_block(
                "one matrix of weights for all heads",
                "clearhead.attention.attend.weigh",
                lambda right: lambda *given, **rest: right(*given, **rest).mean(1, keepdim=True),
                lambda: made("attention"),
            ),
            broken_block(
                "heads that are joined without W_O",
                "clearhead.attention.heads.Heads.join",
                lambda right: lambda self, heads: heads.transpose(1, 2).flatten(2),
                lambda: made("output"),
            ),
            broken_block(
                "the product's formula as the line for h = 1 has it: no projections",
                "clearhead.costing.forms.lecture.multihead_space",
                _attention_alone,
                all_of_one_head,
            ),
        ),
        notes=("Counted with " + ", ".join(f"{name} = {size}" for name, size in sizes.items()) + ".",),
    )


def _random_sizes(seed: int) -> dict[str, int]:
    rng = random.Random(seed)
    names = ("N", "M", "h", "d_q", "d_v", "d̃_q", "d̃_v", "d_o")
    return {name: rng.randint(2, 5) if name == "h" else rng.randint(3, 24) for name in names}


def _run(sizes: dict[str, int], path: str = "explicit") -> tuple[int, dict[str, int]]:
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
    module.path = path  # type: ignore[assignment]
    made: dict[str, int] = {"projections": 0, "attention": 0, "output": 0}

    def note(name: str, tensor: Tensor) -> None:
        made[name] += tensor.numel()

    for part in (module.query, module.key, module.value):
        part.register_forward_hook(lambda _module, _inputs, out: note("projections", out))
    if path == "explicit":  # a hook on the weights would make the fused path form them
        module.weights.register_forward_hook(lambda _module, _inputs, weights: note("attention", weights))
    module.output.register_forward_pre_hook(lambda _module, inputs: note("attention", inputs[0]))
    module.output.register_forward_hook(lambda _module, _inputs, out: note("output", out))
    query, keys = torch.randn(1, sizes["N"], sizes["d_q"]), torch.randn(1, sizes["M"], sizes["d_q"])
    values = torch.randn(1, sizes["M"], sizes["d_v"])
    return counted_macs(lambda: module(query, keys, values)), made
