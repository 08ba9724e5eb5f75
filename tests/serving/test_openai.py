"""OpenAI's endpoints over a room without models; tests/serving/test_clients.py lets OpenAI's package speak."""

import asyncio
import json
from typing import Any

import pytest

from clearhead.serving.faults import Busy, TooLate, WorkerLost
from tests.serving.fake import FakeRoom, facts
from tests.serving.test_api import got, posted_to

PATH = "/v1/completions"


def asked(room: FakeRoom | None = None, **body: Any) -> dict[str, Any]:
    reply = posted_to(PATH, {"model": "writer"} | body, room)
    assert reply.status_code == 200, reply.text
    found: dict[str, Any] = reply.json()
    return found


def streamed(room: FakeRoom | None = None, **body: Any) -> list[dict[str, Any]]:
    reply = posted_to(PATH, {"model": "writer", "stream": True} | body, room)
    assert reply.status_code == 200, reply.text
    *parts, last = reply.text.removesuffix("\n\n").split("\n\n")
    assert last == "data: [DONE]"
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def texts_of(events: list[dict[str, Any]]) -> dict[int, str]:
    texts: dict[int, str] = {}
    for event in events:
        for choice in event["choices"]:
            texts[choice["index"]] = texts.get(choice["index"], "") + choice["text"]
    return texts


def test_a_completion() -> None:
    reply = asked(prompt="ab")
    assert reply["object"] == "text_completion"
    assert reply["choices"] == [{"text": "AB", "index": 0, "logprobs": None, "finish_reason": "stop"}]
    assert reply["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


def test_several_prompts() -> None:
    reply = asked(prompt=["ab", "c"])
    assert [(choice["index"], choice["text"]) for choice in reply["choices"]] == [(0, "AB"), (1, "C")]
    assert reply["usage"]["total_tokens"] == 6


def test_echo_and_logprobs() -> None:
    (choice,) = asked(prompt="ab", echo=True, logprobs=1)["choices"]
    assert choice["text"] == "abAB"
    assert choice["logprobs"]["tokens"] == ["a", "b", "A", "B"]
    assert choice["logprobs"]["token_logprobs"] == [None, -0.5, -0.5, -0.5]
    assert choice["logprobs"]["top_logprobs"][1] == {"b": -0.5}
    assert choice["logprobs"]["text_offset"] == [0, 1, 2, 3]


def test_logprobs_without_echo_are_of_the_completion() -> None:
    (choice,) = asked(prompt="ab", logprobs=0)["choices"]
    assert choice["logprobs"] == {
        "tokens": ["A", "B"],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": None,
        "text_offset": [0, 1],
    }


def test_echo_without_tokens_scores_the_prompt() -> None:
    room = FakeRoom()
    reply = asked(room, prompt="abc", echo=True, logprobs=2, max_tokens=0)
    (choice,) = reply["choices"]
    assert choice["text"] == "abc"
    assert choice["logprobs"]["tokens"] == ["a", "b", "c"]
    assert reply["usage"] == {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
    assert room.calls == []  # nothing was answered


def test_a_stop_sequence_ends_text_and_logprobs() -> None:
    (choice,) = asked(prompt="abcd", stop=["CD", "D"], logprobs=0)["choices"]
    assert (choice["text"], choice["finish_reason"]) == ("AB", "stop")
    assert choice["logprobs"]["tokens"] == ["A", "B"]


def test_a_stream_says_the_same_as_a_whole() -> None:
    for body in (
        {"prompt": "abc"},
        {"prompt": ["ab", "c"]},
        {"prompt": "abcd", "stop": "CD"},
        {"prompt": "ab", "echo": True},
    ):
        whole = {choice["index"]: choice["text"] for choice in asked(**body)["choices"]}
        events = streamed(**body)
        assert texts_of(events) == whole
        reasons = [choice["finish_reason"] for event in events for choice in event["choices"]]
        assert [reason for reason in reasons if reason] == ["stop"] * len(whole)
        assert len({event["id"] for event in events}) == 1


def test_a_stream_with_usage() -> None:
    events = streamed(prompt="ab", stream_options={"include_usage": True})
    assert events[-1]["choices"] == []
    assert events[-1]["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


def test_a_stream_that_was_stopped_has_its_usage_too() -> None:
    events = streamed(prompt=["abcd", "ef"], stop="C", stream_options={"include_usage": True})
    assert events[-1]["usage"] == {"prompt_tokens": 6, "completion_tokens": 3 + 2, "total_tokens": 11}


class Drawing(FakeRoom):
    """Notes the seed of each prompt, and the time that it has."""

    def __init__(self, **decoding: Any) -> None:
        super().__init__(models=[facts("writer", "lm", decoding={"beam_size": 1} | decoding)])
        self.seeds: list[tuple[str, int | None]] = []
        self.batches: list[int] = []

    async def answer(self, model: Any, lines: Any, *, settings: Any = None, **named: Any) -> Any:
        self.seeds.extend((line, settings.get("seed")) for line in lines)
        self.batches.append(len(lines))
        return await super().answer(model, lines, settings=settings, **named)

    async def stream(self, model: Any, line: str, *, settings: Any = None, **named: Any) -> Any:
        self.seeds.append((line, settings.get("seed")))
        async for piece in super().stream(model, line, settings=settings, **named):
            yield piece


def seeds(ask: Any, room: Drawing | None = None, **body: Any) -> list[tuple[str, int | None]]:
    room = room or Drawing()
    ask(room, prompt=["ab", "ab"], **body)
    return room.seeds


@pytest.mark.parametrize("ask", [asked, streamed])
def test_every_call_without_a_seed_draws_afresh(ask: Any) -> None:
    """And so do two equal prompts of one call."""
    drawn = [seed for _ in range(2) for _, seed in seeds(ask, temperature=1)]
    assert None not in drawn
    assert len(set(drawn)) == 4
    assert None not in dict(seeds(ask, Drawing(sample=True))).values()  # if the recipe says so


def test_a_seed_draws_the_same_streamed_or_not() -> None:
    for seed in (7, -1):
        drawn = seeds(asked, temperature=1, seed=seed)
        assert drawn == seeds(streamed, temperature=1, seed=seed)
        assert len(set(drawn)) == 2
        assert all(one is not None and 0 <= one < 2**63 for _, one in drawn)


def test_prompts_are_answered_together_if_nothing_is_drawn() -> None:
    room = Drawing()
    assert seeds(asked, room, temperature=0, seed=7) == [("ab", None)] * 2
    assert room.batches == [2]


def test_offsets_are_those_of_the_text_where_tokens_begin_with_a_space() -> None:
    class Words(FakeRoom):
        async def trace(self, *arguments: Any, **named: Any) -> Any:
            texts = [("a", True), (" b", False), (" c", False), (" d", False)]
            return [{"text": text, "log_probability": -1.0, "top": {}, "given": given} for text, given in texts]

        async def answer(self, *arguments: Any, **named: Any) -> Any:
            found = await super().answer(*arguments, **named)
            found[0].answers[0]["text"] = "b c d"
            return found

    room = Words(models=[facts("writer", "lm", sides={"text": "symbols"})])
    for echo, offsets, text in ((False, [0, 1, 3], "b c d"), (True, [0, 1, 3, 5], "a b c d")):
        (choice,) = asked(room, prompt="a", logprobs=0, echo=echo)["choices"]
        assert choice["text"] == text
        assert choice["logprobs"]["text_offset"] == offsets
    (choice,) = asked(room, prompt="a", logprobs=0, stop=" d")["choices"]
    assert choice["logprobs"]["tokens"] == [" b", " c"]


def test_answer_and_trace_keep_one_deadline() -> None:
    """The trace has only what the answer has left of it."""
    given: list[float] = []

    class Timed(FakeRoom):
        async def answer(self, *arguments: Any, deadline: float | None = None, **named: Any) -> Any:
            given.append(deadline or 0.0)
            await asyncio.sleep(0.002)
            return await super().answer(*arguments, **named)

        async def trace(self, *arguments: Any, deadline: float | None = None, **named: Any) -> Any:
            given.append(deadline or 0.0)
            if "late" in arguments:
                raise TooLate("the answer was not ready within 0.5 seconds")
            return await super().trace(*arguments, **named)

    asked(Timed(), prompt="ab")
    assert 60.0 >= given[0] > given[1] > 0.0
    error = posted_to(PATH, {"model": "writer", "prompt": "late"}, Timed()).json()["error"]
    assert error["message"] == "the answer was not ready within 60 seconds"


def test_a_model_by_its_name() -> None:
    assert got("/v1/models/writer").json() == got("/v1/models").json()["data"][0]
    for name in ("shout", "nobody"):
        reply = got(f"/v1/models/{name}")
        assert (reply.status_code, reply.json()["error"]["code"]) == (404, "unknown_model")


def test_words_are_echoed_with_a_space() -> None:
    """A model whose tokens are words gives its completion without the space before it."""
    room = FakeRoom(models=[facts("writer", "lm", sides={"text": "symbols"})])
    assert asked(room, prompt="ab", echo=True)["choices"][0]["text"] == "ab AB"
    assert texts_of(streamed(room, prompt="ab", echo=True)) == {0: "ab AB"}
    assert asked(room, prompt="ab", echo=True, max_tokens=0)["choices"][0]["text"] == "ab"


@pytest.mark.parametrize(
    ("body", "settings"),
    [
        ({}, {"beam_size": 1, "max_length": 16}),
        ({"max_tokens": 5, "temperature": 0}, {"beam_size": 1, "max_length": 5, "sample": False}),
        (
            {"temperature": 0.5, "top_p": 0.9, "seed": -1, "max_tokens": None},
            {"beam_size": 1, "sample": True, "temperature": 0.5, "top_p": 0.9, "seed": 2**63 - 1},
        ),
    ],
)
def test_settings_are_those_of_decoding(body: Any, settings: Any) -> None:
    room = FakeRoom()
    asked(room, prompt="ab", **body)
    assert room.calls[0][1]["settings"] == settings


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"n": 2}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": ["a"] * 129}, "prompt"),
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": 1, "stream": True}, "logprobs"),
        ({"max_tokens": 0, "stream": True}, "max_tokens"),
        ({"max_tokens": 4_097}, "max_tokens"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"stop": ""}, "stop"),
        ({"temperature": 3}, "temperature"),
        ({"presence_penalty": 1}, "presence_penalty"),
        ({"logit_bias": {"5": 1}}, "logit_bias"),
        ({"suffix": "x"}, "suffix"),
        ({"tools": []}, "tools"),
        ({"model": "shout"}, "model"),
    ],
)
def test_what_cannot_be_done_is_refused_in_openais_shape(body: Any, param: str) -> None:
    reply = posted_to(PATH, {"model": "writer", "prompt": "ab"} | body)
    assert reply.status_code == 422
    error = reply.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["type"], error["param"]) == ("invalid_request_error", param)
    assert param in error["message"]


def test_neutral_values_are_accepted() -> None:
    asked(prompt="ab", n=1, best_of=1, presence_penalty=0, frequency_penalty=0.0, logit_bias={}, suffix=None, user="me")


def test_faults_are_in_openais_shape() -> None:
    assert posted_to(PATH, {"model": "nobody", "prompt": "a"}).json()["error"]["code"] == "unknown_model"
    room = FakeRoom()
    room.fault = Busy("full", 3)
    reply = posted_to(PATH, {"model": "writer", "prompt": "a"}, room)
    assert (reply.status_code, reply.headers["retry-after"]) == (503, "3")
    assert reply.json()["error"]["type"] == "server_error"
    assert posted_to(PATH, b"{").json()["error"]["code"] == "bad_body"


def test_a_fault_of_a_trace_is_a_fault() -> None:
    class Losing(FakeRoom):
        async def trace(self, *arguments: Any, **named: Any) -> Any:
            raise WorkerLost("the worker ended")

    reply = posted_to(PATH, {"model": "writer", "prompt": ["a", "b"]}, Losing())
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "worker_lost")


def test_only_language_models_are_listed() -> None:
    assert [model["id"] for model in got("/v1/models").json()["data"]] == ["writer"]
