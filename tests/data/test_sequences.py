"""What a model reads of a line: every token once, cut where the line is too long."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from clearhead.data import BOS, EOS
from clearhead.data.sequences import beginning, pieces, windows

lines = st.lists(st.integers(10, 99), min_size=1, max_size=30)


@given(lines, st.integers(1, 12))
def test_windows_predict_every_token_and_the_end_once(line: list[int], size: int) -> None:
    found = windows(line, size)
    assert [token for window in found for token in window[1:]] == [*line, EOS]
    assert found[0][0] == BOS
    assert all(before[-1] == after[0] for before, after in pairwise(found))
    assert all(1 <= len(window) - 1 <= size + 1 for window in found)


@given(lines, st.integers(1, 12))
def test_pieces_hold_every_token_once(line: list[int], size: int) -> None:
    found = pieces(line, size)
    assert [token for piece in found for token in piece[1:-1]] == line
    assert all((piece[0], piece[-1]) == (BOS, EOS) and 1 <= len(piece) - 2 <= size for piece in found)


def test_a_classifier_reads_the_beginning() -> None:
    assert beginning([7, 8, 9], 2) == [[BOS, 7, 8, EOS]]
    assert beginning([7], 2) == [[BOS, 7, EOS]]
