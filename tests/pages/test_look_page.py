"""``look.html`` in a real browser: its numbers are Python's, and it can be used with a mouse, with keys and by ear."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.pages import look_page, script
from clearhead.pages.document import json_inside_html
from clearhead.pages.packing import packed, unpacked
from tests.browser import Open, violations
from tests.inspection.test_view import FAMILIES, predictor, text_of
from tests.pages.documents import DOCUMENTS, lm, seq2seq
from tests.thorough import proved_later

MOST_BYTES = 60_000
BOUND = 1e-5

Shown = Callable[..., Any]


@pytest.fixture
def shown(open_page: Open, tmp_path: Path) -> Shown:
    """A function that opens the page of a document."""

    def opened(document: dict[str, Any], **options: Any) -> Any:
        path = tmp_path / "look.html"
        path.write_text(look_page(document), encoding="utf-8")
        page = open_page(path, **options)
        page.wait_for_selector(".first .drawn > *")
        return page

    return opened


def numbers(page: Any, figure: str) -> list[list[float]]:
    """The numbers of a figure, row by row, as its table shows them."""
    frame = page.locator(f'[data-figure="{figure}"]')
    frame.get_by_role("button", name="Table").click()
    cells = frame.locator("tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map(cell => cell.textContent))"
    )
    return [[float(cell.replace("−", "-")) for cell in row] for row in cells]


def share(norms: Any, at: int) -> Any:
    """Norms [layer][head][query][key] of all heads as shares, averaged over layers, of one query."""
    layers = np.array(norms).sum(1)[:, at]  # (layers, keys)
    return (layers / layers.sum(1, keepdims=True)).mean(0)


def choose(page: Any, at: int) -> None:
    page.locator(f'.first [role=option][data-at="{at}"]').click()


# what is packed


@pytest.mark.parametrize("largest", [1e-9, 0.3, 1.0, 17.0])
def test_packed_numbers_are_the_same_to_1e5_of_their_row(largest: float) -> None:
    values = np.random.default_rng(0).uniform(size=(20, 31)) * largest
    values[3] = 0
    held = packed({"attention": {"cross": [[values.tolist(), None]]}, "rollout": {"decoder": [[0.5], [0.1, 0.9]]}})
    matrix = held["attention"]["cross"][0][0]
    assert np.all(np.abs(unpacked(matrix) - values) <= BOUND * values.max(1, keepdims=True))
    assert held["attention"]["cross"][0][1] is None, "a head that was left out"
    assert np.allclose(unpacked(held["rollout"]["decoder"]), [[0.5, 0.0], [0.1, 0.9]], atol=BOUND)


def test_eight_bits_would_be_too_few() -> None:
    """The bound of the test above rejects a coarser packing."""
    values = np.random.default_rng(0).uniform(size=(20, 31))
    coarse = np.rint(values * 255) / 255
    assert np.abs(coarse - values).max() > BOUND


def test_numbers_that_are_no_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="not below 0"):
        packed({"norms": {"cross": [[[[-0.1]]]]}})


def test_the_script_is_small_and_the_page_names_no_address() -> None:
    assert len(script("look-main.js").encode()) <= MOST_BYTES
    page = look_page(seq2seq())
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "style=" not in page.partition("<body")[2].partition("<script")[0]


# what a browser shows


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_is_accessible_and_fits(open_page: Open, tmp_path: Path, family: str) -> None:
    """The page of a real view: no request, no error on the console (the fixture fails for either); axe finds nothing
    with all tables and a head open, narrow and dark; nothing sticks out, wide or narrow."""
    page = open_page(predictor(family).look(text_of(family)).save(tmp_path / "look.html"), width=360, dark=True)
    page.wait_for_selector(".three .answer")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    if page.locator(".head").count():
        page.locator(".head").first.click()
    page.get_by_role("button", name="Table").evaluate_all("buttons => buttons.forEach(button => button.click())")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    assert violations(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert "Attention is not an explanation" in page.locator("footer").text_content()


@pytest.mark.parametrize("family", proved_later(FAMILIES, but=["seq2seq"]))
def test_drawn_figures_are_accessible_in_light_colours(open_page: Open, tmp_path: Path, family: str) -> None:
    """Figures, not their tables; the colours are the same for all families."""
    page = open_page(predictor(family).look(text_of(family)).save(tmp_path / "look.html"))
    page.wait_for_selector(".three .answer")
    assert violations(page) == []


def test_from_where_when_and_who_are_pythons_numbers(shown: Shown) -> None:
    document = seq2seq()
    page = shown(document)
    choose(page, 2)
    assert page.locator("#chosen").text_content() == "V"
    assert float(page.locator("[data-p]").text_content()) == pytest.approx(
        np.exp(document["log_probabilities"][2]), abs=BOUND
    )
    where = [row[0] for row in numbers(page, "from-where")]
    expected = [*share(document["norms"]["cross"], 2), *share(document["norms"]["decoder"], 2)[:3]]
    assert where == pytest.approx(expected, abs=BOUND)
    assert where != pytest.approx([*share(document["attention"]["cross"], 2), *expected[7:]], abs=BOUND)
    parts = [row[0] for row in numbers(page, "who")]
    one = next(one for one in document["parts"] if one["at"] == 2)
    assert parts == pytest.approx([*(part["value"] for part in one["parts"]), one["logit"]], abs=BOUND)
    assert sum(parts[:-1]) == pytest.approx(parts[-1], abs=len(parts) * 5e-7)
    frame = page.locator('[data-figure="when"]')
    frame.get_by_role("button", name="Table").click()
    rung = frame.locator("tbody tr").first.locator("td").all_text_contents()
    expected_rung = document["lens"]["decoder"][0][2]
    assert [cell.split()[0] for cell in rung] == [one["token"] for one in expected_rung]
    assert [float(cell.split()[1]) for cell in rung] == pytest.approx(
        [one["probability"] for one in expected_rung], abs=BOUND
    )


def test_other_measures_and_a_second_token(shown: Shown) -> None:
    document = seq2seq()
    page = shown(document)
    choose(page, 1)
    page.get_by_role("radio", name="inputs").check(force=True)
    given = document["inputs"][0]
    assert [row[0] for row in numbers(page, "from-where")] == pytest.approx(
        given["source"] + given["prefix"], abs=BOUND
    )
    assert "0.21 %" in page.locator(".answer").first.text_content(), "integrated gradients say how far they are off"
    page.get_by_role("radio", name="rollout").check(force=True)
    rollout = document["rollout"]["decoder"][1]
    assert [row[0] for row in numbers(page, "from-where")] == pytest.approx(rollout, abs=BOUND)
    page.locator("select").select_option("EH")
    against = next(one for one in document["parts"] if one["against"] == "EH")
    assert numbers(page, "who")[-1][0] == pytest.approx(against["logit"], abs=BOUND)
    choose(page, 2)
    page.get_by_role("radio", name="inputs").check(force=True)
    assert "--at 3 --show inputs" in page.locator(".answer").first.text_content(), "what is missing has a command"


def test_heads_are_ordered_enlarged_and_read_cell_by_cell(shown: Shown) -> None:
    document = seq2seq()
    page = shown(document)
    names = page.locator(".heads").first.locator(".head").evaluate_all("cells => cells.map(cell => cell.dataset.head)")
    assert names == [head["name"] for head in document["heads"] if head["stack"] == "cross"]
    page.locator('[data-head="cross.2.3"]').click()
    norms = np.array(document["norms"]["cross"][1][2])
    cell = page.locator("#enlarged .cursor")
    cell.focus()
    page.keyboard.press("Control+End")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowLeft")
    said = cell.get_attribute("aria-label")
    assert said.startswith("L ← y: ")
    assert float(said.split()[-1]) == pytest.approx(norms[-2, -2], abs=BOUND * norms[-2].max())
    assert np.array(numbers(page, "head-cross.2.3")) == pytest.approx(norms, abs=BOUND * norms.max())
    assert "--without cross.2.3" in page.locator("#enlarged").text_content()
    page.locator("#heads ~ fieldset").get_by_role("radio", name="attention").check(force=True)
    weights = np.array(document["attention"]["cross"][1][2])
    assert np.array(numbers(page, "head-cross.2.3")) == pytest.approx(weights, abs=BOUND)
    assert page.locator(".ribbons .join").count() > 0
    page.get_by_role("radio", name="by layer").check(force=True)
    first = page.locator(".heads").first.locator(".head").first
    first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    assert page.locator("#enlarged h3").text_content() == "cross.1.2"
    assert "cross.1.2" in page.locator("[aria-live]").text_content()


def test_a_switch_shows_what_changes_where_the_document_says_so(shown: Shown) -> None:
    document = seq2seq()
    total = sum(document["log_probabilities"])
    (head,) = (head for head in document["heads"] if head["name"] == "cross.2.3")
    head["log_probabilities"] = [value - 0.5 for value in document["log_probabilities"]]
    page = shown(document)
    page.locator('[data-head="cross.2.3"]').click()
    page.get_by_role("switch").uncheck()
    said = page.locator("#enlarged .switch .note").text_content()
    assert float(page.locator("#enlarged .switch b").text_content().replace("−", "-")) == pytest.approx(
        total - 3, abs=BOUND
    )
    assert "IY 97 % → 59 %" in said


def test_keys_choose_tokens_and_say_so(shown: Shown) -> None:
    page = shown(seq2seq())
    page.locator(".first [role=option][aria-selected=true]").focus()
    page.keyboard.press("Home")
    page.wait_for_selector("[data-at='0']:focus")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("[data-at='1']:focus")
    assert page.locator("#chosen").text_content() == "AH"
    assert page.locator("[aria-live]").text_content().startswith("AH, token 2 of 6, probability ")


def test_a_language_model_shows_where_each_token_looks(shown: Shown) -> None:
    document = lm()
    page = shown(document)
    text = page.locator(".flow .text").text_content()
    assert text.startswith("Thesunroseoverthecaféand")
    assert "nothing<had" in text
    choose(page, 12)
    page.locator(".arc").first.wait_for(state="attached")  # drawn with the next frame; fails if there is none
    assert [row[0] for row in numbers(page, "from-where")] == pytest.approx(
        share(document["norms"]["decoder"], 12)[:13], abs=BOUND
    )


def test_a_picture_and_an_alignment_can_be_read_with_keys(shown: Shown) -> None:
    document = DOCUMENTS["picture"]()
    page = shown(document)
    page.get_by_role("radio", name="occlusion").check(force=True)
    cell = page.locator('[data-figure="patches"] .cursor')
    cell.focus()
    for key in ("ArrowUp",) * 3 + ("ArrowLeft",) * 3 + ("ArrowDown",):
        page.keyboard.press(key)
    assert cell.get_attribute("aria-label").startswith("patch r2c1: ")
    said = float(cell.get_attribute("aria-label").split()[-1].replace("−", "-"))
    assert said == pytest.approx(document["occlusion"][0]["source"][4], abs=BOUND)


def test_recurrent_models_begin_with_the_alignment(shown: Shown) -> None:
    document = DOCUMENTS["recurrent"]()
    page = shown(document)
    weights = np.array(document["attention"]["cross"][0][0])
    assert np.array(numbers(page, "alignment")) == pytest.approx(weights, abs=BOUND)
    assert "a recurrent net is no sum of parts" in page.locator(".three").text_content()


def test_the_beams_tree_is_read_by_table_mouse_and_keys(shown: Shown) -> None:
    document = seq2seq()
    page = shown(document, width=360)
    nodes = document["beam"]
    frame = page.locator('[data-figure="beam"]')
    frame.get_by_role("button", name="Table").click()
    cells = frame.locator("tbody tr").evaluate_all("rows => rows.map(row => [...row.children].map(c => c.textContent))")
    for node, (path, log_p, score, p, fate) in zip(nodes, cells, strict=True):
        before = 0 if node["parent"] is None else nodes[node["parent"]]["log_probability"]
        found = [float(number.replace("−", "-")) for number in (log_p, score, p)]
        expected = [node["log_probability"], node["score"], np.exp(node["log_probability"] - before)]
        assert found == pytest.approx(expected, abs=BOUND)
        assert path.split()[-1] == node["token"]
        assert fate == (f"answer {node['rank']}" if node["rank"] else node["fate"])
    assert page.evaluate("document.documentElement.scrollWidth") <= 360, "the tree scrolls in its own frame"
    lanes = frame.locator(".node.wins .ground").evaluate_all("boxes => boxes.map(box => box.getAttribute('y'))")
    assert len(lanes) == len(document["answer"])
    assert len(set(lanes)) == 1, "the winning path is straight"
    readout = page.locator(".beam .readout")
    frame.locator("[data-node='3']").hover()
    assert readout.text_content().startswith("L AH': log p ")
    assert "cut: others were better" in readout.text_content()
    assert frame.locator(".limb.pointed").count() == 2
    frame.locator("[data-node='3']").click()
    for key, token in (("ArrowUp", "AH"), ("ArrowRight", "V"), ("ArrowLeft", "AH"), ("End", "</s>"), ("Home", "L")):
        page.keyboard.press(key)
        said = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert said.partition(":")[0].split()[-1] == token
    assert violations(page) == []


def test_without_a_beam_there_is_no_tree(shown: Shown) -> None:
    assert shown(lm()).locator('[data-figure="beam"]').count() == 0


def test_every_figure_is_saved_as_svg(shown: Shown, tmp_path: Path) -> None:
    from xml.etree import ElementTree

    for family in ("seq2seq", "lm", "picture"):
        page = shown(DOCUMENTS[family]())
        page.locator(".head").first.click()
        buttons = page.get_by_role("button", name="SVG").all()
        assert len(buttons) == page.locator("figure").count() >= 4
        for button in buttons:
            with page.expect_download() as waiting:
                button.click()
            path = tmp_path / waiting.value.suggested_filename
            waiting.value.save_as(path)
            root = ElementTree.parse(path).getroot()
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert len(list(root.iter())) > 5, path
            assert "var(--accent)" in path.read_text()
            assert "--accent: " in path.read_text(), "a file has its colours with it"


def test_a_document_that_arrives_later_is_shown_too(browser: Any, tmp_path: Path) -> None:
    """A server sends plain JSON, not packed; the page shows it in place of the first, and asks for others."""
    from clearhead.pages import standalone

    code = script("look.js") + (
        "window.asked = [];\n"
        f"const other = {json_inside_html({'d': lm()})}.d;\n"
        "const ask = async (request) => { window.asked.push(request); return other; };\n"
        'show(JSON.parse(document.getElementById("data").textContent), document.getElementById("look"), { ask });\n'
    )
    path = tmp_path / "late.html"
    path.write_text(standalone(title="t", body='<div id="look"></div>', style="", script=code, data=seq2seq()))
    context = browser.new_context()
    page = context.new_page()
    page.goto(path.as_uri())
    page.locator('[data-head="cross.1.1"]').click()
    page.get_by_role("switch").click()
    page.wait_for_selector(".flow")
    assert page.evaluate("window.asked") == [{"without": ["cross.1.1"]}]
    context.close()


@pytest.mark.parametrize("length", proved_later([100, 512], but=[100]))
def test_long_texts_are_drawn_soon(shown: Shown, capsys: pytest.CaptureFixture[str], length: int) -> None:
    """Prints the milliseconds to the first picture; a slow machine fails no test."""
    words = " ".join(f"w{i}" for i in range(length - 1)) + " </s>"
    layers, heads = (2, 4) if length == 100 else (1, 1)
    page = shown(seq2seq(words, words, layers=layers, heads=heads))
    took = page.evaluate("performance.getEntriesByName('first-picture')[0]?.startTime")
    with capsys.disabled():
        print(f"\nfirst picture, {length} tokens: {took:.0f} ms")
    assert page.locator(".ribbons").get_attribute("data-layout") == "columns"
