"""The exercises: right answers in several forms are accepted, and every typical mistake gets its own words."""

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.errors import RecipeError
from clearhead.lectures import claims
from clearhead.lectures.exercises import Exercise, Mistake, check_exercise, exercises, find_exercise
from clearhead.lectures.exercises.calls import alike, call, plain, shape
from clearhead.lectures.exercises.formula import NotAFormula, formula

# two right answers each, written without looking at the exercise's own: formulas and numbers as typed, and code
RIGHT: dict[str, tuple[str, str]] = {
    "0.1": ("ln(10)", "answer = 2.3026"),
    "0.2": (
        "def answer(Q, K, V):\n    return torch.softmax(Q @ K.T / Q.shape[-1] ** 0.5, dim=-1) @ V",
        """
def answer(Q, K, V):
    rows = []
    for q in Q.tolist():
        scores = [math.exp(sum(a * b for a, b in zip(q, k)) / math.sqrt(len(q))) for k in K.tolist()]
        rows.append([sum(s * v for s, v in zip(scores, column)) / sum(scores) for column in V.T.tolist()])
    return rows""",
    ),
    "0.3": (
        "def answer(scores):\n    return torch.nn.functional.one_hot(scores.argmax(-1), scores.shape[-1])",
        "def answer(scores):\n    return [[1 if s == max(row) else 0 for s in row] for row in scores.tolist()]",
    ),
    "0.4": ("2*d²*(N + M) + 2*N*M*d", "def answer(N, M, h, d):\n    return d*d*(M+N) + d*d*M + 2*N*M*d + N*d*d"),
    "0.5": (
        "def answer(X):\n    return torch.nn.functional.layer_norm(X, X.shape[-1:])",
        "def answer(X):\n    c = X - X.mean(1, keepdim=True)\n    return c / ((c * c).mean(1, True) + 1e-5) ** 0.5",
    ),
    "1.1": ("(10*exp(sqrt(2)) + 20)/(exp(sqrt(2)) + 1)", "def answer():\n    return 11.9557"),
    "1.2": (
        "def answer(n, m):\n    return torch.ones(n, m).tril(m - n) > 0",
        "def answer(n, m):\n    return [[j <= i + m - n for j in range(m)] for i in range(n)]",
    ),
    "1.3": ("8", "answer = 64 ** 0.5"),
    "1.4": (
        "def answer(heads):\n    return torch.cat(list(heads), dim=-1)",
        "def answer(heads):\n    return [sum((h[t].tolist() for h in heads), []) for t in range(heads.shape[1])]",
    ),
    "1.5": ("4*h*n**2", "def answer(h, n):\n    return h * n * n * 4"),
    "2.1": ("63", "answer = 64 - 1"),
    "2.2": (
        "def answer(x, eps):\n    return (x - x.mean()) / (x.std(correction=0) + eps)",
        """
def answer(x, eps):
    x = x.tolist()
    mean = sum(x) / len(x)
    deviation = (sum((v - mean) ** 2 for v in x) / len(x)) ** 0.5
    return [(v - mean) / (deviation + eps) for v in x]""",
    ),
    "2.3": (
        "def answer(q, k):\n    return torch.dot(q, k) / math.sqrt(q.numel())",
        "def answer(q, k):\n    return sum(a * b for a, b in zip(q, k)) / len(q) ** 0.5",
    ),
    "2.4": (
        "def answer(p, d):\n    return [(math.sin, math.cos)[j % 2](p / 10000 ** ((j - j % 2) / d)) for j in range(d)]",
        """
def answer(p, d):
    angles = p * 10000.0 ** (-torch.arange(0, d, 2) / d)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten()""",
    ),
    "2.5": ("2*k + 1", "def answer(k):\n    return k + k + 1"),
    "3.1": (
        """
def answer(WQ, WK, WV, h_in):
    query, key, value = (torch.einsum("kuj,tj->ktu", W, h_in) for W in (WQ, WK, WV))
    alpha = torch.einsum("ktu,ksu->kts", query, key).softmax(-1)
    return torch.einsum("kts,ksi->tki", alpha, value).flatten(1)""",
        """
def answer(WQ, WK, WV, h_in):
    heads = []
    for q, k, v in zip(WQ, WK, WV):
        heads.append(((h_in @ q.T) @ (h_in @ k.T).T).softmax(-1) @ (h_in @ v.T))
    return torch.cat(heads, -1)""",
    ),
    "3.2": ("5/8", "answer = 0.625"),
    "3.3": ("7", "answer = 1 + 6"),
    "3.4": ("J + J/K + T", "def answer(T, J, K):\n    return T + J + J // K"),
    "3.5": (
        """
def answer(image):
    x = image.reshape(-1, image.shape[-1])
    return ((x @ x.T).softmax(-1) @ x).reshape(image.shape)""",
        """
def answer(image):
    scores = torch.einsum("xyd,abd->xyab", image, image).exp()
    return torch.einsum("xyab,abd->xyd", scores / scores.sum((2, 3), keepdim=True), image)""",
    ),
    "4.1": ("m*n*p", "def answer(m, n, p):\n    return m * p * n"),
    "4.2": ("4*n*d^2 + 2*n^2*d", "def answer(n, d):\n    return 2 * n * d * (2 * d + n)"),
    "4.3": ("32,768", "answer = 8 * 64**2"),
    "4.4": ("ceil(log(n, k))", "def answer(n, k):\n    return math.ceil(math.log(n) / math.log(k))"),
    "4.5": ("256", "answer = 16 * 4 * 4"),
}
EVERY = [pytest.param(one, id=one.id) for one in exercises()]


def given(text: str) -> Any:
    """An answer as it would stand in a file, or as it is typed."""
    if "answer" not in text:
        return text
    names: dict[str, Any] = {"torch": torch, "math": math}
    exec(text, names)
    return names["answer"]


def test_five_a_lecture_each_at_a_claim() -> None:
    assert Counter(one.lecture for one in exercises()) == dict.fromkeys(("L0", "L1", "L2", "L3", "L4"), 5)
    assert {one.claim for one in exercises()} <= {claim.id for claim in claims()}
    assert len({one.id for one in exercises()}) == 25 == len(RIGHT)
    assert find_exercise("L2.3") is find_exercise("2.3")


@pytest.mark.parametrize("exercise", EVERY)
def test_right_answers_are_accepted_in_two_forms(exercise: Exercise) -> None:
    for text in RIGHT[exercise.id]:
        judgement = check_exercise(exercise, given(text))
        assert judgement.right, f"{text}: {judgement}"
    assert check_exercise(exercise, exercise.right).right


@pytest.mark.parametrize("exercise", EVERY)
def test_every_mistake_has_its_own_words(exercise: Exercise) -> None:
    assert len(exercise.mistakes) >= 2
    for mistake in exercise.mistakes:
        judgement = check_exercise(exercise, mistake.answer)
        assert not judgement.right
        assert judgement.says == mistake.says
    assert len({str(call(mistake.answer, exercise.cases)) for mistake in exercise.mistakes}) >= 2


def test_an_unknown_mistake_is_told_without_giving_a_number_away() -> None:
    assert check_exercise("1.3", 7).says.startswith("not the number that was asked for")
    assert check_exercise("4.2", "5*n").says == "for n = 10, d = 16 it gives 50; right is 13440"
    assert check_exercise("1.4", lambda heads: heads[0]).says == "the result has shape (3, 2); it must be (3, 4)"
    assert "the numbers are not" in check_exercise("1.4", lambda heads: torch.zeros(3, 4)).says


def test_a_function_that_fails_or_gives_no_number_is_wrong() -> None:
    assert "ZeroDivisionError" in check_exercise("4.2", lambda n, d: n / 0).says
    assert "could not be run" in check_exercise("4.2", lambda n: n).says
    assert not check_exercise("4.2", lambda n, d: "many").right
    assert not check_exercise("4.2", lambda n, d: float("nan")).right


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("4nd", "write products with *"),
        ("4*x", "x is not known (there are: n, d)"),
        ("open(n)", "open is not a known function"),
        ("n.real", "cannot be read"),
        ("__import__('os')", "is not a known function"),
        ("9**9**9**9", "exponent is too large"),
        ("n" * 300, "too long"),
        ("(" * 150, "cannot be read"),
        ("True", "cannot be read"),
        ("", "cannot be read"),
    ],
)
def test_what_is_no_formula_is_refused(text: str, message: str) -> None:
    with pytest.raises((RecipeError, NotAFormula)) as caught:
        check_exercise("4.2", text)
    assert message in str(caught.value)


def test_formulas_as_people_write_them() -> None:
    assert formula("4·n·d² − n^2/2 + pi*0", ("n", "d"))(2, 3) == 70
    assert formula("log2(8) + floor(2.7) - ceil(-e)", ())() == 7


def test_a_file_is_run_in_a_process_of_its_own(tmp_path: Path) -> None:
    """What it prints, and that it ends its process, does no harm."""
    file = tmp_path / "my answer.py"
    for text, right, says in (
        ("print('hello')\nanswer = 8", True, "read on"),
        ("answer = 512 ** 0.5", False, "d_k is the size of a head"),
        ("x = 1\nanswer = x / 0", False, "it ended in line 2 with ZeroDivisionError: division by zero"),
        ("def answer(:", False, "in line 1 with SyntaxError"),
        ("import sys; sys.exit(3)", False, "SystemExit"),
        ("import os; os._exit(3)", False, "ended with 3 and without an answer"),
    ):
        file.write_text(text, encoding="utf-8")
        judgement = check_exercise("1.3", file)
        assert (judgement.right, says in judgement.says) == (right, True), judgement


def test_a_file_that_does_not_end_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "answer.py"
    file.write_text("while True: pass")
    judgement = check_exercise("1.3", str(file), seconds=0.5)
    assert judgement.says == "the answer could not be run: it did not end within 0.5 seconds"


def test_a_file_without_an_answer_or_no_file_is_a_mistake_of_typing(tmp_path: Path) -> None:
    file = tmp_path / "answer.py"
    file.write_text("result = 8")
    with pytest.raises(RecipeError, match="defines no `answer`"):
        check_exercise("1.3", file)
    with pytest.raises(RecipeError, match="no such file"):
        check_exercise("0.2", tmp_path / "other.py")
    with pytest.raises(RecipeError, match=r"no such exercise; did you mean 2\.3"):
        find_exercise("2.33")


def test_a_check_that_accepts_a_mistake_would_be_noticed() -> None:
    """The mutation: an exercise whose tolerance is too wide takes a mistake for the right answer."""
    wide = Exercise("9.9", "L0.1", "", "", lambda: 8.0, (Mistake(lambda: 8.1, "no"),), tolerance=0.1)
    assert check_exercise(wide, 8.1).right
    for one in exercises():
        right = call(one.right, one.cases)
        for mistake in one.mistakes:
            wrong = call(mistake.answer, one.cases)
            assert not all(alike(a, b, 10 * one.tolerance) for a, b in zip(right, wrong, strict=True)), one.id


def test_plain_numbers() -> None:
    assert plain((torch.tensor([1, 2]), [True])) == [[1.0, 2.0], [1.0]]
    assert (shape([[1.0, 2.0]]), shape(3.0), shape([])) == ((1, 2), (), (0,))
    assert not alike([1.0], 1.0, 1e-3)
