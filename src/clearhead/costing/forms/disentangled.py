"""What disentangled attention costs (L4.9): content and distance meet separately."""

from dataclasses import replace

from sympy import Expr, Integer

from clearhead.costing.forms.attention import (
    AttentionForm,
    AttentionSetting,
    choose,
    head_sizes,
    remembered,
    without_weights,
)
from clearhead.costing.forms.letters import later, least
from clearhead.costing.forms.norm import token_norm
from clearhead.costing.forms.position import distances_within
from clearhead.costing.forms.sketch import INDEX, Ledger, Sketch, Storage, product
from clearhead.recipe import DisentangledSpec


def _rows(spec: DisentangledSpec, ledger: Ledger, part: str, length: Expr | None) -> Expr:
    """Rows of the table that sequences of this length reach; all of them while decoding, or with buckets."""
    if spec.buckets:
        return 2 * ledger.letters("b", spec.buckets, part)
    reach = ledger.letters("k", spec.span, part)
    return 2 * (reach if length is None else least(length, reach))


def _projected(
    spec: DisentangledSpec, ledger: Ledger, width: Expr, rows: Expr, *, part: str, known: bool = False
) -> list[Sketch]:
    """K^r and Q^r: rows·d² each, once for a batch."""
    h, q, _ = head_sizes(spec, ledger, width, part)
    table = replace(ledger.input(rows, width), storage=Storage(Integer(0), number=0))  # a slice of the table itself
    vectors = token_norm(table, affine=True) if spec.normalised else table
    names = {"c2p": "place_key", "p2c": "place_query"}
    return [
        vectors.linear(h * q, bias=spec.bias, known=known or spec.shared_projections, name=name)
        for term, name in names.items()
        if term in spec.terms
    ]


def _disentangled(
    spec: DisentangledSpec, x: Sketch, memory: Sketch | None = None, *, setting: AttentionSetting
) -> Sketch:
    """4nd² + (1 or 2)·n²d + 4n·min(n, k)·d, and 4·min(n, k)·d² once for a batch."""
    ledger, width = x.ledger, x.shape[-1]
    h, q, e = head_sizes(spec, ledger, width, setting.part)

    def project(tokens: Sketch, size: Expr, name: str) -> Sketch:
        return tokens.linear(h * size, bias=spec.bias, name=name).split_heads(h)

    query = project(x, q, "query")
    keys, values = remembered(
        x if memory is None else memory,
        lambda seen: (project(seen, q, "key"), project(seen, e, "value")),
        setting=setting,
    )
    if x.shape[-2] == 0:  # no queries yet: what decoding computes once
        _prepared(spec, ledger, width, setting.part)
        return x
    ledger.mixes()
    cached = setting.so_far is not None or setting.stored
    if ledger.path == "fused" and not cached and spec.choice == "soft":
        heads = _blockwise(spec, query, keys, values, width=width, setting=setting)
    else:
        scores = _scores(spec, query, keys, width=width, setting=setting, cached=cached).scale()
        masked = setting.causal and setting.so_far is None
        mask = query.shape[-2] * keys.shape[-2] if masked else None
        weights = choose(scores, hard=spec.choice == "hard", mask=mask)
        heads = weights.matmul(values, visible=setting.visible(query.shape[-2], keys.shape[-2]))
    return heads.join_heads().linear(width, bias=spec.bias, name="output")


def _scores(
    spec: DisentangledSpec, query: Sketch, keys: Sketch, *, width: Expr, setting: AttentionSetting, cached: bool
) -> Sketch:
    ledger = query.ledger
    *batch, n, size = query.shape
    m = keys.shape[-2]
    visible = setting.visible(n, m)
    terms = [query.matmul(keys.transpose(), visible=visible)] if "c2c" in spec.terms else []
    if cached and n == 1:  # a step: every key meets one row of each table, which is projected already
        if "c2p" in spec.terms:
            terms.append(query.matmul(replace(ledger.constant(*batch, m, size), packed=False).transpose()))
        if "p2c" in spec.terms:
            products = keys.multiply(ledger.constant(*batch[1:], m, size))
            terms.append(products.sum(*batch, m).view(*batch, n, m))
        return _sum(terms)
    rows = _rows(spec, ledger, setting.part, None if cached else later(n, m))
    places = _projected(spec, ledger, width, rows, part=setting.part, known=cached and setting.stored)
    index = ledger.constant(n, m, size=INDEX).storage
    back = index if spec.p2c_index == "released" else ledger.constant(n, m, size=INDEX).storage
    meetings = {"c2p": (query, index), "p2c": (keys, back)}
    for place, term in zip(places, (term for term in meetings if term in spec.terms), strict=True):
        meeting, where = meetings[term]
        heads = replace(ledger.input(*batch, rows, size, time=place.time), packed=False)  # expanded over the batch
        terms.append(meeting.matmul(heads.transpose()).gathered(where, *batch, n, m))
    return _sum(terms)


def _sum(terms: list[Sketch]) -> Sketch:
    total = terms[0]
    for term in terms[1:]:
        total = total.add(term)
    return total


def _prepared(spec: DisentangledSpec, ledger: Ledger, width: Expr, part: str) -> None:
    """What decoding computes once: all positions are projected."""
    _projected(spec, ledger, width, _rows(spec, ledger, part, None), part=part)


def _blockwise(
    spec: DisentangledSpec, query: Sketch, keys: Sketch, values: Sketch, *, width: Expr, setting: AttentionSetting
) -> Sketch:
    """What is kept where the scores are never held: inputs, tables, result, a number a row."""
    ledger = query.ledger
    *batch, n, size = query.shape
    m = keys.shape[-2]
    span = ledger.letters("k", spec.span, setting.part)
    distances = distances_within(span, n, m)
    rows = _rows(spec, ledger, setting.part, later(n, m))
    places = _projected(spec, ledger, width, rows, part=setting.part)
    index = ledger.constant(distances, size=INDEX).storage
    for place in places:
        ledger.save(index if spec.p2c_index == "released" else ledger.constant(distances, size=INDEX).storage)
        ledger.save(Storage(product(batch[-1], distances, size, place.itemsize)))
    return without_weights(query, keys, values, visible=setting.visible(n, m))


def _shared(spec: DisentangledSpec, ledger: Ledger, width: Expr, part: str) -> None:
    """The table of relative positions, one for all layers of a stack, and its norm."""
    size = spec.buckets or spec.span
    places = f"layers.0.{'cross' if part == 'cross' else 'attention'}.places"
    rows = 2 * ledger.letters("b" if spec.buckets else "k", size, part)
    ledger.parameter(rows, width, kind="table", name=f"{places}.table.weight")
    if spec.normalised:
        ledger.parameter(width, kind="vector", name=f"{places}.norm.weight")
        ledger.parameter(width, kind="vector", name=f"{places}.norm.bias")


disentangled = AttentionForm(_disentangled, shared=_shared, prepared=_prepared)
