"""Every claim of the lectures: reproduced, its wrong variants rejected, its names real."""

import ast
import shlex
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from clearhead.cli.app import app
from clearhead.errors import RecipeError
from clearhead.lectures import Claim, claims, demonstrate, find_claims
from clearhead.lectures.formula import mathml, plain
from clearhead.recipe import read_recipe
from tests.lectures.outcomes import outcome

ROOT = Path(__file__).parent.parent.parent
IDS = [
    *(f"L0.{number}" for number in range(1, 14)),
    *(f"L1.{number}" for number in range(1, 12)),
    *(f"L2.{number}" for number in range(1, 15)),
    *(f"L3.{number}" for number in range(1, 8)),
    *(f"L4.{number}" for number in range(1, 10)),
]
each_claim = pytest.mark.parametrize("claim", claims(), ids=lambda claim: claim.id.replace(".", "_"))


def test_the_list_is_the_54_claims_in_the_order_of_the_notes() -> None:
    assert sorted(claim.id for claim in claims()) == sorted(IDS)
    assert len(IDS) == 54
    places = [(claim.lecture, claim.place.line) for claim in claims()]
    assert places == sorted(places)


@each_claim
def test_claim_is_reproduced(claim: Claim) -> None:
    """Everything is observed as predicted, and every wrong variant is told from it."""
    result = outcome(claim.id)
    assert result.error == ""
    assert result.evidence is not None
    assert [measure.what for measure in result.evidence.measures if not measure.agrees] == []
    assert [wrong.what for wrong in result.evidence.wrong if not wrong.rejected] == []
    assert result.reproduced


@each_claim
def test_claim_says_what_it_is(claim: Claim) -> None:
    """A statement, a formula in both forms, and what is right wherever the verdict is not plain."""
    assert claim.statement.endswith(".")
    assert len(claim.title) < 80
    assert mathml(claim.latex).startswith("<math")
    assert len(plain(claim.latex)) > 3
    assert (claim.right == "") == (claim.verdict == "holds")
    assert not claim.right.endswith(".")


DONE = [claim for claim in claims() if claim.place.section]
"""The claims that say where they stand in the notes."""
each_placed_claim = pytest.mark.parametrize("claim", DONE, ids=lambda claim: claim.id.replace(".", "_"))


@each_placed_claim
def test_claim_can_be_followed(claim: Claim) -> None:
    """A place in the notes, the printed formula wherever it is wrong, and something to try that can be typed."""
    assert claim.place.line >= 1
    assert claim.place.last is None or claim.place.last > claim.place.line
    if claim.verdict in ("misprint", "convention", "disputed"):
        assert claim.printed
    if claim.printed:
        assert mathml(claim.printed).startswith("<math")
        assert claim.printed_formula != claim.formula
    assert claim.try_it is not None
    assert not claim.try_it.see.endswith(".")
    program, verb, recipe, *words = claim.try_it.command.split()
    assert program == "clearhead"
    assert verb in ("show", "cost", "train", "lecture", "compare")
    if verb in ("show", "cost"):
        read_recipe(recipe, *(word for word in words if "=" in word and not word.startswith("--")))


SEEN = [claim for claim in claims() if claim.trained]
"""The claims that can be seen in a trained model."""


@pytest.mark.parametrize("claim", SEEN, ids=lambda claim: claim.id.replace(".", "_"))
def test_claim_can_be_seen_in_a_trained_model(claim: Claim) -> None:
    """The command is one that the command line understands, on the model of the demo; a misspelt option is none."""
    assert claim.trained is not None
    assert not claim.trained.see.endswith(".")
    program, verb, *words = shlex.split(claim.trained.command)
    assert (program, words[0]) == ("clearhead", "runs/demo")
    command: Any = typer.main.get_command(app).commands[verb]  # type: ignore[attr-defined]
    command.make_context(verb, words[:])
    with pytest.raises(Exception, match="No such option"):
        command.make_context(verb, [*words, "--haeds"])


def test_the_lectures_on_heads_lead_to_a_trained_model() -> None:
    assert {claim.id for claim in SEEN} == {"L0.7", "L1.3", "L1.6", "L1.9", "L3.7"}


def test_every_claim_can_be_followed() -> None:
    assert {claim.id for claim in DONE} == set(IDS)


@each_claim
def test_every_wrong_variant_is_the_product_broken_on_purpose(claim: Claim) -> None:
    """Two broken blocks at least, none of which is a mere wrong number, and none of which simply crashes."""
    evidence = outcome(claim.id).evidence
    assert evidence is not None
    assert len(evidence.wrong) >= 2
    assert [wrong.what for wrong in evidence.wrong if not wrong.broken] == []
    assert not any(str(wrong.measure.observed).startswith("fails: ") for wrong in evidence.wrong)


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (["one-hot"], ["L0.3"]),
        (["L1", "mask"], ["L1.9"]),
        (["L1", "causal", "cache"], ["L1.9"]),
        (["L0.1", "L0.3", "argmax"], ["L0.3"]),
        (["bahdanau"], ["L1.3", "L4.5"]),
        (["L3", "margin"], ["L3.1"]),
    ],
)
def test_claims_are_found_by_word(words: list[str], ids: list[str]) -> None:
    """All words must be there; names of claims and lectures restrict where they are searched for."""
    assert [claim.id for claim in find_claims(words)] == ids


def test_a_word_that_finds_several_claims_is_not_one_claim() -> None:
    with pytest.raises(RecipeError, match=r"softmax: this is more than one claim.*L0\.3"):
        demonstrate("softmax")


@each_claim
def test_claim_names_a_module_and_a_test_that_exist(claim: Claim) -> None:
    assert find_spec(claim.module)
    file, _, name = claim.test.partition("::")
    functions = [
        node.name
        for node in ast.parse((ROOT / file).read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    ]
    assert name in functions
    assert name.startswith(f"test_{claim.id.replace('.', '_')}_")


def test_evidence_is_named_once() -> None:
    """The JSON is keyed by what was measured, so that no two measures of a claim may share a name."""
    for claim in claims():
        evidence = outcome(claim.id).evidence
        assert evidence is not None
        names = [measure.what for measure in evidence.measures]
        assert len(set(names)) == len(names), claim.id


def test_a_demonstration_is_deterministic_and_leaves_the_random_state_alone() -> None:
    torch.manual_seed(3)
    before = torch.random.get_rng_state()
    first, second = demonstrate("L4.8"), demonstrate("L4.8")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert first.evidence == second.evidence


def test_a_lecture_stands_for_its_claims_and_a_wrong_id_gets_the_nearest() -> None:
    assert [claim.id for claim in find_claims(["l3", "L3.1", "L4.8"])] == [
        *(f"L3.{n}" for n in (1, 7, 2, 3, 4, 5, 6)),
        "L4.8",
    ]
    with pytest.raises(RecipeError, match=r"L48: no such claim; did you mean L4\.8\?"):
        find_claims(["L48"])
