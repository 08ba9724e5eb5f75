"""Outcomes of the demonstrations, each run once in a test process."""

from functools import cache

from clearhead.lectures import Outcome, demonstrate


@cache
def outcome(name: str) -> Outcome:
    return demonstrate(name)


def observed(name: str, what: str) -> float:
    """The number that was found for the measure whose name begins so."""
    evidence = outcome(name).evidence
    assert evidence is not None
    (found,) = [measure.observed for measure in evidence.measures if measure.what.startswith(what)]
    assert isinstance(found, int | float)
    return found
