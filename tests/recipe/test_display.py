"""A recipe on one line and as a tree: true to its settings, and safe to show whatever they hold."""

from contextlib import suppress
from html.parser import HTMLParser
from typing import Any

import pytest

from clearhead.errors import RecipeError
from clearhead.recipe import Recipe, preset_names, read_recipe, recipe_table
from clearhead.recipe.display import changes

VOID = {"br", "hr", "img", "input", "meta", "link"}


class Page(HTMLParser):
    """What a browser would make of a piece of HTML: its tags, classes and texts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.rows: dict[str, str] = {}
        """The class of each row, by its text."""
        self.titles: list[str] = []
        self._row: tuple[str, str] | None = None
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        assert tag not in VOID
        self.open.append(tag)
        self.titles += [title for name, title in attrs if name == "title" and title]
        assert not [name for name in given if name.startswith("on")]
        if tag == "li" and "class" in given:
            self._row = (str(given["class"]), "")

    def handle_data(self, data: str) -> None:
        if self._row is not None:
            self._row = (self._row[0], self._row[1] + data)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "li" and self._row is not None:
            self.rows[self._row[1]] = self._row[0]
            self._row = None


def test_one_line_says_what_it_is() -> None:
    usual = "Recipe(seq2seq: 3 layers, width 192, 4 heads, multihead attention, sinusoidal positions)"
    assert repr(Recipe()) == str(Recipe()) == usual
    changed = read_recipe("tiny", "training.seed=2", "model.norm.place=post")
    assert repr(changed) == (
        "Recipe(seq2seq: 4 layers, width 128, 4 heads, multihead attention, sinusoidal positions; "
        'model.norm.place = "post", model.feedforward.width = 256, training.seed = 2, 2 more)'
    )
    parts = read_recipe(None, "model.encoder.layers=1", "model.attention.kind=disentangled", "model.cross.heads=2")
    assert repr(parts) == (
        "Recipe(seq2seq: encoder 1 layer, width 192, 4 heads, disentangled attention, no positions; "
        "decoder 3 layers, width 192, 4 heads, disentangled attention, no positions; model.cross.attention.heads = 2)"
    )
    recurrent = repr(read_recipe("rnn-luong"))
    assert "decoder recurrent lstm, 4 layers, width 1000, luong attention" in recurrent
    assert "cross" not in recurrent


@pytest.mark.parametrize("name", preset_names())
def test_it_is_one_line_of_a_bounded_length(name: str) -> None:
    line = repr(read_recipe(name))
    assert "\n" not in line
    assert len(line) < 400


def test_odd_values_stay_on_the_line() -> None:
    labels = [f"label\n{number}" for number in range(1000)]
    recipe = read_recipe(
        None,
        settings={
            "model.family": "classifier",
            "model.labels": labels,
            "model.classes": 1000,
            "data.train": "a\n\x1b<b",
        },
    )
    line = repr(recipe)
    assert line.isprintable()
    assert 'data.train = "a\\n\\x1b<b"' in line
    assert "(1,000 in all)" in line
    assert len(line) < 400


def at(table: dict[str, Any], name: str) -> Any:
    for part in name.split("."):
        table = table[part]
    return table


@pytest.mark.parametrize("name", preset_names())
def test_what_counts_as_set_is_what_differs_from_the_defaults(name: str) -> None:
    """Setting the changes on a default recipe gives the recipe back; without one of them it does not."""
    recipe = read_recipe(name)
    table = recipe_table(recipe)
    settings = {one: value if (value := at(table, one)) is not None else "none" for one, _ in changes(recipe, Recipe())}
    assert read_recipe(None, settings=settings) == recipe
    dropped = settings.popitem()
    with suppress(RecipeError):  # it may not even stand without this one
        assert read_recipe(None, settings=settings) != recipe, dropped


def test_the_tree_shows_every_setting_and_marks_what_is_set() -> None:
    html = read_recipe("tiny", "training.seed=2")._repr_html_()
    page = Page(html)
    assert page.open == []
    assert set(page.tags) == {"div", "style", "details", "summary", "ul", "li", "span"}
    assert page.rows["seed = 2"] == "set"
    assert page.rows["layers = 4"] == "set"
    assert page.rows["accumulate = 1"] == "usual"
    assert page.rows['choice = "soft"'] == "usual"
    assert "Decides weights, order of the data and dropout." in page.titles
    default = Page(Recipe()._repr_html_())
    assert "set" not in default.rows.values()
    for word in ("layers", "beam_size", "weight_decay", "eps_place", "pad"):
        assert any(row.startswith(f"{word} = ") for row in default.rows), word


def test_everything_is_escaped() -> None:
    nasty = "<script>alert(1)</script>\"'&lt;"
    html = read_recipe(None, settings={"data.train": nasty, "data.columns": [nasty, "<b>"]})._repr_html_()
    assert "<script" not in html
    assert "<b>" not in html
    page = Page(html)
    assert "script" not in page.tags
    assert page.rows[f'train = "{nasty}"'] == "set"
    # the wrong variant: unescaped, the parser sees a tag
    assert "script" in Page(f"<div>{nasty}</div>").tags
