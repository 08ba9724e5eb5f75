"""The page of a server in a real browser: Python's answers and numbers; mouse, keys, ears, small screens, faults."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest

import clearhead
from clearhead.pages import serve_page
from clearhead.serving.faults import Busy, Refused, TooLate
from tests.browser import Open, violations
from tests.inspection.test_view import text_of
from tests.pages.served import MODELS, RUN, ModelRoom
from tests.pages.test_look_page import numbers, share
from tests.serving.live import Live, live

BOUND = 1e-5
PATIENCE = 60_000
"""Milliseconds: the machine may be busy."""


@pytest.fixture(scope="module")
def server() -> Iterator[Live]:
    """All families, served in this process."""
    with live(ModelRoom) as running:
        yield running


@pytest.fixture
def room(server: Live) -> Iterator[ModelRoom]:
    """Its room, without what the test before has asked or left behind."""
    room: ModelRoom = server.room
    room.calls.clear()
    yield room
    room.faults.clear()
    room.late.clear()
    room.pieces = None


def at(server: Live, model: str, text: str = "") -> str:
    return f"{server.url}#{urlencode({'model': model} | ({'text': text} if text else {}))}"


def opened(open_page: Open, url: str, **options: Any) -> Any:
    page = open_page(url, **options)
    page.set_default_timeout(PATIENCE)
    page.wait_for_selector("#text")
    return page


def ask(page: Any, text: str) -> None:
    page.fill("#text", text)
    page.press("#text", "Enter")


def answered(page: Any) -> str:
    """The answer, when it is whole."""
    page.wait_for_selector(".reply:not([aria-busy]) .answer-text:not(.writing)")
    return str(page.locator(".answer-text").text_content())


def test_the_page_asks_its_own_server_and_nobody_else() -> None:
    page = serve_page()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    assert "default-src 'none'" in policy[1]
    assert "connect-src 'self'" in policy[1]
    assert "unsafe" not in policy[1]
    assert not re.findall(r"https?://(?!www\.w3\.org/2000/svg)", page)


@pytest.mark.parametrize("name", MODELS)
def test_every_family_answers_as_python_does(open_page: Open, server: Live, room: ModelRoom, name: str) -> None:
    """The address names model and text; axe finds nothing; nothing sticks out of a small screen or a large one."""
    family = {"greedy": "seq2seq", "beam": "seq2seq"}.get(name, name)
    sizes = {"digits": 128, "colours": 384}
    text = " ".join("3" * sizes[name]) if name in sizes else text_of(family)
    page = opened(open_page, at(server, name, text), width=320, dark=True)
    best = room.held[name].answers([text])[0][0]
    said = answered(page)
    assert said == (text + best.text if family == "lm" else best.text)
    page.get_by_role("button", name="Look inside").click()
    page.wait_for_selector(".look .three .answer")
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert violations(page) == []
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280


def test_probabilities_are_pythons(open_page: Open, server: Live, room: ModelRoom) -> None:
    page = opened(open_page, at(server, "beam", "bad cab"))
    answered(page)
    expected = room.held["beam"].answers(["bad cab"], n_best=2)[0]
    page.wait_for_selector(".others li")
    assert page.locator(".others .what").all_text_contents() == [one.text for one in expected]
    logs = page.locator(".others .number.soft").all_text_contents()
    assert [float(words.removeprefix("log p ").replace("−", "-")) for words in logs] == pytest.approx(
        [one.log_probability for one in expected], abs=BOUND
    )
    for name, figure in (("classifier", "labels"), ("encoder", "gap-1")):
        text = text_of(name)
        page.select_option(".picker select", name)
        ask(page, text)
        page.wait_for_selector(f'[data-figure="{figure}"]')
        held = room.held[name].answers([text])[0][0]
        table = held.probabilities if name == "classifier" else held.masks[0]
        found = [row[0] for row in numbers(page, figure)]
        assert found == pytest.approx(sorted(dict(table or {}).values(), reverse=True), abs=BOUND)


def test_an_answer_is_seen_while_it_is_written_and_can_be_stopped(
    open_page: Open, server: Live, room: ModelRoom
) -> None:
    room.pieces = asyncio.Event()
    page = opened(open_page, at(server, "greedy"))
    whole = room.held["greedy"]("bad cab")
    ask(page, "bad cab")
    writing = page.locator(".answer-text.writing", has_text=re.compile(r"\S"))
    writing.wait_for()
    assert whole.startswith(writing.text_content())
    assert writing.text_content() != whole
    server.loop.call_soon_threadsafe(room.pieces.set)
    assert answered(page) == whole
    room.pieces = asyncio.Event()
    room.left.clear()
    ask(page, "fed a bag")
    writing.wait_for()
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("Stopped.").wait_for()
    assert asyncio.run_coroutine_threadsafe(asyncio.wait_for(room.left.wait(), 60), server.loop).result(60)
    assert page.get_by_role("button", name="Stop").is_hidden()


def test_an_old_answer_never_takes_the_place_of_a_newer_one(open_page: Open, server: Live, room: ModelRoom) -> None:
    for name in ("greedy", "beam"):
        late = room.late["bad"] = asyncio.Event()
        page = opened(open_page, at(server, name))
        ask(page, "bad")
        page.wait_for_selector(".reply[aria-busy]")
        ask(page, "cab")
        assert answered(page) == room.held[name]("cab")
        server.loop.call_soon_threadsafe(late.set)
        page.wait_for_timeout(200)
        assert page.locator(".answer-text").text_content() == room.held[name]("cab")


def test_the_look_has_pythons_numbers_and_its_heads_are_switched_by_the_server(
    open_page: Open, server: Live, room: ModelRoom
) -> None:
    page = opened(open_page, at(server, "beam", "bad cab"))
    answered(page)
    page.locator(".answer-text .tok").nth(1).click()  # a click on a token looks inside, at that token
    page.wait_for_selector(".look .three .answer")
    document = room.held["beam"].look("bad cab").document()
    assert page.locator("#chosen").text_content() == document["answer"][1]
    assert float(page.locator("#chosen ~ p [data-p]").text_content()) == pytest.approx(
        np.exp(document["log_probabilities"][1]), abs=BOUND
    )
    expected = [*share(document["norms"]["cross"], 1), *share(document["norms"]["decoder"], 1)[:2]]
    assert [row[0] for row in numbers(page, "from-where")] == pytest.approx(expected, abs=BOUND)
    assert page.locator('[data-figure="beam"] .node').count() == len(document["beam"])
    page.locator('[data-head="cross.1.1"]').click()
    page.locator("#enlarged").get_by_role("switch").click()
    page.locator(".off").wait_for()
    without = room.held["beam"].look("bad cab", without=["cross.1.1"])
    assert page.locator(".off b").text_content() == without.answer_text
    assert not page.locator("#enlarged").get_by_role("switch").is_checked()
    assert page.locator(".ribbons .join").count() > 0, "ribbons of the other heads"
    page.get_by_role("button", name="all heads on").click()
    page.locator(".off").wait_for(state="detached")
    page.get_by_role("button", name="how important is each?").click()
    page.locator(".head meter").first.wait_for(state="attached")
    assert violations(page) == []


def test_a_file_of_lines_gives_a_file_of_answers(
    open_page: Open, server: Live, room: ModelRoom, tmp_path: Path
) -> None:
    lines = [f"{'bad cab fed a bag'[: 1 + number % 17]}" for number in range(150)]
    lines[7] = ""
    path = tmp_path / "words.txt"
    path.write_text("\r\n".join(lines), encoding="utf-8")
    page = opened(open_page, at(server, "greedy"))
    page.set_input_files("input[type=file]", path)
    page.get_by_role("button", name="Save answers").wait_for()
    known = dict(zip(sorted(set(lines)), room.held["greedy"].generate(sorted(set(lines))), strict=True))
    expected = ["" if not line else known[line] for line in lines]
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save answers").click()
    assert waiting.value.suggested_filename == "words.answers.txt"
    assert Path(waiting.value.path()).read_text("utf-8") == "".join(f"{line}\n" for line in expected)
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Save as JSONL").click()
    rows = [json.loads(row) for row in Path(waiting.value.path()).read_text("utf-8").splitlines()]
    assert [(row["text"], row["answer"]) for row in rows] == list(zip(lines, expected, strict=True))
    assert len([call for call in room.calls if call[0] == "answer"]) == 3, "asked in parts"
    assert violations(page) == []
    room.late["stay"] = asyncio.Event()
    page.evaluate(
        """() => {
            const held = new DataTransfer();
            held.items.add(new File(["bad\\nstay\\n"], "two.txt"));
            dispatchEvent(new DragEvent("drop", { dataTransfer: held, cancelable: true }));
        }"""
    )
    page.get_by_role("button", name="Cancel").click()
    page.locator(".file").get_by_text("two.txt: cancelled, nothing was saved.").wait_for()


def test_what_is_sampled_for_a_file_is_what_clearhead_run_samples(
    open_page: Open, server: Live, room: ModelRoom, tmp_path: Path
) -> None:
    """It is sent in parts, and each line is drawn for by its number in the file."""
    path = tmp_path / "words.txt"
    path.write_text("bad cab\n" * 100, encoding="utf-8")
    page = opened(open_page, at(server, "greedy"))
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Sample").check()
    for seed in (None, 7):
        if seed is not None:
            page.get_by_label("Seed").fill(str(seed))
        page.set_input_files("input[type=file]", path)
        page.get_by_text(f"{path.name}: 100 lines answered.").first.wait_for()
        settings = {"decoding.sample": True} | ({} if seed is None else {"decoding.seed": seed})
        answered_lines = clearhead.answer_lines(room.held["greedy"], path, settings=settings)
        expected = [row for part in answered_lines for line in part for row in line.rows]
        assert len(set(expected)) > 1
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Save answers").click()
        assert Path(waiting.value.path()).read_text("utf-8").splitlines() == expected
        path = path.rename(tmp_path / "again.txt")
    assert [call[1]["first"] for call in room.calls if call[0] == "answer"] == [0, 64] * 2


def test_faults_are_told_kindly(browser: Any, server: Live, room: ModelRoom) -> None:
    """Not by ``open_page``: a browser writes failed requests to its console."""
    context = browser.new_context()
    page = context.new_page()
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.set_default_timeout(PATIENCE)
    page.goto(at(server, "beam"))
    page.wait_for_selector("#text")
    room.faults.append(Busy("the queue is full", 0.5))
    ask(page, "bad")
    page.get_by_text("The server is busy; asking again in 1 s.").first.wait_for()
    assert answered(page) == room.held["beam"]("bad")
    room.faults.append(TooLate("late"))
    ask(page, "cab")
    page.get_by_text("This took longer than the server allows").wait_for()
    page.get_by_role("button", name="Try again").click()
    assert answered(page) == room.held["beam"]("cab")
    room.faults.append(Refused("settings.beam_size", "is 99, and this server allows up to 64"))
    ask(page, "fed")
    page.get_by_text("settings.beam_size: is 99, and this server allows up to 64").wait_for()
    page.evaluate(f"() => {{ document.querySelector('#text').value = 'a'.repeat({room.settings.body_bytes}) }}")
    page.press("#text", "Enter")
    page.get_by_text("That is too much for one request").wait_for()
    assert violations(page) == []
    page.route("**/api/run", lambda route: route.abort())
    ask(page, "bad")
    page.get_by_text("The server does not answer. Is clearhead serve still running?").wait_for()
    page.unroute("**/api/run")
    page.get_by_role("button", name="Try again").click()
    assert answered(page) == room.held["beam"]("bad")
    context.close()
    assert errors == []


def test_a_token_is_asked_for(browser: Any) -> None:
    with live(lambda settings: ModelRoom(settings, ["beam"]), token="sesame-sesame-sesame") as running:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.goto(running.url)
        page.get_by_label("This server asks for a token.").fill("wrong-wrong-wrong-wrong")
        page.keyboard.press("Enter")
        # the field that is there now, not the one that the server's answer is about to replace
        page.get_by_label("This is not the server's token.").fill("sesame-sesame-sesame")
        page.keyboard.press("Enter")
        page.wait_for_selector("#text", state="visible")
        ask(page, "bad")
        assert answered(page) == running.room.held["beam"]("bad")
        context.close()


def test_keys_alone_are_enough_and_what_happens_is_said(open_page: Open, server: Live, room: ModelRoom) -> None:
    page = opened(open_page, at(server, "greedy"))
    page.wait_for_selector("#text:focus")
    page.keyboard.type("bad")
    page.keyboard.press("Enter")
    best = answered(page)
    assert page.locator("#serve > [aria-live]").text_content() == f"bad: {best}"
    reached = []
    for _ in range(5):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent"))
    assert reached[:3] == ["Answer", "Settings", "Look inside"]
    page.keyboard.press("Shift+Tab")
    page.get_by_role("button", name="Look inside").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(".look .three .answer")
    page.locator(".look .first [role=option][aria-selected=true]").focus()
    page.keyboard.press("Home")
    page.wait_for_selector(".look [data-at='0']:focus")
    page.get_by_role("button", name="Settings").focus()
    page.keyboard.press("Enter")
    page.get_by_role("spinbutton", name="Beam").fill("3")
    page.focus("#text")
    page.keyboard.press("End")
    page.keyboard.type("ge")
    page.keyboard.press("Enter")
    page.locator(".earlier li", has_text="bad").wait_for()
    assert answered(page) == room.held["greedy"].answers(["badge"], beam_size=3)[0][0].text
    assert room.calls[-1][1]["settings"] == {"beam_size": 3}
    page.locator(".earlier button").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("#text:focus")
    assert page.input_value("#text") == "bad"


def test_sampled_answers_differ_and_are_looked_at_as_they_are(open_page: Open, server: Live, room: ModelRoom) -> None:
    page = opened(open_page, at(server, "greedy"))
    page.get_by_role("button", name="Settings").click()
    page.get_by_label("Sample").check()
    seen = set()
    ask(page, "bad cab")
    for _ in range(3):
        seen.add(answered(page))
        page.get_by_role("button", name="Again").click()
    said = answered(page)
    assert len(seen | {said}) > 1
    page.get_by_role("button", name="Look inside").click()
    page.wait_for_selector(".look .three .answer")
    assert room.calls[-1][1]["target"] == said


def test_a_picture_is_drawn_by_mouse_keys_and_file(open_page: Open, server: Live, room: ModelRoom) -> None:
    page = opened(open_page, at(server, "digits"))
    pad = page.locator(".pad .matrix")
    area = pad.bounding_box()
    page.mouse.move(area["x"] + 20, area["y"] + 20)
    page.mouse.down()
    page.mouse.move(area["x"] + 20, area["y"] + 200, steps=8)
    page.mouse.up()
    best = answered(page)
    text = page.input_value("#text")
    pixels = np.array(text.split(), dtype=float).reshape(16, 8)
    assert 0.9 < pixels.max() <= 1
    assert (pixels[2:12, 1] > 0.9).all(), "a line from top to bottom"
    assert (pixels[:, 4:] == 0).all()
    assert best == room.held["digits"](text)
    page.get_by_role("button", name="Clear").click()
    cell = page.locator(".pad .cursor")
    cell.focus()
    page.keyboard.press("Control+End")
    page.keyboard.press(" ")
    answered(page)
    assert page.input_value("#text").split() == ["0"] * 127 + ["1"]
    black_on_white = page.evaluate(
        """() => new Promise((resolve) => {
            const canvas = Object.assign(document.createElement("canvas"), { width: 80, height: 160 });
            const pen = canvas.getContext("2d");
            pen.fillStyle = "white"; pen.fillRect(0, 0, 80, 160);
            pen.fillStyle = "black"; pen.fillRect(30, 0, 10, 160);
            canvas.toBlob((blob) => blob.arrayBuffer().then((held) => resolve([...new Uint8Array(held)])));
        })"""
    )
    file = {"name": "line.png", "mimeType": "image/png", "buffer": bytes(black_on_white)}
    page.set_input_files("input[type=file]", files=[file])
    page.locator(".pad .readout").wait_for()
    page.wait_for_selector(".reply:not([aria-busy])")
    page.wait_for_timeout(100)
    drawn = np.array(page.input_value("#text").split(), dtype=float).reshape(16, 8)
    assert (drawn.argmax(1) == 3).all()
    assert drawn[:, 0].max() < 0.1
    assert violations(page) == []


def test_a_picture_is_drawn_in_colours(open_page: Open, server: Live, room: ModelRoom) -> None:
    page = opened(open_page, at(server, "colours"))
    page.locator("input[type=color]").evaluate("(field) => { field.value = '#ff8000'; }")
    page.locator(".pad .cursor").focus()
    page.keyboard.press(" ")
    best = answered(page)
    text = page.input_value("#text")
    assert text.split() == ["1", "0.5", "0"] + ["0"] * 381
    assert best == room.held["colours"](text)
    picture = page.evaluate(
        """() => new Promise((resolve) => {
            const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 16 });
            const pen = canvas.getContext("2d");
            pen.fillStyle = "#00ff00"; pen.fillRect(0, 0, 8, 8);
            pen.fillStyle = "#0000ff"; pen.fillRect(0, 8, 8, 8);
            canvas.toBlob((blob) => blob.arrayBuffer().then((held) => resolve([...new Uint8Array(held)])));
        })"""
    )
    file = {"name": "flag.png", "mimeType": "image/png", "buffer": bytes(picture)}
    page.set_input_files("input[type=file]", files=[file])
    expected = np.zeros((16, 8, 3))
    expected[:8, :, 1] = expected[8:, :, 2] = 1
    words = " ".join(f"{value:g}" for value in expected.ravel())
    page.wait_for_function("(words) => document.querySelector('#text').value === words", arg=words)
    assert answered(page) == room.held["colours"](words)
    page.get_by_role("button", name="Look inside").click()
    page.wait_for_selector('.look [data-figure="patches"] rect')
    fills = (
        page.locator('.look [data-figure="patches"] svg')
        .first.locator("rect")
        .evaluate_all("(found) => [found[0], found[127]].map((one) => one.getAttribute('fill'))")
    )
    assert fills == ["rgb(0,255,0)", "rgb(0,0,255)"]
    assert violations(page) == []


@pytest.mark.parametrize("name", ["beam", "lm", "encoder", "classifier", "recurrent", "digits"])
def test_gradients_and_occlusion_are_computed_by_a_click(
    open_page: Open, server: Live, room: ModelRoom, name: str
) -> None:
    """The numbers are those of ``clearhead look``; nothing is computed before it is asked for."""
    text = " ".join("3" * 128) if name == "digits" else text_of({"beam": "seq2seq"}.get(name, name))
    page = opened(open_page, at(server, name, text))
    answered(page)
    page.get_by_role("button", name="Look inside").click()
    page.wait_for_selector(".look .three .answer")
    held = room.held[name].look(text)
    for measure in ("inputs", "occlusion"):
        page.get_by_role("radio", name=measure).check(force=True)
        assert not [asked for kind, asked in room.calls if kind == "look" and measure in (asked["show"] or ())]
        page.locator(".look .answer").first.get_by_role("button", name="compute").click()
        page.wait_for_selector('.look [data-figure="from-where"]')
        place = room.calls[-1][1]["at"]
        (entry,) = [one for one in held.document([measure], at=place)[measure] if one["at"] == place]
        values = entry["source"] + entry.get("prefix", [])
        if name == "lm" and measure == "occlusion":  # nothing comes from later tokens
            values, later = np.split(values, [held.subject.rows[place] + 1])
            assert later == pytest.approx(0, abs=BOUND)
        assert [line[0] for line in numbers(page, "from-where")] == pytest.approx(values, abs=BOUND)
    if name == "beam":
        assert violations(page) == []


def test_gradients_of_an_answer_without_a_head_are_computed_without_it(
    open_page: Open, server: Live, room: ModelRoom
) -> None:
    page = opened(open_page, at(server, "beam", "bad cab"))
    answered(page)
    page.get_by_role("button", name="Look inside").click()
    page.wait_for_selector(".look .three .answer")  # what is below it may still be drawn anew before
    page.locator('[data-head="cross.1.1"]').click()
    page.locator("#enlarged").get_by_role("switch").click()
    page.locator(".off").wait_for()
    page.get_by_role("radio", name="occlusion").check(force=True)
    page.locator(".look .answer").first.get_by_role("button", name="compute").click()
    page.wait_for_selector('.look [data-figure="from-where"]')
    asked = room.calls[-1][1]
    assert (asked["show"], asked["without"]) == (["occlusion"], ["cross.1.1"])
    held = room.held["beam"].look("bad cab", without=["cross.1.1"])
    found = held.document(["occlusion"])["occlusion"][asked["at"]]["source"]
    assert [line[0] for line in numbers(page, "from-where")] == pytest.approx(found, abs=BOUND)


def test_the_model_is_told_about(open_page: Open, server: Live, room: ModelRoom) -> None:
    page = opened(open_page, at(server, "greedy"), width=360)
    page.get_by_text("About this model").click()
    about = page.locator(".about")
    about.wait_for()
    words = about.text_content()
    assert "3,130,368" in words
    assert "layers = 2" in words
    assert "65.1" in words
    assert "63.0 – 67.2" in words or "63.0 – 67.3" in words
    assert "T EY CH" in words
    assert about.locator(".curve").count() == 3
    assert str(RUN["steps"]) in words
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
