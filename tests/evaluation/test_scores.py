"""Scores as an object: a mapping, its lines, the worst of them, one honest line, a table for a notebook, a file."""

import json
import pickle
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clearhead.evaluation import Metric, Results, ScoredLine, Scores, measure
from tests.evaluation.results import BAD, GOOD, REFERENCES, labels, pairs, texts


def scores_of(results: Results, *names: str, bootstrap: int = 50) -> Scores:
    return Scores(measure(results, names, bootstrap), results.counts, names, (), results.lines())


def test_a_mapping_of_metrics() -> None:
    scores = scores_of(pairs(BAD), "line_error", "symbol_error")
    assert list(scores) == ["line_error", "symbol_error"]
    assert len(scores) == 2
    assert scores["line_error"].value == 100.0
    assert dict(scores) == scores.metrics
    assert "bleu" not in scores
    assert scores.get("bleu") is None
    assert scores.counts == {"sources": 3, "references": 4}


def test_a_metric_that_is_not_there_is_explained() -> None:
    scores = Scores({"bleu": Metric(1.0)}, {"sources": 1}, ("bleu",), ("ter",))
    with pytest.raises(KeyError, match="did you mean bleu"):
        scores["blue"]
    with pytest.raises(KeyError, match="ter was not measured"):
        scores["ter"]


def test_lines_of_pairs() -> None:
    """Every source once; the error is by the closest reference, log p by the most probable one."""
    scores = scores_of(pairs([GOOD[0], BAD[1], BAD[2]]), "line_error", "perplexity")
    first, second, third = scores.lines
    assert first == ScoredLine(0, "cat", "K AE T", ("K AE T",), True, 0.0, first.log_probability)
    assert first.log_probability == pytest.approx(4 * -0.10536, abs=1e-4)
    assert second.right is False
    assert [second.error, third.error] == pytest.approx([1 / 3, 0.5])
    assert third.references == tuple(REFERENCES[2])
    assert third.log_probability == pytest.approx(7 * -0.10536, abs=1e-4)  # one of two equally probable ones
    assert [line.number for line in scores.worst(2)] == [2, 1]
    assert scores.worst() == scores.worst(20) == [third, second]


def test_nothing_is_computed_for_lines_alone() -> None:
    """Without a metric that needs answers there are none, and without one that needs log p it is not known."""
    assert scores_of(pairs(), "perplexity").lines == []
    assert [line.log_probability for line in scores_of(pairs(), "line_error").lines] == [None] * 3
    results = pairs()
    calls = []
    given = results._answer
    results._answer = lambda: (calls.append(1), given())[1]  # type: ignore[func-returns-value]
    scores_of(results, "line_error", "symbol_error", "bleu")
    assert calls == [1]


def test_lines_of_labels_and_texts() -> None:
    """The most surely wrong label first, and right ones never; of texts, which have no answers, the least probable."""
    scores = scores_of(labels((1, 1, 2, 0), sure=0.8), "accuracy")
    assert [(line.answer, line.references, line.right) for line in scores.worst()] == [
        ("y", ("x",), False),
        ("x", ("y",), False),
    ]
    assert scores.lines[1].error == pytest.approx(0.2)
    surprising = scores_of(texts(), "perplexity").worst(2)
    assert [(line.source, line.answer, line.right) for line in surprising] == [("a b", None, None), ("c", None, None)]


def test_worst_keeps_the_order_of_equal_errors() -> None:
    errors = [0.5, 1.0, 0.5, 1.0, 0.0]
    lines = [ScoredLine(n, str(n), "x", ("y",), error == 0, error, None) for n, error in enumerate(errors)]
    assert [line.number for line in Scores({}, {}, lines=lines).worst(3)] == [1, 3, 0]


def test_one_honest_line() -> None:
    metrics = {
        "line_error": Metric(29.617, 28.8, 30.4),
        "loss": Metric(0.5),
        "bleu": Metric(80.0, 79.0, 81.0, "nrefs:1"),
    }
    scores = Scores(metrics, {"sources": 12753, "references": 13000}, ("line_error", "loss"), ("bleu", "ter"))
    assert repr(scores) == "line_error 29.62 [28.80, 30.40], loss 0.50 on 12,753 sources"


def test_equal_and_pickled() -> None:
    one, two = scores_of(pairs(), "line_error"), scores_of(pairs(), "line_error")
    assert one == two
    assert one != scores_of(pairs(BAD), "line_error")
    assert one != one.metrics
    again = pickle.loads(pickle.dumps(one))
    assert again == one
    assert again.lines == one.lines


def test_saved_and_read(tmp_path: Path) -> None:
    """One shape: metrics with value, low, high and signature, counts beside them; no lines, and nothing but JSON."""
    scores = scores_of(pairs(BAD), "line_error", "bleu")
    scores.save(tmp_path / "x.json")
    table = json.loads((tmp_path / "x.json").read_text(), parse_constant=pytest.fail)
    assert table == scores.table()
    assert table.keys() == {"metrics", "sources", "references"}
    assert all(row.keys() == {"value", "low", "high", "signature"} for row in table["metrics"].values())
    assert Scores.from_table(table, ["line_error", "bleu"]) == scores
    assert Scores.from_table(table, ["bleu", "ter"]).main == ("bleu",)
    strange = Scores({"loss": Metric(float("inf"), 1.0, float("nan"))}, {"lines": 1})
    json.loads(json.dumps(strange.table(), allow_nan=False))
    assert strange.table()["metrics"]["loss"] == {"value": None, "low": 1.0, "high": None, "signature": ""}


class Tags(HTMLParser):
    """Notes tags and text, and that every tag is closed."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") for name, _ in attrs)
        self.tags.append(tag)
        if tag not in ("rect", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if data.strip() and self.open[-1] != "style":
            self.texts.append(data.strip())


def test_a_table_for_a_notebook() -> None:
    """Values, intervals as bars, the worst lines folded away; no script, no address, and what a model says is text."""
    evil = "<script>alert(1)</script>"
    results = pairs([evil, GOOD[1], "x" * 1000])
    scores = scores_of(results, "line_error", "perplexity", "bleu")
    page = Tags(scores._repr_html_())
    assert not {"script", "link", "img", "iframe"} & set(page.tags)
    assert "http" not in scores._repr_html_()
    assert evil in page.texts
    for words in ("line_error", "66.67 %", "3 sources, 4 references; 95 % intervals", "2 wrong, the worst 2"):
        assert words in page.texts
    assert "x" * 199 + "…" in page.texts
    assert page.tags.count("svg") == 2
    assert page.tags.count("details") == 1
    assert "details" not in Tags(scores_of(pairs(), "line_error")._repr_html_()).tags
    assert "svg" not in Tags(scores_of(pairs(), "line_error", bootstrap=0)._repr_html_()).tags
    surprised = Tags(scores_of(texts(), "perplexity")._repr_html_())
    assert "the 3 most surprising lines" in surprised.texts


def test_a_bar_ends_at_its_value() -> None:
    """Percentages go from 0 to 100; what has no scale has no bar."""
    page = Scores({"line_error": Metric(25.0, 20.0, 30.0), "loss": Metric(2.0, 1.0, 4.0)}, {"sources": 9})._repr_html_()
    bars = [float(width) for width in re.findall(r'<rect width="([\d.]+)" height="14" fill="var', page)]
    assert bars == [40.0]
    assert "M32.0 7.0H48.0" in page
    assert 'aria-label="25.00, between 20.00 and 30.00"' in page
