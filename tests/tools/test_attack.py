"""Some of the bad inputs that `make prove` throws by the thousand; and the attack notices what gives way."""

from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from tools.attack.__main__ import chosen_cases
from tools.attack.case import Case, Result, complaint
from tools.attack.even_chance import EvenChance
from tools.attack.kinds import KINDS
from tools.attack.kinds.damage import PLACES
from tools.attack.kinds.data_file import FILES
from tools.attack.kinds.model_file import LIES
from tools.attack.kinds.run_folder import COMMANDS
from tools.attack.runner import run_all
from tools.attack.victims import Victim, make_victims

from clearhead.cli import BUG
from clearhead.data import inputs

SEED = 7
COUNTS = {
    "run folder": 30,
    "model file": 28,
    "recipe": 20,
    "decoding": 12,
    "data file": 34,
    "command line": 16,
    "look": 10,
    "serve": 8,
    "surroundings": 1,
}
"""Cases of each kind; those that train or start Python anew are fewer."""


@pytest.fixture(scope="module")
def victims(tmp_path_factory: pytest.TempPathFactory) -> list[Victim]:
    return make_victims(tmp_path_factory.mktemp("victims"), "pairs", "classifier")


@pytest.mark.parametrize("kind", KINDS)
def test_bad_input_ends_in_a_message(
    kind: str, victims: list[Victim], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "PATIENCE", 0.5)  # with a pipe that nobody writes to, in the forked processes too
    cases = chosen_cases(COUNTS[kind], SEED, victims, [kind], EvenChance)
    ended = run_all(cases, jobs=1, scratch=tmp_path)
    faults = [f"{found}: {case.name}\n{result.stderr}" for case, result, found in ended if found]
    assert not faults, "\n".join(faults)


def test_a_few_cases_touch_everything(victims: list[Victim]) -> None:
    """Every kind of file, lie and damage; chance alone would need many more cases for that."""
    assert COUNTS.keys() == KINDS.keys()
    assert sum(COUNTS.values()) >= 150
    for kind, choices in {"data file": [*FILES], "model file": [*LIES], "run folder": [*PLACES, *COMMANDS]}.items():
        names = [case.name for case in chosen_cases(COUNTS[kind], SEED, victims, [kind], EvenChance)]
        missing = [choice for choice in choices if not any(choice in name for name in names)]
        assert not missing, kind


@pytest.mark.parametrize(
    ("result", "fault"),
    [
        (Result(None, ""), "hang"),
        (Result(1, "Traceback (most recent call last):\n"), "traceback"),
        (Result(1, f"{BUG}: KeyError: 'x'"), "traceback"),
        (Result(-11, ""), "crash"),
        (Result(1, "x: is damaged"), "code"),
        (Result(3, " \n"), "silence"),
        (Result(0, ""), "damage"),
    ],
)
def test_what_gives_way_is_noticed(tmp_path: Path, result: Result, fault: str) -> None:
    case = Case("kind", "name", [], frozenset({0, 3}), check=lambda folder: "other weights")
    assert (complaint(case, result, tmp_path) or "").startswith(f"{fault}:")
    assert complaint(case, Result(3, "x: is damaged"), tmp_path) is None


def test_a_run_that_ends_with_other_weights_is_noticed(victims: list[Victim], tmp_path: Path) -> None:
    """Such a run has trained on damaged data without a word."""
    victim, last = victims[0], tmp_path / "run" / "last"
    last.mkdir(parents=True)
    (name,) = [path.name for path in victim.home.glob("step-*.safetensors")]
    assert victim.weights_differ(tmp_path) == "succeeded without training to the end"
    tensors = load_file(victim.home / name)
    save_file(tensors, last / name)
    assert victim.weights_differ(tmp_path) is None
    weight = next(key for key in tensors if key.startswith("model."))
    save_file(tensors | {weight: tensors[weight] + 1e-6}, last / name)
    assert victim.weights_differ(tmp_path) == f"other weights than the undisturbed run: {weight}"
