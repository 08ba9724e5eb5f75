"""Outcomes of the demonstrations, each run once in a test process."""

from functools import cache

from clearhead.lectures import Outcome, demonstrate


@cache
def outcome(name: str) -> Outcome:
    return demonstrate(name)
