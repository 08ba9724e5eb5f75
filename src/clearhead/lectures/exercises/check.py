"""Checks an answer: right, a known mistake, or different, with what was expected."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.errors import Problem, RecipeError
from clearhead.lectures.exercises.answer_file import SECONDS, AnswerFailed, run_file
from clearhead.lectures.exercises.calls import Plain, alike, call, shape
from clearhead.lectures.exercises.exercise import Exercise
from clearhead.lectures.exercises.formula import NotAFormula, formula
from clearhead.lectures.exercises.registry import find_exercise


@dataclass(frozen=True)
class Judgement:
    """Whether an answer is right, and what to say about it."""

    exercise: Exercise
    right: bool
    says: str

    def __str__(self) -> str:
        return f"{self.exercise.id} {'✓ right' if self.right else '✗ wrong'}: {self.says}"


def check_exercise(
    exercise: Exercise | str, answer: Callable[..., Any] | float | str | Path, *, seconds: float = SECONDS
) -> Judgement:
    """Check an answer to an exercise: ``clearhead.check_exercise("2.3", lambda q, k: q @ k / len(q) ** 0.5)``.

    Args:
        exercise: the exercise or its id.
        answer: a number; a function; a formula as text, ``"4*n*d**2"``; or the path of a Python file that defines
            ``answer``. Such a file is the user's own code: it runs in a process of its own.
        seconds: how long a file may run.
    """
    if isinstance(exercise, str):
        exercise = find_exercise(exercise)
    try:
        results = _results(exercise, answer, seconds)
    except AnswerFailed as failure:
        return Judgement(exercise, False, f"the answer could not be run: {failure}")
    return _judged(exercise, results)


def _results(exercise: Exercise, answer: Callable[..., Any] | float | str | Path, seconds: float) -> list[Plain]:
    if isinstance(answer, Path) or (isinstance(answer, str) and _names_a_file(answer)):
        return run_file(Path(answer), exercise.cases, seconds=seconds)
    if isinstance(answer, str):
        if exercise.takes_tensors:
            raise RecipeError([Problem("", answer, f"no such file; exercise {exercise.id} takes {exercise.how}")])
        answer = _typed(exercise, answer)
    try:
        return call(answer, exercise.cases)
    except NotAFormula as reason:
        raise RecipeError([Problem("", "formula", str(reason))]) from None
    except Exception as failure:  # whatever the student's function does
        raise AnswerFailed(f"it ended with {type(failure).__name__}: {failure}") from None


def _names_a_file(text: str) -> bool:
    with suppress(OSError, ValueError):  # too long for a name, or with characters that no name has
        return text.endswith(".py") or Path(text).is_file()
    return False


def _typed(exercise: Exercise, text: str) -> Callable[..., float]:
    try:
        return formula(text.replace(",", "") if not exercise.arguments else text, exercise.arguments)
    except NotAFormula as reason:
        raise RecipeError([Problem("", text, f"{reason}; exercise {exercise.id} takes {exercise.how}")]) from None


def _judged(exercise: Exercise, results: list[Plain]) -> Judgement:
    expected = call(exercise.right, exercise.cases)
    if _same(results, expected, exercise):
        return Judgement(exercise, True, f"read on with clearhead lecture {exercise.claim}")
    for mistake in exercise.mistakes:
        if _same(results, call(mistake.answer, exercise.cases), exercise):
            return Judgement(exercise, False, mistake.says)
    return Judgement(exercise, False, _difference(exercise, results, expected))


def _same(mine: list[Plain], other: list[Plain], exercise: Exercise) -> bool:
    return all(alike(a, b, exercise.tolerance) for a, b in zip(mine, other, strict=True))


def _difference(exercise: Exercise, results: list[Plain], expected: list[Plain]) -> str:
    """The first case that differs; the number of an exercise that asks for a number is not given away."""
    if not exercise.arguments:
        return "not the number that was asked for; read the claim: clearhead lecture " + exercise.claim
    for case, mine, right in zip(exercise.cases, results, expected, strict=True):
        if alike(mine, right, exercise.tolerance):
            continue
        if shape(mine) != shape(right):
            return f"the result has shape {shape(mine)}; it must be {shape(right)}"
        if not exercise.takes_tensors and not isinstance(mine, list):
            given = ", ".join(f"{name} = {value}" for name, value in zip(exercise.arguments, case, strict=True))
            return f"for {given} it gives {mine:g}; right is {right:g}"
        return "the shape is right, the numbers are not; read the claim: clearhead lecture " + exercise.claim
    raise AssertionError("no case differs")
