"""What attention costs: the mechanisms on sketches, as their modules compute them.

Shapes: b batch, h heads, n queries, m keys, q = d̃_q and e = d̃_v features inside a head.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from sympy import Expr

from clearhead.costing.forms.letters import least
from clearhead.costing.forms.norm import token_norm, token_rms
from clearhead.costing.forms.position import Scheme
from clearhead.costing.forms.sketch import FLOAT, MASK, ONE, Ledger, Sketch, Storage, Time, product
from clearhead.recipe import AttentionSpec, FreeHeadsSpec, LinformerSpec, MultiHeadSpec, cost_of


@dataclass(frozen=True)
class AttentionSetting:
    """What the queries of one call can see."""

    part: str = ""
    """Marks the letters of this part where they differ from those of another: enc, dec, cross."""
    causal: bool = False
    """No query sees a later key."""
    scheme: Scheme = field(default_factory=Scheme)
    """The relative positions of the stack, or of the layer."""
    so_far: Expr | None = None
    """With a cache: how many tokens there are with the new one."""
    stored: bool = False
    """Keys and values of the memory are in the cache already."""
    grid: tuple[Expr, Expr] | None = None
    """Rows and columns, if the tokens are the cells of a grid."""

    def visible(self, queries: Expr, keys: Expr) -> Expr:
        """The share of all pairs of a query and a key that a mask leaves: n(n+1)/2 of n² with a causal mask."""
        return (keys + 1) / (2 * keys) if self.causal and queries == keys else ONE


Hook = Callable[[Any, Ledger, Expr, str], None]
"""Called with the spec, the ledger, the width of a token and the part of the model (``enc``, ``dec``, ``cross``)."""


Extent = Callable[[Any, Ledger, Expr, Expr, str], tuple[Expr, Expr]]
"""Called with the spec, the ledger, the numbers of queries and keys, and the part."""


def _nothing(spec: AttentionSpec, ledger: Ledger, width: Expr, part: str) -> None:
    """Most attentions share nothing between layers, and prepare nothing."""


@dataclass(frozen=True)
class AttentionForm:
    """The formula of an attention, with what it costs outside of its layers.

    Register one of these as ``cost`` if an attention has such costs; for all others the function ``run`` is enough.
    """

    run: Callable[..., Sketch]
    """``run(spec, x, memory, setting=…)``: one layer attends, and its result."""
    shared: Hook = _nothing
    """Declares the parameters that all layers of a stack share."""
    prepared: Hook = _nothing
    """What decoding computes in every layer once, before its first step."""
    extent: Extent | None = None
    """How many queries and keys meet at once, where that is a part of the line: what position schemes work on."""

    def __call__(self, spec: Any, x: Sketch, memory: Sketch | None = None, *, setting: AttentionSetting) -> Sketch:
        """One layer attends."""
        return self.run(spec, x, memory, setting=setting)


def attention_form(spec: AttentionSpec) -> AttentionForm:
    """The formula that a kind of attention is registered with."""
    formula = cost_of(spec)
    return formula if isinstance(formula, AttentionForm) else AttentionForm(formula)


def head_sizes(spec: FreeHeadsSpec, ledger: Ledger, width: Expr, part: str) -> tuple[Expr, Expr, Expr]:
    """h, d̃_q and d̃_v; values that are as wide as queries have the same letter, as kernels ask whether they are."""
    h = ledger.letters("h", spec.heads, part)
    q = ledger.letters("d_q", spec.query_size, part) if spec.query_size else width / h
    if spec.value_size == spec.query_size:
        return h, q, q
    return h, q, ledger.letters("d_v", spec.value_size, part) if spec.value_size else width / h


def multihead(spec: MultiHeadSpec, x: Sketch, memory: Sketch | None = None, *, setting: AttentionSetting) -> Sketch:
    """concat(head_1 … head_h) W_O (L0.8, L4.2): projections, scores, choice, values, output."""
    return project_and_mix(spec, x, memory, setting=setting)


def project_and_mix(
    spec: MultiHeadSpec,
    x: Sketch,
    memory: Sketch | None,
    *,
    setting: AttentionSetting,
    shrink: Callable[[Sketch, str], Sketch] | None = None,
    mix: Callable[[Sketch, Sketch, Sketch], Sketch] | None = None,
    path: Expr = ONE,
    most: Expr | None = None,
) -> Sketch:
    """Projections around attention. ``shrink`` sums up keys and values; ``mix`` attends, if not every query to all.

    ``path`` is the number of layers that join all positions, ``most`` how many tokens a cache holds, if not all.
    """
    ledger, width = x.ledger, x.shape[-1]
    h, q, e = head_sizes(spec, ledger, width, setting.part)
    g = ledger.letters("g", spec.kv_heads, setting.part) if spec.kv_heads not in (None, spec.heads) else h

    def project(tokens: Sketch, heads: Expr, size: Expr, name: str) -> Sketch:
        joined = tokens.linear(heads * size, bias=spec.bias, name=name) if spec.projections else tokens
        return _normed(spec, joined, heads, name) if name != "value" else joined.split_heads(heads)

    def candidates(tokens: Sketch) -> tuple[Sketch, Sketch]:
        keys, values = setting.scheme.rotate(project(tokens, g, q, "key")), project(tokens, g, e, "value")
        return (keys, values) if shrink is None else (shrink(keys, "keys"), shrink(values, "values"))

    query = setting.scheme.rotate(project(x, h, q, "query"))
    keys, values = remembered(x if memory is None else memory, candidates, setting=setting, most=most)
    if spec.score == "multiplicative":
        ledger.parameter(h, q, q, name="score.weight")
    ledger.mixes(path=path)
    heads = attend(query, keys, values, spec=spec, setting=setting) if mix is None else mix(query, keys, values)
    joined = heads.join_heads()
    output_bias = spec.bias if spec.output_bias is None else spec.output_bias
    return joined.linear(width, bias=output_bias, name="output") if spec.output else joined


def _normed(spec: MultiHeadSpec, joined: Sketch, heads: Expr, name: str) -> Sketch:
    """Queries, or keys, cut into heads; each vector normalised where the recipe asks for it."""
    if spec.qk_norm == "none":
        return joined.split_heads(heads)
    *rows, width = joined.shape
    size = width / heads
    for part in ("weight", "bias")[: 2 if spec.qk_norm == "layernorm" else 1]:
        joined.ledger.parameter(size, kind="vector", name=f"{name}_norm.{part}")
    by_head = joined.view(*rows, heads, size)
    if spec.qk_norm == "layernorm":
        normed = token_norm(by_head, affine=True)
    else:
        normed = token_rms(by_head, affine=True, unit_offset=spec.qk_norm_unit_offset)
    return normed.view(*rows, width).split_heads(heads)


def for_every_head(shared: Sketch, query: Sketch) -> Sketch:
    """Keys, or values, that heads share, copied for each of them."""
    batch, groups, length, size = shared.shape
    heads = query.shape[1]
    return shared if groups == heads else shared.view(batch, heads, length, size).copy()


def _linformer(spec: LinformerSpec, x: Sketch, memory: Sketch | None = None, *, setting: AttentionSetting) -> Sketch:
    """Keys and values summed up into k slots (L2.14): 4nd² + 4nkd."""
    k, longest = _slots(spec, x.ledger, setting.part)

    def shrink(heads: Sketch, which: str) -> Sketch:
        batch, count, length, size = heads.shape
        ledger = heads.ledger
        if (which == "keys" and spec.sharing == "key-value") or spec.sharing in ("none", "headwise"):
            maps = count if spec.sharing == "none" else ONE
            ledger.parameter(maps, k, longest, name=f"shrink_{which}.weight")
        if spec.sharing == "none":  # a map for each head, expanded over the batch
            return replace(ledger.input(batch, count, k, length), packed=False).matmul(heads)
        joined = heads.view(batch, count * size, length, packed=False)
        copied = ledger.copy(k, length, part=True)
        return joined.linear(k, bias=False, known=True, copied=copied).view(batch, count, k, size)

    return project_and_mix(spec, x, memory, setting=replace(setting, scheme=Scheme()), shrink=shrink)


def _slots(spec: LinformerSpec, ledger: Ledger, part: str) -> tuple[Expr, Expr]:
    return ledger.letters("k", spec.rank, part), ledger.letters("N", spec.length, part)


def _shared_by_layers(spec: LinformerSpec, ledger: Ledger, width: Expr, part: str) -> None:
    """The one map of all layers, heads, keys and values."""
    del width
    if spec.sharing == "layerwise":
        where = "cross" if part == "cross" else "attention"
        ledger.parameter(ONE, *_slots(spec, ledger, part), name=f"layers.0.{where}.shrink_keys.weight")


linformer = AttentionForm(_linformer, shared=_shared_by_layers)


def remembered(
    tokens: Sketch,
    project: Callable[[Sketch], tuple[Sketch, Sketch]],
    *,
    setting: AttentionSetting,
    most: Expr | None = None,
) -> tuple[Sketch, Sketch]:
    """Keys and values, (b, h, m, q) and (b, h, m, e), which ``project`` makes of tokens, or which a cache holds.

    What the cache holds of the memory was made, and paid for, before the first step. ``most`` is the number of tokens
    that it holds if it forgets older ones.
    """
    ledger = tokens.ledger
    outside = Ledger(letters=ledger.letters) if setting.stored else ledger
    keys, values = project(replace(tokens, ledger=outside))
    if setting.stored:
        keys, values = (replace(part.detach(), ledger=ledger, time=Time()) for part in (keys, values))
        ledger.count("cache", (keys.numel + values.numel) * FLOAT)
    if setting.so_far is not None:
        held = setting.so_far if most is None else least(setting.so_far, most)
        keys, values = keep(keys, held), keep(values, held)
    return keys, values


def keep(new: Sketch, so_far: Expr) -> Sketch:
    """Keys, or values, of all tokens: those that the cache holds, then the new ones."""
    batch, heads, _, size = new.shape
    shape = (batch, heads, so_far, size)
    new.ledger.count("cache", product(*shape, FLOAT))
    return new.view(*shape)


def _folded(query: Sketch, spec: MultiHeadSpec) -> Sketch:
    """QW, after which the score is a dot product; of filled-up queries too, where a line is cut into blocks."""
    if spec.score != "multiplicative":
        return query
    batch, h, _, q = query.shape
    return query.matmul(replace(query.ledger.input(batch, h, q, q), packed=False))  # expanded over the batch


def attend(query: Sketch, keys: Sketch, values: Sketch, *, spec: MultiHeadSpec, setting: AttentionSetting) -> Sketch:
    """choice(score/scale + bias)V (L0.5): explicit, which forms the n×m weights, or fused, which does not (L1.11)."""
    query = _folded(query, spec)
    n, m, scheme = query.shape[-2], keys.shape[-2], setting.scheme
    visible, stepping = setting.visible(n, m), setting.so_far is not None
    fusable = query.ledger.path == "fused" and does_without_weights(spec)
    if fusable and not stepping and scheme.by_blocks is not None:
        query.ledger.save(Storage(scheme.by_blocks * FLOAT))
        keys, values = for_every_head(keys, query), for_every_head(values, query)
        return without_weights(query, keys, values, visible=visible)
    bias = _bias(query, spec, scheme)
    masked = setting.causal and not stepping
    if fusable and not scheme.weighs_positions:
        if scheme.by_distance is not None and not stepping:  # what may not be seen is −∞ in it
            bias = scheme.by_distance.view(*scheme.by_distance.shape[:-1], n, m)
            keys, values, masked = keys.copy(), values.copy(), False
        return _fused(query, keys, values, bias=bias, masked=masked, visible=visible)
    mask = n * m if masked else None
    return _explicit(query, keys, values, spec=spec, scheme=scheme, bias=bias, mask=mask, visible=visible)


def does_without_weights(spec: AttentionSpec) -> bool:
    """Whether a kernel may never hold the weights."""
    if not isinstance(spec, MultiHeadSpec):
        return True
    return spec.score != "additive" and spec.choice == "soft" and spec.cap is None


def attend_masked(
    query: Sketch, keys: Sketch, values: Sketch, *, spec: MultiHeadSpec, scheme: Scheme, mask: Expr, visible: Expr
) -> Sketch:
    """The same where a mask of so many entries is always there, which torch's kernel takes as numbers."""
    query = _folded(query, spec)
    if query.ledger.path == "fused" and does_without_weights(spec) and not scheme.adds_terms:
        if query.shape[-1] == values.shape[-1]:
            query.ledger.save(Storage(mask * query.factor().itemsize))
        return _fused(query, keys, values, bias=None, masked=True, visible=visible)
    bias = _bias(query, spec, scheme)
    return _explicit(query, keys, values, spec=spec, scheme=scheme, bias=bias, mask=mask, visible=visible)


def _bias(query: Sketch, spec: MultiHeadSpec, scheme: Scheme) -> Sketch | None:
    """Everything that is added to the scaled scores."""
    bias = scheme.bias()
    if (term := scheme.key_term(query)) is not None:
        term = term if spec.scale == "none" else term.scale()
        bias = term if bias is None else bias.add(term)
    return bias


def _explicit(
    query: Sketch,
    keys: Sketch,
    values: Sketch,
    *,
    spec: MultiHeadSpec,
    scheme: Scheme,
    bias: Sketch | None,
    mask: Expr | None,
    visible: Expr,
) -> Sketch:
    keys, values = for_every_head(keys, query), for_every_head(values, query)
    if spec.score == "additive":
        scores = _additive(query, keys)
    else:
        scores = query.matmul(keys.transpose(), visible=visible)
        scores = scores if spec.scale == "none" else scores.scale()
    scores = scores if spec.cap is None else soft_cap(scores)
    if bias is not None:
        scores = scores.add(bias)
    weights = choose(scores, hard=spec.choice == "hard", mask=mask)
    heads = weights.matmul(values, visible=visible)
    places = scheme.value_term(weights)
    return heads if places is None else heads.add(places)


def soft_cap(x: Sketch) -> Sketch:
    """c·tanh(x/c): three operations an entry, of which tanh keeps its result."""
    return x.scale().apply(keeps="output").scale()


def _additive(query: Sketch, keys: Sketch) -> Sketch:
    """u·tanh(q + k), which is no matrix product: every query meets every key in d̃_q features."""
    batch, heads, n, size = query.shape
    meeting = query.add(keys, (batch, heads, n, keys.shape[-2], size)).apply(keeps="output")
    query.ledger.parameter(heads, size, name="score.direction")
    query.ledger.save(meeting.storage)
    return meeting.scale(learned=True).sum(batch, heads, n, keys.shape[-2])


def choose(scores: Sketch, *, hard: bool = False, mask: Expr | None = None) -> Sketch:
    """Softmax, or the one best key (L0.3); a mask hides scores before and weights after, and is kept both times."""
    if mask is not None:
        scores = scores.masked(Storage(mask * MASK))
    weights = scores.softmax()
    if hard:
        best = scores.best()
        weights = best.add(weights).detach().add(weights)
    if mask is not None:
        weights = weights.masked(Storage(mask * MASK))
    return weights


def _fused(
    query: Sketch,
    keys: Sketch,
    values: Sketch,
    *,
    bias: Sketch | None,
    masked: bool,
    visible: Expr,
) -> Sketch:
    """torch's kernel, whose result is laid out as the queries are.

    It wants values as wide as queries and a bias without gradient; else torch itself takes the explicit way, in float32
    even with autocast. To the kernel autocast gives everything in bfloat16, a bias as a matrix of its own.
    """
    if bias is not None and masked:
        bias = bias.masked(Storage(product(query.shape[-2], keys.shape[-2], MASK)))
    if (bias is not None and bias.grad) or query.shape[-1] != values.shape[-1]:
        query, keys, values = (part.factor().typed(FLOAT) for part in (query, keys, values))
        keys, values = for_every_head(keys, query), for_every_head(values, query)
        with query.ledger.in_float32():
            weights = query.matmul(keys.transpose(), visible=visible).softmax()
            heads = weights.matmul(values, visible=visible)
        return heads.factor()
    if bias is not None:
        query.ledger.save(bias.factor().storage)
    query, keys, values = (part.factor() for part in (query, keys, values))
    result = without_weights(query, keys, values, visible=visible, sums=FLOAT)
    return result.view(*result.shape, packed=query.packed)


def without_weights(query: Sketch, keys: Sketch, values: Sketch, *, visible: Expr, sums: int | None = None) -> Sketch:
    """softmax(QKᵀ/scale)V, of which queries, keys, values, the result and one number a row are kept (L1.11).

    ``sums`` are the bytes of that number; by default it is of the queries' type, as the result is of the values'.
    """
    ledger = query.ledger
    *batch, n, _ = query.shape
    for part in (query, keys, values):
        ledger.save(part.storage)
    ledger.save(Storage(product(*batch, n, sums or query.itemsize)))
    scores = query.matmul(keys.transpose(), visible=visible, keeps=False)
    result = scores.scale().softmax(keeps=False).matmul(values, visible=visible, keeps=False).typed(values.itemsize)
    ledger.save(result.storage)
    return result
