"""All exercises. Nothing here imports torch."""

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.lectures.exercises import l0, l1, l2, l3, l4
from clearhead.lectures.exercises.exercise import Exercise

_EXERCISES = {one.id: one for part in (l0, l1, l2, l3, l4) for one in part.EXERCISES}


def exercises() -> tuple[Exercise, ...]:
    """Every exercise, five a lecture."""
    return tuple(_EXERCISES.values())


def find_exercise(name: str) -> Exercise:
    """The exercise with this id: ``2.3``, or ``L2.3``."""
    found = _EXERCISES.get(name.upper().removeprefix("L"))
    if found is None:
        near = did_you_mean(name, list(_EXERCISES))
        raise RecipeError([Problem("", name, f"no such exercise{near} (clearhead lecture --exercises lists them)")])
    return found
