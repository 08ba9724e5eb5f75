"""Evidence judges by values alone, and cannot be made without a wrong variant."""

import json
import math

import pytest

from clearhead.lectures import Claim, Evidence, Measure, Outcome, Wrong, claims
from clearhead.lectures import demonstrate as run
from clearhead.lectures.demonstrations import l4_scaling
from clearhead.lectures.demonstrations.broken import broken


@pytest.mark.parametrize(
    ("measure", "agrees"),
    [
        (Measure("x", 3, 3), True),
        (Measure("x", 3, 3.0000001), False),
        (Measure("x", 64.0, 62.8, tolerance=3.2), True),
        (Measure("x", 64.0, 60.0, tolerance=3.2), False),
        (Measure("x", 0.2, 0.1, relation="≤"), True),
        (Measure("x", 0.2, 0.3, relation="≤"), False),
        (Measure("x", 0.2, 0.3, relation="≥"), True),
        (Measure("x", 0.2, 0.1, relation="≥"), False),
        (Measure("x", 0.0, math.nan, tolerance=9.0), False),
        (Measure("x", 1.0, math.inf, relation="≥"), False),
        (Measure("x", "a", "a"), True),
        (Measure("x", "a", "b"), False),
        (Measure("x", "1", 1), False),
        (Measure("x", True, 1), False),
    ],
)
def test_a_measure_agrees_or_not(measure: Measure, agrees: bool) -> None:
    assert measure.agrees is agrees
    assert Wrong("on purpose", measure).rejected is not agrees


def test_evidence_needs_both_sides() -> None:
    good = Measure("x", 1, 1)
    with pytest.raises(ValueError, match="a measure and a wrong variant"):
        Evidence(measures=(good,), wrong=())
    with pytest.raises(ValueError, match="a measure and a wrong variant"):
        Evidence(measures=(), wrong=(Wrong("y", good),))


def claim_of(name: str) -> Claim:
    (claim,) = [claim for claim in claims() if claim.id == name]
    return claim


GOOD, BAD = Measure("x", 1, 1), Measure("x", 1, 2)


@pytest.mark.parametrize(
    ("evidence", "rejected", "reproduced"),
    [
        (Evidence((GOOD,), (Wrong("y", BAD),)), True, True),
        (Evidence((GOOD, BAD), (Wrong("y", BAD),)), True, False),  # a value that is off
        (Evidence((GOOD,), (Wrong("y", BAD), Wrong("z", GOOD))), False, False),  # a check that accepts a wrong variant
        (None, False, False),
    ],
)
def test_an_outcome_is_reproduced_or_not(evidence: Evidence | None, rejected: bool, reproduced: bool) -> None:
    table = Outcome(claim_of("L4.8"), evidence, 0.0).as_json()
    assert list(table)[:6] == ["id", "verdict", "predicted", "observed", "wrong_variant_rejected", "reproduced"]
    assert (table["wrong_variant_rejected"], table["reproduced"]) == (rejected, reproduced)


def test_a_demonstration_that_fails_is_not_reproduced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is wrong with a demonstration is told, not raised."""

    def fails() -> Evidence:
        raise RuntimeError("no such thing")

    monkeypatch.setattr(l4_scaling, "variance_of_a_score", fails)
    outcome = run("L4.8")
    assert (outcome.reproduced, outcome.error) == (False, "RuntimeError: no such thing")


def test_a_broken_product_is_found() -> None:
    """The mutation: scores that are scaled wrongly make the demonstration disagree."""
    with broken("clearhead.attention.score.divisor", lambda right: lambda scale, size: right(scale, 2 * size)):
        assert not run("L4.8").reproduced


def test_an_outcome_can_be_read() -> None:
    """In Python: print(clearhead.demonstrate("L4.8"))."""
    text = str(Outcome(claim_of("L4.8"), Evidence((GOOD, BAD), (Wrong("y", BAD),)), 0.0))
    assert "x: predicted 1, observed 2: does not agree" in text
    assert "wrong on purpose, y: 1 against 2: rejected" in text
    assert text.endswith("not reproduced")
    assert "failed: RuntimeError" in str(Outcome(claim_of("L4.8"), None, 0.0, "RuntimeError: x"))


def test_infinities_are_json_too() -> None:
    endless = Evidence((Measure("x", 1.0, math.inf),), (Wrong("y", BAD),))
    table = Outcome(claim_of("L4.8"), endless, 0.0).as_json()
    assert json.loads(json.dumps(table, allow_nan=False))["observed"] == {"x": "inf"}
