"""A room answers exactly as ``clearhead run`` does, whatever else it is asked at the same time."""

import asyncio
import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.data import format_of
from clearhead.errors import RecipeError
from clearhead.pages.packing import packed
from clearhead.predictor import GrowingText, TextWriter, load
from clearhead.serving.faults import Refused, UnknownModel
from clearhead.serving.room import LineAnswer, Room, names_of
from clearhead.serving.settings import ServeSettings
from tests.serving.conftest import NAMES

FAMILIES = ["pairs", "recurrent", "lm", "encoder", "classifier", "bytes"]


def lines_for(family: str, count: int = 200) -> list[str]:
    """Fifty lines or more as people write them: empty, with spaces around them, unknown characters, very long."""
    rng = random.Random(family)
    apart = "" if family in ("pairs", "recurrent") else " "
    lines = [apart.join(rng.choices("abcdefg", k=rng.randint(1, 9))) for _ in range(count)]
    lines[3], lines[7], lines[11], lines[20] = "", "   ", f"  {lines[11]} ", "aXbé"
    lines[40] = apart.join("abcdefg" * 300)
    return [f"{line} <mask> a" if family == "encoder" and line.strip() else line for line in lines]


def as_run_answers(model: Path, lines: Sequence[str], folder: Path, **how: Any) -> list[tuple[list[str], list[str]]]:
    """The rows that ``clearhead run`` prints for each line, and what it warns of."""
    file = folder / "lines.txt"
    file.write_text("".join(f"{line}\n" for line in lines))
    found = [row for batch in clearhead.answer_lines(model, file, **how) for row in batch]
    place = f"{file}, line "
    return [
        (row.rows, [words.removeprefix(f"{place}{row.number + 1}: ") for _, words in row.warnings]) for row in found
    ]


def texts(found: Sequence[LineAnswer]) -> list[str]:
    return [" ".join(line.text.splitlines()) for line in found]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("details", [False, True])
def test_answers_are_those_of_run(
    room: Room, runner: asyncio.Runner, models: dict[str, Path], family: str, details: bool, tmp_path: Path
) -> None:
    lines = lines_for(family)
    found = runner.run(room.answer(family, lines, details=details))
    wanted = as_run_answers(models[family], lines, tmp_path)
    assert [[text] for text in texts(found)] == [rows for rows, _ in wanted]
    assert [line.warnings for line in found] == [warnings for _, warnings in wanted]
    assert any(line.warnings for line in found) or family == "bytes"
    shifted = [[text] for text in (*texts(found)[1:], "")]
    assert shifted != [rows for rows, _ in wanted]  # answers that are off by one would be seen


@pytest.mark.parametrize("family", ["pairs", "classifier", "encoder"])
def test_the_best_answers_are_those_of_run(
    room: Room, runner: asyncio.Runner, models: dict[str, Path], family: str, tmp_path: Path
) -> None:
    lines = [line for line in lines_for(family, 60) if line.strip()]
    found = runner.run(room.answer(family, lines, n_best=3))
    rows = as_run_answers(models[family], lines, tmp_path, n_best=3, as_json=True)
    wanted = [json.loads(row)["answers"] for (row,), _ in rows]
    for mine, theirs in zip(found, wanted, strict=True):
        assert [answer["text"] for answer in mine.answers] == [answer["text"] for answer in theirs]
        for key in ("log_probability", "score"):
            assert [answer[key] for answer in mine.answers] == pytest.approx([a[key] for a in theirs], abs=1e-5)


def test_requests_with_different_settings_do_not_mix(
    room: Room, runner: asyncio.Runner, models: dict[str, Path]
) -> None:
    """Sixty requests at once, of all kinds; each gets what it would get alone."""
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("pairs", {}),
        ("pairs", {"beam_size": 1}),
        ("pairs", {"beam_size": 3, "length_penalty": 0.0, "min_length": 4}),
        ("pairs", {"sample": True, "seed": 7, "temperature": 2.0}),
        ("lm", {"max_length": 3, "beam_size": 1}),
        ("classifier", {}),
    ]
    requests = [
        (family, lines_for(family, 60)[: 1 + 7 * number % 60], settings)
        for number, (family, settings) in enumerate(kinds * 10)
    ]

    async def asked() -> list[list[LineAnswer]]:
        return await asyncio.gather(
            *(room.answer(family, lines, settings=settings, details=False) for family, lines, settings in requests)
        )

    loaded = {family: load(models[family]) for family in ("pairs", "lm", "classifier")}
    for (family, lines, settings), found in zip(requests, runner.run(asked()), strict=True):
        predictor = loaded[family]
        full = [index for index, line in enumerate(lines) if line.strip()]
        wanted = predictor.answers(
            [lines[index].strip() for index in full], predictor.decoding(**settings), scored=False, numbers=full
        )
        assert [found[index].text for index in full] == [best.text for best, *_ in wanted]
    assert max(size for size, count in room.state().batch_sizes.items() if count) > 1  # they were answered together


def test_nothing_is_left_of_requests_that_are_answered(room: Room, runner: asyncio.Runner) -> None:
    runner.run(room.answer("pairs", ["abc"] * 300))
    state = room.state()
    assert (state.waiting_lines, state.working_lines, state.open_streams) == (0, 0, 0)
    assert state.ready
    assert runner.run(room.answer("pairs", [])) == []


def test_a_prompt_can_be_read_as_it_is(room: Room, runner: asyncio.Runner, models: dict[str, Path]) -> None:
    model = load(models["bytes"])
    lines = [" é", "é ", ""]
    found = runner.run(room.answer("bytes", lines, verbatim=True))
    assert [line.text for line in found] == [best.text for best, *_ in model.answers(lines)]


# ---- streams ----


async def streamed(room: Room, model: str, line: str, **how: Any) -> tuple[list[str], LineAnswer]:
    pieces, done = [], None
    async for item in room.stream(model, line, **how):
        if "done" in item:
            done = item["done"]
        else:
            assert done is None
            pieces.append(item["text"])
    assert done is not None
    return pieces, done


@pytest.mark.parametrize("family", ["pairs", "recurrent", "lm", "bytes"])
@pytest.mark.parametrize("settings", [{"beam_size": 1}, {"sample": True, "seed": 3, "max_length": 30}])
def test_pieces_of_a_stream_join_to_the_answer(
    room: Room, runner: asyncio.Runner, family: str, settings: dict[str, Any]
) -> None:
    async def asked() -> None:
        lines = [line for line in lines_for(family)[:12] if line.strip()]
        whole = [(await room.answer(family, [line], settings=settings))[0] for line in lines]
        busy = asyncio.create_task(room.answer(family, lines * 20, settings=settings))  # batches between the tokens
        found = await asyncio.gather(*(streamed(room, family, line, settings=settings) for line in lines))
        await busy
        for line, (pieces, done) in zip(whole, found, strict=True):
            assert "".join(pieces) == done.text == line.text
            assert done.answers[0]["ids"] == line.answers[0]["ids"]
            assert done.answers[0]["finished"] == line.answers[0]["finished"]
            assert done.answers[0]["log_probability"] == pytest.approx(line.answers[0]["log_probability"], abs=1e-4)
            assert done.warnings == line.warnings
        assert max(len(pieces) for pieces, _ in found) > 1

    runner.run(asked())


def test_half_a_character_is_held_back(models: dict[str, Path]) -> None:
    """The wrong variant hands out what the tokenizer makes of the tokens so far."""
    model = load(models["bytes"])
    assert isinstance(model, TextWriter)
    text = "𝄞é日€ \N{REPLACEMENT CHARACTER}x"
    (ids,) = model.target.encode([text])
    assert len(ids) > len(text)  # rare characters are several tokens
    growing, pieces, wrong = GrowingText(model.target), [], []
    for place, token in enumerate(ids, start=1):
        before = model.target.decode([ids[: place - 1]])[0]
        pieces.append(growing.add(token))
        wrong.append(model.target.decode([ids[:place]])[0][len(before) :])
    assert "".join([*pieces, growing.rest()]) == model.target.decode([ids])[0]
    assert "".join(wrong) != model.target.decode([ids])[0]


def test_a_beam_cannot_stream(room: Room, runner: asyncio.Runner) -> None:
    with pytest.raises(Refused, match="decides only at the end") as caught:
        runner.run(streamed(room, "pairs", "abc"))
    assert caught.value.where == "settings.beam_size"
    with pytest.raises(Refused, match="does not write text"):
        runner.run(streamed(room, "classifier", "abc"))


def test_an_empty_line_streams_an_empty_answer(room: Room, runner: asyncio.Runner) -> None:
    pieces, done = runner.run(streamed(room, "pairs", "  ", settings={"beam_size": 1}))
    assert (pieces, done.text) == ([], "")


def test_a_stream_that_is_left_is_given_up(room: Room, runner: asyncio.Runner) -> None:
    async def asked() -> None:
        stream = room.stream("lm", "a b", settings={"sample": True, "min_length": 2000, "max_length": 2000})
        assert "text" in await anext(stream)
        await stream.aclose()
        assert room.state().open_streams == 0
        assert (await room.answer("pairs", ["abc"]))[0].text

    runner.run(asked())
    assert room.state().requests["left"] >= 1


# ---- scores, traces, looks ----


def test_scores_are_those_of_python(room: Room, runner: asyncio.Runner, models: dict[str, Path]) -> None:
    rows = {
        "pairs": [["abc", "C B A"], ["gfe", "A"], ["ab", "B A"]] * 40,
        "lm": [["a b c d"], ["g"]],
        "classifier": [["up", "a b c"], ["down", "a b c"]],
    }
    for family, given in rows.items():
        found = runner.run(room.score(family, given))
        wanted = load(models[family]).score(*zip(*given, strict=True))
        assert [line["log_probability"] for line in found] == pytest.approx(wanted, abs=1e-5)
        for line in found:
            assert sum(line["token_log_probabilities"]) == pytest.approx(line["log_probability"], abs=1e-6)
            assert len(line["tokens"]) == len(line["token_log_probabilities"])
    (first, *_) = runner.run(room.score("pairs", [["abc", "C B A"]]))
    assert first["tokens"] == ["C", "B", "A", "</s>"]


def test_what_cannot_be_scored_is_refused(room: Room, runner: asyncio.Runner) -> None:
    for model, rows, where, words in (
        ("pairs", [["a", "A"], ["b"]], "rows.1", "1 columns, but this model has source, target"),
        ("encoder", [["a"]], "model", "masked tokens"),
        ("classifier", [["up", "a"], ["sideways", "b"]], "rows.1", "unknown"),
    ):
        with pytest.raises(Refused, match=words) as caught:
            runner.run(room.score(model, rows))
        assert caught.value.where == where


@pytest.mark.parametrize("family", ["lm", "bytes"])
def test_a_trace_has_the_probability_of_every_token(
    room: Room, runner: asyncio.Runner, models: dict[str, Path], family: str
) -> None:
    prompt = "a b c d" if family == "lm" else "éé 日€"

    async def asked() -> tuple[LineAnswer, list[Any]]:
        (answer,) = await room.answer(family, [prompt], settings={"max_length": 5, "beam_size": 1}, verbatim=True)
        return answer, await room.trace(family, prompt, answer.answers[0]["ids"], top=3)

    answer, tokens = runner.run(asked())
    predictor = load(models[family])
    ids = answer.answers[0]["ids"]
    whole = predictor.target.decode([[*predictor.source.encode([prompt])[0], *ids]])[0]
    assert "".join(token["text"] for token in tokens) == whole
    written = [token for token in tokens if not token["given"]]
    assert len(written) == len(ids)
    (line,) = predictor.forced([format_of(predictor.model.spec).make(prompt, line=1)])
    given = [token["log_probability"] for token in tokens if token["given"]]
    assert given == pytest.approx(line.log_probabilities[: len(given)], abs=1e-5)
    for token in written:  # greedy: the most probable one
        assert token["log_probability"] == pytest.approx(max(token["top"].values()), abs=1e-6)
        assert len(token["top"]) == 3


def test_a_look_is_the_document_of_the_page(room: Room, runner: asyncio.Runner, models: dict[str, Path]) -> None:
    async def asked() -> tuple[dict[str, Any], ...]:
        return await asyncio.gather(
            room.look("pairs", "abc"),
            room.look("pairs", "abc", heads=True, without=["cross.1.2"], at=0, against="A"),
            room.look("classifier", "a b c"),
            room.look("pairs", "abc", show=["inputs", "occlusion"], at=1),
        )

    plain, other, labels, slow = runner.run(asked())
    model = load(models["pairs"])
    wanted = packed(model.look("abc").named("pairs").document(rivals=True))
    assert json.loads(json.dumps(wanted)) == plain
    assert other["at"] == 0
    assert all("importance" in head for head in other["heads"])
    assert not any("importance" in head for head in plain["heads"])
    assert labels["family"] == "classifier"
    traced = model.look("abc").inputs(at=1)
    assert [one["at"] for one in slow["inputs"]] == [1]
    assert slow["inputs"][0]["source"] == pytest.approx(traced.source, abs=1e-6)
    assert len(slow["occlusion"]) == len(plain["answer"])
    assert "inputs" not in plain
    with pytest.raises(Refused, match=r"cross\.9\.9"):
        runner.run(room.look("pairs", "abc", without=["cross.9.9"]))
    with pytest.raises(Refused):
        runner.run(room.look("pairs", "abc", at=99))


def test_what_is_told_of_a_model(room: Room, runner: asyncio.Runner, models: dict[str, Path]) -> None:
    told = runner.run(room.about("pairs"))
    assert told["cost"]["parameters"] == room.facts("pairs").parameters
    assert "[decoding]" in told["recipe"]
    assert told["run"]["steps"] == 150
    assert told["run"]["history"]
    assert told["run"]["curve"].startswith("<svg")
    assert {"source", "answer", "references"} <= told["run"]["worst"][0].keys()
    assert runner.run(room.about("pairs")) == told


def test_facts_of_models(room: Room) -> None:
    found = {facts.name: facts for facts in room.models()}
    assert list(found) == NAMES
    assert found["pairs"].columns == ("source", "target")
    assert found["pairs"].sides == {"source": "characters", "target": "symbols"}
    assert found["encoder"].mask == "<mask>"
    assert sorted(found["classifier"].labels) == ["down", "up"]
    assert [name for name, facts in found.items() if facts.streams] == ["pairs", "recurrent", "lm", "bytes"]
    assert len({facts.fingerprint for facts in found.values()}) == len(found)
    assert all(facts.ready for facts in found.values())


# ---- refusals ----


@pytest.mark.parametrize(
    ("asked", "where", "words"),
    [
        ({"settings": {"beam_size": 0}}, "settings.beam_size", "greater|1"),
        ({"settings": {"beam_size": "wide"}}, "settings.beam_size", "integer|number"),
        ({"settings": {"beam_sice": 2}}, "settings.beam_sice", "beam_size"),
        ({"settings": {"beam_size": 900}}, "settings.beam_size", "up to 64"),
        ({"settings": {"max_length": 10**6}}, "settings.max_length", "up to"),
        ({"settings": {"batch_tokens": 1}}, "settings.batch_tokens", "server"),
        ({"settings": {"banned": [10**6]}}, "settings.banned", "no token"),
        ({"n_best": 0}, "n_best", "1 to"),
        ({"n_best": 3, "settings": {"beam_size": 2}}, "n_best", "beam_size ≥ 3"),
        ({"lines": ["ok", "a\ud800"]}, "lines.1", "surrogate"),
        ({"lines": ["ok", "a" * 20_001]}, "lines.1", "20,001 characters"),
        ({"lines": ["a"] * 2_001}, "lines", "2,001 are too many"),
    ],
)
def test_what_cannot_be_answered_is_refused_with_its_place(
    room: Room, runner: asyncio.Runner, asked: dict[str, Any], where: str, words: str
) -> None:
    with pytest.raises(Refused, match=words) as caught:
        runner.run(room.answer("pairs", **({"lines": ["abc"]} | asked)))
    assert caught.value.where == where


def test_only_the_request_to_blame_is_refused(room: Room, runner: asyncio.Runner) -> None:
    """Rows of several requests are in one batch; one of them has a label that the model does not know."""

    async def asked() -> list[Any]:
        rows = [[["up", "a b"]], [["down", "b"], ["sideways", "a"]], [["down", "b c"]]]
        return await asyncio.gather(*(room.score("classifier", part) for part in rows), return_exceptions=True)

    first, second, third = runner.run(asked())
    assert isinstance(second, Refused)
    assert second.where == "rows.1"
    assert len(first) == len(third) == 1


def test_an_unknown_model_is_named(room: Room, runner: asyncio.Runner) -> None:
    with pytest.raises(UnknownModel, match="did you mean pairs"):
        runner.run(room.answer("pair", ["abc"]))
    assert runner.run(room.answer(None, ["abc"])) == runner.run(room.answer("pairs", ["abc"]))


def test_names(tmp_path: Path) -> None:
    assert names_of(["runs/demo", "models/other.safetensors", "mine=runs/demo", "runs/x/best.safetensors"]) == {
        "demo": Path("runs/demo"),
        "other": Path("models/other.safetensors"),
        "mine": Path("runs/demo"),
        "x": Path("runs/x/best.safetensors"),
    }
    with pytest.raises(RecipeError, match="names two models"):
        names_of(["a/demo", "b/demo"])
    with pytest.raises(RecipeError, match="no name"):
        names_of(["a b=runs/demo"])
    with pytest.raises(RecipeError, match="at least one"):
        Room({}, ServeSettings())


def test_the_front_does_not_import_torch(models: dict[str, Path]) -> None:
    code = (
        "import asyncio, sys\n"
        "from clearhead.serving.room import Room\n"
        "from clearhead.serving.settings import ServeSettings\n"
        "async def main():\n"
        f"    room = Room({{'m': {str(models['pairs'])!r}}}, ServeSettings(workers=1))\n"
        "    await room.start()\n"
        "    print((await room.answer('m', ['abc']))[0].text)\n"
        "    await room.stop(1)\n"
        "asyncio.run(main())\n"
        "print(sorted({'torch', 'sympy', 'tokenizers'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines()[1] == "[]"
