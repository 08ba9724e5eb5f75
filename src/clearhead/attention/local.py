"""Restricted self-attention in one dimension (Table 1, L4.6): a query attends to a window of r keys, its own included.

    one side     the query's own token and the r − 1 before it (causal)
    both sides   the query's own token and (r − 1)/2 on each side

The work is linear in the length: the line is cut into blocks of c = r − 1 queries. Together, the windows of a block
cover 2c consecutive keys, which are two neighbouring pieces of c keys, so a block is c queries over 2c keys, half of
which a band mask hides. The scores are n·2c numbers, never n·n.

Shapes: b batch, h heads, g heads of keys and values, n queries, m keys (the queries are the last n of them), q and e
features of a query and of a value in one head, k blocks of c queries.
"""

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from clearhead.attention.cache import KeyValues
from clearhead.attention.context import AttentionContext, Shared
from clearhead.attention.multihead import MultiHeadAttention
from clearhead.attention.paths import attend_heads
from clearhead.positions import is_exporting, may_branch
from clearhead.recipe import LocalSpec
from clearhead.recipe.local import Sides


def band(queries: Int[Tensor, "*b n"], keys: Int[Tensor, "*b m"], *, before: int, after: int) -> Bool[Tensor, "*b n m"]:
    """True where key j is in the window of query i: −before ≤ j − i ≤ after, by positions."""
    ahead = keys.unsqueeze(-2) - queries.unsqueeze(-1)
    return (ahead >= -before) & (ahead <= after)


class LocalAttention(MultiHeadAttention):
    """Multi-head attention in which query i attends to key j only if −before ≤ j − i ≤ after.

    It equals multi-head attention with a band mask, and is computed so where a hook reads the weights (n×m, as
    elsewhere) or where a line has padding between its tokens; otherwise in blocks. A line is filled up to whole blocks,
    so windows that are longer than the lines cost up to twice (on both sides four times) as much as full attention.

    Args:
        window: number of keys that a query attends to, its own included, r. At the ends of a line there are fewer.
        sides: ``one`` (r − 1 keys before the query), ``both`` ((r − 1)/2 on each side, r odd), or None: one if the
            context is causal, otherwise both. Default: None.
        settings: the arguments of ``MultiHeadAttention``: ``width``, ``heads``, ``score``, ``scale``, ``choice`` and
            the sizes.
    """

    def __init__(self, *, window: int, sides: Sides | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        if window < 2 or (sides == "both" and window % 2 == 0):
            raise ValueError(f"a window has 2 keys or more, and an odd number on both sides, not {window}")
        self.window, self.sides = window, sides

    @classmethod
    def from_spec(cls, spec: LocalSpec, *, width: int, memory_width: int, dropout: float) -> "LocalAttention":  # type: ignore[override]
        """Build from a recipe."""
        settings = spec.model_dump(include=LocalSpec.model_fields.keys() - {"kind", "kept", "whole"})
        return cls(width=width, memory_width=memory_width, dropout=dropout, **settings)

    def extra_repr(self) -> str:
        sides = "" if self.sides is None else f" on {self.sides} side{'s' * (self.sides == 'both')}"
        return f"{super().extra_repr()}, window of {self.window}{sides}"

    def reach(self, causal: bool) -> tuple[int, int]:
        """How many keys before a query, and after it, are in its window."""
        sides = self.sides or ("one" if causal else "both")
        if causal and sides == "both":
            raise ValueError("a window on both sides sees the future: causal attention needs sides = one")
        if sides == "both" and self.window % 2 == 0:
            raise ValueError(f"a window on both sides is odd, not {self.window}")
        return (self.window - 1, 0) if sides == "one" else (self.window // 2, self.window // 2)

    def forward(
        self,
        tokens: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m k"] | None = None,
        values: Float[Tensor, "b m v"] | None = None,
        *,
        context: AttentionContext | None = None,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "b n o"]:
        if memory is not None or values is not None:
            raise ValueError("a window needs queries and keys of one sequence: local attention has no memory")
        if cache is not None and context is not None and not self.weights.watched and not is_exporting():
            before, _ = self.reach(context.causal)
            if cache.held > before and _ends_together(context, tokens.shape[1]):
                cache.forget(before)  # what is older is in no window, of these tokens or of later ones
        return super().forward(tokens, context=context, cache=cache)

    def mix(
        self,
        query: Float[Tensor, "b h n q"],
        keys: Float[Tensor, "b g m q"],
        values: Float[Tensor, "b g m e"],
        context: AttentionContext,
    ) -> Float[Tensor, "b h n e"]:
        n, m = query.shape[2], keys.shape[2]
        before, after = self.reach(context.causal)
        context = _of_last(context, m)
        if self.weights.watched or is_exporting() or not _is_consecutive(context):
            return attend_heads(self, query, keys, values, _banded(context, n, m, before, after))
        before, after = min(before, m), min(after, m)  # there are no keys farther away
        earlier = min(before, m - n)
        near = slice(m - n - earlier, None)  # older keys are in no window
        keys, values = keys[:, :, near], values[:, :, near]
        if n == 1:
            newest = context.shared.tile(context.scheme, (before, after), lambda: _newest(context, near))
            return attend_heads(self, query, keys, values, newest)
        return self._in_blocks(query, keys, values, context, (before, after, earlier))

    def _in_blocks(
        self, query: Tensor, keys: Tensor, values: Tensor, context: AttentionContext, window: tuple[int, int, int]
    ) -> Float[Tensor, "b h n e"]:
        batch, heads, n, _ = query.shape
        before, after, earlier = window
        c = before + after
        count = (n + c - 1) // c
        fill = count * c - n
        ends = before - earlier, after + fill

        def pieces(part: Shaped[Tensor, "b g m f"]) -> Shaped[Tensor, "bk g cc f"]:
            padded = F.pad(part.transpose(1, 2), (0, 0, 0, 0, *ends))  # (b, (k + 1)·c, g, f)
            return _pairs_of_pieces(padded, count, c).transpose(1, 2)  # (b·k, g, 2c, f)

        def make() -> AttentionContext:
            valid = context.valid
            if valid is None:
                valid = torch.ones(batch, n + earlier, dtype=torch.bool, device=query.device)
            inside = _pairs_of_pieces(F.pad(valid[:, -(n + earlier) :], ends), count, c)  # (b·k, 2c); False at the ends
            at, to = torch.arange(c, device=query.device) + before, torch.arange(2 * c, device=query.device)
            known = context.queries is not None
            return AttentionContext(
                valid=inside,
                pairs=band(at, to, before=before, after=after),
                scheme=context.scheme,
                queries=at if known else None,
                keys=to if known else None,
            )

        rows = F.pad(query.transpose(1, 2), (0, 0, 0, 0, 0, fill)).reshape(batch * count, c, heads, -1)
        inside = context.shared.tile(context.scheme, (before, after), make)
        mixed = attend_heads(self, rows.transpose(1, 2), pieces(keys), pieces(values), inside)  # (b·k, h, c, e)
        whole = mixed.transpose(1, 2).reshape(batch, count * c, heads, -1)
        return whole[:, :n].clone(memory_format=torch.contiguous_format).transpose(1, 2)  # (b, h, n, e)


def _pairs_of_pieces(padded: Shaped[Tensor, "b kc *f"], count: int, c: int) -> Shaped[Tensor, "bk cc *f"]:
    """Cut k + 1 pieces of c tokens, and join each with the next: k blocks of 2c tokens in every line."""
    pieces = padded.reshape(padded.shape[0], count + 1, c, *padded.shape[2:])  # (b, k + 1, c, *f)
    return torch.cat((pieces[:, :-1], pieces[:, 1:]), dim=2).flatten(0, 1)  # (b·k, 2c, *f)


def _is_consecutive(context: AttentionContext) -> bool:
    """Whether neighbouring tokens are known to be neighbouring columns in every line: no padding between tokens."""
    if context.keys is None or context.keys.dim() == 1 or context.valid is None:
        return True
    if not may_branch(context.keys):
        return False
    shift = context.keys - torch.arange(context.keys.shape[1], device=context.keys.device)
    highest = shift.masked_fill(~context.valid, torch.iinfo(shift.dtype).min).amax(1)
    lowest = shift.masked_fill(~context.valid, torch.iinfo(shift.dtype).max).amin(1)
    return bool((highest <= lowest).all())


def _ends_together(context: AttentionContext, new: int) -> bool:
    """Whether the columns before the ``new`` ones end with a token in every line, and none has padding between tokens.

    Then the last r − 1 columns are the last r − 1 tokens of every line, or all of them.
    """
    if context.valid is None:
        return True
    return may_branch(context.valid) and bool(context.valid[:, -new - 1].all()) and _is_consecutive(context)


def _of_last(context: AttentionContext, m: int) -> AttentionContext:
    """The same context over the last m keys, which are those that a cache still holds."""
    if (context.keys is None or context.keys.shape[-1] == m) and (
        context.valid is None or context.valid.shape[-1] == m
    ):
        return context

    def make() -> AttentionContext:
        valid = None if context.valid is None else context.valid[:, -m:]
        keys = None if context.keys is None else context.keys[..., -m:]
        return replace(context, valid=valid, keys=keys, shared=Shared())

    return context.shared.tile(context.scheme, (-m, -m), make)


def _banded(context: AttentionContext, n: int, m: int, before: int, after: int) -> AttentionContext:
    """The same context, with a mask for the window over all n·m pairs."""

    def make() -> AttentionContext:
        device = None if context.keys is None else context.keys.device
        keys = torch.arange(m, device=device) if context.keys is None else context.keys
        pairs = band(keys[..., m - n :], keys, before=before, after=after)
        return replace(context, pairs=pairs if pairs.dim() == 2 else pairs[:, None], shared=Shared())

    return context.shared.tile(context.scheme, (-before, after), make)


def _newest(context: AttentionContext, near: slice) -> AttentionContext:
    """The context of one query over its window, which is the end of the line."""
    valid = None if context.valid is None else context.valid[:, near]
    keys = None if context.keys is None else context.keys[..., near]
    return replace(context, valid=valid, keys=keys, shared=Shared())
