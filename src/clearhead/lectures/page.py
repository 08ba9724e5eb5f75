"""The claims as one page: formulas, evidence and figures, without a script and without a request to anywhere."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

import clearhead
from clearhead.drawing import STYLE, svg
from clearhead.drawing.figure import Figure
from clearhead.files import write_whole
from clearhead.lectures.claim import LECTURES
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong, shown
from clearhead.lectures.formula import mathml
from clearhead.lectures.outcome import Outcome

CSS = (files("clearhead.lectures") / "page.css").read_text(encoding="utf-8")

_BADGE = {"holds": "holds", "holds under a condition": "condition", "slip in the notes": "slip"}


def page(outcomes: Sequence[Outcome]) -> str:
    """One HTML document with everything in it."""
    return "\n".join(_document(outcomes)) + "\n"


def save_lecture_page(outcomes: Sequence[Outcome], path: str | Path) -> None:
    """Write the page of these outcomes to a file, whole or not at all."""
    write_whole(Path(path), page(outcomes).encode())


def _document(outcomes: Sequence[Outcome]) -> Iterator[str]:
    done = sum(outcome.reproduced for outcome in outcomes)
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>The lectures, running: {done} of {len(outcomes)} claims reproduced</title>"
    yield '<link rel="icon" href="data:,">'
    yield f"<style>\n{CSS}\n{STYLE}\n</style>\n</head>\n<body>"
    yield "<header>\n<h1>The lectures, running</h1>"
    yield f'<p class="sum">{_mark(done == len(outcomes))} {done} of {len(outcomes)} claims reproduced.</p>'
    yield (
        "<p>Every definition, formula and claim of five sets of lecture notes on the Transformer, run by clearhead: "
        "what it says, whether that is so, what it predicts beside what this machine observed, and a wrong variant "
        "that the same measure rejects. Verdicts rest on values, counts and bytes, never on a clock.</p>"
    )
    lectures = list(dict.fromkeys(outcome.claim.lecture for outcome in outcomes))
    yield '<nav aria-label="Claims">'
    for lecture in lectures:
        yield f"<p><b>{lecture}</b> <a href='#{lecture}'>{escape(LECTURES[lecture])}</a></p>\n<ol>"
        for claim in (outcome.claim for outcome in outcomes):
            if claim.lecture == lecture:
                yield f"<li><b>{claim.id}</b> <a href='#{claim.id}'>{escape(claim.title)}</a></li>"
        yield "</ol>"
    yield "</nav>\n</header>\n<main>"
    for lecture in lectures:
        yield f'<section aria-labelledby="{lecture}">\n<h2 id="{lecture}">{lecture} · {escape(LECTURES[lecture])}</h2>'
        yield from (_article(outcome) for outcome in outcomes if outcome.claim.lecture == lecture)
        yield "</section>"
    yield f"</main>\n<footer>Made by <code>clearhead lecture --html</code>, clearhead {clearhead.__version__}.</footer>"
    yield "</body>\n</html>"


def _article(outcome: Outcome) -> str:
    claim = outcome.claim
    badge = f'<span class="verdict {_BADGE[claim.verdict]}">{claim.verdict}</span>'
    parts = [
        f'<article id="{claim.id}">',
        f"<h3>{claim.id} · {escape(claim.title)}</h3>\n{badge}",
        f"<p>{escape(claim.statement)}</p>",
        f'<div class="formula" tabindex="0" role="group" aria-label="Formula">{mathml(claim.latex)}</div>',
    ]
    if claim.right:
        what = "Condition" if claim.verdict == "holds under a condition" else "What is right"
        parts.append(f"<p><b>{what}:</b> {escape(claim.right)}.</p>")
    if outcome.evidence is None:
        parts.append(f'<p class="no">The demonstration failed: {escape(outcome.error)}</p>')
    else:
        parts += _evidence(outcome.evidence)
    parts.append(
        f'<p class="where">{_mark(outcome.reproduced)} {"reproduced" if outcome.reproduced else "not reproduced"} in '
        f"{outcome.seconds:.1f} s · <code>{escape(claim.module)}</code> · <code>{escape(claim.test)}</code></p>"
    )
    return "\n".join([*parts, "</article>"])


def _evidence(evidence: Evidence) -> Iterator[str]:
    yield _measures(evidence.measures)
    yield _wrong(evidence.wrong)
    yield from (_table(table) for table in evidence.tables)
    yield from (_figure(figure) for figure in evidence.figures)
    yield from (f"<p>{escape(note)}</p>" for note in evidence.notes)


def _measures(measures: Iterable[Measure]) -> str:
    rows = ((measure.what, measure, measure.agrees) for measure in measures)
    return _compared("Evidence", ("measured", "predicted", "observed", "agrees"), rows)


def _wrong(wrong: Iterable[Wrong]) -> str:
    rows = ((one.what, one.measure, one.rejected) for one in wrong)
    return _compared("Wrong variants", ("wrong on purpose", "would need", "observed", "rejected"), rows)


def _compared(label: str, header: tuple[str, str, str, str], rows: Iterable[tuple[str, Measure, bool]]) -> str:
    first, *numbers, last = (escape(name) for name in header)
    column = "<th scope='col' role='columnheader'"
    head = f"{column}>{first}</th>" + "".join(f"{column} class='number'>{name}</th>" for name in numbers)
    body = "".join(
        f"<tr role='row'><td role='cell'>{_words(what)}</td>{_cell(measure.expectation, measure)}"
        f"{_cell(shown(measure.observed), measure)}<td role='cell'>{_mark(good)}</td></tr>"
        for what, measure, good in rows
    )
    # on a narrow page rows become grids, after which only the roles tell that this is a table
    return (
        f"<div class='wide' tabindex='0' role='group' aria-label='{label}'><table class='measures' role='table'>"
        f"<thead role='rowgroup'><tr role='row'>{head}{column}><span class='word'>{last}</span></th></tr></thead>"
        f"<tbody role='rowgroup'>{body}</tbody></table></div>"
    )


def _words(text: str) -> str:
    """Text whose measure is not torn apart at the end of a line."""
    return escape(text).replace("max|Δ|", "<span class='nowrap'>max|Δ|</span>")


def _cell(text: str, measure: Measure) -> str:
    """Numbers stay on one line, words may be broken."""
    kind = "words" if isinstance(measure.observed, str) else "number"
    return f"<td role='cell' class='{kind}'>{escape(text)}</td>"


def _table(table: EvidenceTable) -> str:
    numeric = [all(not isinstance(row[column], str) for row in table.rows) for column in range(len(table.header))]
    kinds = [" class='number'" if is_number else "" for is_number in numeric]
    head = "".join(f"<th scope='col'{kind}>{escape(name)}</th>" for name, kind in zip(table.header, kinds, strict=True))
    rows = "".join(
        "<tr>"
        + "".join(f"<td{kind}>{escape(shown(value))}</td>" for value, kind in zip(row, kinds, strict=True))
        + "</tr>"
        for row in table.rows
    )
    return (
        f"<div class='wide' tabindex='0' role='group' aria-label='{escape(table.title)}'><table>"
        f"<caption>{escape(table.title)}</caption><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _figure(figure: Figure) -> str:
    return f"<figure><figcaption>{escape(figure.title)}</figcaption>{svg(figure)}</figure>"


def _mark(good: bool) -> str:
    """A mark with a word for those who do not see it."""
    sign, word = ("✓", "yes") if good else ("✗", "no")
    return f'<span class="{word}">{sign}<span class="word"> {word}</span></span>'
