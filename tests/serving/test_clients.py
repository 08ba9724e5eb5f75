"""The client packages of OpenAI and LibreTranslate, and plain HTTP, against a server with real models."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from libretranslatepy import LibreTranslateAPI

import clearhead
from clearhead.serving.room import Room
from tests.serving.live import PATIENCE, Live, live

if TYPE_CHECKING:
    import openai  # whose import takes a second

TOKEN = "correct-horse-battery-staple"
PROMPTS = ["a b", "a", "c d f g"]


@pytest.fixture(scope="module")
def server(models: dict[str, Path]) -> Iterator[Live]:
    served = {"pairs": models["pairs"], "de-en": models["pairs"], "lm": models["lm"]}
    with live(lambda settings: Room(served, settings), workers=1, token=TOKEN) as found:
        yield found


@pytest.fixture(scope="module")
def writer(models: dict[str, Path]) -> clearhead.Predictor:
    return clearhead.load(models["lm"])


@pytest.fixture(scope="module")
def client(server: Live) -> "Iterator[openai.OpenAI]":
    import openai

    with openai.OpenAI(base_url=f"{server.url}v1", api_key=TOKEN, max_retries=0, timeout=PATIENCE) as found:
        yield found


def test_openai_completes(client: "openai.OpenAI", writer: clearhead.Predictor) -> None:
    reply = client.completions.create(model="lm", prompt=PROMPTS, max_tokens=6, temperature=0)
    expected = writer.generate(PROMPTS, beam_size=1, max_length=6)
    assert [choice.text for choice in reply.choices] == expected
    assert reply.usage is not None
    assert reply.usage.prompt_tokens == sum(len(writer.source.encode([prompt])[0]) for prompt in PROMPTS)
    assert reply.usage.completion_tokens <= 6 * len(PROMPTS)


def test_openai_streams(client: "openai.OpenAI", writer: clearhead.Predictor) -> None:
    for prompt in PROMPTS:
        events = list(client.completions.create(model="lm", prompt=prompt, max_tokens=6, temperature=0, stream=True))
        assert "".join(event.choices[0].text for event in events) == writer(prompt, beam_size=1, max_length=6)
        assert events[-1].choices[0].finish_reason in ("stop", "length")
        assert all(event.choices[0].finish_reason is None for event in events[:-1])


def test_openai_samples_the_same_with_the_same_seed(client: "openai.OpenAI") -> None:
    asked: Any = {"model": "lm", "prompt": "a b", "max_tokens": 20, "temperature": 1.5}
    texts = [client.completions.create(**asked, seed=seed).choices[0].text for seed in (1, 1, 2, 3, 4)]
    assert texts[0] == texts[1]
    assert len(set(texts)) > 1


def test_openai_scores_a_prompt(client: "openai.OpenAI", writer: clearhead.Predictor) -> None:
    """echo + logprobs with max_tokens=0; reference: clearhead's own teacher forcing, without the end token."""
    from clearhead.data import format_of

    make = format_of(writer.model.spec).make
    for prompt in PROMPTS:
        reply = client.completions.create(model="lm", prompt=prompt, max_tokens=0, echo=True, logprobs=2)
        (choice,) = reply.choices
        assert choice.text == prompt
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs is not None
        (forced,) = writer.forced([make(prompt, line=1)])
        given = choice.logprobs.token_logprobs
        assert [one for one in given if one is not None] == pytest.approx(
            forced.log_probabilities[:-1][-sum(one is not None for one in given) :], abs=1e-4
        )
        assert choice.logprobs.tokens is not None
        assert "".join(choice.logprobs.tokens) == prompt
        assert choice.logprobs.top_logprobs is not None
        assert all(len(top) == 2 for top in choice.logprobs.top_logprobs if top)


def test_openai_logprobs_of_a_completion_add_up(client: "openai.OpenAI", writer: clearhead.Predictor) -> None:
    reply = client.completions.create(model="lm", prompt="a b", max_tokens=5, temperature=0, logprobs=1, echo=True)
    (choice,) = reply.choices
    assert choice.logprobs is not None
    assert choice.logprobs.tokens is not None
    assert "".join(choice.logprobs.tokens) == choice.text
    best = writer.answers(["a b"], beam_size=1, max_length=5)[0][0]
    written = choice.logprobs.token_logprobs or []
    if not best.finished:
        assert sum(one or 0.0 for one in written[-len(best.tokens) :]) == pytest.approx(best.log_probability, abs=1e-4)


def test_openai_reads_our_errors(client: "openai.OpenAI", server: Live) -> None:
    import openai

    with pytest.raises(openai.NotFoundError, match="no model") as unknown:
        client.completions.create(model="nobody", prompt="a")
    assert unknown.value.code == "unknown_model"
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.completions.create(model="lm", prompt="a", n=3)
    assert refused.value.param == "n"
    with (
        openai.OpenAI(base_url=f"{server.url}v1", api_key="wrong", max_retries=0) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.models.list()


def test_openai_lists_models(client: "openai.OpenAI") -> None:
    import openai

    (listed,) = client.models.list()
    assert listed.id == "lm"
    assert client.models.retrieve("lm") == listed
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("nobody")


def test_libretranslate_translates(server: Live, models: dict[str, Path]) -> None:
    client = LibreTranslateAPI(server.url, api_key=TOKEN)
    model = clearhead.load(models["pairs"])
    assert client.translate("abc", "de", "en") == model("abc")
    assert {entry["code"] for entry in client.languages()} == {"de", "en", "auto", "pairs"}


def asked(server: Live, method: str, path: str, body: Any = None) -> httpx.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.request(method, f"{server.url}{path}", json=body, headers=headers, timeout=PATIENCE)


def test_answers_are_those_of_run(server: Live, models: dict[str, Path]) -> None:
    lines = ["abc", "", "  ab ", "gfedc"] * 3
    model = clearhead.load(models["pairs"])
    expected = [model(line.strip()) if line.strip() else "" for line in lines]
    assert asked(server, "POST", "api/run", {"lines": lines}).json()["answers"] == expected


def test_a_stream_says_the_same(server: Live, models: dict[str, Path]) -> None:
    body = {"lines": ["abcd"], "stream": True, "settings": {"beam_size": 1}}
    parts = asked(server, "POST", "api/run", body).text.removesuffix("\n\n").split("\n\n")
    events = [json.loads(part.removeprefix("data: ")) for part in parts]
    text = "".join(event.get("text", "") for event in events)
    assert text == clearhead.load(models["pairs"])("abcd", beam_size=1) == events[-1]["done"]["answers"][0]["text"]


def test_scores_and_looks(server: Live, models: dict[str, Path]) -> None:
    (score,) = asked(server, "POST", "api/score", {"rows": [["abc", "C B A"]]}).json()["scores"]
    assert score["log_probability"] == pytest.approx(
        clearhead.load(models["pairs"]).score(["abc"], ["C B A"])[0], abs=1e-4
    )
    document = asked(server, "POST", "api/look", {"line": "abc"}).json()
    assert document["source"][:3] == ["a", "b", "c"]
    text = {"q": "abc", "source": "de", "target": "en", "scores": True, "alignments": True}
    translated = asked(server, "POST", "translate", text).json()
    assert translated["alignments"]["links"] == document["alignment"]
    assert translated["scores"] == pytest.approx([document["n_best"][0]["log_probability"]], abs=1e-4)
    assert asked(server, "POST", "api/run", {"lines": ["a"], "settings": {"beam_sise": 4}}).status_code == 422


def test_the_metrics_of_a_real_room(server: Live) -> None:
    text = asked(server, "GET", "metrics").text
    assert "clearhead_workers_alive 1.0" in text
    assert 'clearhead_requests_total{method="POST",route="/api/run",status="200"}' in text
