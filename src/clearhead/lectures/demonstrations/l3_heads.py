"""L3.1, L3.2 and L3.7: the indexed equations, the score, and what the heads of a trained model attend to."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from clearhead.attention import MultiHeadAttention, dot, weigh
from clearhead.drawing.figure import Heat
from clearhead.lectures.demonstrations import toy
from clearhead.lectures.demonstrations.compare import alike
from clearhead.lectures.demonstrations.pytorch import randomise
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong
from clearhead.models import EncoderModel, Seq2Seq, build
from clearhead.recipe import read_recipe


def indexed_equations() -> Evidence:
    """L3.1: the preset ttic, one attention of it, against the equations index by index."""
    model = build(read_recipe("ttic", "model.layers=1", "model.width=24", "model.heads=3"), seed=1).eval()
    assert isinstance(model, EncoderModel)
    module: Any = model.get_submodule("encoder.layers.0.attention")
    randomise(module)
    K, J = 3, 24
    I = U = J // K  # noqa: E741 - the problem's own letter
    h_in = 0.5 * torch.randn(1, 6, J)
    W = {name: getattr(module, name).weight.view(K, -1, J) for name in ("query", "key", "value")}

    def out(scale: float) -> Tensor:
        query = torch.einsum("kuj,tj->ktu", W["query"], h_in[0])
        key = torch.einsum("kuj,tj->ktu", W["key"], h_in[0])
        value = torch.einsum("kij,tj->kti", W["value"], h_in[0])
        alpha = (torch.einsum("ktu,ksu->kts", query, key) / scale).softmax(-1)
        return torch.cat(list(torch.einsum("kts,ksi->kti", alpha, value)), dim=-1)

    with torch.no_grad():
        mine = module(h_in)[0]
    name = "self-attention of the preset ttic against einsum"
    return Evidence(
        measures=(
            Measure("I = J/K, features of a head's value", J // K, I),
            alike(name, mine, out(1.0), tolerance=1e-6),
            Measure(
                "weights: W_Q, W_K, W_V, no W_O, no biases",
                K * (2 * U + I) * J,
                sum(p.numel() for p in module.parameters()),
            ),
        ),
        wrong=(
            Wrong(
                "scores divided by √U, which the problem does not do", alike(name, mine, out(U**0.5), tolerance=1e-6)
            ),
        ),
    )


def sum_over_features() -> Evidence:
    """L3.2: the score sums over features u; the handwritten Σ_j would sum over positions."""
    T = U = 5  # as many features as positions, so that the wrong sum has a shape at all
    query, key = torch.randn(T, U), torch.randn(T, U)
    score = torch.einsum("tu,su->ts", query, key)
    alpha = score.exp() / score.exp().sum(-1, keepdim=True)
    wrong = torch.einsum("ju,jv->uv", query, key)
    name = "weigh(Query, Key) against e^score / Z"
    return Evidence(
        measures=(
            alike("score against Σ_u Query[t₁, u] Key[t₂, u]", dot(query, key), score),
            alike(name, weigh(query, key, scale="none"), alpha),
        ),
        wrong=(Wrong("a sum over positions j", alike(name, wrong.softmax(-1), alpha)),),
    )


RULES = ("itself", "the token before", "the token after", "the first", "the mirrored one")


def meaning_emerges() -> Evidence:
    """L3.7: what each head of a trained model attends to, with its entropy, beside the same heads before training."""
    runs = {seed: (_records(toy.untrained(seed)), _records(toy.trained(seed))) for seed in (1, 2)}
    best = {
        seed: [max(float(_mass(heads["cross"], "the mirrored one")[h]) for h in range(4)) for heads in pair]
        for seed, pair in runs.items()
    }
    rows, unexplained = [], 0
    for seed, (_, after) in runs.items():
        for part, weights in after.items():
            for head in range(weights.shape[1]):
                shares = {rule: float(_mass(weights, rule)[head]) for rule in RULES}
                rule = max(shares, key=lambda one: shares[one])
                unexplained += shares[rule] < 0.5
                rows.append((seed, part, head + 1, float(_entropy(weights)[head]), rule, shares[rule]))
    model = toy.trained(1)
    permuted, half = _permuted(model, output=True), _permuted(model, output=False)
    source, target = toy.rows(8, torch.Generator().manual_seed(7))
    with torch.no_grad():
        logits = [one(source, toy.fed(target)) for one in (model, permuted, half)]
    what = "weight of the best cross-attention head on the mirrored letter"
    name = "logits with the heads of the cross-attention in another order"
    shown = runs[1][1]["cross"].mean(0)
    clearest = int(_mass(runs[1][1]["cross"], "the mirrored one").argmax())
    return Evidence(
        measures=(
            Measure(
                f"{what}, before training (even: {1 / 9:.2f})", 0.3, max(one[0] for one in best.values()), relation="≤"
            ),
            Measure(f"{what}, after", 0.5, min(one[1] for one in best.values()), relation="≥"),
            Measure(f"heads (of {len(rows)}) whose weights no simple rule takes half of", 1, unexplained, relation="≥"),
            alike(name, logits[1], logits[0], tolerance=1e-4),
        ),
        wrong=(
            Wrong("an untrained model", Measure(what, 0.5, max(one[0] for one in best.values()), relation="≥")),
            Wrong("heads in another order, W_O left as it was", alike(name, logits[2], logits[0], tolerance=1e-4)),
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


def _permuted(model: Seq2Seq, *, output: bool) -> Seq2Seq:
    """The model with the heads of its cross-attention in another order, and W_O in the same order, or not."""
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
        if output:
            weight = module.output.get_parameter("weight")
            weight.copy_(weight[:, order].clone())
    return changed
