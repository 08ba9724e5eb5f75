"""``clearhead.answer_lines`` and ``answer_file``: what ``clearhead run`` does, from Python."""

from pathlib import Path

import pytest

import clearhead
from tests.training.toy import FEW, SMALL, write_pairs


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> clearhead.Run:
    folder = tmp_path_factory.mktemp("answer")
    return clearhead.train(write_pairs(folder / "pairs.tsv", count=FEW), folder / "run", steps=20, settings=SMALL)


def test_a_file_of_answers_is_what_the_model_says(run: clearhead.Run, tmp_path: Path) -> None:
    lines = [line.split("\t")[0] for line in (run.folder.parent / "pairs.tsv").read_text().splitlines()[:40]]
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in lines))
    events: list[clearhead.Event] = []
    done = clearhead.answer_file(run, tmp_path / "lines.txt", tmp_path / "answers.txt", report=events.append)
    assert done == len(lines)
    answers = (tmp_path / "answers.txt").read_text().splitlines()
    assert answers == run.model.generate(lines)
    streamed = clearhead.answer_lines(run.model, [tmp_path / "lines.txt"])
    assert streamed.total == len(lines)
    assert [row for part in streamed for answered in part for row in answered.rows] == answers
    assert [event.kind for event in events][:: len(events) - 1] == ["start", "end"]
    with pytest.raises(clearhead.ClearheadError, match="exists already"):
        clearhead.answer_file(run, tmp_path / "lines.txt", tmp_path / "answers.txt")


def test_settings_change_the_answers_of_this_call_alone(run: clearhead.Run, tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("ab\nba\n")
    before = run.model.recipe.decoding
    sampled = {"decoding.sample": True, "decoding.seed": 3, "decoding.temperature": 5.0}
    stream = clearhead.answer_lines(run, tmp_path / "lines.txt", settings=sampled)
    rows = [row for part in stream for answered in part for row in answered.rows]
    assert rows == run.model.generate(["ab", "ba"], sample=True, seed=3, temperature=5.0)
    assert run.model.recipe.decoding == before
    with pytest.raises(clearhead.RecipeError, match=r"only decoding\.key can be set"):
        clearhead.answer_lines(run, tmp_path / "lines.txt", settings={"model.width": 3})
    with pytest.raises(clearhead.DataError, match="no such file"):
        clearhead.answer_lines(run, tmp_path / "nowhere.txt")


def test_scores_of_examples_are_the_models(run: clearhead.Run) -> None:
    file = run.folder.parent / "pairs.tsv"
    pairs = [line.split("\t") for line in file.read_text().splitlines()[:10]]
    found = list(clearhead.score(run, file))[:10]
    assert [dict(line.columns) for line in found] == [{"source": left, "target": right} for left, right in pairs]
    expected = run.model.score([left for left, _ in pairs], [right for _, right in pairs])
    assert [line.log_probability for line in found] == pytest.approx(expected, abs=1e-5)
    assert all(sum(line.tokens) == pytest.approx(line.log_probability) for line in found)
