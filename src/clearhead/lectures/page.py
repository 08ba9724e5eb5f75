"""The claims as one HTML page: formulas, evidence, figures, and living figures that its own script computes.

It loads nothing. Without scripts it shows everything but the living figures.
"""

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path

from clearhead.constants import VERSION
from clearhead.drawing import STYLE
from clearhead.files import write_whole
from clearhead.lectures.article import STYLE as ARTICLE_STYLE
from clearhead.lectures.article import article, mark
from clearhead.lectures.claim import LECTURES
from clearhead.lectures.living import SCRIPT, living_parts
from clearhead.lectures.living import STYLE as LIVING_STYLE
from clearhead.lectures.living_figures import LIVING
from clearhead.lectures.outcome import Outcome
from clearhead.pages import script, standalone

CSS = (files("clearhead.lectures") / "page.css").read_text(encoding="utf-8")


def page(outcomes: Sequence[Outcome]) -> str:
    """Return one self-contained HTML document."""
    done = sum(outcome.reproduced for outcome in outcomes)
    return standalone(
        title=f"The lectures, running: {done} of {len(outcomes)} claims reproduced",
        body="\n".join(_body(outcomes, done)),
        style="\n".join((CSS, ARTICLE_STYLE, STYLE, LIVING_STYLE)),
        script=script(SCRIPT),
    )


def save_lecture_page(outcomes: Sequence[Outcome], path: str | Path) -> None:
    """Write the page of these outcomes to a file, whole or not at all."""
    write_whole(Path(path), page(outcomes).encode())


def _body(outcomes: Sequence[Outcome], done: int) -> Iterator[str]:
    living = living_parts((outcome.claim.id for outcome in outcomes), LIVING)
    yield "<header>\n<h1>The lectures, running</h1>"
    yield f'<p class="sum">{mark(done == len(outcomes))} {done} of {len(outcomes)} claims reproduced.</p>'
    yield (
        "<p>Every definition, formula and claim of five sets of lecture notes on the Transformer, run by clearhead: "
        "what it says, whether it holds, what it predicts, what this machine observed, and a wrong variant "
        "that the same measure rejects. Verdicts are based on values, counts and bytes, never on time.</p>"
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
        yield from (
            _article(outcome, living.get(outcome.claim.id, ""))
            for outcome in outcomes
            if outcome.claim.lecture == lecture
        )
        yield "</section>"
    yield f"</main>\n<footer>Made by <code>clearhead lecture --html</code>, clearhead {VERSION}.</footer>"


def _article(outcome: Outcome, living: str) -> str:
    claim = outcome.claim
    done = mark(outcome.reproduced, "reproduced", "not reproduced")
    return (
        f'<article id="{claim.id}">\n{article(claim, outcome.evidence, outcome.error)}\n{living}\n'
        f'<p class="where">{done} in {outcome.seconds:.1f} s · <code>{escape(claim.module)}</code> · '
        f"<code>{escape(claim.test)}</code></p>\n</article>"
    )
