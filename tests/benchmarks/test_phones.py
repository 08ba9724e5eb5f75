"""Phones in one notation: what espeak-ng writes becomes ARPAbet, and folding joins notations, not sounds."""

import pytest
from benchmarks.phones import ESPEAK, VOWELS, folded, from_espeak, without_stress

CONSONANTS = {*("B", "CH", "D", "DH", "F", "G", "HH", "JH", "K", "L", "M", "N", "NG", "P", "R", "S", "SH", "T", "TH")}
CONSONANTS |= {"V", "W", "Y", "Z", "ZH"}


def test_the_table_writes_phones_of_the_dictionary_and_reaches_all_39() -> None:
    written = {phone for phones in ESPEAK.values() for phone in phones.split()}
    assert written == VOWELS | CONSONANTS
    assert len(written) == 39


@pytest.mark.parametrize(
    ("line", "phones"),
    [
        ("ɐ_b_ˈeɪ_ɾ_ɪ_ŋ", "AH B EY T IH NG"),
        ("ˈæ_d_ɹ_iː__əl", "AE D R IY AH L"),  # an empty place between two vowels
        ("v_ˈɪ_d_ɪ__oʊ k_ˈɑː_n_f", "V IH D IH OW K AA N F"),  # two words
        ("b_ˈɪ_ʔ_n̩", "B IH T AH N"),
        ("(fr)_ʒ_ˈɔ_(en)", "ZH AO"),  # another language
        ("", ""),
    ],
)
def test_espeaks_symbols_become_arpabet(line: str, phones: str) -> None:
    assert from_espeak(line) == phones


def test_a_symbol_that_is_not_in_the_table_stays_and_so_counts_as_wrong() -> None:
    assert from_espeak("b_ø_t") == "B ø T"


def test_stress_is_removed_and_nothing_else() -> None:
    assert without_stress("HH AH0 L OW1 AW2") == "HH AH L OW AW"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("AE B ER R EY SH", "AE B ER EY SH"),
        ("AH SH UH R R AH N S", "AH SH UH R AH N S"),
        ("R EY D IH OW", "R EY D IY OW"),
        ("N IY R", "N IH R"),
        ("F AY ER", "F AY R"),
        ("K AO T", "K AA T"),
        ("R OW Z IH Z", "R OW Z AH Z"),
    ],
)
def test_folding_joins_two_notations(one: str, other: str) -> None:
    assert one != other
    assert folded(one) == folded(other)
    assert folded(folded(one)) == folded(one)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("N AO R TH", "N AA R TH"),
        ("N IH R", "N ER"),
        ("B IY T", "B IH T"),
        ("S UW N", "S UH N"),
        ("B EH T", "B AE T"),
        ("S IH NG", "S IH N"),
    ],
)
def test_folding_keeps_sounds_apart(one: str, other: str) -> None:
    assert folded(one) != folded(other)
