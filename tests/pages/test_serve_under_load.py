"""The page and the whole server, with its worker processes, while other clients ask too."""

import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from clearhead.models import SavedModel, save_model
from clearhead.serving.room import Room
from tests.browser import Open
from tests.inspection.test_view import predictor
from tests.pages.test_serve_page import BOUND, answered, ask, opened
from tests.serving.live import Live, live

CLIENTS = 3
TIMES = 11
"""How often the lines stand in a file: it is sent in more than one part."""
LINES = ["bad cab", "gab fed a bag", "dab, face", "a bad bag", "cafe", "fade"]


class Crowd:
    """Clients that ask one question after the other until they are told to leave; what they got is checked."""

    def __init__(self, server: Live, expected: dict[str, str]) -> None:
        self.server, self.expected = server, expected
        self.leaving = threading.Event()
        self.begun = threading.Semaphore(0)
        self.answered, self.busy = 0, 0
        self.wrong: list[Any] = []
        self.threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]

    def __enter__(self) -> "Crowd":
        for thread in self.threads:
            thread.start()
        for _ in self.threads:
            self.begun.acquire(timeout=60)
        return self

    def __exit__(self, *_: object) -> None:
        self.leaving.set()
        for thread in self.threads:
            thread.join(60)

    def _ask(self, number: int) -> None:
        with httpx.Client(base_url=self.server.url, timeout=60) as client:
            while not self.leaving.is_set():
                lines = [LINES[(number + place) % len(LINES)] for place in range(1 + number % 4)]
                reply = client.post("/api/run", json={"lines": lines})
                if reply.status_code == 503:
                    self.busy += 1
                elif reply.status_code != 200 or reply.json()["answers"] != [self.expected[line] for line in lines]:
                    self.wrong.append(reply.text)
                self.answered += 1
                self.begun.release()


def test_the_page_is_right_while_others_ask(open_page: Open, tmp_path: Path) -> None:
    """Streams, looks, alternatives and a file, beside three clients: all answers are Python's."""
    model = predictor("seq2seq").answering(beam_size=1)
    path = tmp_path / "small.safetensors"
    save_model(SavedModel(model.model, model.recipe, model.tokenizers), path)
    expected = dict(zip(LINES, model.generate(LINES), strict=True))
    with live(lambda settings: Room({"small": path}, settings), workers=1) as server, Crowd(server, expected) as crowd:
        page = opened(open_page, server.url)
        for line in LINES[:3]:
            ask(page, line)
            assert answered(page) == expected[line]
            page.locator(".others li").first.wait_for()
        best = model.answers([LINES[2]], n_best=4, beam_size=4)[0]
        assert page.locator(".others .what").all_text_contents() == [one.text for one in best]
        page.get_by_role("button", name="Look inside").click()
        page.wait_for_selector(".look .three .answer")
        view = model.look(LINES[2])
        chosen = page.locator(".look [role=option][aria-selected=true][data-at]").get_attribute("data-at")
        assert float(page.locator("#chosen ~ p [data-p]").text_content()) == pytest.approx(
            dict(view.alternatives[int(chosen)])[view.answer[int(chosen)]], abs=BOUND
        )
        words = tmp_path / "words.txt"
        words.write_text("".join(f"{line}\n" for line in LINES * TIMES), encoding="utf-8")
        page.set_input_files("input[type=file]", words)
        with page.expect_download() as waiting:
            page.get_by_role("button", name="Save answers").click()
        found = Path(waiting.value.path()).read_text("utf-8").splitlines()
        assert found == [expected[line] for line in LINES] * TIMES
    assert crowd.wrong == []
    assert crowd.answered > CLIENTS
