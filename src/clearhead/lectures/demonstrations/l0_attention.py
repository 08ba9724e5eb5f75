"""L0.1 to L0.3 and L0.7: the likelihood, attention, soft and hard, and many heads of free sizes."""

import math

import torch
from torch import Tensor

from clearhead.attention import MultiHeadAttention, attend, choose, weigh
from clearhead.decoding import ModelStepper, Rules, greedy
from clearhead.drawing.figure import Bars
from clearhead.lectures.demonstrations import toy
from clearhead.lectures.demonstrations.compare import alike, gap
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.predictor.forced import forced


def likelihood() -> Evidence:
    """L0.1: an answer has the same log-probability when it is generated and when it is fed in."""
    model = toy.trained(seed=1)
    source, target = toy.rows(32, torch.Generator().manual_seed(99))
    with torch.inference_mode():
        written = greedy(
            ModelStepper.reading(model, source, None),
            Rules(longest=[toy.LENGTH + 4] * 32),
            first=[toy.BOS] * 32,
            eos=toy.EOS,
            scored=True,
        )
    answers = [[*line.tokens, toy.EOS] for line in written if line.finished]
    sources = [row for row, line in zip(source.tolist(), written, strict=True) if line.finished]
    scores = forced(model, sources, answers)
    decoded = torch.tensor([line.log_probability for line in written if line.finished])
    factors = torch.tensor([line.log_probability for line in scores])
    whole = torch.tensor(answers)
    with torch.no_grad():  # the wrong variant: y_l given y_≤l, a target that is not shifted
        seen = model(torch.tensor(sources), whole).log_softmax(-1).gather(-1, whole[..., None]).sum((1, 2))
    truth = target.tolist()
    before, after = (
        -sum(line.log_probability for line in forced(one, source.tolist(), truth)) / target.numel()
        for one in (toy.untrained(seed=1), model)
    )
    name = "Σ log p(y_l | y_<l; x) against the score collected while decoding"
    return Evidence(
        measures=(
            Measure("answers that were finished", 32, len(answers)),
            alike(name, factors, decoded, tolerance=1e-4),
            Measure("−log p of a true token, after training", 0.2, after, relation="≤"),
        ),
        wrong=(
            Wrong("a token that is fed to itself: p(y_l | y_≤l; x)", alike(name, seen, decoded, tolerance=1e-4)),
            Wrong(
                "the model before training",
                Measure("−log p of a true token", 0.2, before, relation="≤"),
            ),
        ),
        figures=(
            Bars(
                title="One answer: −log p of each token given those before it; the bars add up to −log p(y | x)",
                alt=f"The factors of one answer; they add up to {-factors[0]:.3f}, the score of the search.",
                y_label="−log p(y_l | y_<l; x)",
                labels=tuple(f"l = {index + 1}" for index in range(len(answers[0]))),
                series=(("", tuple(-value for value in scores[0].log_probabilities)),),
            ),
        ),
        notes=(
            "The model reads eight letters and writes them backwards; it was trained a moment ago, in this process.",
        ),
    )


def _loop(query: Tensor, keys: Tensor, values: Tensor, divisor: float) -> Tensor:
    """a(QKᵀ/divisor)V, one query and one key at a time, in Python's own numbers."""
    rows = []
    for q in query.tolist():
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / divisor for k in keys.tolist()]
        weights = [math.exp(score - max(scores)) for score in scores]
        rows.append(
            [sum(w * v for w, v in zip(weights, column, strict=True)) / sum(weights) for column in values.T.tolist()]
        )
    return torch.tensor(rows)


def queries_over_keys() -> Evidence:
    """L0.2: N queries over M keys against a loop; V needs a row for each key."""
    n, m, d, e = 5, 7, 16, 3
    query, keys, values = torch.randn(n, d), torch.randn(m, d), torch.randn(m, e)
    expected = _loop(query, keys, values, math.sqrt(d))
    mine = attend(query, keys, values)
    try:
        _ = weigh(query, keys) @ torch.randn(n, e)
        fits = "multiplies"
    except RuntimeError:
        fits = "cannot be multiplied"
    name = "attend(Q, K, V) against a loop over queries and keys"
    return Evidence(
        measures=(
            Measure("rows and columns of the result, N × d_v", f"{n} × {e}", " × ".join(map(str, mine.shape))),
            alike(name, mine, expected),
        ),
        wrong=(
            Wrong("scores divided by d instead of √d", alike(name, attend(query, keys, values, scale="dim"), expected)),
            Wrong(
                "V with N rows, as printed: A is N × M, so AV does not exist",
                Measure("V with N = 5 rows, A of 5 × 7", "multiplies", fits),
            ),
        ),
    )


def soft_and_hard() -> Evidence:
    """L0.3: soft and hard weights of one query; the hard ones are exactly one-hot and still have a gradient."""
    scores = torch.randn(256, 6, requires_grad=True)
    hard, soft = choose(scores, choice="hard"), choose(scores)
    onehot = torch.nn.functional.one_hot(scores.argmax(-1), 6).float()
    direction = torch.randn(256, 6)
    (through,) = torch.autograd.grad((hard * direction).sum(), scores)
    (smooth,) = torch.autograd.grad((soft * direction).sum(), scores, retain_graph=True)
    other_order = (onehot + soft.detach()) - soft.detach()
    name = "hard weights against one-hot rows"
    query, keys = torch.randn(8), torch.randn(6, 8)
    one_soft, one_hard = weigh(query[None], keys)[0], weigh(query[None], keys, choice="hard")[0]
    return Evidence(
        measures=(
            alike(name, hard, onehot, tolerance=0.0),
            Measure("weights of a hard row, summed", 1.0, float(one_hard.sum())),
            alike("gradient of the hard choice against the softmax's (straight-through)", through, smooth, 1e-6),
            Measure("largest gradient through the hard choice", 0.01, float(through.abs().max()), relation="≥"),
        ),
        wrong=(
            Wrong("(onehot + soft) − soft: the other order loses the last bits", alike(name, other_order, onehot, 0.0)),
            Wrong(
                "argmax as a bare index: nothing to differentiate",
                Measure("largest gradient", 0.01, 0.0 if not onehot.requires_grad else 1.0, relation="≥"),
            ),
        ),
        figures=(
            Bars(
                title="One query over six keys: how much of each value it takes",
                alt="Soft weights spread over all six keys; the hard choice gives 1 to the best key.",
                y_label="weight",
                labels=tuple(f"key {index + 1}" for index in range(6)),
                series=(("soft", tuple(one_soft.tolist())), ("hard", tuple(one_hard.tolist()))),
            ),
        ),
    )


def heads_of_free_sizes() -> Evidence:
    """L0.7: sizes that no head shares with the tokens, against each head on its own."""
    h, dq, dv, width, memory, value, out = 3, 5, 7, 8, 6, 4, 9
    module = MultiHeadAttention(
        width=width, heads=h, query_size=dq, value_size=dv, memory_width=memory, value_width=value, out_width=out
    )
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(0, 0.3)
    query, keys, values = torch.randn(1, 4, width), torch.randn(1, 6, memory), torch.randn(1, 6, value)

    def by_head(divisor: float) -> Tensor:
        heads = []
        for i in range(h):
            q = query[0] @ _rows(module.query, i, dq).T + _biases(module.query, i, dq)
            k = keys[0] @ _rows(module.key, i, dq).T + _biases(module.key, i, dq)
            v = values[0] @ _rows(module.value, i, dv).T + _biases(module.value, i, dv)
            heads.append(_loop(q, k, v, divisor))
        joined: Tensor = module.output(torch.cat(heads, dim=-1))
        return joined

    name = "MultiHeadAttention against its heads one by one"
    mine = module(query, keys, values)[0]
    sizes = [("W_Q, a head", width, dq), ("W_K, a head", memory, dq), ("W_V, a head", value, dv), ("W_O", h * dv, out)]
    return Evidence(
        measures=(
            alike(name, mine, by_head(math.sqrt(dq))),
            Measure("columns of the result, d_o", out, mine.shape[-1]),
            Measure(
                "weights and biases",
                h * (dq * (width + memory + 2) + dv * (value + 1)) + out * (h * dv + 1),
                sum(parameter.numel() for parameter in module.parameters()),
            ),
        ),
        wrong=(Wrong("scaled by √d_q of the tokens, not of the head", alike(name, mine, by_head(math.sqrt(width)))),),
        tables=(EvidenceTable("The sizes of this example", ("matrix", "rows", "columns"), tuple(sizes)),),
        notes=(f"The wrong scale moves the result by {gap(mine, by_head(math.sqrt(width))):.3f}.",),
    )


def _rows(module: torch.nn.Module, head: int, size: int) -> Tensor:
    weight = module.get_parameter("weight")
    return weight[head * size : (head + 1) * size]


def _biases(module: torch.nn.Module, head: int, size: int) -> Tensor:
    return module.get_parameter("bias")[head * size : (head + 1) * size]
