"""What a file looks like, and what to type: for those whose file holds nothing that the model can learn from."""

import re
import shlex
from collections.abc import Sequence
from itertools import islice

from clearhead.data.inputs import shown_input
from clearhead.data.layout import BETWEEN, csv_records, kind_of, layout_of, list_of, named_columns, object_of
from clearhead.data.lines import read_lines

_HEAD = 20
_WIDTH = 100
"""Characters of a line that are shown."""
_NAME = re.compile(r"[^\W\d][\w.-]{0,40}")


def explained(file: str, columns: tuple[str, ...]) -> str:
    """What stands in the file, and what to type so that examples with these columns are found in it."""
    lines = list(islice(read_lines(file), _HEAD))
    name = shown_input(file)
    if not lines:
        return f"{name}: is empty"
    if not any(line.strip() for line in lines):
        return f"{name}: begins with {len(lines)} blank line{'s' * (len(lines) > 1)}, and nothing to learn from"
    if broken := layout_of(file, ("", "")).broken:
        return f"{name}: {broken}"
    number, first = next((number, line) for number, line in enumerate(lines, start=1) if line.strip())
    kind = kind_of(file, lines[0])
    looks, advice = _json(file, first, columns) if kind == "jsonl" else _table(file, lines, columns)
    shown = first if len(first) <= _WIDTH else first[: _WIDTH - 1] + "…"
    return "\n".join([f"{name}: {looks}", f"  line {number}: {shown}", *(f"  {text}" for text in advice)])


def _json(file: str, first: str, columns: tuple[str, ...]) -> tuple[str, list[str]]:
    table = object_of(first)
    if table is None:
        if (values := list_of(first)) is not None:
            return f"has JSON lists of {len(values)} values", [f"write {len(columns)} texts: {' and '.join(columns)}"]
        if first.lstrip().startswith("["):
            advice = [f"write one object a line: jq -c '.[]' {shlex.quote(file)} > NEW.jsonl"]
            return "is one JSON list, not an object on each line", advice
        return "is called JSON, but its first line is no JSON object", ["name it .tsv, .csv or .txt if it is one"]
    names = list(table)
    found = f"is JSONL with the field{'s' * (len(names) != 1)} {', '.join(names) or 'none'}"
    return found, _choose(names, columns, numbers=False)


def _table(file: str, lines: Sequence[str], columns: tuple[str, ...]) -> tuple[str, list[str]]:
    layout = layout_of(file, ("", ""))
    if layout.kind == "csv":
        rows = [found for _, found in csv_records(iter(lines), layout.delimiter) if isinstance(found, list)]
    else:
        rows = [line.split("\t") for line in lines]
    width = max((len(row) for row in rows), default=0)
    if width < 2:
        return _single_column(lines, columns)
    kind = "CSV" if layout.kind == "csv" else "TSV"
    looks = f"is {kind} with {width} columns between {BETWEEN[layout.delimiter]}"
    if _like_a_header(rows):
        return f"{looks}; line 1 may be a header", _choose([cell.strip() for cell in rows[0]], columns, numbers=True)
    return looks, [f"say which columns are {' and '.join(columns)}, by number: --columns {_first(columns)}"]


def _single_column(lines: Sequence[str], columns: tuple[str, ...]) -> tuple[str, list[str]]:
    """No tabs: lines of text, or columns between something else."""
    for mark, what in ((",", "commas"), (";", "semicolons")):
        rows = [found for _, found in csv_records(iter(lines), mark) if isinstance(found, list) and found]
        if len(columns) > 1 and rows and {len(row) for row in rows} == {len(columns)}:
            return f"has no tabs, but {len(columns)} columns between {what}", ["it is CSV: rename it to something.csv"]
    advice = [f"write {'<TAB>'.join(columns)} on each line, with a tab between"]
    if columns == ("source", "target"):
        advice += [
            "or, if the targets are in a file of their own: --src FILE --tgt FILE",
            "or, if it is text to learn a language model from: add model.family=lm",
        ]
    return "has one column, no tabs", advice


def _choose(names: Sequence[str], columns: tuple[str, ...], *, numbers: bool) -> list[str]:
    """Which of these columns to take, for what."""
    labels = named_columns(names, ("label", "text"))
    if columns == ("source", "target") and labels is not None:
        return ["these are labelled texts: add model.family=classifier"]
    if columns == ("source", "target") and len(names) == 1 and named_columns(names, ("text",)) is not None:
        return ["these are lines of text: add model.family=lm"]
    pick = ",".join(_likely(names, columns)) or ",".join(columns)
    advice = [f"say which of them are {' and '.join(columns)}, in this order: --columns {shlex.quote(pick)}"]
    if numbers:
        advice.append(f"or, if there is no header, by number: --columns {_first(columns)}")
    return advice


def _first(columns: tuple[str, ...]) -> str:
    return ",".join(str(number + 1) for number in range(len(columns)))


def _likely(names: Sequence[str], columns: tuple[str, ...]) -> list[str]:
    """Names for an example of what to type: those that fit, or else the last ones."""
    fitting = [named_columns(names, (column,)) for column in columns]
    if all(fitting):
        return [names[place] for found in fitting for place in found or ()]
    return list(names[-len(columns) :])


def _like_a_header(rows: Sequence[Sequence[str]]) -> bool:
    """Whether the first row has names only, none of which comes again below."""
    first = [cell.strip() for cell in rows[0]]
    return all(_NAME.fullmatch(cell) for cell in first) and not any(
        cell.strip() in first for row in rows[1:] for cell in row
    )
