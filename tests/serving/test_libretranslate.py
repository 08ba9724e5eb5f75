"""LibreTranslate's endpoints over a room without models; tests/serving/test_clients.py lets its own package speak."""

import asyncio
from typing import Any

import httpx
import pytest

from clearhead.serving.app import make_app
from clearhead.serving.settings import ServeSettings
from tests.serving.client import connected
from tests.serving.fake import FakeRoom
from tests.serving.test_api import got, posted_to
from tests.serving.test_guard import TOKEN


def form(content: str, path: str = "/translate", method: str = "POST", **settings: Any) -> httpx.Response:
    async def sent() -> httpx.Response:
        async with connected(make_app(FakeRoom(), ServeSettings(**settings))) as client:
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            return await client.request(method, path, content=content, headers=headers)

    return asyncio.run(sent())


def test_one_text_and_several() -> None:
    one = posted_to("/translate", {"q": "hallo", "source": "de", "target": "en", "format": "text"})
    assert one.json() == {"translatedText": "HALLO"}
    several = posted_to("/translate", {"q": ["ja", "nein"], "source": "auto", "target": "en"})
    assert several.json() == {"translatedText": ["JA", "NEIN"]}


def test_alternatives() -> None:
    one = posted_to("/translate", {"q": "ja", "source": "de", "target": "en", "alternatives": 2})
    assert one.json() == {"translatedText": "JA", "alternatives": ["JA!", "JA!!"]}
    several = posted_to("/translate", {"q": ["ja"], "source": "de", "target": "en", "alternatives": 1})
    assert several.json() == {"translatedText": ["JA"], "alternatives": [["JA!"]]}


def test_scores() -> None:
    asked = {"q": "ja", "source": "de", "target": "en", "scores": True}
    assert posted_to("/translate", asked).json() == {"translatedText": "JA", "scores": [0.0]}
    several = posted_to("/translate", asked | {"q": ["ja", "so"], "alternatives": 1}).json()
    assert several["scores"] == [[0.0, -1.0]] * 2
    assert form("q=ja&source=de&target=en&scores=true").json()["scores"] == [0.0]


def test_alignments() -> None:
    room = FakeRoom()
    asked = {"q": ["ja", " "], "source": "de", "target": "en", "alignments": True}
    found = posted_to("/translate", asked, room).json()["alignments"]
    assert found[0] == {"source": ["j", "a"], "target": ["J", "A"], "links": [[0, 0], [1, 1]]}
    assert found[1] == {"source": [], "target": [], "links": []}
    ((_, look),) = [call for call in room.calls if call[0] == "look"]
    assert (look["line"], look["target"]) == ("ja", "JA"), "of the answer that is given, not of another one"
    assert posted_to("/translate", asked | {"q": "ja"}).json()["alignments"] == found[0]
    many = FakeRoom()
    reply = posted_to("/translate", asked | {"q": ["ja"] * 17}, many)
    assert (reply.status_code, many.calls) == (422, [])


def test_a_model_without_alignments_says_why() -> None:
    class Plain(FakeRoom):
        async def look(self, *arguments: Any, **named: Any) -> dict[str, Any]:
            return {"refused": {"alignment": "no alignment: the decoder does not attend to the source"}}

    reply = posted_to("/translate", {"q": "ja", "source": "de", "target": "en", "alignments": True}, Plain())
    assert reply.status_code == 422
    assert "does not attend to the source" in reply.text


def test_forms_are_read_too() -> None:
    assert form("q=gr%C3%BC%C3%9Fe+dich&source=de&target=en").json() == {"translatedText": "GRÜSSE DICH"}
    assert form("q=ja&source=de&target=en&alternatives=1").json()["alternatives"] == ["JA!"]


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ("q=%ff&target=en", 400),
        ("source=de&target=en", 422),
        ("q=a&target=en&alternatives=x", 422),
        ("&".join("a=b" for _ in range(50)), 400),
    ],
)
def test_bad_forms_are_refused(content: str, status: int) -> None:
    reply = form(content)
    assert reply.status_code == status
    assert isinstance(reply.json()["error"], str)


@pytest.mark.parametrize(
    ("source", "target", "model"),
    [("de", "en", "de-en"), ("auto", "en", "de-en"), ("xx", "shout", "shout"), ("de", "", "shout")],
)
def test_languages_choose_the_model(source: str, target: str, model: str) -> None:
    asked: list[str | None] = []

    class Noting(FakeRoom):
        async def answer(self, model: str | None, *arguments: Any, **named: Any) -> Any:
            asked.append(model)
            return await super().answer(model, *arguments, **named)

    assert posted_to("/translate", {"q": "a", "source": source, "target": target}, Noting()).status_code == 200
    assert asked == [model]


@pytest.mark.parametrize(("source", "target"), [("de", "fr"), ("en", "de"), ("fr", "en"), ("de", "writer")])
def test_a_pair_that_no_model_has_is_400(source: str, target: str) -> None:
    reply = posted_to("/translate", {"q": "a", "source": source, "target": target})
    assert reply.status_code == 400
    assert f"from {source} to {target}; there are: auto → shout, de → en" in reply.json()["error"]


def test_markup_is_refused() -> None:
    reply = posted_to("/translate", {"q": "<b>a</b>", "source": "de", "target": "en", "format": "html"})
    assert reply.status_code == 400
    assert "format" in reply.json()["error"]


def test_the_list_of_languages() -> None:
    found = {entry["code"]: entry["targets"] for entry in got("/languages").json()}
    assert found == {"auto": ["shout"], "shout": [], "de": ["en"], "en": []}


def test_the_key_may_stand_in_the_body() -> None:
    body = {"q": "ja", "source": "de", "target": "en"}
    assert posted_to("/translate", body, token=TOKEN).status_code == 401
    assert posted_to("/translate", body | {"api_key": "wrong"}, token=TOKEN).status_code == 401
    assert posted_to("/translate", body | {"api_key": TOKEN}, token=TOKEN).status_code == 200
    assert form(f"q=ja&target=en&api_key={TOKEN}", token=TOKEN).status_code == 200
    assert form(f"api_key={TOKEN}", "/languages", "GET", token=TOKEN).status_code == 200
    assert form("api_key=wrong", "/languages", "GET", token=TOKEN).status_code == 401
    assert posted_to("/api/run", {"lines": [], "api_key": TOKEN}, token=TOKEN).status_code == 401
