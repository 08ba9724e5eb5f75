"""From the lines of files to the columns of examples, each line once: TSV, CSV, JSON objects, lines, parallel files."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, zip_longest
from typing import NamedTuple

from clearhead.data.inputs import shown_input
from clearhead.data.layout import BETWEEN, HEAD, Layout, csv_records, layout_by
from clearhead.data.lines import RawLines, Watch, raw_blocks, read_blocks
from clearhead.errors import DataError

Columns = Sequence[str]
"""The texts of an example, without space around them, in the order of its format."""
_SURROGATE = re.compile("[\ud800-\udfff]")


class Row(NamedTuple):
    """What stands on a line: the columns of an example, or a problem."""

    file: str
    line: int
    """Counted from 1; of CSV the first one of the record."""
    found: Columns | str


class LineParser:
    """From the lines of a file to the columns of examples, many lines at once.

    ``names`` are the columns of an example, and ``layout`` is how they stand in the file.
    """

    def __init__(self, file: str, names: tuple[str, ...], layout: Layout) -> None:
        self.file, self.layout, self._names = file, layout, names

    def table(self, lines: Sequence[str]) -> list[list[str]] | None:
        """The columns of lines between tabs that are all examples; None if that is not so, or not known so quickly."""
        layout = self.layout
        if layout.kind != "tsv" or layout.width is None or {line.count("\t") for line in lines} != {layout.width - 1}:
            return None
        together = "\t".join(lines)
        cells = together.split("\t")
        columns = [list(map(str.strip, cells[place :: layout.width])) for place in layout.places]
        return columns if all(map(all, columns)) and "\0" not in together else None

    def rows(self, records: Iterable[tuple[int, list[str] | str]]) -> Iterator[Row]:
        """Each line, or CSV record, with what stands on it."""
        for line, record in records:
            yield Row(self.file, line, stripped(self._columns(record), self._names))

    def _columns(self, record: list[str] | str) -> Columns | str:
        """The columns of an example from a line or a CSV record, or what is wrong with it."""
        layout = self.layout
        if layout.kind == "csv":
            return record if isinstance(record, str) else _chosen(layout, record)
        text = str(record)
        if layout.kind == "jsonl":
            return _values(layout, text, self._names)
        if not text.strip():
            return "empty line"
        return [text] if layout.kind == "lines" else _chosen(layout, text.split("\t"))


class OneFile:
    """One pass over a file, which is opened once; the layout follows from its first lines.

    ``names`` are the columns of an example, ``asked`` those of the file that are meant (None to find them), and
    ``watch`` is shown the bytes.
    """

    def __init__(self, file: str, names: tuple[str, ...], asked: Columns | None, watch: Watch | None = None) -> None:
        blocks = raw_blocks(file, watch)
        head: list[str] = []
        first: list[RawLines] = []
        while len(head) < HEAD and (block := next(blocks, None)) is not None:
            first.append(block)
            head += islice(chain.from_iterable(block.decoded()), HEAD - len(head))
        self.parts: Iterator[RawLines] = chain(first, blocks)
        """Its lines, many at once; they can be gone over once, as parts or as rows."""
        self.layout: Layout = layout_by(head, file, names, asked)
        self.parser = LineParser(file, names, self.layout)

    @property
    def by_lines(self) -> bool:
        """Whether an example is a line, so that lines can be parsed apart from those before them."""
        return self.layout.kind != "csv" and not self.layout.broken

    def __iter__(self) -> Iterator[Row]:
        """The rows one after the other, the header left out."""
        if self.layout.broken:
            yield Row(self.parser.file, 1, self.layout.broken)
            return
        lines = chain.from_iterable(chain.from_iterable(part.decoded() for part in self.parts))
        records: Iterator[tuple[int, list[str] | str]] = enumerate(lines, start=1)
        if self.layout.kind == "csv":
            records = csv_records(lines, self.layout.delimiter)
        if self.layout.header:
            next(records, None)
        yield from self.parser.rows(records)


class TwoFiles:
    """One pass over two parallel files; a problem stands in the one that has it."""

    def __init__(self, files: Sequence[str], names: tuple[str, ...], watches: Sequence[Watch | None]) -> None:
        self._files, self._names = tuple(files), names
        self._lines = [
            chain.from_iterable(read_blocks(file, watch)) for file, watch in zip(files, watches, strict=True)
        ]

    def __iter__(self) -> Iterator[Row]:
        (source, target), counts = self._files, [0, 0]
        for line, (left, right) in enumerate(zip_longest(*self._lines), start=1):
            counts[0] += left is not None
            counts[1] += right is not None
            if left is not None and right is not None:
                file = target if left.strip() and not right.strip() else source
                yield Row(file, line, stripped((left, right), self._names))
        if counts[0] != counts[1]:
            raise DataError(
                f"{shown_input(source)} has {counts[0]:,} lines, {shown_input(target)} has {counts[1]:,}: "
                "parallel files must have as many lines"
            )


def stripped(found: Columns | str, names: tuple[str, ...]) -> Columns | str:
    """The columns without space around them, or why they are no example."""
    if isinstance(found, str):
        return found
    texts = [text.strip() for text in found]
    if not all(texts):
        return f"empty {next(name for name, text in zip(names, texts, strict=True) if not text)}"
    return "a NUL byte, which no text has" if any("\0" in text for text in texts) else texts


def _chosen(layout: Layout, cells: Sequence[str]) -> Columns | str:
    """The cells that are meant, or why they are not there."""
    if not any(cell.strip() for cell in cells) and len(cells) < 2:
        return "empty line"
    between = BETWEEN[layout.delimiter]
    if layout.width is not None and len(cells) != layout.width:
        return f"{len(cells)} columns between {between} instead of {layout.width}"
    if max(layout.places) >= len(cells):
        return f"{len(cells)} columns between {between}, and column {max(layout.places) + 1} is asked for"
    return [cells[place] for place in layout.places]


def _values(layout: Layout, text: str, names: tuple[str, ...]) -> Columns | str:
    """The texts of a JSON object, or of a JSON list, that are meant; a label may also be a whole number."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return "not JSON"
    if layout.places:
        size = max(layout.places) + 1
        if not isinstance(found, list) or len(found) < size or (layout.width is not None and len(found) != size):
            return f"not a JSON list of {size} values"
        values = [found[place] for place in layout.places]
    else:
        table = found if isinstance(found, dict) else {}
        values = [table.get(field) for field in layout.fields]
    texts = [
        str(value) if name == "label" and type(value) is int else value
        for name, value in zip(names, values, strict=True)
    ]
    if not all(isinstance(value, str) for value in texts):
        asked = " and ".join(f'"{name}"' for name in layout.fields)
        return f"no text{'s' if len(texts) > 1 else ''} {asked}"
    if any(_SURROGATE.search(value) for value in texts):
        return "an unpaired surrogate, which is no text"
    return texts
