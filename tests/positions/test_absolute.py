"""Absolute positions against the formulas of their papers and the tables of transformers."""

import math

import pytest
import torch

from clearhead.errors import TooLong
from clearhead.positions import LearnedPosition, NoPosition, SinusoidalPosition, sinusoids


def test_L2_10_the_papers_layout() -> None:
    """L2.10: PE(p, 2i) = sin(p/10000^(2i/d)), PE(p, 2i+1) = cos of the same; a loop."""
    table = sinusoids(40, 12)
    for p in range(40):
        for i in range(6):
            angle = p / 10_000 ** (2 * i / 12)
            assert table[p, 2 * i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[p, 2 * i + 1] == pytest.approx(math.cos(angle), abs=1e-6)
    assert not torch.allclose(sinusoids(40, 12, layout="halves"), table, atol=1e-2)


def test_L2_10_marians_layout() -> None:
    """L2.10: reference: transformers' MarianSinusoidalPositionalEmbedding."""
    from transformers.models.marian.modeling_marian import MarianSinusoidalPositionalEmbedding

    reference = MarianSinusoidalPositionalEmbedding(40, 12).create_weight()
    torch.testing.assert_close(sinusoids(40, 12, layout="halves"), reference, atol=1e-6, rtol=0)
    assert not torch.allclose(sinusoids(40, 12, layout="tensor2tensor"), reference, atol=1e-2)


def test_L2_10_tensor2tensors_layout() -> None:
    """L2.10: [sin ‖ cos] with wavelengths from 2π to exactly 10000 · 2π: exponent i/(d/2 − 1)."""
    table = sinusoids(40, 12, layout="tensor2tensor")
    for p in range(40):
        for i in range(6):
            angle = p * math.exp(-i * math.log(10_000) / 5)
            assert table[p, i] == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[p, 6 + i] == pytest.approx(math.cos(angle), abs=1e-6)
    assert not torch.allclose(sinusoids(40, 12, layout="halves"), table, atol=1e-2)


def test_m2m100s_table_bit_for_bit() -> None:
    """Reference: transformers' M2M100SinusoidalPositionalEmbedding: far positions differ from exact ones."""
    from transformers.models.m2m_100.modeling_m2m_100 import M2M100SinusoidalPositionalEmbedding

    reference = M2M100SinusoidalPositionalEmbedding(1022, 48, padding_idx=1).weights
    table = sinusoids(1024, 48, layout="tensor2tensor")
    assert torch.equal(table[2:], reference[2:])  # theirs has zeros for padding
    rates = 10_000 ** -(torch.arange(24).double() / 23)
    assert (table[:, :24] - (torch.arange(1024).double()[:, None] * rates).sin()).abs().max() > 1e-5


def test_sinusoids_have_no_end() -> None:
    """The table grows with the longest sequence, keeps its dtype, and is not part of the weights."""
    position = SinusoidalPosition(width=8)
    assert not position.state_dict()
    far = position(torch.tensor([3, 5000]), 5001)
    torch.testing.assert_close(far, sinusoids(5001, 8)[[3, 5000]])
    assert position.double()(torch.tensor([9000]), 9001).dtype == torch.float64


def test_learned_positions_end_with_a_clear_error() -> None:
    """Edge case: never a silent wrap. BART's and RoBERTa's offset rows come before position 0."""
    position = LearnedPosition(size=4, width=3, offset=2)
    assert position.table.weight.shape == (6, 3)
    assert torch.equal(position(torch.tensor([0, 3]), 4), position.table.weight[[2, 5]])
    with pytest.raises(TooLong, match=r"position 5 is past the end of the table of 4 learned positions"):
        position(torch.arange(5), 5)


def test_a_table_that_grew_in_inference_mode_is_an_ordinary_buffer() -> None:
    position = SinusoidalPosition(width=8)
    with torch.inference_mode():
        position(torch.arange(600), 600)
    assert not position.table.is_inference()


def test_padding_past_the_table_is_no_error() -> None:
    """Only real tokens need a position: columns may be more than the table has rows."""
    position = LearnedPosition(size=4, width=3)
    assert position(torch.tensor([[0, 0, 0, 1, 2, 3]]), 6).shape == (1, 6, 3)


def test_no_position_adds_nothing() -> None:
    assert NoPosition()(torch.arange(3), 3) is None
