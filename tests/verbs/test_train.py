"""``clearhead.train``: the whole of training from Python, in any thread, without a trace in the process."""

import random
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from tests.training.test_trainer import state_of
from tests.training.toy import FEW, SMALL, write_pairs


def pairs_of(path: Path) -> list[tuple[str, str]]:
    return [(source, target) for source, target in (line.split("\t") for line in path.read_text().splitlines())]


def test_ten_lines_train_evaluate_and_answer(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A list of pairs becomes a run with everything worth having; nothing is printed."""
    pairs = pairs_of(write_pairs(tmp_path / "pairs.tsv", count=FEW))
    run = clearhead.train(pairs, output=tmp_path / "run", steps=60, settings=SMALL)
    scores = clearhead.evaluate(run.model, pairs[:50])
    answer = run.model(pairs[0][0])
    assert capfd.readouterr() == ("", "")
    assert isinstance(answer, str)
    error = scores["line_error"]
    assert error.low is not None
    assert error.high is not None
    assert 0 <= error.low <= error.value <= error.high <= 100
    assert {row["kind"] for row in run.history} == {"train", "dev"}
    assert run.steps == run.recipe.training.steps == 60
    assert run.scores["test"]["line_error"].value == clearhead.evaluate(run, split="test")["line_error"].value
    assert run.best is not None
    assert run.best["dev_line_error"] == run.scores["dev"]["line_error"].value
    assert "60 of 60 steps" in repr(run)
    assert "<svg" in run.curve()
    assert run.examples()[0].question in dict(pairs)


def test_a_list_teaches_what_its_file_teaches(tmp_path: Path) -> None:
    """The same weights, bit for bit, and resumed by the same list; another list is refused."""
    file = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    pairs = pairs_of(file)
    clearhead.train(file, tmp_path / "file", steps=12, settings=SMALL)
    clearhead.train(pairs, tmp_path / "list", steps=12, settings=SMALL)
    weights, state, metrics = state_of(tmp_path / "file")
    others, other_state, other_metrics = state_of(tmp_path / "list")
    assert weights.keys() == others.keys()
    assert all(torch.equal(tensor, others[name]) for name, tensor in weights.items())
    # whose run it is follows from the bytes of the data, and a list is kept in a file of another form
    assert state | {"run": ""} == other_state | {"run": ""}
    assert metrics == other_metrics
    again = clearhead.train(pairs, tmp_path / "list", resume=True)
    assert again.steps == 12
    with pytest.raises(clearhead.ClearheadError):
        clearhead.train(pairs[:-1], tmp_path / "list", resume=True)


def process_state() -> tuple[Any, ...]:
    handlers = [signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)]
    numbers = np.random.get_state()[1].tolist(), random.getstate(), torch.random.get_rng_state().tolist()  # type: ignore[index]
    return numbers, torch.get_num_threads(), handlers


def test_the_process_is_left_as_it_was(tmp_path: Path) -> None:
    """Random states, threads and signal handlers; a wrong variant, torch.manual_seed, is noticed."""
    file = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        before = process_state()
        run = clearhead.train(file, tmp_path / "run", steps=4, settings=SMALL)
        clearhead.evaluate(run, split="dev")
        list(clearhead.score(run, file))
        clearhead.check(file)
        clearhead.show("tiny")
        assert process_state() == before
        torch.manual_seed(1234)
        assert process_state() != before
    finally:
        torch.set_num_threads(threads)


def test_a_thread_may_train(tmp_path: Path) -> None:
    file, runs = write_pairs(tmp_path / "pairs.tsv", count=FEW), []
    thread = threading.Thread(
        target=lambda: runs.append(clearhead.train(file, tmp_path / "run", steps=4, settings=SMALL))
    )
    thread.start()
    thread.join()
    assert runs[0].steps == 4


def test_events_are_reported_in_order(tmp_path: Path) -> None:
    events: list[clearhead.Event] = []
    file = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    clearhead.train(
        file, tmp_path / "run", steps=40, settings=[*SMALL, "training.evaluate_every=20"], report=events.append
    )
    kinds = [event.kind for event in events if event.kind != "note"]
    assert kinds == ["start", "train", "dev", "train", "dev", "end"]
    assert [event.step for event in events if event.kind == "dev"] == [20, 40]
    assert all("line_error" in event.values for event in events if event.kind == "dev")
    assert any("training pairs" in event.text for event in events)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"settings": {"model.widht": 64}}, "did you mean width?"),
        ({"settings": {"model.width": "wide"}}, "must be a whole number"),
        ({"training": {"seed": -1}}, "training.seed"),
        ({"steps": 5, "epochs": 2}, "one budget is enough"),
        ({"recipe": "tinny"}, "did you mean tiny?"),
    ],
)
def test_mistakes_are_named_and_nothing_is_left(tmp_path: Path, arguments: dict[str, object], message: str) -> None:
    file = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    with pytest.raises(clearhead.RecipeError, match=message.replace("?", r"\?")):
        clearhead.train(file, tmp_path / "run", **arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "run").exists()


def test_wrong_types_say_what_to_pass(tmp_path: Path) -> None:
    file = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    with pytest.raises(TypeError, match="settings is a dict"):
        clearhead.train(file, tmp_path / "run", settings="model.width=64")
    with pytest.raises(TypeError, match="report is True, or a function"):
        clearhead.train(file, tmp_path / "run", report="yes")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="model must be a model"):
        clearhead.evaluate(3, file)  # type: ignore[arg-type]


def test_a_setting_wins_over_what_follows_from_the_data(tmp_path: Path) -> None:
    """A .txt file means a language model, unless somebody says encoder."""
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"ab {number} ba\n" for number in range(200)))
    assert clearhead.check(lines).name == "lines of text"
    small = [word for word in SMALL if not word.startswith("data.")]
    run = clearhead.train(lines, tmp_path / "run", steps=2, settings=[*small, "model.family=encoder"])
    assert run.recipe.model.family == "encoder"
    tables = {"model": {"family": "encoder", "width": 32, "heads": 2, "layers": 1}}
    other = clearhead.train(lines, tmp_path / "other", steps=2, settings=tables)
    assert other.recipe.model.family == "encoder"


def test_an_unnamed_run_gets_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write_pairs(tmp_path / "pairs.tsv", count=FEW)
    monkeypatch.chdir(tmp_path)
    first = clearhead.train(file, steps=1, settings=SMALL)
    second = clearhead.train(file, steps=1, settings=SMALL)
    assert first.folder.parent == second.folder.parent == Path("runs")
    assert first.folder != second.folder
