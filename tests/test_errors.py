"""Exceptions: what is said of them is the same in whichever process they were raised."""

import pickle
from collections.abc import Iterator

import pytest

from clearhead import errors
from clearhead.errors import ClearheadError, Interrupted, MissingExtra, Problem, RecipeError
from clearhead.workers import WorkerPool

PROBLEMS = [Problem("command line", "model.layrs", "no such setting"), Problem("", "--engine", "cannot sample")]
RAISED = [
    RecipeError(PROBLEMS),
    MissingExtra("a page", "starlette", "serve"),
    Interrupted(15, "stopped after step 3"),
    errors.DamagedFile("m.safetensors: damaged"),
]


def kinds(base: type[ClearheadError] = ClearheadError) -> Iterator[type[ClearheadError]]:
    """Every exception of the tree."""
    yield base
    for kind in base.__subclasses__():
        yield from kinds(kind)


@pytest.mark.parametrize("error", RAISED, ids=lambda error: type(error).__name__)
def test_an_error_of_another_process_says_what_it_said_there(error: ClearheadError) -> None:
    """The wrong variant makes it anew from its message, which a constructor takes for a list of problems."""
    error.process = 3
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert (str(found), found.exit_code, found.process) == (str(error), error.exit_code, 3)
    assert vars(found) == vars(error)


def test_every_error_can_be_sent_to_another_process() -> None:
    """Each has the one way of it: no constructor is asked for arguments that nobody keeps."""
    for kind in kinds():
        error = kind.__new__(kind, "a message")
        assert str(pickle.loads(pickle.dumps(error))) == "a message"


def _refuse(number: int) -> int:
    raise RecipeError(PROBLEMS[number : number + 1])


def test_a_worker_refuses_in_the_same_words() -> None:
    with (
        WorkerPool(_refuse, 2) as pool,
        pytest.raises(RecipeError, match=r"^command line: model\.layrs: no such setting$") as caught,
    ):
        list(pool.results([0]))
    assert caught.value.problems == (PROBLEMS[0],)
