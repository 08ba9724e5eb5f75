"""What ``model.look`` returns, for every family: typed, printable, and the same as the model's own answer."""

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import clearhead
from clearhead.data import Codec
from clearhead.errors import DataError, DoesNotFit, RecipeError
from clearhead.inspection import View, look_bytes
from clearhead.models import build
from clearhead.predictor import Predictor, predictor_of
from clearhead.predictor.looking import look_at_ids
from clearhead.recipe import read_recipe
from tests.inspection.cases import apart
from tests.inspection.conftest import Hold
from tests.models.zoo import IMAGES, make

TEXTS = ["abcdefg bad cab", "gab fed a bag", "dab, face"]
SMALL = ["model.layers=2", "model.width=16", "model.heads=2"]
FAMILIES = ["seq2seq", "recurrent", "lm", "encoder", "classifier", "pictures"]


def predictor(family: str, kind: str = "characters") -> Predictor:
    """A model at its initial weights with a tokenizer: it answers nonsense, which is enough."""
    if family == "pictures":
        recipe = read_recipe(None, "model.family=classifier", *SMALL, *IMAGES, "model.classes=3")
        return predictor_of(build(recipe, seed=3), recipe, ())
    codec = Codec.learn(kind, TEXTS, 300, masked=family == "encoder")  # type: ignore[arg-type]
    sides = [f"model.vocabulary.{side}={len(codec)}" for side in ("source", "target")]
    more = [f"model.vocabulary.mask={codec.mask}", "model.head=tokens"] if family == "encoder" else []
    sizes = SMALL[:2] if family == "recurrent" else SMALL
    recipe = read_recipe(
        None, f"model.family={family}", *sizes, *sides, *more, "decoding.max_length=6", "decoding.beam_size=2"
    )
    return predictor_of(build(recipe, seed=3), recipe, (codec, codec))


def text_of(family: str) -> str:
    if family == "pictures":
        return " ".join(str(number % 7) for number in range(16 * 8 * 2))
    return "a <mask> c" if family == "encoder" else "bad cab"


@pytest.mark.parametrize("family", FAMILIES)
def test_a_view_of_every_family(family: str, tmp_path: Path, hold: Hold) -> None:
    model = predictor(family)
    text = text_of(family)
    view = model.look(text)
    table = json.loads(json.dumps(view.as_dict(), allow_nan=False))
    (best,) = model.answers([text])[0]
    assert table["answer_text"] == best.text
    generated = [value for value in view.log_probabilities[view.subject.given :] if value is not None]
    lacking = abs(sum(generated[1:]) - best.log_probability)
    hold("log p of the replay = log p of the search", 1e-5, abs(sum(generated) - best.log_probability), lacking)
    assert table["format"] == 1
    assert ("source" in table) == (family != "lm")
    assert ("inputs_of" in table) == (family in ("seq2seq", "recurrent", "lm"))
    assert len(table["answer"]) == len(table["log_probabilities"]) == len(table["alternatives"])
    for stack, layers in table["attention"].items():
        assert np.shape(layers) == np.shape(table["norms"][stack])
        inputs = table.get("inputs_of", {}).get("decoder", [])
        sizes = {
            "encoder": [table.get("source", [])] * 2,
            "decoder": [inputs] * 2,
            "cross": [inputs, table.get("source", [])],
        }
        assert np.shape(layers)[2:] == tuple(map(len, sizes[stack]))
    for parts in table.get("parts", []):
        hold("Σ parts = logit", 1e-5, abs(sum(part["value"] for part in parts["parts"]) - parts["logit"]))
    assert ("parts" in table) != ("parts" in table["refused"])
    assert repr(view).startswith("View(")
    assert view.answer_text in repr(view) or len(view.answer_text) > 30
    assert "<table" in view._repr_html_()
    with np.load(view.save(tmp_path / "look.npz")) as numbers:
        for name, maps in view.attention.items():
            assert np.array_equal(numbers[f"attention.{name}"][0, 0], maps[0, 0].numpy())
    assert json.loads(view.save(tmp_path / "look.json").read_text("utf-8"))["answer"] == view.answer


@pytest.mark.parametrize("family", ["seq2seq", "recurrent", "lm"])
def test_the_beams_tree_is_that_of_the_search(family: str, hold: Hold) -> None:
    """Its ranked leaves are the answers; log p of a node is its parent's and that of its token, replayed."""
    model = predictor(family)
    view = model.look("bad cab", beam_size=3)
    nodes = view.as_dict()["beam"]
    answers = model.answers(["bad cab"], n_best=3, beam_size=3)[0]
    ranked = sorted((node for node in nodes if node["rank"]), key=lambda node: node["rank"])
    apart_by = max(
        abs(node["log_probability"] - one.log_probability) for node, one in zip(ranked, answers, strict=True)
    )
    assert [text for text, _ in view.subject.n_best] == [one.text for one in answers]
    winner = next(place for place, node in enumerate(nodes) if node["rank"] == 1)
    path: list[int] = []
    step = winner
    while step is not None:
        path.insert(0, step)
        step = nodes[step]["parent"]
    assert [nodes[place]["token"] for place in path] == view.answer[view.subject.given :]
    sums = np.cumsum([float(value) for value in view.log_probabilities[view.subject.given :]])
    off = [abs(nodes[place]["log_probability"] - total) for place, total in zip(path, sums, strict=True)]
    shuffled = [
        abs(nodes[(place + 1) % len(nodes)]["log_probability"] - total) for place, total in zip(path, sums, strict=True)
    ]
    hold("log p along the beam's tree = log p of the replay", 1e-5, max(off), max(shuffled))
    hold("leaves of the beam's tree = answers of the search", 1e-5, apart_by)
    assert "beam" not in model.look("bad cab", beam_size=1).as_dict(), "greedy search has no tree"
    assert "beam" not in model.look("bad cab", beam_size=3, target="cab").as_dict(), "nothing was searched"


def test_pieces_joined_are_the_text(hold: Hold) -> None:
    for kind, text in (("characters", "bad cab"), ("bpe", " bad café €, ☃"), ("unigram", " bad cab")):
        codec = Codec.learn(kind, [*TEXTS, "café €"], 300)  # type: ignore[arg-type]
        ids = codec.encode([text.strip() if kind != "characters" else text])[0]
        pieces = "".join(codec.shown(ids))
        # a byte that is only a part of a character is written <0xE2>
        whole = re.sub(rb"<0x([0-9A-F]{2})>", lambda found: bytes([int(found[1], 16)]), pieces.encode()).decode()
        assert whole == text
        hold("token pieces joined = the text", 0, float(whole != text), float("".join(codec.shown(ids[1:])) != text))
    assert codec.shown([1, 2]) == ["<s>", "</s>"]


def test_a_target_and_heads_off() -> None:
    model = predictor("seq2seq")
    view = model.look("bad", target="cab")
    assert view.answer == ["c", "a", "b", "</s>"]
    assert sum(map(float, view.log_probabilities)) == pytest.approx(model.score(["bad"], ["cab"])[0], abs=1e-5)  # type: ignore[arg-type]
    off = view.without("cross.2.1", "encoder.1.2")
    assert off.off == ("cross.2.1", "encoder.1.2")
    assert off.norms.head("cross.2.1").abs().max() == 0
    assert off.log_probabilities != view.log_probabilities
    assert off.without("cross.1.1").off == ("cross.2.1", "encoder.1.2", "cross.1.1")
    with pytest.raises(RecipeError, match="no such head"):
        view.without("cross.7.1")
    with pytest.raises(RecipeError, match="no such head"):
        view.attention.head("crss.1.1")
    answered = model.look("bad", without=["cross.1.1"])
    assert answered.off == ("cross.1.1",)
    assert model.look("bad").log_probabilities == model.look("bad").log_probabilities


def test_places_and_words_are_checked() -> None:
    view = predictor("seq2seq").look("bad", target="cab")
    assert view.parts(at=-1).token == "</s>"
    assert view.parts(at=0, against="b").against == "b"
    with pytest.raises(DataError, match="at: 9 is no place in the answer, which has 4 tokens"):
        view.parts(at=9)
    with pytest.raises(DataError, match="no token 'Ω'"):
        view.parts(at=0, against="Ω")
    prompted = predictor("lm").look("bad")
    assert prompted.log_probabilities[0] is None
    with pytest.raises(DataError, match="nothing predicts token 0"):
        prompted.parts(at=0)


def test_too_many_tokens_are_refused_before_they_are_read() -> None:
    model = predictor("seq2seq")
    with pytest.raises(
        DoesNotFit, match=r"looking at 4,096 tokens would take about .* a matrix of 4,096 × 4,096"
    ) as error:
        model.look("a" * 4096)
    assert error.value.exit_code == 4
    assert look_bytes(model.model, 100, 100) < look_bytes(model.model, 200, 200) < 2**30
    view = model.look("bad")
    taken = sum(part.weights.numel() * 4 for _, _, parts in view.record.attentions() for part in parts)
    assert taken < view.memory


def test_heads_beyond_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("clearhead.inspection.saving.MOST_NUMBERS", 200)
    view = predictor("lm").look("bad cab")
    table = view.as_dict()
    kept = [head for layer in table["attention"]["decoder"] for head in layer if head is not None]
    assert 0 < len(kept) < 4
    (sentence,) = table["left_out"]
    assert sentence.startswith(f"the matrices of {4 - len(kept)} of 4 heads")


def test_look_by_name_and_by_ids(tmp_path: Path) -> None:
    from clearhead.models import SavedModel, save_model

    model = predictor("seq2seq")
    path = tmp_path / "small.safetensors"
    save_model(SavedModel(model.model, model.recipe, {"shared": model.source.to_json()}), path)
    view = clearhead.look(path, "bad", settings={"decoding.beam_size": 1})
    assert view.as_dict()["model"]["name"] == str(path)
    assert view.answer_text == model("bad", beam_size=1)
    ids = model.source.encode(["bad"])[0] + [2]
    by_ids = clearhead.look(path, ids, view.subject.answer)
    assert apart(by_ids.record.logits, view.record.logits) == 0
    with pytest.raises(DataError, match="no token 9999"):
        clearhead.look(path, [9999], [2])
    with pytest.raises(TypeError):
        clearhead.look(path, ids, "bad")


def test_a_map_names_its_axes() -> None:
    view: View = look_at_ids(make("seq2seq", "other heads across"), [5, 6, 7, 2], [8, 9, 2])
    cross: Any = view.attention["cross"]
    assert cross.axes == ("layer", "head", "query", "key")
    assert cross.numpy().shape == (2, 4, 3, 4)
    assert cross.keys == ("5", "6", "7", "2")
    assert cross.queries == ("1", "8", "9")
    assert torch.equal(cross["cross.2.3"], cross[1, 2])
    assert repr(view.attention["encoder"]) == "HeadMaps(encoder: 2 + 2 heads in 2 layers, 4 queries × 4 keys)"
    with pytest.raises(KeyError, match="there is encoder, decoder, cross"):
        view.attention["middle"]


def test_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "look.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(clearhead, "load", lambda _name: predictor("seq2seq"), raising=False)
    names: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # this model has seen few letters, and its gradients are tiny
        exec(compile(code, "look.md", "exec"), names)
    assert names["off"].off == ("cross.1.2",)
    assert (tmp_path / "look.html").is_file()
