"""Exercises: five a lecture, with a check that knows typical mistakes. Listing them does not import torch."""

from clearhead.lectures.exercises.check import Judgement, check_exercise
from clearhead.lectures.exercises.exercise import Exercise, Mistake
from clearhead.lectures.exercises.registry import exercises, find_exercise

__all__ = ["Exercise", "Judgement", "Mistake", "check_exercise", "exercises", "find_exercise"]
