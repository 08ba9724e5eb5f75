"""Mechanisms learn small tasks that need them: one of each sort; `make prove` does all of tools/learning.py."""

import pytest
import torch
from tools.learning import BAR, CONTROLS, LESSONS, TASKS, Batch, Control, Lesson, learn, missing

from clearhead.recipe import kinds
from clearhead.recipe.registry import _kinds

QUICK = [
    *("position shaw relative=keys", "attention disentangled", "attention local window=7"),
    "encoder convolutional kernel=5 dilation=1",
]
OUT_OF_REACH = ("encoder convolutional kernel=5 dilation=1",)
WITHOUT = [control for control in CONTROLS if control.lesson.teaches[-1] == "position none"]
WITHOUT = [control for control in WITHOUT if control.lesson.task in ("offset", "pattern")]
WITHOUT = [
    control
    for control in WITHOUT
    if not control.lesson.name.startswith(("attention axial", "attention window", "attention grid"))
]
WITHOUT += [control for control in CONTROLS if control.lesson.name in OUT_OF_REACH]


@pytest.mark.parametrize("name", QUICK)
def test_a_mechanism_learns_a_task_that_needs_it(name: str) -> None:
    """On examples never seen, within the steps of its lesson."""
    (lesson,) = (lesson for lesson in LESSONS if lesson.name == name)
    assert learn(lesson).accuracy >= BAR


@pytest.mark.parametrize("control", WITHOUT, ids=lambda control: control.lesson.name)
def test_without_it_the_task_stays_unlearnt(control: Control) -> None:
    """The wrong variant: a set has neither distances nor neighbours."""
    assert learn(control.lesson).accuracy < control.below


def test_every_registered_mechanism_has_a_lesson(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mechanism is tested by being registered; a new one, and a lesson that is taken away, are noticed."""
    assert missing() == []
    assert missing(lesson for lesson in LESSONS if "linformer" not in lesson.name) == [
        f"attention linformer sharing={sharing}" for sharing in ("none", "headwise", "key-value", "layerwise")
    ]
    monkeypatch.setitem(_kinds["position"], "spiral", kinds("position")["none"])
    assert missing() == ["position spiral"]


@pytest.mark.parametrize(
    "lesson", [*LESSONS, *(control.lesson for control in CONTROLS)], ids=lambda lesson: lesson.name
)
def test_every_lesson_can_begin(lesson: Lesson) -> None:
    """Its recipe can be read and takes the examples of its task."""
    got = learn(lesson, steps=1, held_out=5)
    assert got.steps == 1
    assert 0 <= got.accuracy < BAR


def examples(task: str) -> Batch:
    return TASKS[task].draw(torch.Generator().manual_seed(5), 50)


def test_what_the_tasks_ask() -> None:
    """Each answer, found again by a loop."""
    batch = examples("reverse")
    for line, answer in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
        source = [id for id in line if id not in (0, 2)]
        assert answer[: len(source) + 1] == [*reversed(source), 2]
        assert set(answer[len(source) + 1 :]) <= {-100}
    batch = examples("offset")
    for line, answer in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
        assert answer == [-100] * 3 + line[:-3]
    batch = examples("distance")
    for line, answer in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
        assert answer == [line.index(3) - place + 6 for place in range(7)]
    batch = examples("latest")
    for line, answer in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
        one, other = (id for id in line if id != 3)
        assert answer == [-100] * 11 + [other]
        assert one != other
    batch = examples("find")
    for line, answer in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
        assert answer == [id for id in line if id != 3] * 12
    batch = examples("copy")
    for line, answer in zip(batch.inputs.tolist(), batch.answers.tolist(), strict=True):
        assert answer == [-100] * 28 + line[:4]


@pytest.mark.parametrize(("task", "window"), [("pattern", 6), ("pattern in windows", 3)])
def test_what_the_pattern_is(task: str, window: int) -> None:
    """The colour one row below and one column to the right, inside the window."""
    batch = examples(task)
    for image, answer in zip(batch.inputs.argmax(-1).tolist(), batch.answers.tolist(), strict=True):
        for x in range(6):
            for y in range(6):
                inside = x % window < window - 1 and y % window < window - 1
                assert answer[6 * x + y] == (image[x + 1][y + 1] if inside else -100)
