"""The task dates: every date means the day beside it, by Python's own reading of dates."""

import re
from datetime import date, datetime, timedelta
from itertools import islice

import pytest

from clearhead.data import PAIRS, read_corpus
from clearhead.data.dates import FORMS, dates
from clearhead.data.numerals import ordinal, year
from clearhead.recipe import DataSpec
from clearhead.verbs.inputs import data_settings

READ_BY = {
    "22 March 1984": "%d %B %Y",
    "March 22, 1984": "%B %d, %Y",
    "Mar 22 1984": "%b %d %Y",
    "22-Mar-1984": "%d-%b-%Y",
    "the 22nd of March 1984": "the %d of %B %Y",
    "March 22nd, 1984": "%B %d, %Y",
    "Thursday, 22 March 1984": "%A, %d %B %Y",
    "Thu, Mar 22, 1984": "%a, %b %d, %Y",
    "3/22/1984": "%m/%d/%Y",
    "22.03.1984": "%d.%m.%Y",
    "22.3.1984": "%d.%m.%Y",
    "1984 March 22": "%Y %B %d",
}
"""How ``strptime`` reads a form, without the letters after an ordinal number."""
DAYS = [date(1900, 1, 1) + timedelta(days=37 * n) for n in range(1970)]


@pytest.mark.parametrize("name", FORMS)
def test_forms_are_called_after_what_they_say(name: str) -> None:
    assert FORMS[name](date(1984, 3, 22)) == name


@pytest.mark.parametrize("name", READ_BY)
def test_dates_in_figures_mean_their_day(name: str) -> None:
    """Python reads the same day from them, whose weekday is the one that is named."""
    for day in DAYS:
        said = FORMS[name](day)
        assert datetime.strptime(re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", said), READ_BY[name]).date() == day
        if "day" in name.lower() or name.startswith("Thu"):
            assert said.startswith((day.strftime("%A,"), day.strftime("%a,")))


@pytest.mark.parametrize("name", [name for name in FORMS if name not in READ_BY])
def test_dates_in_words_mean_their_day(name: str) -> None:
    """They name the ordinal of the day, the month and the year, and nothing else."""
    for day in DAYS:
        rest = FORMS[name](day).replace(",", " ")
        for part in (" ".join(year(day.year)) if day.year // 10 != 200 else None, f"{day:%B}"):
            if part is not None:
                assert rest.count(part) == 1
                rest = rest.replace(part, "")
        assert set(ordinal(day.day)) <= set(rest.split())


def test_ordinals_in_figures_end_as_they_are_said() -> None:
    """11th, 12th and 13th are not 11st, 12nd and 13rd."""
    said = [FORMS["March 22nd, 1984"](date(1984, 3, day)) for day in range(1, 32)]
    ends = {day: text.split()[1].strip(",").removeprefix(str(day)) for day, text in enumerate(said, start=1)}
    assert all(ordinal(day)[-1].endswith(end) for day, end in ends.items())


def test_the_pairs_are_many_different_and_always_the_same() -> None:
    """Two runs on two machines learn from the same pairs."""
    pairs = dates()
    assert pairs == dates()
    assert len({said for said, _ in pairs}) == len(pairs) == 30_000
    assert sum(said == said.lower() and said != said.upper() for said, _ in pairs) > 3000
    assert {len(day) for _, day in pairs} == {10}


def test_the_task_has_dev_and_test_without_a_date_of_training() -> None:
    """No source stands in two parts."""
    corpus = read_corpus(DataSpec(task="dates"), PAIRS)
    dev, test = ({pair.source for pair in part} for part in (corpus.dev, corpus.test))
    train = {pair.source for pair in corpus.train()}
    assert len(dev) + len(test) + len(train) == 30_000
    assert min(len(dev), len(test)) > 1000
    assert all(date.fromisoformat(pair.target) for pair in islice(corpus.train(), 100))


def test_letters_are_its_tokens() -> None:
    """The same number in words and in figures has no piece in common."""
    derived, stated = data_settings({"train": "dates"})
    assert stated == {"data.task": "dates"}
    assert derived == ["data.source.kind=characters", "data.target.kind=characters"]
