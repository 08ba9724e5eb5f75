"""One claim as HTML: what it says, its formula, what was predicted beside what was observed, and the figures.

The page of all claims and a notebook show the same. ``STYLE`` is for what stands in an element of class ``clearhead``.
"""

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from importlib.resources import files

from clearhead.drawing import svg
from clearhead.drawing.figure import Figure
from clearhead.lectures.claim import VERDICTS, Claim, Verdict
from clearhead.lectures.evidence import Evidence, EvidenceTable, Measure, Wrong, shown
from clearhead.lectures.formula import mathml

STYLE = (files("clearhead.lectures") / "article.css").read_text(encoding="utf-8")

_BADGE: dict[Verdict, str] = {
    "holds": "holds",
    "holds under a condition": "condition",
    "misprint": "slip",
    "convention": "convention",
    "disputed": "disputed",
}


def article(claim: Claim, evidence: Evidence | None, error: str = "") -> str:
    """A claim and its evidence; without evidence the error that its demonstration ended with."""
    meaning = escape(VERDICTS[claim.verdict])
    badge = f'<span class="verdict {_BADGE[claim.verdict]}" title="{meaning}">{claim.verdict}</span>'
    parts = [
        f'<h3>{claim.id} · {escape(claim.title)}</h3>\n{badge} <span class="notes">{_place(claim)}</span>',
        f"<p>{escape(claim.statement)}</p>",
        *_formulas(claim),
    ]
    if claim.right:
        what = "Condition" if claim.verdict == "holds under a condition" else "What is right"
        parts.append(f"<p><b>{what}:</b> {escape(claim.right)}.</p>")
    if evidence is None:
        parts.append(f'<p class="no">The demonstration failed: {escape(error)}</p>')
    else:
        parts += _evidence(evidence)
    for name, attempt in (("Try it", claim.try_it), ("In a trained model", claim.trained)):
        if attempt is not None:
            command, see = escape(attempt.command), escape(attempt.see)
            parts.append(f'<p class="try"><b>{name}:</b> <code>{command}</code> {see}.</p>')
    return "\n".join(parts)


def _place(claim: Claim) -> str:
    return escape(f"{claim.lecture}: {claim.place}") if claim.place.section else claim.lecture


def _formulas(claim: Claim) -> Iterator[str]:
    """The formula; beside it the one that is printed, where the two differ."""
    if not claim.printed:
        yield _formula("Formula", claim.latex)
        return
    pair = (("As printed", claim.printed), ("What is right", claim.latex))
    boxes = (
        f"<div><p class='which'>{name}</p>{_formula(f'Formula, {name.lower()}', latex)}</div>" for name, latex in pair
    )
    yield f'<div class="formulas">{"".join(boxes)}</div>'


def _formula(label: str, latex: str) -> str:
    return f'<div class="formula" tabindex="0" role="group" aria-label="{label}">{mathml(latex)}</div>'


def mark(good: bool, yes: str = "yes", no: str = "no") -> str:
    """A mark with a word for those who do not see it."""
    sign, kind, word = ("✓", "yes", yes) if good else ("✗", "no", no)
    return f'<span class="{kind}">{sign}<span class="word"> {word}</span></span>'


def _evidence(evidence: Evidence) -> Iterator[str]:
    yield _measures(evidence.measures)
    yield _wrong(evidence.wrong)
    yield from (_table(table) for table in evidence.tables)
    if evidence.figures:
        yield f'<div class="beside">{"".join(map(_figure, evidence.figures))}</div>'
    yield from (f"<p>{escape(note)}</p>" for note in evidence.notes)


def _measures(measures: Iterable[Measure]) -> str:
    rows = ((measure.what, measure, measure.agrees) for measure in measures)
    return _compared("Evidence", ("measured", "predicted", "observed", "agrees"), rows)


def _wrong(wrong: Sequence[Wrong]) -> str:
    kinds = {False: ("Wrong variants", "wrong on purpose"), True: ("Broken blocks", "broken on purpose")}
    tables = []
    for is_block, (label, header) in kinds.items():
        rows = [(one.what, one.measure, one.rejected) for one in wrong if bool(one.broken) is is_block]
        if rows:
            tables.append(_compared(label, (header, "would need", "observed", "rejected"), rows))
    return "\n".join(tables)


def _compared(label: str, header: tuple[str, str, str, str], rows: Iterable[tuple[str, Measure, bool]]) -> str:
    first, *numbers, last = (escape(name) for name in header)
    column = "<th scope='col' role='columnheader'"
    head = f"{column}>{first}</th>" + "".join(f"{column} class='number'>{name}</th>" for name in numbers)
    body = "".join(
        f"<tr role='row'><td role='cell'>{_words(what)}</td>{_cell(measure.expectation, measure)}"
        f"{_cell(shown(measure.observed), measure)}<td role='cell'>{mark(good)}</td></tr>"
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
