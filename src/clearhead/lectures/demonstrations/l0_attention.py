"""L0.1 to L0.3 and L0.7: the likelihood, attention, soft and hard, and many heads of free sizes."""

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from clearhead.attention import AttentionContext, KeyValues, MultiHeadAttention, attend, choose, weigh
from clearhead.attention.attend import fused, fused_by_distance
from clearhead.attention.blockwise import Distances, attend_by_distance
from clearhead.attention.score import divisor
from clearhead.decoding import ModelStepper, Rules, greedy
from clearhead.drawing.figure import Bars
from clearhead.lectures.demonstrations import toy
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, alike, gap
from clearhead.lectures.demonstrations.learning import idle_step
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import Seq2Seq
from clearhead.predictor.forced import forced


def sees_everything(right: Callable[..., Any]) -> Callable[..., Any]:
    """Break ``attend_heads``: no causal mask, whatever the path."""

    def without_a_mask(method: Any, query: Any, keys: Any, values: Any, context: AttentionContext) -> Any:
        return right(method, query, keys, values, dataclasses.replace(context, causal=False))

    return without_a_mask


def likelihood() -> Evidence:
    """L0.1: an answer has the same log-probability when it is generated, fed in, scored in a batch, and trained on."""
    model = toy.trained(1)
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
    decoded = torch.tensor([line.log_probability for line in written if line.finished])
    # lines of unequal length, so that a batch of them is padded
    short = [row[-3 - index % 6 :] for index, row in enumerate(source.tolist())]
    shorter = [row[-3 - index % 4 :] for index, row in enumerate(target.tolist())]

    def factors() -> Measure:
        if not answers:
            return Measure("Σ log p(y_l | y_<l; x), of answers that were finished", "some", "none")
        fed_in = torch.tensor([line.log_probability for line in forced(model, sources, answers)])
        return alike("Σ log p(y_l | y_<l; x) against the score collected while decoding", fed_in, decoded, 1e-4)

    def in_a_batch() -> Measure:
        together = forced(model, short, shorter)
        alone = [forced(model, [x], [y])[0] for x, y in zip(short, shorter, strict=True)]
        mine, other = (torch.tensor([line.log_probability for line in lines]) for lines in (together, alone))
        return alike("log p(y | x) of unequal lines, in one padded batch against alone", mine, other, tolerance=1e-3)

    def trained_on() -> Measure:
        objective = toy.objective()
        batch = objective.batch(toy.pairs(source, target), np.arange(len(source)), 0)
        with torch.no_grad():
            loss = float(objective.loss(model, batch)) / target.numel()
        fed_in = toy.loss_of_a_token(model, source, target)
        return Measure("the trainer's loss against −log p of a token", fed_in, loss, tolerance=1e-4)

    before = toy.loss_of_a_token(toy.untrained(seed=1), source, target)

    def learnt(trained: Seq2Seq) -> Measure:
        after = toy.loss_of_a_token(trained, source, target)
        return Measure("−log p of a true token, after training by the trainer", before / 10, after, relation="≤")

    first = forced(model, source[:1].tolist(), target[:1].tolist())[0]
    return Evidence(
        measures=(
            Measure("answers that were finished", len(source), len(answers)),
            factors(),
            in_a_batch(),
            trained_on(),
            learnt(model),
        ),
        wrong=(
            broken_block(
                "targets that are not shifted: p(y_l | y_≤l; x)",
                "clearhead.data.batches.make_batch",
                lambda right: lambda *given, **ids: _unshifted(right(*given, **ids)),
                trained_on,
            ),
            broken_block(
                "a decoder that sees the tokens after y_l",
                "clearhead.attention.paths.attend_heads",
                sees_everything,
                factors,
            ),
            broken_block(
                "padding that is taken for tokens",
                "clearhead.predictor.forced.padded",
                lambda right: lambda lines: (right(lines)[0], torch.ones_like(right(lines)[0], dtype=torch.bool)),
                in_a_batch,
            ),
            broken_block(
                "a trainer whose steps change nothing",
                "clearhead.training.trainer.Trainer._step",
                lambda _right: idle_step,
                lambda: learnt(toy.trained(1)),
            ),
        ),
        figures=(
            Bars(
                title="A right answer: −log p of each token given those before it; the bars add up to −log p(y | x)",
                alt=f"The factors of one answer; they add up to {-first.log_probability:.3f}.",
                y_label="−log p(y_l | y_<l; x)",
                labels=tuple(f"l = {index + 1}" for index in range(target.shape[1])),
                series=(("", tuple(-value for value in first.log_probabilities)),),
            ),
        ),
        notes=(
            "The model reads eight letters and writes them backwards; the trainer of the product trained it a moment "
            "ago, in this process.",
        ),
    )


def _unshifted(batch: Any) -> Any:
    """A batch whose decoder is fed what it has to predict."""
    return dataclasses.replace(batch, inputs=batch.labels)


def loop(query: Tensor, keys: Tensor, values: Tensor, root: float) -> Tensor:
    """a(QKᵀ/root)V, one query and one key at a time, in Python's own numbers: a reference that shares nothing."""
    rows = []
    for q in query.tolist():
        scores = [sum(a * b for a, b in zip(q, k, strict=True)) / root for k in keys.tolist()]
        weights = [math.exp(score - max(scores)) for score in scores]
        rows.append(
            [sum(w * v for w, v in zip(weights, column, strict=True)) / sum(weights) for column in values.T.tolist()]
        )
    return torch.tensor(rows)


def on_each_path(
    query: Float[Tensor, "n d"], keys: Float[Tensor, "m d"], values: Float[Tensor, "m e"], valid: Bool[Tensor, "m"]
) -> dict[str, Float[Tensor, "n e"]]:
    """a(QKᵀ/√d)V over the valid keys by each of the product's four paths, and with keys that come from a cache."""
    n, m = len(query), len(keys)
    q, k, v = query[None, None], keys[None, None], values[None, None]  # one line, one head
    cache = KeyValues()
    cache.append(k[:, :, : m - 2], v[:, :, : m - 2])
    cached = cache.append(k[:, :, m - 2 :], v[:, :, m - 2 :])
    far = Distances(1 - m, n - 1)
    no_bias = torch.zeros(1, len(far.all()))
    there = int(valid.sum())  # the path by distance takes no mask: a stack gives it whole lines only
    return {
        "explicit": attend(query, keys, values, mask=valid[None]),
        "fused": fused(q, k, v, mask=valid[None, None, None])[0, 0],
        "distance": fused_by_distance(q, k[:, :, :there], v[:, :, :there], torch.zeros(1, n + there - 1))[0, 0],
        "blocks": attend_by_distance(
            q, k, v, bias=no_bias, distances=far, scale=divisor("sqrt", query.shape[1]), valid=valid[None]
        )[0, 0],
        "cache": attend(query, cached[0][0, 0], cached[1][0, 0], mask=valid[None]),
    }


def no_mask_in(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Break a path: its argument of this name, which masks padding, is ignored."""
    return lambda right: lambda *given, **options: right(*given, **(options | {name: None}))


def queries_over_keys() -> Evidence:
    """L0.2: N queries over M keys on every path, the last keys being padding, against a loop."""
    n, m, d, e = 5, 7, 16, 3
    query, keys, values = torch.randn(n, d), torch.randn(m, d), torch.randn(m, e)
    valid = torch.arange(m) < m - 2
    expected = loop(query, keys[valid], values[valid], math.sqrt(d))

    def measures() -> tuple[Measure, ...]:
        found = on_each_path(query, keys, values, valid)
        return tuple(alike(f"a(QKᵀ/√d_q)V against a loop, path {path}", out, expected) for path, out in found.items())

    def worst() -> Measure:
        gaps = [gap(out, expected) for out in on_each_path(query, keys, values, valid).values()]
        return Measure("a(QKᵀ/√d_q)V against a loop, the worst path: max|Δ|", 0.0, max(gaps), tolerance=ROUNDING)

    def size() -> Measure:
        try:
            found = " × ".join(map(str, attend(query, keys, values).shape))
        except (RuntimeError, TypeError):  # the latter where shapes are checked
            found = "cannot be multiplied"
        return Measure("attend(Q, K, V): rows × columns of the result, N × d_v", f"{n} × {e}", found)

    def from_tokens() -> Measure:
        """Q = XW_Q over K = X'W_K and V = X'W_V, by a module with one head."""
        mine = module(x[None], memory[None])[0]
        weights = (module.get_submodule(name).get_parameter("weight").T for name in ("query", "key", "value"))
        q, k, v = (tokens @ weight for tokens, weight in zip((x, memory, memory), weights, strict=True))
        what = f"XW_Q over X'W_K and X'W_V, {n} and {m} rows of {x.shape[1]} features, against a loop"
        return alike(what, mine, loop(q, k, v, math.sqrt(d)))

    x, memory = torch.randn(n, 10), torch.randn(m, 10)
    module = MultiHeadAttention(width=10, heads=1, query_size=d, value_size=e, bias=False, output=False)
    randomise(module)
    return Evidence(
        measures=(size(), *measures(), from_tokens()),
        wrong=(
            broken_block(
                "scores divided by d instead of √d",
                "clearhead.attention.score.divisor",
                lambda right: lambda scale, size: right("dim", size),
                worst,
            ),
            broken_block(
                "padding is not masked, explicit path",
                "clearhead.attention.choice.choose",
                lambda right: lambda scores, mask=None, choice="soft": right(scores, None, choice),
                worst,
            ),
            broken_block(
                "padding is not masked, fused path", "clearhead.attention.attend.fused", no_mask_in("mask"), worst
            ),
            broken_block(
                "padding is not masked, in blocks",
                "clearhead.attention.blockwise.attend_by_distance",
                no_mask_in("valid"),
                worst,
            ),
            broken_block(
                "by distance, values in another order than keys",
                "clearhead.attention.attend.fused_by_distance",
                lambda right: lambda q, k, v, bias: right(q, k, v.flip(2), bias),
                worst,
            ),
            broken_block(
                "keys and values from the X of the queries, the only one in the notes",
                "clearhead.attention.multihead.MultiHeadAttention.forward",
                lambda right: lambda self, tokens, _memory, **more: right(self, tokens, **more),
                from_tokens,
            ),
            broken_block(
                f"V with N = {n} rows, as printed: A is N × M, so AV does not exist",
                "clearhead.attention.attend.attend",
                lambda right: lambda query, keys, values: right(query, keys, values[: len(query)]),
                size,
            ),
        ),
    )


def soft_and_hard() -> Evidence:
    """L0.3: soft and hard weights of the product; the hard ones are exactly one-hot and still train W_Q."""
    x = torch.randn(2, 6, 8)
    valid = torch.ones(2, 6, dtype=torch.bool)
    valid[1, 4:] = False
    modules = {}
    for choice in ("soft", "hard"):
        modules[choice] = MultiHeadAttention(width=8, heads=2, choice=choice)
        modules[choice].path = "explicit"
    randomise(modules["soft"])
    modules["hard"].load_state_dict(modules["soft"].state_dict())

    def weights(choice: str) -> Tensor:
        seen: list[Tensor] = []
        handle = modules[choice].weights.register_forward_hook(lambda _module, _inputs, out: seen.append(out))
        modules[choice](x, context=AttentionContext(valid=valid))
        handle.remove()
        return seen[0]

    def one_hot() -> Measure:
        hard = weights("hard")
        off = torch.minimum(hard.abs(), (hard - 1).abs()).max()
        return Measure("hard weights: how far from exactly 0 or 1", 0.0, float(off.detach()))

    def best() -> Measure:
        soft, hard = weights("soft"), weights("hard")
        share = (soft.argmax(-1) == hard.argmax(-1)).float().mean()
        return Measure(
            "rows whose hard choice is the key with the largest soft weight, padding masked", 1.0, float(share)
        )

    def ties() -> Measure:
        chosen = choose(torch.tensor([[1.0, 3.0, 3.0, 0.0]]), None, "hard")
        return Measure("keys that are chosen of two equal ones, 2 and 3: the first", "2", _names_of(chosen[0] > 0))

    def gradient() -> Measure:
        module = modules["hard"]
        weight = module.query.get_parameter("weight")
        out = module(x, context=AttentionContext(valid=valid)).square().sum()
        (found,) = torch.autograd.grad(out, weight, allow_unused=True)
        size = 0.0 if found is None else float(found.abs().max())
        return Measure("largest ∂/∂W_Q through the hard choice", 1e-3, size, relation="≥")

    query, keys = torch.randn(8), torch.randn(6, 8)
    one_soft, one_hard = weigh(query[None], keys)[0], weigh(query[None], keys, choice="hard")[0]
    scores = torch.randn(3, 5)
    share = torch.tensor([[math.exp(s) / sum(map(math.exp, row)) for s in row] for row in scores.tolist()])
    return Evidence(
        measures=(
            alike("soft weights against e^s / Σ e^s, in Python's own numbers", choose(scores), share, 1e-6),
            one_hot(),
            best(),
            ties(),
            gradient(),
        ),
        wrong=(
            broken_block(
                "(onehot + soft) − soft: the other order loses the last bits",
                "clearhead.attention.choice.choose",
                lambda right: lambda *given: _in_the_other_order(right, *given),
                one_hot,
            ),
            broken_block(
                "argmax alone, as printed: W_Q gets no gradient",
                "clearhead.attention.choice.choose",
                lambda right: lambda *given: right(*given).detach(),
                gradient,
            ),
            broken_block(
                "every key with the largest score is chosen: not one-hot where two are equal",
                "clearhead.attention.choice.choose",
                lambda _right: lambda scores, _mask, _choice: (scores == scores.amax(-1, keepdim=True)).float(),
                ties,
            ),
            broken_block(
                "the hard choice made before padding is masked",
                "clearhead.attention.choice.choose",
                lambda right: (
                    lambda scores, mask=None, choice="soft": right(scores, mask if choice == "soft" else None, choice)
                ),
                best,
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


def _names_of(chosen: Bool[Tensor, "m"]) -> str:
    """The numbers of the keys that are chosen, from 1."""
    return ", ".join(str(index + 1) for index, one in enumerate(chosen.tolist()) if one)


def _in_the_other_order(right: Callable[..., Tensor], scores: Tensor, mask: Any, choice: Any) -> Tensor:
    if choice == "soft":
        return right(scores, mask, choice)
    soft, hard = right(scores, mask, "soft"), right(scores, mask, "hard")
    return (hard.round().detach() + soft) - soft.detach()


def heads_of_free_sizes() -> Evidence:
    """L0.7: sizes that no head shares with the tokens, against each head on its own, on both paths and with a cache."""
    h, dq, dv, width, memory, value, out = 3, 5, 7, 8, 6, 4, 9
    module = MultiHeadAttention(
        width=width, heads=h, query_size=dq, value_size=dv, memory_width=memory, value_width=value, out_width=out
    )
    randomise(module)
    query, keys, values = torch.randn(1, 4, width), torch.randn(1, 6, memory), torch.randn(1, 6, value)
    valid = torch.arange(6)[None] < 5  # the last key is padding
    heads = []
    for i in range(h):
        q = query[0] @ _rows(module.query, i, dq).T + _biases(module.query, i, dq)
        k = keys[0, :5] @ _rows(module.key, i, dq).T + _biases(module.key, i, dq)
        v = values[0, :5] @ _rows(module.value, i, dv).T + _biases(module.value, i, dv)
        heads.append(loop(q, k, v, math.sqrt(dq)))
    output = module.output
    joined = torch.cat(heads, dim=-1) @ output.get_parameter("weight").T + output.get_parameter("bias")

    def results() -> dict[str, Tensor]:
        context, cache, found = AttentionContext(valid=valid), KeyValues(), {}
        with torch.no_grad():
            for path in ("explicit", "fused"):
                module.path = path
                found[path] = module(query, keys, values, context=context)[0]
            parts = [module(query[:, i : i + 1], keys, values, context=context, cache=cache)[0] for i in range(4)]
        return found | {"cache": torch.cat(parts)}

    def worst() -> Measure:
        off = max(gap(result, joined) for result in results().values())
        return Measure("MultiHeadAttention against its heads one by one, the worst path", 0.0, off, tolerance=ROUNDING)

    def split() -> Measure:
        """Hooks see what the module computes; H is what is joined and handed to W_O."""
        seen: dict[str, Tensor] = {}
        handle = module.output.register_forward_pre_hook(lambda _module, given: seen.update(H=given[0]))
        module.path = "explicit"
        with torch.no_grad():
            module(query, keys, values)
            k_star, v_star = module.candidates(keys, values)
            found = [module.queries(query), k_star, v_star, seen["H"].view(1, -1, h, dv).transpose(1, 2)]
        handle.remove()
        shapes = [" × ".join(map(str, part.shape[1:])) for part in found]
        expected = f"{h} × 4 × {dq}, {h} × 6 × {dq}, {h} × 6 × {dv}, {h} × 4 × {dv}"
        return Measure("Q*, K*, V*, H: h × N × d̃_q, h × M × d̃_q, h × M × d̃_v, h × N × d̃_v", expected, ", ".join(shapes))

    sizes = [("W_Q, a head", width, dq), ("W_K, a head", memory, dq), ("W_V, a head", value, dv), ("W_O", h * dv, out)]
    matrices = [part.get_parameter("weight").numel() for part in (module.query, module.key, module.value)]
    return Evidence(
        measures=(
            *(
                alike(f"MultiHeadAttention against its heads one by one, {path}", result, joined)
                for path, result in results().items()
            ),
            Measure(
                "numbers in W_Q, W_K, W_V and W_O",
                sum(rows * columns * (1 if name == "W_O" else h) for name, rows, columns in sizes),
                sum(matrices) + output.get_parameter("weight").numel(),
            ),
            split(),
        ),
        wrong=(
            broken_block(
                "scaled by √d_q of the tokens, not of the head",
                "clearhead.attention.score.divisor",
                lambda right: lambda scale, size: right(scale, width),
                worst,
            ),
            broken_block(
                "features dealt out to the heads in turn instead of slice by slice",
                "clearhead.attention.heads.split_heads",
                lambda _right: lambda joined, heads, *_norm: joined.unflatten(-1, (-1, heads)).permute(0, 3, 1, 2),
                worst,
            ),
            broken_block(
                "a key and a value that no token has",
                "clearhead.attention.heads.Heads.candidates",
                lambda right: lambda self, *tokens: tuple(F.pad(part, (0, 0, 0, 1)) for part in right(self, *tokens)),
                split,
            ),
            broken_block(
                "a cache that returns its keys in another order than its values",
                "clearhead.attention.cache.KeyValues.view",
                lambda right: lambda self: (right(self)[0].flip(2), right(self)[1]),
                worst,
            ),
        ),
        tables=(EvidenceTable("The sizes of this example", ("matrix", "rows", "columns"), tuple(sizes)),),
    )


def _rows(module: torch.nn.Module, head: int, size: int) -> Tensor:
    return module.get_parameter("weight")[head * size : (head + 1) * size].detach()


def _biases(module: torch.nn.Module, head: int, size: int) -> Tensor:
    return module.get_parameter("bias")[head * size : (head + 1) * size].detach()
