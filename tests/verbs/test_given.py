"""Data in memory through the front door: what they are for follows from what they are, unless somebody says so."""

from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.errors import DataError
from tests.training.toy import SMALL, write_labels, write_lines, write_pairs

ONE_SIDE = [word for word in SMALL if not word.startswith("data.")]


def rows_of(path: Path) -> list[tuple[str, ...]]:
    return [tuple(line.split("\t")) for line in path.read_text().splitlines()]


def test_what_data_are_for(tmp_path: Path) -> None:
    """Pairs, lines of text, tables with a label and a text; a label in a tuple only if somebody says classifier."""
    pairs = rows_of(write_pairs(tmp_path / "pairs"))
    lines = [row[0] for row in rows_of(write_lines(tmp_path / "lines"))]
    labels = rows_of(write_labels(tmp_path / "labels"))
    table = [{"text": text, "label": int(label == "up")} for label, text in labels]
    assert clearhead.check(pairs).name == "pairs"
    assert clearhead.check(lines).name == "lines of text"
    assert clearhead.check(table).name == "labelled texts"
    assert set(clearhead.check(table).labels) == {"0", "1"}
    with pytest.raises(DataError, match=r"only 2 different sources .* add model\.family=classifier"):
        clearhead.check(labels)
    assert clearhead.check(labels, settings={"model.family": "classifier"}).name == "labelled texts"
    rows = [{"id": number, "body": line} for number, line in enumerate(lines)]
    assert clearhead.check(rows, columns=["body"]).name == "lines of text"


@pytest.mark.parametrize("kind", ["pandas", "pyarrow", "datasets"])
def test_a_table_trains_evaluates_and_resumes(tmp_path: Path, kind: str) -> None:
    rows = rows_of(write_pairs(tmp_path / "pairs", count=60))
    columns = {
        "english": [row[0] for row in rows],
        "number": list(range(len(rows))),
        "phones": [row[1] for row in rows],
    }

    def table() -> Any:
        if kind == "pandas":
            import pandas as pd

            return pd.DataFrame(columns)
        if kind == "pyarrow":
            import pyarrow as pa

            return pa.table(columns)
        from datasets import Dataset

        return Dataset.from_dict(columns)

    chosen = ("english", "phones")
    run = clearhead.train(table(), tmp_path / "run", columns=chosen, steps=2, settings=SMALL)
    assert run.recipe.data.columns == list(chosen)
    assert clearhead.evaluate(run, table(), columns=chosen)["line_error"].value >= 0
    assert (
        clearhead.evaluate(run, rows)["line_error"].value
        == clearhead.evaluate(run, table(), columns=chosen)["line_error"].value
    )
    assert clearhead.train(table(), tmp_path / "run", columns=chosen, resume=True).steps == 2
    assert clearhead.train(output=tmp_path / "run", resume=True).steps == 2


def test_labels_in_tuples(tmp_path: Path) -> None:
    labels = rows_of(write_labels(tmp_path / "labels"))
    settings = [*ONE_SIDE, "model.family=classifier"]
    data = [(label == "up", text) for label, text in labels]
    run = clearhead.train(data, tmp_path / "run", steps=2, settings=settings)
    assert run.recipe.model.model_dump()["labels"] == ["False", "True"]
    assert run.model("a b c") in ("False", "True")


def test_other_data_are_refused_and_the_first_stay(tmp_path: Path) -> None:
    """With resume and without: what a run was given is its only copy."""
    pairs = rows_of(write_pairs(tmp_path / "pairs", count=60))
    clearhead.train(pairs, tmp_path / "run", steps=2, settings=SMALL)
    kept = tmp_path / "run" / "data" / "given-train.jsonl"
    before = kept.read_bytes()
    for resume in (True, False):
        with pytest.raises(DataError, match=r"data\[0\]: is not what the run in .* was given before"):
            clearhead.train(pairs[::-1], tmp_path / "run", steps=2, settings=SMALL, resume=resume)
    assert kept.read_bytes() == before
    assert clearhead.train(iter(pairs), tmp_path / "run", resume=True).steps == 2


def test_wrong_rows_leave_no_folder(tmp_path: Path) -> None:
    for data in ([("a", "b"), ("c", None)], [("a", "b"), "c"], [], [{"x": "a", "y": "b"}]):
        with pytest.raises((DataError, TypeError), match="data"):
            clearhead.train(data, tmp_path / "run", steps=2)
        assert not (tmp_path / "run").exists()
    with pytest.raises(DataError, match="no such file"):
        clearhead.train("nowhere.tsv", tmp_path / "run")
