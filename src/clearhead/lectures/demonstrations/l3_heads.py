"""L3.1, L3.2 and L3.7: the indexed equations, the score, and what the heads of a trained model attend to."""

import copy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention, weigh
from clearhead.attention.heads import split_heads
from clearhead.costing import letter
from clearhead.costing.tracing import attention_path, trace
from clearhead.drawing.figure import Heat
from clearhead.lectures.demonstrations import toy
from clearhead.lectures.demonstrations.broken import broken_block
from clearhead.lectures.demonstrations.compare import ROUNDING, alike
from clearhead.lectures.demonstrations.learning import idle_step
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.demonstrations.ways import alike_on_every_path, gaps
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure
from clearhead.models import EncoderModel, Seq2Seq, build, count_parameters
from clearhead.recipe import read_recipe


def indexed_equations() -> Evidence:
    """L3.1: the preset ttic, one attention of it, against the equations index by index, on every path."""
    K, J, n = 3, 24, 7
    model = build(read_recipe("ttic", "model.layers=1", f"model.width={J}", f"model.heads={K}"), seed=1).eval()
    assert isinstance(model, EncoderModel)
    module: Any = model.get_submodule("encoder.layers.0.attention")
    randomise(module)
    h_in = 0.5 * torch.randn(n, J)
    W = {name: getattr(module, name).weight.view(K, -1, J) for name in ("query", "key", "value")}

    def equations(seen: Tensor) -> Tensor:
        query = torch.einsum("kuj,tj->ktu", W["query"], h_in)
        key = torch.einsum("kuj,tj->ktu", W["key"], h_in)
        value = torch.einsum("kij,tj->kti", W["value"], h_in)
        score = torch.einsum("ktu,ksu->kts", query, key).masked_fill(~seen, -torch.inf)
        return torch.cat(list(torch.einsum("kts,ksi->kti", score.softmax(-1), value)), dim=-1)

    def worst(path: str) -> Measure:
        return Measure("against the equations: max|Δ|", 0.0, gaps(module, h_in, equations)[path], tolerance=ROUNDING)

    def weights() -> Measure:
        count = sum(part.numel() for part in W.values())
        what = "parameters of the layer against W^Q, W^K and W^V: no W_O, no biases"
        return Measure(what, count, count_parameters(module))

    def width() -> Measure:
        values = module.candidates(h_in[None])[1]  # (1, K, T, I)
        return Measure("K heads of I features beside J features of h_in", J, values.shape[1] * values.shape[-1])

    with torch.no_grad():
        return Evidence(
            measures=(
                *alike_on_every_path("preset ttic against the equations", module, h_in, equations),
                weights(),
                width(),
                *_what_is_summed(module, J),
            ),
            wrong=(
                broken_block(
                    "scores divided by √U, which the problem does not do",
                    "clearhead.attention.score.divisor",
                    lambda right: lambda _scale, size: right("sqrt", size),
                    partial(worst, "explicit"),
                ),
                broken_block(
                    "heads that are concatenated feature by feature",
                    "clearhead.attention.heads.Heads.join",
                    lambda _right: lambda self, heads: self.output(heads.permute(0, 2, 3, 1).flatten(2)),
                    partial(worst, "fused"),
                ),
                broken_block(
                    "a softmax over t₁",
                    "clearhead.attention.choice.choose",
                    lambda right: lambda scores, _mask, choice: right(scores.mT, None, choice).mT,
                    partial(worst, "explicit"),
                ),
                broken_block(
                    "padding attended to, on the fused path alone",
                    "clearhead.attention.attend.fused",
                    lambda right: lambda *given, **more: right(*given, **(more | {"mask": None})),
                    partial(worst, "fused"),
                ),
            ),
            tables=(
                EvidenceTable(
                    "The notes' margin, line by line",
                    ("line", "beside", "in the margin", "the equation sums over", "the margin is"),
                    (
                        (10, "Query", "Σ_j", "j, features of h_in", "right"),
                        (12, "α", "o(ln U + ln T)", "u, then t₂ for Z", "right, with a capital O: the answer of 1(a)"),
                        (14, "Out", "Σ_j", "t'", "a line too low: Σ_j belongs to Value, line 13"),
                        (
                            15,
                            "h_out",
                            "Σ_t",
                            "nothing: it concatenates",
                            "a line too low: Σ_t' belongs to Out, line 14",
                        ),
                    ),
                ),
            ),
        )


def _what_is_summed(module: Any, J: int) -> list[Measure]:
    """How many terms each equation sums, as the traced graph has it: the notes' margin asks for it."""
    T = letter("T")
    attention_path(module, "explicit")
    graph = trace(module, [torch.zeros(2, 7, J)], [(letter("B"), T, None)])
    attention_path(module, "auto")
    terms = {node.owner: node.cost.serial for node in graph.nodes if node.name == "linear"}
    scores, out = (node.cost.serial for node in graph.nodes if node.name in ("matmul", "bmm"))
    U = module.query_size
    return [
        *(
            Measure(f"terms that {name} sums: j", str(J), str(terms[owner]))
            for owner, name in (("query", "Query"), ("key", "Key"), ("value", "Value"))
        ),
        Measure("terms that a score sums: u", str(U), str(scores)),
        Measure("terms that Out sums: t'", str(T), str(out)),
        Measure("products that h_out takes: it concatenates", "0", str(graph.macs("output"))),
    ]


def sum_over_features() -> Evidence:
    """L3.2: the score sums over the features u of query and key; Σ_j would sum over the features of h_in."""
    n, J = 9, 16
    module = MultiHeadAttention(width=J, heads=1, scale="none", output=False, bias=False)
    randomise(module)
    h_in = torch.randn(n, J)
    W_Q, W_K, W_V = (module.get_submodule(name).get_parameter("weight") for name in ("query", "key", "value"))

    def shares(seen: Tensor) -> Tensor:
        """e^score / Z, with score = Σ_u Query[t₁, u] Key[t₂, u], one sum at a time."""
        query, key, value = (torch.einsum("uj,tj->tu", part, h_in) for part in (W_Q, W_K, W_V))
        rows = []
        for t in range(n):
            e = torch.stack([(query[t] * key[s]).sum().exp() * seen[t, s] for s in range(n)])
            rows.append(sum((share * row for share, row in zip(e / e.sum(), value, strict=True)), torch.zeros(J)))
        return torch.stack(rows)

    def worst(path: str) -> Measure:
        return Measure("against e^score / Z: max|Δ|", 0.0, gaps(module, h_in, shares)[path], tolerance=ROUNDING)

    query, keys = (h_in @ part.T / J**0.5 for part in (W_Q, W_K))

    def weighed() -> Measure:
        score = torch.einsum("tu,su->ts", query, keys)
        return alike(
            "weigh against e^score / Z", weigh(query, keys, scale="none"), score.exp() / score.exp().sum(-1, True)
        )

    with torch.no_grad():
        return Evidence(
            measures=(
                weighed(),
                *alike_on_every_path("attention against e^score / Z", module, h_in, shares),
            ),
            wrong=(
                broken_block(
                    "a sum over j, the features of h_in, as the handwriting has it: the query is the token itself",
                    "clearhead.attention.heads.Heads.queries",
                    lambda _right: lambda self, tokens: split_heads(tokens, self.heads),
                    partial(worst, "explicit"),
                ),
                broken_block(
                    "Z over the queries",
                    "clearhead.attention.choice.choose",
                    lambda right: lambda scores, _mask, choice: right(scores.mT, None, choice).mT,
                    weighed,
                ),
                broken_block(
                    "scores without their exponential",
                    "clearhead.attention.choice.choose",
                    lambda _right: lambda scores, _mask, _choice: scores / scores.sum(-1, keepdim=True),
                    weighed,
                ),
            ),
        )


RULES = ("itself", "the token before", "the token after", "the first", "the mirrored one")


def meaning_emerges() -> Evidence:
    """L3.7: what each head of a trained model attends to, with its entropy, beside the same heads before training."""
    seeds = (1, 2)
    before = {seed: _records(toy.untrained(seed)) for seed in seeds}
    after = {seed: _records(toy.trained(seed)) for seed in seeds}
    rows, unexplained = [], 0
    for seed, places in after.items():
        for part, weights in places.items():
            for head in range(weights.shape[1]):
                shares = {rule: float(_mass(weights, rule)[head]) for rule in RULES}
                rule = max(shares, key=lambda one: shares[one])
                unexplained += shares[rule] < 0.5
                rows.append((seed, part, head + 1, float(_entropy(weights)[head]), rule, shares[rule]))
    model = toy.trained(1)
    source, target = toy.rows(8, torch.Generator().manual_seed(7))
    what = "weight of the best cross-attention head on the mirrored letter"
    even = 1 / before[1]["cross"].shape[-1]

    def best(places: dict[str, Tensor]) -> float:
        return float(_mass(places["cross"], "the mirrored one").max())

    def learnt() -> Measure:
        return Measure(f"{what}, after", 0.5, best(_records(toy.trained(1))), relation="≥")

    def reordered() -> Measure:
        with torch.no_grad():
            mine, theirs = (one(source, toy.fed(target)) for one in (_permuted(model), model))
        return alike("logits with the heads of the cross-attention in another order", mine, theirs, tolerance=1e-4)

    shown = after[1]["cross"].mean(0)
    clearest = int(_mass(after[1]["cross"], "the mirrored one").argmax())
    return Evidence(
        measures=(
            Measure(f"{what}, before training (even: {even:.2f})", 0.3, max(map(best, before.values())), relation="≤"),
            Measure(f"{what}, after", 0.5, min(map(best, after.values())), relation="≥"),
            Measure(f"heads (of {len(rows)}) whose weights no simple rule takes half of", 1, unexplained, relation="≥"),
            reordered(),
        ),
        wrong=(
            broken_block(
                "a trainer whose steps change nothing",
                "clearhead.training.trainer.Trainer._step",
                lambda _right: idle_step,
                learnt,
            ),
            broken_block(
                "W_O that reads the heads in another order than they have",
                "clearhead.attention.heads.Heads.join",
                lambda right: lambda self, heads: right(self, heads.roll(1, dims=1)),
                reordered,
            ),
        ),
        tables=(
            EvidenceTable(
                "Every head of two models that differ in their seed alone",
                ("seed", "attention", "head", "entropy", "what it looks at most", "its share"),
                tuple(rows),
            ),
        ),
        figures=(
            Heat(
                title=f"Cross-attention, head {clearest + 1}: untold, it has learnt to read backwards",
                alt="The weights lie on the antidiagonal: output 1 looks at letter 8, output 8 at letter 1.",
                x_label="source letter",
                y_label="output",
                values=tuple(tuple(row) for row in shown[clearest].tolist()),
                rows=(*map(str, range(1, toy.LENGTH + 1)), "end"),
                columns=(*map(str, range(1, toy.LENGTH + 1)), "end"),
            ),
        ),
        notes=(
            "The task is to write eight letters backwards. A head's number means nothing: the heads can be put in any "
            "order. For the heads marked with a small share no rule in the list says what they do.",
        ),
    )


def _records(model: Seq2Seq) -> dict[str, Tensor]:
    """The weights of every attention, (b, h, n, m), on rows that were not trained on."""
    names = {"encoder": "encoder.layers.0.attention", "decoder": "decoder.layers.0.attention"}
    names["cross"] = "decoder.layers.0.cross"
    places: dict[str, Any] = {place: model.get_submodule(name) for place, name in names.items()}
    seen: dict[str, Tensor] = {}
    handles = [
        module.weights.register_forward_hook(lambda _module, _inputs, weights, name=name: seen.update({name: weights}))
        for name, module in places.items()
    ]
    source, target = toy.rows(64, torch.Generator().manual_seed(5))
    with torch.no_grad():
        model(source, toy.fed(target))
    for handle in handles:
        handle.remove()
    return seen


def _mass(weights: Tensor, rule: str) -> Tensor:
    """How much of each head's weight goes where the rule says, on average over the letters, (h,)."""
    n = toy.LENGTH
    at = torch.arange(n)
    keys = {
        "itself": at,
        "the token before": (at - 1).clamp(min=0),
        "the token after": at + 1,
        "the first": at * 0,
        "the mirrored one": n - 1 - at,
    }[rule]
    return weights[:, :, at, keys].mean((0, 2))


def _entropy(weights: Tensor) -> Tensor:
    return -(weights * weights.clamp(min=1e-12).log()).sum(-1).mean((0, 2))


def _permuted(model: Seq2Seq) -> Seq2Seq:
    """The model with the heads of its cross-attention in another order, and W_O in the same order."""
    changed = copy.deepcopy(model)
    module = changed.get_submodule("decoder.layers.0.cross")
    assert isinstance(module, MultiHeadAttention)
    size = 32 // module.heads
    order = torch.cat([torch.arange(head * size, (head + 1) * size) for head in (2, 0, 3, 1)])
    with torch.no_grad():
        for part in (module.query, module.key, module.value):
            assert isinstance(part, nn.Linear)
            part.weight.copy_(part.weight[order].clone())
            part.bias.copy_(part.bias[order].clone())
        weight = module.output.get_parameter("weight")
        weight.copy_(weight[:, order].clone())
    return changed
