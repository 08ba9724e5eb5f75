"""Numbers in English words, held against an evaluation of the words (the way back)."""

import pytest

from clearhead.data.numerals import LARGEST, cardinal, ordinal, spoken, year

ONES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
UNITS = {word: number for number, word in enumerate((*ONES, *TEENS))}
TENS = {
    word: 10 * number
    for number, word in enumerate(("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"), 2)
}
SCALES = {"thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}


def value(words: list[str]) -> int:
    """What the words say, by adding up: written without a look at the other direction."""
    total = part = 0
    for word in words:
        if word in SCALES:
            total, part = total + part * SCALES[word], 0
        elif word == "hundred":
            part *= 100
        else:
            part += UNITS[word] if word in UNITS else TENS[word]
    return total + part


def test_cardinals_mean_the_number_they_were_made_from() -> None:
    numbers = [*range(2500), *(10**power + extra for power in range(3, 15) for extra in (-1, 0, 1, 110)), LARGEST]
    assert [value(cardinal(number)) for number in numbers] == numbers


@pytest.mark.parametrize(
    ("number", "words"),
    [(1, "first"), (12, "twelfth"), (20, "twentieth"), (22, "twenty second"), (100, "one hundredth"), (9, "ninth")],
)
def test_ordinals(number: int, words: str) -> None:
    assert " ".join(ordinal(number)) == words


@pytest.mark.parametrize(
    ("number", "words"), [(1984, "nineteen eighty four"), (1905, "nineteen oh five"), (1900, "nineteen hundred")]
)
def test_years(number: int, words: str) -> None:
    assert " ".join(year(number)) == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0", "zero"),
        ("1,200", "one thousand two hundred"),
        ("1984", "nineteen eighty four"),
        ("2005", "two thousand five"),
        ("2024", "twenty twenty four"),
        ("3.14", "three point one four"),
        ("0.5", "zero point five"),
        ("007", "zero zero seven"),
        ("21st", "twenty first"),
        ("9" * 20, " ".join(["nine"] * 20)),
    ],
)
def test_numbers_are_read_as_they_are_written(text: str, words: str) -> None:
    assert " ".join(spoken(text)) == words
