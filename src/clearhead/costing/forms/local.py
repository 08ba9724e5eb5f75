"""What restricted self-attention costs (Table 1, L4.6): blocks of c = r − 1 queries, each over 2c keys.

Two products of n·2c·d each, where n is filled up to whole blocks; a mask leaves n·r of the pairs, less at the ends.
"""

from sympy import Expr

from clearhead.costing.forms.attention import AttentionForm, AttentionSetting, attend, attend_masked, project_and_mix
from clearhead.costing.forms.letters import least, pieces
from clearhead.costing.forms.sketch import ONE, Ledger, Sketch
from clearhead.recipe import LocalSpec


def window_path(n: Expr, r: Expr, *, both: bool) -> Expr:
    """Layers that join all n positions by windows of r keys, the query's own included.

    A layer carries a signal r − 1 tokens far on one side, (r − 1)/2 tokens on both sides.
    """
    return pieces((1 + int(both)) * (n - 1), r - 1)


def window_pairs(n: Expr, r: Expr, *, both: bool) -> Expr:
    """Pairs of a query and a key in its window: n·r less those beyond the ends, with windows of at most n keys."""
    if both:
        side = least((r - 1) / 2, n - 1)
        return n * (2 * side + 1) - side * (side + 1)
    near = least(r, n)
    return n * near - near * (near - 1) / 2


def _local(spec: LocalSpec, x: Sketch, memory: Sketch | None = None, *, setting: AttentionSetting) -> Sketch:
    """4nd² for the projections, and two products of c queries over 2c keys in each of ⌈n/c⌉ blocks."""
    assert memory is None  # a recipe with a window across is refused
    r = x.ledger.letters("r", spec.window, setting.part)
    n, both = x.shape[-2], spec.sides_if(setting.causal) == "both"

    def mix(query: Sketch, keys: Sketch, values: Sketch) -> Sketch:
        if n == 1 and setting.so_far is not None:
            return attend(query, keys, values, spec=spec, setting=setting)
        c = _block(spec, x.ledger, n, setting.part, both=both)
        count = pieces(n, c)
        mask = x.shape[0] * count * c * 2 * c
        mixed = attend_masked(
            _blocks(query, count, c),
            _blocks(keys, count, 2 * c),
            _blocks(values, count, 2 * c),
            spec=spec,
            scheme=setting.scheme,
            mask=mask,
            visible=window_pairs(n, r, both=both) / (count * c * 2 * c),
        )
        shape = (x.shape[0], query.shape[1], n, mixed.shape[-1])
        return mixed.view(*shape).copy().view(*shape, packed=False)

    path = window_path(n, r, both=both)
    # a step needs r keys, its own included, and the cache forgets the others
    return project_and_mix(spec, x, None, setting=setting, mix=mix, path=path, most=r if n == 1 else None)


def _block(spec: LocalSpec, ledger: Ledger, n: Expr, part: str, *, both: bool) -> Expr:
    """Queries of a block: r − 1, or fewer if no key of the line is that far away."""
    c = ledger.letters("c", spec.window - 1, part)
    return 2 * least(c / 2, n) if both else least(c, n)


def _blocks(heads: Sketch, count: Expr, tokens: Expr) -> Sketch:
    """(b, h, n, q) cut into so many blocks, in memory of their own: (b·k, h, c, q), tokens first."""
    batch, h, _, size = heads.shape
    shape = (batch * count, h, tokens, size)
    return heads.view(*shape).copy().view(*shape, packed=False)


def _extent(spec: LocalSpec, ledger: Ledger, queries: Expr, keys: Expr, part: str) -> tuple[Expr, Expr]:
    """A block of queries and its keys; one query, and its window, in a step of decoding."""
    if queries == 1:
        return ONE, least(keys, ledger.letters("r", spec.window, part))
    c = _block(spec, ledger, queries, part, both=spec.sides_if(part == "dec") == "both")
    return c, 2 * c


local = AttentionForm(_local, extent=_extent)
