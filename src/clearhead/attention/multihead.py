"""Multi-head attention with free sizes (L0.7): project, rotate, attend, join.

Shapes: b batch, n queries, m keys, h heads, g heads of keys and values, d features of a token (the queries'), k and v
features of the tokens that keys and values come from, q = d̃_q features of a query in a head, o = d_o features out.
"""

from typing import Any

from jaxtyping import Float
from torch import Tensor

from clearhead.attention.cache import KeyValues, remembered
from clearhead.attention.choice import Choice, check_choice
from clearhead.attention.context import AttentionContext
from clearhead.attention.heads import Heads
from clearhead.attention.paths import attend_heads
from clearhead.attention.score import Scale, ScoreName, make_score
from clearhead.recipe import MultiHeadSpec


class MultiHeadAttention(Heads):
    """concat(head_1 … head_h) W_O with head_i = Attention(Q W_i^Q, K W_i^K, V W_i^V) (L0.7, L1.6).

    Tokens are rows, so q = xW_Qᵀ here is q = W_Q x in the column convention (L2.4). Scores are divided by √d̃_q, the
    size of a head (L1.5). With fewer heads of keys and values, neighbouring heads share them (grouped queries).

    Args:
        score: how a query is compared with a key: ``dot`` (the default), ``multiplicative`` or ``additive``.
        scale: what the score is divided by: ``sqrt`` (√d̃_q, the default), ``dim`` (d̃_q), ``none``, or a number.
        choice: ``soft`` (a softmax over all keys, the default) or ``hard`` (the best key alone, L0.3).
        cap: keeps the scaled scores within ±cap. Default: None, they are free.
        sizes: the arguments of ``Heads``: ``width``, ``heads``, ``query_size``, ``value_size``, ``memory_width``,
            ``value_width``, ``out_width``, ``projections``, ``output``, ``bias``, ``output_bias``, ``kv_heads``,
            ``qk_norm``, ``qk_norm_eps``, ``qk_norm_unit_offset``, ``dropout``.
    """

    def __init__(
        self,
        *,
        score: ScoreName = "dot",
        scale: Scale = "sqrt",
        choice: Choice = "soft",
        cap: float | None = None,
        **sizes: Any,
    ) -> None:
        super().__init__(**sizes)
        self.scale, self.choice, self.cap = scale, check_choice(choice), cap
        self.score = make_score(score, heads=self.heads, size=self.query_size)

    @classmethod
    def from_spec(cls, spec: MultiHeadSpec, *, width: int, memory_width: int, dropout: float) -> "MultiHeadAttention":
        """Build from a recipe."""
        settings = spec.model_dump(include=MultiHeadSpec.model_fields.keys() - {"kind", "kept"})
        return cls(width=width, memory_width=memory_width, dropout=dropout, **settings)

    def extra_repr(self) -> str:
        shared = "" if self.kv_heads == self.heads else f" ({self.kv_heads} of keys and values)"
        return f"{self.heads} heads{shared}, {self.choice}, {self.score.shown(self.scale)}"

    def forward(
        self,
        tokens: Float[Tensor, "b n d"],
        memory: Float[Tensor, "b m k"] | None = None,
        values: Float[Tensor, "b m v"] | None = None,
        *,
        context: AttentionContext | None = None,
        cache: KeyValues | None = None,
    ) -> Float[Tensor, "b n o"]:
        """Compute self-attention, or cross-attention over ``memory``.

        Args:
            tokens: the tokens that queries come from.
            memory: the tokens that keys and values come from. Default: ``tokens``.
            values: the tokens that values come from, if they differ from ``memory``.
            context: mask and positions. Default: nothing is masked.
            cache: keys and values of earlier steps. Self-attention appends to it; cross-attention fills it once.
        """
        context = context or AttentionContext()
        query = context.rotate_queries(self.queries(tokens))  # (b, h, n, q)
        keys, head_values = remembered(
            cache,
            lambda: _rotated(context, *self.candidates(tokens if memory is None else memory, values)),
            fixed=memory is not None,
        )
        return self.join(self.mix(query, keys, head_values, context))

    def mix(
        self,
        query: Float[Tensor, "b h n q"],
        keys: Float[Tensor, "b g m q"],
        values: Float[Tensor, "b g m e"],
        context: AttentionContext,
    ) -> Float[Tensor, "b h n e"]:
        """Σ_j α_ij v_j in every head."""
        return attend_heads(self, query, keys, values, context)


def _rotated(
    context: AttentionContext, keys: Float[Tensor, "b g m q"], values: Float[Tensor, "b g m e"]
) -> tuple[Float[Tensor, "b g m q"], Float[Tensor, "b g m e"]]:
    return context.rotate_keys(keys), values
