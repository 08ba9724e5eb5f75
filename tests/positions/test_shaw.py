"""Shaw's relative positions (L2.12) against loops, and its keys against Wav2Vec2-BERT."""

import itertools
from typing import Any

import pytest
import torch
from torch import Tensor

from clearhead.attention import AttentionContext, MultiHeadAttention
from clearhead.positions import ShawPosition, shaw_index

N, M, H, D, E, K = 4, 7, 2, 6, 5, 2


def test_the_index_is_the_clipped_distance() -> None:
    """Edge case: clip(j − i, −k, k) + k, exactly."""
    index = shaw_index(torch.arange(4) + 3, torch.arange(8), 2)
    assert index.tolist() == [[min(max(j - i, -2), 2) + 2 for j in range(8)] for i in range(3, 7)]


def _literal(q: Tensor, k: Tensor, v: Tensor, scheme: ShawPosition, start: int, *, scaled: bool = True) -> Tensor:
    """The formulas of the paper, one pair at a time."""
    b, h, n, d = q.shape
    m, e = v.shape[2:]
    out = torch.zeros(b, h, n, e)
    for line, head, i in itertools.product(range(b), range(h), range(n)):
        rows = [min(max(j - (start + i), -K), K) + K for j in range(m)]
        keys = torch.zeros(m, d) if scheme.keys is None else scheme.keys.weight[rows]
        values = torch.zeros(m, e) if scheme.values is None else scheme.values.weight[rows]
        content, place = k[line, head] @ q[line, head, i], keys @ q[line, head, i]
        scores = (content + place) / d**0.5 if scaled else content / d**0.5 + place
        out[line, head, i] = scores.softmax(0) @ (v[line, head] + values)
    return out


@pytest.mark.parametrize("half", ["keys", "values", "both"])
@pytest.mark.parametrize("start", [0, 3])
def test_L2_12_relative_vectors_join_keys_and_values(half: Any, start: int) -> None:
    """L2.12: each half and both against the literal loops, also for queries that stand later (with a cache)."""
    scheme = ShawPosition(head_size=D, value_size=E, farthest=K, relative=half)
    module = MultiHeadAttention(width=12, heads=H, query_size=D, value_size=E, output=False)
    x, memory = torch.randn(3, N, 12), torch.randn(3, M, 12)
    context = AttentionContext(scheme=scheme, queries=torch.arange(N) + start, keys=torch.arange(M))
    q, k = (part.view(3, -1, H, D).transpose(1, 2) for part in (module.query(x), module.key(memory)))
    v = module.value(memory).view(3, M, H, E).transpose(1, 2)

    def joined(heads: Tensor) -> Tensor:
        return heads.transpose(1, 2).flatten(2)

    expected = joined(_literal(q, k, v, scheme, start))
    for path in ("auto", "fused", "explicit"):
        module.path = path
        torch.testing.assert_close(module(x, memory, context=context), expected, atol=1e-5, rtol=1e-5)
    wrong = joined(_literal(q, k, v, scheme, start + 1))  # off by one
    assert not torch.allclose(wrong, expected, atol=1e-3)
    if half != "values":  # the term of the keys is scaled too
        assert not torch.allclose(joined(_literal(q, k, v, scheme, start, scaled=False)), expected, atol=1e-3)


def test_L2_12_keys_are_those_of_wav2vec2_bert() -> None:
    """Reference: Wav2Vec2BertSelfAttention with relative_key positions, whose distances are clipped unequally."""
    from transformers import Wav2Vec2BertConfig
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertSelfAttention

    left = right = 3
    config = Wav2Vec2BertConfig(
        hidden_size=12,
        num_attention_heads=2,
        position_embeddings_type="relative_key",
        left_max_position_embeddings=left,
        right_max_position_embeddings=right,
        attention_dropout=0.0,
    )
    theirs = Wav2Vec2BertSelfAttention(config).eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(0, 0.3)
    scheme = ShawPosition(head_size=6, value_size=6, farthest=3, relative="keys")
    assert scheme.keys is not None
    mine = MultiHeadAttention(width=12, heads=2)
    pairs = [
        (mine.query, theirs.linear_q),
        (mine.key, theirs.linear_k),
        (mine.value, theirs.linear_v),
        (mine.output, theirs.linear_out),
        (scheme.keys, theirs.distance_embedding),
    ]
    for our, their in pairs:
        our.load_state_dict(their.state_dict())
    x = torch.randn(2, 9, 12)
    positions = torch.arange(9)
    out = mine(x, context=AttentionContext(scheme=scheme, queries=positions, keys=positions))
    expected = theirs(x)[0]
    assert (out - expected).abs().max() < 1e-5
    with torch.no_grad():
        scheme.keys.weight.copy_(scheme.keys.weight.flip(0))  # left and right exchanged
    assert (
        mine(x, context=AttentionContext(scheme=scheme, queries=positions, keys=positions)) - expected
    ).abs().max() > 1e-2


def test_gradients_in_float64() -> None:
    scheme = ShawPosition(head_size=3, value_size=2, farthest=2).double()
    q, weights = torch.randn(1, 2, 3, 3, dtype=torch.double), torch.rand(1, 2, 3, 4, dtype=torch.double)
    rows, columns = torch.arange(3), torch.arange(4)
    assert scheme.keys is not None
    assert scheme.values is not None
    tables = (scheme.keys.weight, scheme.values.weight)

    def both(q: Tensor, weights: Tensor, *_: Tensor) -> list[Tensor]:
        parts = scheme.key_term(q, rows, columns), scheme.value_term(weights, rows, columns)
        return [part for part in parts if part is not None]

    assert torch.autograd.gradcheck(both, (q.requires_grad_(), weights.requires_grad_(), *tables))
