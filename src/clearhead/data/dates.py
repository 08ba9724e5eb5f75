"""Dates as people write and say them, and the same day by ISO 8601: pairs whose order must be turned around.

A translation in small: words become numbers, the year that often comes last is wanted first, and the day of the week
says nothing. The pairs are made, not collected, so anyone can have as many; these are always the same.
"""

import random
from collections.abc import Callable
from datetime import date

from clearhead.data.numerals import ordinal, spoken

PAIRS = 30_000
FIRST, LAST = date(1900, 1, 1), date(2099, 12, 31)
_SEED = 1
_SMALL = 0.2
"""Part of the dates without capital letters."""
_MONTHS = [
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
]
_WEEKDAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def _digits_and_suffix(day: int) -> str:
    """22 → 22nd, 11 → 11th."""
    return f"{day}{'th' if day in (11, 12, 13) else {1: 'st', 2: 'nd', 3: 'rd'}.get(day % 10, 'th')}"


def _day_in_words(day: int) -> str:
    return " ".join(ordinal(day))


def _year_in_words(year: int) -> str:
    return " ".join(spoken(str(year)))


def _month(day: date) -> str:
    return _MONTHS[day.month - 1]


def _short_month(day: date) -> str:
    return _month(day)[:3]


def _weekday(day: date) -> str:
    return _WEEKDAYS[day.weekday()]


FORMS: dict[str, Callable[[date], str]] = {
    "22 March 1984": lambda day: f"{day.day} {_month(day)} {day.year}",
    "March 22, 1984": lambda day: f"{_month(day)} {day.day}, {day.year}",
    "Mar 22 1984": lambda day: f"{_short_month(day)} {day.day} {day.year}",
    "22-Mar-1984": lambda day: f"{day.day}-{_short_month(day)}-{day.year}",
    "the 22nd of March 1984": lambda day: f"the {_digits_and_suffix(day.day)} of {_month(day)} {day.year}",
    "March 22nd, 1984": lambda day: f"{_month(day)} {_digits_and_suffix(day.day)}, {day.year}",
    "Thursday, 22 March 1984": lambda day: f"{_weekday(day)}, {day.day} {_month(day)} {day.year}",
    "Thu, Mar 22, 1984": lambda day: f"{_weekday(day)[:3]}, {_short_month(day)} {day.day}, {day.year}",
    "3/22/1984": lambda day: f"{day.month}/{day.day}/{day.year}",
    "22.03.1984": lambda day: f"{day:%d.%m}.{day.year}",
    "22.3.1984": lambda day: f"{day.day}.{day.month}.{day.year}",
    "1984 March 22": lambda day: f"{day.year} {_month(day)} {day.day}",
    "the twenty second of March nineteen eighty four": lambda day: (
        f"the {_day_in_words(day.day)} of {_month(day)} {_year_in_words(day.year)}"
    ),
    "March the twenty second, nineteen eighty four": lambda day: (
        f"{_month(day)} the {_day_in_words(day.day)}, {_year_in_words(day.year)}"
    ),
}
"""How a day may be said: with slashes the month comes first, with points the day."""


def dates() -> list[tuple[str, str]]:
    """Different dates, each said in one of the ``FORMS``, and their days by ISO 8601."""
    chance, forms = random.Random(_SEED), list(FORMS.values())
    found: dict[str, str] = {}
    while len(found) < PAIRS:
        day = date.fromordinal(chance.randint(FIRST.toordinal(), LAST.toordinal()))
        said = chance.choice(forms)(day)
        found[said.lower() if chance.random() < _SMALL else said] = day.isoformat()
    return list(found.items())
