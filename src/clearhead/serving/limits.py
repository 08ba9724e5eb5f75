"""How many lines a request may have and what each may be; a refusal comes before any work is done."""

from collections.abc import Sequence

from clearhead.serving.faults import Refused
from clearhead.serving.settings import ServeSettings


def require_lines(lines: Sequence[str], settings: ServeSettings, where: str = "lines") -> None:
    """Refuse too many lines, lines that are too long, and what is no text.

    Args:
        lines: the lines.
        settings: the limits.
        where: what the request calls them.
    """
    _require_few(lines, settings, where)
    for index, line in enumerate(lines):
        require_text(line, settings, f"{where}.{index}")


def require_rows(rows: Sequence[Sequence[str]], columns: Sequence[str], settings: ServeSettings) -> None:
    """Refuse too many rows to score, rows that lack a column or have one too many, and cells as lines are refused.

    Args:
        rows: the rows.
        columns: the names of the model's columns.
        settings: the limits.
    """
    _require_few(rows, settings, "rows")
    for number, row in enumerate(rows):
        where = f"rows.{number}"
        if len(row) != len(columns):
            raise Refused(where, f"{where} has {len(row)} columns, but this model has {', '.join(columns)}")
        for column, text in enumerate(row):
            require_text(text, settings, f"{where}.{column}")


def require_text(text: str | None, settings: ServeSettings, where: str) -> None:
    """Refuse a text that is too long, or has half of a character."""
    if text is None:
        return
    longest = settings.characters_per_line
    if len(text) > longest:
        raise Refused(where, f"{where} has {len(text):,} characters; a line may have {longest:,}")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refused(where, f"{where} contains an unpaired surrogate, which is not a character") from None


def _require_few(items: Sequence[object], settings: ServeSettings, where: str) -> None:
    most = settings.lines_per_request
    if len(items) > most:
        raise Refused(where, f"{len(items):,} are too many: a request may have {most:,}")
