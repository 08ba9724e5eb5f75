"""Stop sequences in pieces: whatever the pieces are, the text is that of the whole."""

from hypothesis import given
from hypothesis import strategies as st

from clearhead.serving.stopping import StopFilter, cut_at

LETTERS = st.text("ab.", max_size=12)


@given(st.lists(LETTERS, max_size=6), st.lists(st.text("ab.", min_size=1, max_size=4), max_size=3))
def test_pieces_are_cut_like_the_whole(pieces: list[str], stops: list[str]) -> None:
    """The wrong variant passes on what may be the beginning of a stop sequence."""
    held = StopFilter(stops)
    passed = "".join(held.pass_on(piece) for piece in pieces) + held.rest()
    assert (passed, held.stopped) == cut_at("".join(pieces), stops)


def test_text_is_passed_on_as_soon_as_it_can_be() -> None:
    held = StopFilter(["END"])
    assert [held.pass_on(piece) for piece in ("a", "E", "N", "b", "EN", "D", "c")] == ["a", "", "", "ENb", "", "", ""]
    assert (held.rest(), held.stopped) == ("", True)
