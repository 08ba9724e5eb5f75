"""Examples in Parquet files and Arrow files (.arrow, .feather): rows with named columns, a few thousand at once."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from clearhead.data.inputs import open_input, shown_input
from clearhead.data.layout import Layout, named_columns, numbered, one_line
from clearhead.data.lines import Watch
from clearhead.data.rows import Row, stripped
from clearhead.errors import DataError, MissingExtra, did_you_mean

SUFFIXES = (".parquet", ".arrow", ".feather")
_ROWS = 4096
"""That are in memory at once."""


def is_table(file: str | Path) -> bool:
    """Whether a file holds a table, by its name."""
    return Path(file).suffix.lower() in SUFFIXES


def column_names(file: str) -> list[str]:
    """The names of all columns."""
    with _Opened(file) as table:
        return list(table.names)


class TableFile:
    """One pass over a table; ``names``, ``asked`` and ``watch`` are those of ``OneFile``."""

    by_lines = False

    def __init__(
        self, file: str, names: tuple[str, ...], asked: Sequence[str] | None, watch: Watch | None = None
    ) -> None:
        self._file, self._names = file, names
        if watch is not None:
            with open_input(file) as stream:
                for piece in iter(partial(stream.read, 1 << 20), b""):
                    watch(memoryview(piece))
        known = column_names(file)
        places = _places(file, known, names, asked)
        fields = tuple(known[place] for place in places)
        note = "" if fields == names else f"{shown_input(file)}: columns {' and '.join(fields)} are taken"
        self.layout = Layout("table", "", None, places, fields, tuple(known), note)

    def __iter__(self) -> Iterator[Row]:
        with _Opened(self._file) as table:
            rows = chain.from_iterable(table.rows(self.layout.fields))
            for line, values in enumerate(rows, start=1):
                yield Row(self._file, line, self._found(values))

    def _found(self, values: Sequence[Any]) -> Sequence[str] | str:
        texts: list[str] = []
        for name, value in zip(self._names, values, strict=True):
            if name == "label" and type(value) is int:
                texts.append(str(value))
            elif isinstance(value, str):
                texts.append(one_line(value))
            else:
                return f"no text {name}"
        return stripped(texts, self._names)


def _places(file: str, known: Sequence[str], names: tuple[str, ...], asked: Sequence[str] | None) -> tuple[int, ...]:
    """Where the columns stand that are meant."""
    if asked and numbered(asked):
        places = tuple(int(number) - 1 for number in asked)
        if max(places) < len(known):
            return places
        raise DataError(f"{shown_input(file)}: has {len(known)} columns: {', '.join(known)}")
    for name in asked or ():
        if name not in known:
            near = did_you_mean(name, known)
            raise DataError(f"{shown_input(file)}: has no column {name}{near}: its columns are {', '.join(known)}")
    if asked:
        return tuple(known.index(name) for name in asked)
    found = named_columns(known, names)
    if found is None:
        raise DataError(
            f"{shown_input(file)}: say which of its columns are meant, {' and '.join(names)}: "
            f"--columns {','.join(known[: len(names)])}; its columns are {', '.join(known)}"
        )
    return found


class _Opened:
    """A table that is open; what is wrong with the file is an error that names it."""

    def __init__(self, file: str) -> None:
        try:
            import pyarrow
            import pyarrow.feather
            import pyarrow.parquet
        except ImportError:
            raise MissingExtra(f"{shown_input(file)}", "pyarrow", "parquet") from None
        self._file, self._errors = file, (pyarrow.ArrowException, UnicodeDecodeError, OSError)
        self._parquet: Any = None
        try:
            if file.lower().endswith(".parquet"):
                self._parquet = pyarrow.parquet.ParquetFile(file, memory_map=True)
                self.names: Sequence[str] = self._parquet.schema_arrow.names
            else:
                self._arrow = _arrow(pyarrow, file)
                self.names = self._arrow.schema.names
        except self._errors as error:
            raise self._damaged(error) from None

    def __enter__(self) -> "_Opened":
        return self

    def __exit__(self, *_: object) -> None:
        if self._parquet is not None:
            self._parquet.close()

    def rows(self, fields: Sequence[str]) -> Iterator[Iterator[tuple[Any, ...]]]:
        """The values of these columns, row by row, in groups."""
        try:
            if self._parquet is not None:
                batches = self._parquet.iter_batches(batch_size=_ROWS, columns=list(dict.fromkeys(fields)))
            else:
                batches = _batches(self._arrow)
            for batch in batches:
                yield zip(*(batch.column(field).to_pylist() for field in fields), strict=True)
        except self._errors as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> DataError:
        return DataError(f"{shown_input(self._file)}: is not a whole {Path(self._file).suffix} file ({error})")


def _arrow(pyarrow: Any, file: str) -> Any:
    """A reader of an Arrow file, which is mapped; or of an Arrow stream, as ``datasets`` keeps them."""
    mapped = pyarrow.memory_map(file)
    try:
        return pyarrow.ipc.open_file(mapped)
    except pyarrow.ArrowInvalid:
        mapped.seek(0)
        return pyarrow.ipc.open_stream(mapped)


def _batches(reader: Any) -> Iterator[Any]:
    """Its batches, one after the other: those of a compressed file are unpacked when their turn comes."""
    if hasattr(reader, "num_record_batches"):
        return map(reader.get_batch, range(reader.num_record_batches))
    return iter(reader)
