"""One layer, written out as the slides write it."""

from typing import Any

import pytest
import torch

from clearhead.attention import AttentionContext
from tests.models.zoo import make


@pytest.mark.parametrize("place", ["pre", "post"])
def test_L1_7_a_layer_is_attention_then_feed_forward(place: str) -> None:
    """L1.7: LN(X + MHA(X)), then LN(X + FFN(X)); the other order is rejected."""
    layer: Any = make("encoder", "plain", f"model.norm.place={place}").encoder.layers[0]
    x = torch.randn(2, 5, 16)

    def around(wrap: Any, f: Any, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = wrap.norm(x + f(x)) if place == "post" else x + f(wrap.norm(x))
        return out

    attended = around(layer.around_attention, layer.attention, x)
    expected = around(layer.around_feedforward, layer.feedforward, attended)
    torch.testing.assert_close(layer(x, AttentionContext()), expected)
    swapped = around(layer.around_attention, layer.attention, around(layer.around_feedforward, layer.feedforward, x))
    assert not torch.allclose(swapped, expected, atol=1e-3)


def test_L1_7_a_decoder_layer_looks_at_the_memory_in_between() -> None:
    """L1.7 in the decoder: masked self-attention, attention over the encoder, feed-forward, each with Add & Norm."""
    layer: Any = make("seq2seq", "plain", "model.norm.place=post").decoder.layers[0]
    x, memory = torch.randn(2, 5, 16), torch.randn(2, 7, 16)
    valid = torch.ones(2, 7, dtype=torch.bool)
    valid[1, 4:] = False
    context, memory_context = AttentionContext(causal=True), AttentionContext(valid=valid)
    own = layer.around_attention.norm(x + layer.attention(x, context=context))
    crossed = layer.around_cross.norm(own + layer.cross(own, memory, context=memory_context))
    expected = layer.around_feedforward.norm(crossed + layer.feedforward(crossed))
    mine = layer(x, context, memory=memory, memory_context=memory_context)
    torch.testing.assert_close(mine, expected)
    assert not torch.allclose(layer(x, context, memory=memory, memory_context=AttentionContext()), expected, atol=1e-3)
