"""Links, Pharaoh lines and AER."""

import pytest
import torch

from clearhead.errors import ClearheadError, DataError
from clearhead.inspection import choose, error_rate, pharaoh, read_pharaoh
from clearhead.inspection.alignment import links
from clearhead.predictor.looking import look_at_ids
from tests.models.zoo import make

# a decoder that reads source word i while it reads y_i, one step after it has put y_i out
MATRIX = torch.eye(4)[[3, 0, 1, 2]]


def test_a_token_is_read_at_its_step_or_at_the_next() -> None:
    words = {"sources": [0, 1, 2], "answers": [0, 1, 2]}
    assert links(MATRIX, shift=1, **words) == [(0, 0), (1, 1), (2, 2)]
    assert links(MATRIX, shift=0, **words) == [(0, 0), (0, 1), (1, 2)], "wrong here: every word is one step late"
    assert links(MATRIX, shift=1, sources=[], answers=[0]) == []


def test_the_error_rate_by_hand() -> None:
    """A = {0-0, 1-1, 2-0}, S = {0-0, 2-2}, P = S ∪ {1-1}: 1 − (1 + 2)/(3 + 2)."""
    gold = read_pharaoh("0-0 1?1 2-2")
    assert gold == read_pharaoh("2-2 0-0 1p1")
    assert error_rate([[(0, 0), (1, 1), (2, 0)]], [gold]) == pytest.approx(0.4)
    assert error_rate([[(0, 0), (2, 2)]], [gold]) == 0
    assert error_rate([[(5, 5)]], [gold]) == 1
    # over lines together, not the mean of their rates
    assert error_rate([[(0, 0)], [(1, 0), (1, 1)]], [read_pharaoh("0-0"), read_pharaoh("0-0")]) == pytest.approx(0.6)


def test_pharaoh_lines_go_there_and_back() -> None:
    assert pharaoh([(2, 0), (0, 1), (2, 0)]) == "0-1 2-0"
    assert read_pharaoh(pharaoh([(2, 0), (0, 1)])).sure == {(2, 0), (0, 1)}
    with pytest.raises(DataError, match=r"gold:3: '1:2' is no link"):
        read_pharaoh("0-0 1:2", "gold:3")
    with pytest.raises(DataError, match="1 alignments, but 2 lines of gold"):
        error_rate([[]], [read_pharaoh(""), read_pharaoh("")])


def test_head_and_shift_are_chosen_on_gold() -> None:
    gold = [read_pharaoh("0-0 1-1 2-2")]
    words = {"sources": [0, 1, 2], "answers": [0, 1, 2]}
    other = torch.full((4, 4), 0.25)
    candidates = {
        (head, shift): [links(matrix, shift=shift, **words)]
        for head, matrix in (("cross.1.1", other), ("cross.1.2", MATRIX))
        for shift in (0, 1)
    }
    chosen = choose(candidates, gold)  # type: ignore[arg-type]
    assert (chosen.head, chosen.shift, chosen.error) == ("cross.1.2", 1, 0.0)


def test_a_view_aligns_words_only() -> None:
    view = look_at_ids(make("seq2seq", "plain"), [5, 6, 7, 2], [8, 9, 2])
    assert [answer for _, answer in view.align()] == [0, 1]
    assert all(source < 3 for source, _ in view.align()), "the end token is no word"
    matrix = view.attention.head("cross.2.1")
    assert view.align("cross.2.1", shift=0, by="attention") == [
        (int(matrix[answer, :3].argmax()), answer) for answer in range(2)
    ]
    assert set(view.alignments()) == {
        (f"cross.{layer}.{head}", shift) for layer in (1, 2) for head in (1, 2) for shift in (0, 1)
    }


def test_what_has_no_alignment_says_so() -> None:
    with pytest.raises(ClearheadError, match="no alignment: a model of family lm"):
        look_at_ids(make("lm", "plain"), [5, 6]).align()
    with pytest.raises(ClearheadError, match="does not attend to the source"):
        look_at_ids(make("seq2seq", "no attention"), [5, 6], [7, 2]).align()
    recurrent = look_at_ids(make("seq2seq", "bahdanau"), [5, 6, 2], [7, 8, 2])
    assert len(recurrent.align("cross.1.1", shift=0)) == 2
