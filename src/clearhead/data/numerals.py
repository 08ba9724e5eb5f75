"""English words for numbers, as they are read aloud: cardinals, ordinals, years, decimals."""

_ONES = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
_TENS = ["-", "-", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_SCALES = ("", "thousand", "million", "billion", "trillion")
_ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
LARGEST = 10 ** (3 * len(_SCALES)) - 1
"""Larger numbers are read digit by digit."""


def cardinal(number: int) -> list[str]:
    """1234 → one thousand two hundred thirty four, up to ``LARGEST``."""
    if number < 1000:
        return _below_thousand(number)
    words: list[str] = []
    for power in reversed(range(len(_SCALES))):
        part, number = divmod(number, 1000**power)
        if part:
            words += [*_below_thousand(part), *([_SCALES[power]] if power else [])]
    return words


def ordinal(number: int) -> list[str]:
    """22 → twenty second."""
    *words, last = cardinal(number)
    if last.endswith("y"):
        return [*words, f"{last[:-1]}ieth"]
    return [*words, _ORDINALS.get(last, f"{last}th")]


def year(number: int) -> list[str]:
    """1984 → nineteen eighty four, 1905 → nineteen oh five, 1900 → nineteen hundred."""
    century, rest = divmod(number, 100)
    if not rest:
        return [*_below_thousand(century), "hundred"]
    return [*_below_thousand(century), *(["oh"] if rest < 10 else []), *_below_thousand(rest)]


def digits(text: str) -> list[str]:
    """007 → zero zero seven."""
    return [_ONES[int(digit)] for digit in text]


def spoken(text: str) -> list[str]:
    """The words for a number as it is written: ``1,234``, ``3.14``, ``1984``, ``22nd``, ``007``.

    Four digits without a comma are read as a year from 1100 to 1999 and from 2010 to 2099; what begins with zero, and
    what is too large to have a name here, digit by digit.
    """
    whole, point, fraction = text.rstrip("ndrsth").replace(",", "").partition(".")
    if text[-1] in "dht" and int(whole) <= LARGEST:
        return ordinal(int(whole))
    if whole != "0" and (whole.startswith("0") or len(whole) > len(str(LARGEST))):
        words = digits(whole)
    elif len(text) == 4 and not point and (1100 <= int(whole) < 2000 or 2010 <= int(whole) < 2100):
        return year(int(whole))
    else:
        words = cardinal(int(whole))
    return [*words, "point", *digits(fraction)] if point else words


def _below_thousand(number: int) -> list[str]:
    if number >= 100:
        hundreds, rest = divmod(number, 100)
        return [_ONES[hundreds], "hundred", *(_below_thousand(rest) if rest else [])]
    if number >= 20:
        tens, ones = divmod(number, 10)
        return [_TENS[tens], *([_ONES[ones]] if ones else [])]
    return [_ONES[number]]
