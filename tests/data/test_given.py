"""Data that a Python program has in memory: every kind becomes one file, always the same, or an error that helps."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data import LABELS, PAIRS, TEXTS, Format, named_family, read_corpus, write_given
from clearhead.errors import DataError
from clearhead.recipe import DataSpec, read_recipe
from clearhead.training import prepare, reopen
from tests.training.toy import SMALL

ENGLISH, GERMAN = ["house", "tree", "süß\u2028"], ["Haus", "Baum", "sweet"]
NAN = float("nan")
TABLE: dict[str, list[Any]] = {"id": [1, 2, 3], "german": GERMAN, "english": ENGLISH, "weight": [0.5, NAN, 1.0]}
CHOSEN = ("english", "german")


class Frame:
    """What is used of a pandas DataFrame."""

    def __init__(self, columns: dict[Any, list[Any]]) -> None:
        self.columns, self._columns = columns.keys(), columns

    def itertuples(self, index: bool, name: str | None) -> Iterator[tuple[Any, ...]]:
        assert not index
        assert name is None
        return zip(*self._columns.values(), strict=True)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._columns)


class Arrow:
    """What is used of a pyarrow Table, in batches of two rows."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.column_names, self._columns = list(columns), columns

    def to_batches(self) -> list[Any]:
        def column(values: list[Any]) -> Any:
            return type("Array", (), {"to_pylist": lambda self: values})()

        def batch(start: int) -> Any:
            parts = [column(values[start : start + 2]) for values in self._columns.values()]
            return type("Batch", (), {"column": lambda self, place: parts[place]})()

        return [batch(start) for start in range(0, len(next(iter(self._columns.values()))), 2)]


class Dataset:
    """What is used of a datasets.Dataset without batches."""

    def __init__(self, columns: dict[str, list[Any]], **classes: list[str]) -> None:
        self.column_names, self._columns = list(columns), columns
        self.features = {name: type("ClassLabel", (), {"names": names}) for name, names in classes.items()}

    def __iter__(self) -> Iterator[dict[str, Any]]:
        for row in zip(*self._columns.values(), strict=True):
            yield dict(zip(self._columns, row, strict=True))


def real_frame(columns: dict[Any, list[Any]]) -> Any:
    import pandas as pd

    return pd.DataFrame(columns)


def real_arrow(columns: dict[str, list[Any]]) -> Any:
    import pyarrow as pa

    whole = pa.table(columns)
    return pa.concat_tables([whole.slice(0, 2), whole.slice(2)])  # two chunks


def real_dataset(columns: dict[str, list[Any]]) -> Any:
    from datasets import Dataset as HuggingFace

    return HuggingFace.from_dict(columns)


def dicts(columns: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


TABLES: list[Callable[[dict[str, list[Any]]], Any]] = [
    *(Frame, Arrow, Dataset),
    *(real_frame, real_arrow, real_dataset),
    *(dicts, lambda columns: iter(dicts(columns))),
]


def rows_of(path: Path, format: Format[Any], *columns: str) -> list[tuple[str, ...]]:
    found = format.selecting(columns or None).read(str(path))[0]
    return [tuple(getattr(example, name) for name in format.columns) for example in found]


# ---- every kind ----


@pytest.mark.parametrize("make", TABLES)
def test_a_table_with_named_columns(make: Callable[[dict[str, list[Any]]], Any], tmp_path: Path) -> None:
    """Only the columns that are meant are read, in their order: the file of one kind of table is that of any other."""
    path = write_given(make(TABLE), tmp_path, columns=CHOSEN)
    assert rows_of(path, PAIRS, *CHOSEN) == [("house", "Haus"), ("tree", "Baum"), ("süß", "sweet")]
    expected = [{"english": e, "german": g} for e, g in zip(ENGLISH, GERMAN, strict=True)]
    assert [json.loads(line) for line in path.read_text().split("\n")[:-1]] == expected
    assert named_family(str(path)) is None


@pytest.mark.parametrize("make", TABLES)
def test_usual_names_need_not_be_said(make: Callable[[dict[str, list[Any]]], Any], tmp_path: Path) -> None:
    """And say what the data are for."""
    pairs = write_given(make({"n": [1, 2], "tgt": ["A", "B"], "src": ["a", "b"]}), tmp_path / "pairs")
    assert rows_of(pairs, PAIRS) == [("a", "A"), ("b", "B")]
    labels = write_given(make({"text": ["fine", "bad"], "label": [1, 0], "line": [7, 8]}), tmp_path / "labels")
    assert rows_of(labels, LABELS) == [("1", "fine"), ("0", "bad")]
    texts = write_given(make({"id": [1, 2], "text": ["one", "two"]}), tmp_path / "texts")
    assert rows_of(texts, TEXTS) == [("one",), ("two",)]
    assert [named_family(str(file)) for file in (pairs, labels, texts)] == [None, "classifier", "lm"]


@pytest.mark.parametrize(
    "data",
    [
        [("a", "A"), ("b", "B")],
        [["a", "A"], ["b", "B"]],
        (("a", "A"), ("b", "B")),
        zip("ab", "AB", strict=True),
        (pair for pair in [("a", "A"), ("b", "B")]),
        {"a": "A", "b": "B"}.items(),
        np.array([["a", "A"], ["b", "B"]]),
        Frame({0: ["a", "b"], 1: ["A", "B"]}),
    ],
    ids=lambda data: type(data).__name__,
)
def test_pairs_of_any_iterable(data: Any, tmp_path: Path) -> None:
    """They go by their order: pairs, or, if the model is a classifier, labels and texts."""
    path = write_given(data, tmp_path)
    assert path == tmp_path / "given-train.jsonl"
    assert path.read_text() == '["a", "A"]\n["b", "B"]\n'
    assert rows_of(path, PAIRS) == rows_of(path, LABELS) == [("a", "A"), ("b", "B")]
    assert named_family(str(path)) is None
    assert not PAIRS.notes(str(path))


def test_a_frame_without_names_is_pairs(tmp_path: Path) -> None:
    import pandas as pd

    path = write_given(pd.DataFrame([("a", "A"), ("b", "B")]), tmp_path)
    assert rows_of(path, PAIRS) == [("a", "A"), ("b", "B")]
    series = write_given(pd.Series(["one", "two"]), tmp_path / "series")
    assert rows_of(series, TEXTS) == [("one",), ("two",)]


def test_lines_of_text(tmp_path: Path) -> None:
    for data in (["one", "two"], iter(["one", "two"]), np.array(["one", "two"]), dict.fromkeys(["one", "two"]).keys()):
        path = write_given(data, tmp_path, "dev")
        assert path.name == "given-dev.jsonl"
        assert rows_of(path, TEXTS) == [("one",), ("two",)]
    assert named_family(str(path)) == "lm"


def test_labels_may_be_numbers_and_texts_may_not(tmp_path: Path) -> None:
    data = [(0, "bad"), (np.int64(1), "good"), (True, "yes"), (np.bool_(False), "no"), ("x", "y")]
    path = write_given(data, tmp_path)
    expected = [("0", "bad"), ("1", "good"), ("True", "yes"), ("False", "no"), ("x", "y")]
    assert rows_of(path, LABELS) == expected
    with pytest.raises(DataError, match=r'line 1: no texts "source" and "target"'):
        rows_of(path, PAIRS)
    with pytest.raises(TypeError, match=r"data\[0\]\[1\]: is of type int, 3, not a text: convert it"):
        write_given([("three", 3)], tmp_path)


def test_a_dataset_knows_the_names_of_its_classes(tmp_path: Path) -> None:
    from datasets import ClassLabel, Features, Value
    from datasets import Dataset as HuggingFace

    columns: dict[str, list[Any]] = {"text": ["fine", "bad", "?"], "label": [1, 0, 1]}
    features = Features({"text": Value("string"), "label": ClassLabel(names=["neg", "pos"])})
    real = HuggingFace.from_dict(columns, features=features)
    for data in (Dataset(columns, label=["neg", "pos"]), real, real.to_iterable_dataset()):
        assert rows_of(write_given(data, tmp_path), LABELS) == [("pos", "fine"), ("neg", "bad"), ("pos", "?")]
    columns["label"][2] = -1  # what a test set without labels has
    with pytest.raises(DataError, match=r"data\[2\], label: is missing"):
        write_given(Dataset(columns, label=["neg", "pos"]), tmp_path)


def test_a_stream_without_column_names_is_dicts(tmp_path: Path) -> None:
    from datasets import IterableDataset

    stream = IterableDataset.from_generator(lambda: iter(dicts({"source": ["a"], "target": ["b"]})))
    assert rows_of(write_given(stream, tmp_path), PAIRS) == [("a", "b")]


# ---- texts ----


def test_line_breaks_and_tabs_become_spaces_as_in_csv(tmp_path: Path) -> None:
    """What else Unicode calls a line break is text, as everywhere."""
    source = "one\ntwo\r\n three\tfour\u2028five"
    table = tmp_path / "x.csv"
    table.write_text(f'source,target\n"{source}",x\n', newline="")
    path = write_given([(source, "x")], tmp_path)
    assert rows_of(path, PAIRS) == rows_of(table, PAIRS) == [("one two three four\u2028five", "x")]


def test_odd_texts_survive(tmp_path: Path) -> None:
    """Quotes, backslashes, what looks like a header, a mark of another encoding at the beginning, JSON itself."""
    pairs = [("source", "target"), ("\ufeffa", '"b\\'), ("{}", "[1]"), ("x\u200b", "\U0001f600"), ("a\u0085b", "c")]
    assert rows_of(write_given(pairs, tmp_path), PAIRS) == pairs


def test_empty_texts_are_bad_lines_as_in_files(tmp_path: Path) -> None:
    """So that data.bad_lines decides, and the doctor counts them."""
    path = write_given([("a", "b"), (" ", "c"), ("d", "e\0")], tmp_path)
    with pytest.raises(DataError, match=r"given-train\.jsonl, line 2: empty source\n.*line 3: a NUL byte"):
        PAIRS.read(str(path))
    assert len(PAIRS.read(str(path), "skip")[0]) == 1


# ---- always the same, whole or not at all ----


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    """In other processes, too: nothing depends on the hash of a str."""
    code = (
        "import sys; from pathlib import Path; from clearhead.data import write_given;"
        "print(write_given([{'source': 'a', 'z': 1, 'target': 'b'}] * 3, Path(sys.argv[1])).read_bytes())"
    )
    for seed in ("1", "2"):
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)], env=os.environ | {"PYTHONHASHSEED": seed}, check=True
        )
    first, second = ((tmp_path / seed / "given-train.jsonl").read_bytes() for seed in ("1", "2"))
    assert first == second == b'{"source": "a", "target": "b"}\n' * 3


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    def failing() -> Iterator[tuple[str, str]]:
        yield "a", "b"
        raise RuntimeError("the source of the rows")

    with pytest.raises(RuntimeError, match="the source of the rows"):
        write_given(failing(), tmp_path / "data")
    assert not (tmp_path / "data").exists()
    before = write_given([("x", "y")], tmp_path / "data").read_bytes()
    with pytest.raises(RuntimeError):
        write_given(failing(), tmp_path / "data")
    assert [path.read_bytes() for path in (tmp_path / "data").iterdir()] == [before]


def test_what_a_run_was_given_is_kept(tmp_path: Path) -> None:
    """Other rows, fewer and more of them are refused with the first that differs; the file stays as it was."""
    pairs, folder = [("a", "b"), ("c", "d")], tmp_path / "run" / "data"
    path = write_given(pairs, folder, keep=True)
    before = path.read_bytes(), path.stat().st_mtime_ns
    assert write_given(iter(pairs), folder, keep=True) == path
    for other, index in (([("a", "b"), ("c", "e")], 1), (pairs[:1], 1), ([*pairs, ("x", "y")], 2)):
        with pytest.raises(DataError, match=rf"data\[{index}\]: is not what the run in .*run was given before"):
            write_given(other, folder, keep=True)
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
    write_given(pairs[:1], folder)  # without keep it is replaced
    assert path.read_bytes() != before[0]


def test_a_run_reads_its_own_copy(tmp_path: Path) -> None:
    """It has a checksum in the run; damaged, it is refused with the way out, and the same data put it right."""
    pairs = [(f"a{number}", f"b {number % 7}") for number in range(300)]
    folder = tmp_path / "run"
    path = write_given(pairs, folder / "data")
    run = prepare(read_recipe(None, f"data.train={path}", *SMALL, "training.steps=1"), folder)
    assert path.name in run.manifest.files
    assert run.corpus.train_size == reopen(folder).corpus.train_size
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"only copy of the data that the run was given: .* give the same data again"):
        reopen(folder)
    write_given(pairs, folder / "data")
    assert reopen(folder).manifest == run.manifest


def test_a_list_is_prepared_as_its_file_is(tmp_path: Path) -> None:
    pairs = [(f"a{number} x", f"b {number % 7}") for number in range(300)]
    file = tmp_path / "x.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    given = write_given(pairs, tmp_path)
    found = [read_corpus(DataSpec(train=str(where)), PAIRS) for where in (file, given)]
    assert list(found[0].train()) == list(found[1].train())
    assert found[0].dev == found[1].dev


# ---- what is wrong with data ----


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (None, TypeError, r"^data: is None: pass \(source, target\) tuples"),
        (3, TypeError, r"^data: is of type int: pass"),
        ("pairs.tsv", TypeError, r"^data: is of type str: pass"),
        (b"a\tb", TypeError, r"^data: is of type bytes: pass"),
        ({("a", "b")}, TypeError, r"^data: is of type set, which has no order: pass a list"),
        ({"train": []}, TypeError, r"pass one of its tables, data\['train'\]"),
        ([], DataError, r"^data: is empty: pass"),
        (iter([]), DataError, r"^data: is empty \(a generator can be gone over only once\)"),
        (Frame({"source": [], "target": []}), DataError, r"^data: is empty: pass"),
        ([None, ("a", "b")], TypeError, r"^data\[0\]: is None: pass"),
        ([3], TypeError, r"^data\[0\]: is of type int: pass"),
        ([("a", "b"), "ab"], TypeError, r"^data\[1\]: is of type str among pairs: every row is a \(source, target\)"),
        ([("a", "b"), ("a", "b", "c")], TypeError, r"^data\[1\]: has 3 values, \('a', 'b', 'c'\): pass two"),
        ([("a",)], TypeError, r"^data\[0\]: has 1 value, .* a line of text is a str"),
        (["a", ("a", "b")], TypeError, r"^data\[1\]: is of type tuple among texts: every row is a str"),
        ([{"text": "a"}, "b"], TypeError, r"^data\[1\]: is of type str among dicts"),
        (["a", None], DataError, r"^data\[1\]: is missing \(None\): leave such rows out first"),
        ([("a", None)], DataError, r"^data\[0\]\[1\]: is missing \(None\)"),
        ([("a", NAN)], DataError, r"^data\[0\]\[1\]: is missing \(nan\)"),
        ([(NAN, "a")], DataError, r"^data\[0\]\[0\]: is missing \(nan\)"),
        ([("a", np.float32("nan"))], DataError, r"^data\[0\]\[1\]: is missing \(nan\)"),
        ([(0.5, "a")], TypeError, r"^data\[0\]\[0\]: is of type float, 0\.5, not a text: convert it with str\(\)"),
        ([("a", b"b")], TypeError, r"^data\[0\]\[1\]: is of type bytes, b'b', not a text: decode it"),
        ([("a", "\ud800")], DataError, r"^data\[0\]: has an unpaired surrogate, which is no text"),
        ([{"source": "a", "target": "b"}, {"source": "a"}], DataError, r"^data\[1\], target: is missing"),
        ([{"text": 3}], TypeError, r"^data\[0\]: is of type int, 3, not a text"),
        ([{"en": "a", "de": "b"}], DataError, r"say which of its columns are meant, .*: columns=\['en', 'de'\]"),
        ([{"text": {"en": "a"}}], TypeError, r"is of type dict, .*pass its texts as tuples: \[\(row"),
    ],
)
def test_wrong_rows_are_named_with_what_to_pass(
    data: Any, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        write_given(data, tmp_path / "data")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ("english", TypeError, r'columns is a list of names: columns=\["english", "german"\]'),
        ([1, 2], TypeError, "columns is a list of names"),
        (["englich", "german"], DataError, r"data: has no column englich; did you mean english\?: its columns are id"),
        (["1", "2"], DataError, "columns of data go by name"),
        (["english"] * 2, DataError, "name one for lines of text, two for pairs"),
        ([], DataError, "columns: none: name one"),
        (["english", "weight"], TypeError, r"data\[0\], weight: is of type float, 0\.5, not a text"),
        (["english", "id"], TypeError, r"data\[0\], id: is of type int.*, 1.*, not a text"),
    ],
)
def test_wrong_columns_are_named(columns: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    for make in (Frame, real_frame, dicts):
        with pytest.raises(error, match=message):
            write_given(make(TABLE), tmp_path / "data", columns=columns)


def test_missing_cells_of_pandas(tmp_path: Path) -> None:
    import pandas as pd

    for missing in (None, NAN, pd.NA, pd.NaT):
        frame = pd.DataFrame({"source": ["a", "b"], "target": ["x", missing]}, dtype=object)
        with pytest.raises(DataError, match=r"data\[1\], target: is missing .*dropna"):
            write_given(frame, tmp_path)
        assert rows_of(write_given(frame.dropna(), tmp_path), PAIRS) == [("a", "x")]


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    """Tables are known by their methods."""
    code = (
        "import sys; from pathlib import Path; from clearhead.data import write_given;"
        "write_given([('a', 'b')], Path(sys.argv[1]));"
        "print([name for name in ('pandas', 'pyarrow', 'datasets') if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
