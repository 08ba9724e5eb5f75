"""What is told about a cost: one screen, every formula, data; nothing is lost or cut, and parts add up to the whole."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead import constants
from clearhead.attention import blockwise
from clearhead.attention.paths import FEW_KEYS, MANY_KEYS, MANY_TO_LEARN_FROM
from clearhead.blocks import feedforward as blocks_feedforward
from clearhead.blocks import recurrence
from clearhead.costing import Cost, CostReport, Formula, ModelCost, cost, letter, n
from clearhead.costing.forms import feedforward, position, recurrent
from clearhead.costing.forms.lengths import lengths_of
from clearhead.costing.forms.shares import counted_shares, percent, shares_of
from clearhead.costing.forms.text import compact
from clearhead.costing.layout import Column, set_table, wrapped
from clearhead.costing.sheet import Sheet
from clearhead.errors import ClearheadError, RecipeError
from clearhead.recipe import Seq2SeqSpec, preset_names, read_recipe
from tests.drawing.test_html import check
from tests.thorough import THOROUGH

WIDTHS = (40, 47, 60, 80, 100, 120, 200) if THOROUGH else (40, 80, 120)


def cut_words(report: CostReport, text: str) -> set[str]:
    """Words of a text that stand nowhere in a report: pieces of words that were cut."""
    said = [cell for sheet in report.sheets for row in sheet.rows for cell in row]
    said += [text for sheet in report.sheets for text in (sheet.title, sheet.subtitle, *sheet.notes)]
    said += [column.title for sheet in report.sheets for column in sheet.columns]
    known = {word.rstrip(";") for cell in said for word in str(cell).split()}
    return {word.rstrip(";") for word in text.split()} - known - {"="}


@pytest.fixture(scope="module", params=preset_names())
def model(request: pytest.FixtureRequest) -> ModelCost:
    return cost(request.param)


@pytest.mark.drawn
def test_every_preset_is_one_screen_and_fits_any_width(model: ModelCost) -> None:
    """24 lines with the hint below; no line too long, no word cut; detail too."""
    screen, everything = model.summary(), model.table()
    assert len(screen.text(80).splitlines()) <= 23
    for report in (screen, everything):
        for width in WIDTHS:
            text = report.text(width)
            assert max(map(len, text.splitlines())) <= width
            assert not cut_words(report, text), width
    narrow = set(everything.text(40).replace(";", " ").split())
    cells = {str(cell) for sheet in everything.sheets for row in sheet.rows for cell in row} - {"0"}
    assert {word.rstrip(";") for cell in cells for word in cell.split()} <= narrow  # nothing is left out


def test_the_screen_has_the_numbers_of_the_formulas(model: ModelCost) -> None:
    text, place = model.summary().text(), model.usual_lengths
    numbers = [model.parameters, model.macs, model.training, model.span, model.sequential]
    for formula in [*numbers, *([model.decode_macs, model.decode_span] if model.writes else [])]:
        assert f"{formula.at(**place):,}" in text.replace(";", " ").split()
    assert ("decoding MACs" in text) == model.writes


def test_shares_add_up_to_the_whole(model: ModelCost) -> None:
    """Parameters and MACs of all parts, whatever n is; a part left out or counted twice would show."""
    shares = shares_of(model)
    for whole, parts in (
        (model.parameters, [share.parameters for share in shares]),
        (model.macs, [share.macs for share in shares]),
    ):
        assert sum(parts, Formula(0 * n)) == whole
        assert sum([*parts, parts[0] + 1], Formula(0 * n)) != whole
    rows = counted_shares(model, model.usual_lengths)
    assert sum(row[1] for row in rows) == model.parameters.at()
    assert len({row[0] for row in rows}) == len(rows)


def test_shares_have_names_that_readers_know() -> None:
    assert [share.name for share in shares_of(cost("transformer-base"))] == [
        *("embedding", "encoder attention", "encoder feed-forward"),
        *("decoder self-attention", "decoder cross-attention", "decoder feed-forward", "output", "norms"),
    ]
    assert [share.name for share in shares_of(cost("rnn-bahdanau"))] == ["embedding", "encoder", "decoder", "output"]
    layer = cost("transformer-base")["decoder"]["layers"]
    assert [share.name for share in shares_of(layer)] == ["self-attention", "cross-attention", "feed-forward", "norms"]
    assert [share.name for share in shares_of(cost("bert-base")["encoder"])][:2] == ["embedding", "encoder attention"]
    assert (percent(1, 3), percent(1, 10_000), percent(0, 5), percent(0, 0)) == ("33.3 %", "< 0.1 %", "0.0 %", "")


def test_formulas_with_layers_are_short() -> None:
    d, L, V = letter("d"), letter("L"), letter("V")
    assert compact(4 * L * d**2 + 4 * L * d + d * V) == "L·(4·d² + 4·d) + d·V"
    assert compact(4 * L * d**2 + 4 * L * d) == "L·(4·d² + 4·d)"
    assert compact(L * d + d * V) == "L·d + d·V"
    assert compact(4 * L * d**2 + 4 * L * d - d) == "L·(4·d² + 4·d) − d"


def test_lines_break_before_operators_and_between_words() -> None:
    assert wrapped("B·(2·n²·d + 4·n·d²)", 12) == ["B·(2·n²·d", "+ 4·n·d²)"]
    assert wrapped("at n = 512, m = 512", 10) == ["at", "n = 512,", "m = 512"]
    assert wrapped("needs 12.5 MiB now", 10) == ["needs", "12.5 MiB", "now"]
    assert wrapped("a/very/long/name short", 6) == ["a/very/long/name", "short"]  # too long, but never cut
    assert wrapped("", 10) == [""]


def test_tables_give_way_where_there_is_no_room() -> None:
    """Side by side, formulas below, numbers below; what may be left out is."""
    columns = [Column("block", "name"), Column("number", "number"), Column("formula", "formula")]
    long = " + ".join(f"{power}·n^{power}" for power in range(2, 12))

    def lines(width: int, *shape: Column) -> list[str]:
        return [line.text for line in set_table(shape or columns, [["layers", "12,345", long]], width)]

    assert lines(120)[1].startswith("layers  12,345  2·n^2 + 3·n^3")
    assert lines(60)[1].startswith("layers  12,345  2·n^2")
    assert lines(50)[1:3] == ["layers  12,345", "    = 2·n^2 + 3·n^3 + 4·n^4 + 5·n^5 + 6·n^6"]
    assert lines(12)[1] == "layers"
    optional = [columns[0], Column("number", "number", optional=True), columns[2]]
    assert "12,345" not in "\n".join(lines(12, *optional))


def test_settings_can_be_a_dict() -> None:
    """The same call as on the command line, with dots or nested; a recipe takes changes too."""
    expected = 102_394_368
    assert cost("bert-base", "model.layers=11").parameters.at() == expected
    assert clearhead.cost("bert-base", settings={"model.layers": 11}).parameters.at() == expected
    nested = cost("bert-base", settings={"model": {"layers": 11, "attention": {"kind": "linformer"}}})
    assert nested.title == "bert-base model.layers=11 model.attention.kind=linformer"
    assert nested.recipe == read_recipe("bert-base", "model.layers=11", "model.attention.kind=linformer")
    recipe = read_recipe("bert-base")
    assert cost(recipe).parameters.at() != cost(recipe, "model.layers=11").parameters.at() == expected
    assert cost("bert-base", "model.layers=11", settings={"model.layers": 5}).parameters.at() == expected
    assert cost().title == "the defaults"
    with pytest.raises(RecipeError, match="did you mean layers"):
        cost("bert-base", settings={"model.layrs": 11})


def test_lengths_are_checked_and_suit_the_model() -> None:
    short = read_recipe("bert-base", "model.position.size=100")
    assert lengths_of(short) == {"n": 100, "m": 100, "B": 1, "t": 100}
    assert lengths_of(read_recipe("tiny"), n=7, t=3, batch=2) == {"n": 7, "m": 7, "B": 2, "t": 3}
    uneven = read_recipe("bart-base", "model.decoder.position.size=60")
    assert lengths_of(uneven) == {"n": 512, "m": 60, "B": 1, "t": 60}
    with pytest.raises(RecipeError, match="n = 101: the encoder's table of learned positions holds 100"):
        lengths_of(short, n=101)
    with pytest.raises(RecipeError, match="m = 61: the decoder's table of learned positions holds 60"):
        lengths_of(uneven, m=61)


def test_what_cannot_be_shown_is_refused() -> None:
    tiny: Any = cost("tiny")
    for words in ({"view": "exat"}, {"by": "blok"}, {"view": "asymptotic", "within": "q"}):
        with pytest.raises(RecipeError):
            tiny.table(**words)
        with pytest.raises(RecipeError):
            tiny.json(**words)
    with pytest.raises(ClearheadError, match="bert-base: a model of the family encoder writes nothing"):
        _ = cost("bert-base").step


def test_data_are_json() -> None:
    found = cost("tiny").json(n=10, m=5, batch=2, by="model")
    assert json.loads(json.dumps(found)) == found
    assert (found["at"], found["blocks"]) == ({"n": 10, "m": 5, "B": 2, "t": 5}, [])
    assert [sheet["title"] for sheet in cost("tiny").table(by="layer").json()] == ["tiny", "by layer"]


def test_the_page_states_where_attention_changes_its_way() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cost.md").read_text(encoding="utf-8")
    assert f"over up to {FEW_KEYS} keys" in page
    assert f"over more than {MANY_KEYS:,} keys" in page
    assert MANY_KEYS == MANY_TO_LEARN_FROM  # one number on the page stands for both


def test_modules_and_formulas_share_their_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same objects, not equal copies: a module and its formula cannot drift apart."""
    for name, modules in (
        ("BLOCK", (blockwise, position)),
        ("GATES", (recurrence, recurrent)),
        ("STATE_PARTS", (recurrence, recurrent)),
    ):
        assert all(vars(module)[name] is vars(constants)[name] for module in modules), name
    for module in (feedforward, blocks_feedforward):
        monkeypatch.setattr(module, "HIDDEN_RATIO", 3)  # and it is what they use
    recipe = read_recipe("ttic", "model.feedforward.kind=standard", "model.layers=1", "model.width=16", "model.heads=2")
    assert recipe.model.encoder.feedforward.width is None  # type: ignore[attr-defined]
    assert cost(recipe).parameters.at() == clearhead.count_parameters(clearhead.build(recipe, seed=1))


class Tags(HTMLParser):
    """The tags of a page, and its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not any(name.startswith("on") for name, _ in attrs)
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += f"{data} "


def test_a_notebook_shows_a_table_of_parts() -> None:
    model = cost("transformer-base")
    check(model._repr_html_())  # its norms are "< 0.1 %"
    page = Tags(model._repr_html_())
    assert {"div", "style", "table", "caption", "tr", "td", "th", "span", "thead", "tbody"} == set(page.tags)
    for word in ("transformer-base", "encoder feed-forward", "63,082,496", "37,079,744,512", "26.2 %", "n = 512"):
        assert word in page.text
    assert page.tags.count("tr") == len(shares_of(model)) + 2
    block = Tags(model["decoder"]["layers"]._repr_html_())
    assert "layers, one of 6" in block.text
    assert "cross-attention" in block.text
    assert Tags(model["encoder"]["layers"]["attention"]._repr_html_()).text.count("1,050,624") >= 1
    report = Tags(model.table()._repr_html_())
    assert report.tags.count("table") == 2
    assert "12·L·d² + 4·L·d·d_ff" in report.text


def test_nothing_in_a_notebook_is_taken_for_html(tmp_path: Path) -> None:
    """A file may be called anything."""
    evil = tmp_path / "<script>alert(1)<" / "b&.toml"
    evil.parent.mkdir()
    evil.write_text('preset = "tiny"\n')
    model = cost(evil)
    found = clearhead.crossover(model, cost(evil, "model.layers=2"))
    for page in (model._repr_html_(), model.summary()._repr_html_(), found._repr_html_()):
        assert "script" not in Tags(page).tags
        assert "<script>" not in page
        check(page)
    block = Sheet("<b>", [Column("<i>")], [["<u>"]], ["<s>"])
    assert set(Tags(block.html()).tags) == {"div", "table", "caption", "thead", "tbody", "tr", "th", "td", "p"}


def test_reprs_are_one_honest_line() -> None:
    base = cost("transformer-base")
    assert repr(base) == (
        "ModelCost(transformer-base: 63,082,496 parameters, 37,079,744,512 MACs at n = 512, m = 512, B = 1)"
    )
    layer: Cost = base["encoder"]["layers"]
    assert repr(layer) == "Cost(layers, one of 6: 3,152,384 parameters, 1,879,048,192 MACs at n = 512, B = 1)"
    assert repr(base.summary()) == "CostReport('transformer-base (seq2seq) at n = 512, m = 512, B = 1', '')"
    found = clearhead.crossover("bert-base")
    assert repr(found) == (
        "Crossover(bert-base: a layer's work: cheaper at first: n² terms; from n = 4,609: the rest of the layer)"
    )
    assert str(found).startswith("bert-base: a layer's work\nfrom n =")


def test_crossovers_take_names_costs_and_recipes(tmp_path: Path) -> None:
    few = cost("bert-base", settings={"model.attention.kind": "linformer"})
    found = clearhead.crossover("bert-base", few)
    assert found.json()["crossings"][0]["at"] == 129
    assert found.names == ("bert-base", "bert-base model.attention.kind=linformer")
    found.save(tmp_path / "both.svg")
    assert (tmp_path / "both.svg").read_text(encoding="utf-8").startswith("<svg")
    recipes = read_recipe("bert-base"), read_recipe("bert-base", "model.attention.kind=linformer")
    assert clearhead.crossover(*recipes).names == ("recipe, the first", "recipe, the second")
    wrong: Any = clearhead.crossover
    for arguments, words in (
        ({"over": "d"}, "must be n or m"),
        ({"of": "time"}, "must be work, memory, span"),
        ({"of": "span"}, "name a second recipe"),
    ):
        with pytest.raises(RecipeError, match=words):
            wrong("bert-base", **arguments)
    with pytest.raises(RecipeError, match="is compared with itself"):
        clearhead.crossover("tiny", "tiny")
    for name, words in (("x.txt", "a picture is called something"), ("nowhere/x.svg", "nowhere does not exist")):
        with pytest.raises(ClearheadError, match=words):
            found.save(tmp_path / name)


def test_what_passes_twice_is_counted_once_and_says_so() -> None:
    """``training.agreement`` (R-Drop): the forms are those of one pass, and both numbers of training name it."""

    def rows(*settings: str) -> dict[str, list[str]]:
        (totals, *_) = clearhead.cost("tiny", *settings).summary().sheets
        return {str(row[0]): [str(cell) for cell in row[1:]] for row in totals.rows}

    once, twice = rows(), rows("training.agreement=5")
    for name in ("training MACs", "activations"):
        assert twice[name][0] == once[name][0]
        assert "each of two passes" in twice[name][1]
        assert "passes" not in once[name][1]


def test_n_grams_of_pairs_take_what_the_model_holds() -> None:
    """As many bytes as the tensors of the shipped model, and no row where there are none."""
    held = clearhead.load("g2p-en").model.get_submodule("joint").buffers()
    spec = cost("g2p-en").recipe.model
    assert isinstance(spec, Seq2SeqSpec)
    assert spec.joint is not None
    assert spec.joint.stored == sum(tensor.nbytes for tensor in held)
    assert "n-grams" in cost("g2p-en").summary().text(80)
    assert "n-grams" not in cost("tiny").summary().text(80)
