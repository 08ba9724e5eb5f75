"""``clearhead look``: the terminal, JSON, files, alignments, and what is said about mistakes."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import clearhead
from clearhead.models import SavedModel, save_model
from tests.cli.forked import forked
from tests.cli.terminal import PLAIN, at_terminal
from tests.cli.typed import typed
from tests.inspection.test_view import predictor, text_of

FAMILIES = ("seq2seq", "recurrent", "lm", "encoder", "classifier", "pictures")
ASKED = "bad cab"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a model file of every family, at its initial weights."""
    folder = tmp_path_factory.mktemp("look")
    for family in FAMILIES:
        made = predictor(family)
        codecs = {} if family == "pictures" else {"shared": made.source.to_json()}
        save_model(SavedModel(made.model, made.recipe, codecs), folder / f"{family}.safetensors")
    return folder


@pytest.fixture(scope="module")
def model(models: Path) -> str:
    return str(models / "seq2seq.safetensors")


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_in_80_columns(models: Path, family: str) -> None:
    name = str(models / f"{family}.safetensors")
    result = typed("look", name, text_of(family))
    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    view = clearhead.look(name, text_of(family))
    assert view.answer_text in lines[0]
    at = view.subject.given
    log_p = view.log_probabilities[at]
    assert log_p is not None
    shown = next(line for line in lines if re.match(rf" *{at + 1}  .* or ", line))
    assert f"{100 * np.exp(log_p):.0f} %" in shown, "the probability of the first token"
    assert any(line.strip().startswith("from ") for line in lines)
    assert any(line.strip().startswith("logit") for line in lines) == (family != "recurrent")


def test_the_strongest_reasons_are_the_views(model: str) -> None:
    view = clearhead.look(model, ASKED)
    parts = sorted(view.parts(1).parts, key=lambda part: -abs(part.value))[:3]
    line = next(line for line in typed("look", model, ASKED, "--at", "2").stdout.splitlines() if "logit" in line)
    said = [float(number.replace("−", "-")) for number in re.findall(r"[+−]\d+\.\d\d", line)]
    assert said == pytest.approx([view.parts(1).logit, *(part.value for part in parts)], abs=0.0051)
    other = typed("look", model, ASKED, "--at", "2", "--against", "d")
    assert f"logit over d {view.parts(1, 'd').logit:+.2f}".replace("-", "−") in other.stdout


def test_json_is_the_document(model: str) -> None:
    asked = typed("look", model, ASKED, "--json", "--at", "1", "--against", "d", "--show", "parts,inputs,lens")
    found = json.loads(asked.stdout)
    view = clearhead.look(model, ASKED)
    assert found.keys() >= {"parts", "inputs", "lens", "decoder_lens", "rows", "heads"}
    assert not found.keys() & {"attention", "norms", "rollout", "occlusion"}
    assert found["parts"][-1]["against"] == "d"
    assert found["parts"][-1]["logit"] == pytest.approx(view.parts(0, "d").logit)
    assert [one["at"] for one in found["inputs"]] == [0]
    assert found["answer"] == view.answer


def test_files_by_the_end_of_their_name(model: str, tmp_path: Path) -> None:
    for end in ("html", "json", "npz", "svg"):
        result = typed("look", model, ASKED, "-o", str(tmp_path / f"x.{end}"))
        assert (result.returncode, result.stdout) == (0, ""), result.stderr
    view = clearhead.look(model, ASKED)
    assert json.loads((tmp_path / "x.json").read_text())["answer"] == view.answer
    with np.load(tmp_path / "x.npz") as held:
        assert np.array_equal(held["norms.cross"], view.norms["cross"].numpy())
    assert ElementTree.parse(tmp_path / "x.svg").getroot().tag.endswith("svg")
    page = (tmp_path / "x.html").read_text()
    held_document = json.loads(re.findall(r'id="data">(.*?)</script>', page)[0])
    importance = {head["name"]: head["importance"] for head in held_document["heads"]}
    without = view.without("cross.2.1").log_probabilities
    lost = sum(value or 0 for value in view.log_probabilities) - sum(value or 0 for value in without)
    assert importance["cross.2.1"] == pytest.approx(lost, abs=1e-6)
    assert {one["against"] for one in held_document["parts"]} > {None}, "every token against its rival"


def test_heads_off_and_other_answers(model: str) -> None:
    found = typed("look", model, ASKED, "--without", "cross.1.1", "--without", "cross.2.2")
    assert "without cross.1.1, cross.2.2" in " ".join(found.stdout.split())
    assert f"with all heads: {clearhead.look(model, ASKED).answer_text}  log p −" in found.stdout
    other = typed("look", model, ASKED, "--target", "fed")
    assert other.stdout.splitlines()[0] == "bad cab → fed"


def test_a_study_of_all_heads(model: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("bad\tdab\ncab\tbag\nface\tfed\n")
    asked = ["look", model, str(tmp_path / "pairs.tsv"), "--heads"]
    shown = typed(*asked)
    assert shown.stdout.startswith("12 heads on 3 lines"), shown.stderr
    for end in ("html", "json"):
        assert typed(*asked, "-o", str(tmp_path / f"heads.{end}")).returncode == 0
    study = json.loads((tmp_path / "heads.json").read_text())
    page = (tmp_path / "heads.html").read_text()
    best = max(study["heads"], key=lambda head: head["importance"])
    assert f"{best['importance']:+.4f}" in page
    assert re.findall(r'class="end" x="\d+" y="15">([\w.]+)<', page) == [best["name"]]


def test_alignments_and_their_error(model: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("bad\tdab\n\ncab\n")
    result = typed("look", model, str(tmp_path / "pairs.tsv"), "--align", "--shift", "0")
    lines = result.stdout.split("\n")
    view = clearhead.look(model, "bad", "dab")
    assert lines[0] == clearhead.pharaoh(view.align(shift=0))
    assert lines[1] == ""
    (tmp_path / "gold").write_text("\n".join(lines[:3]) + "\n")
    asked = ["look", model, str(tmp_path / "pairs.tsv"), "--align", "--shift", "0", "--gold", str(tmp_path / "gold")]
    assert "AER 0.00  chosen: mean of all heads, shift 0" in typed(*asked).stderr
    (tmp_path / "gold").write_text("2-0\n\n0-9\n")
    worse = typed(*asked, "--json")
    assert json.loads(worse.stdout.splitlines()[-2])["chosen"]["aer"] > 0.3
    (tmp_path / "gold").write_text("0-0\n")
    assert "3 alignments, but 1 lines of gold" in typed(*asked).stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], 2, "give a text"),
        (["a", "b"], 2, "b: is one word too many: put quotes around a text"),
        (["a", "--at", "0"], 2, "--at 0: tokens are counted from 1"),
        (["a", "--at", "99"], 2, "tokens, counted from 1"),
        (["a", "--against", "b"], 2, "--at N"),
        (["a", "--at", "1", "--against", "zzz"], 3, "the model has no token 'zzz'"),
        (["a", "--show", "nroms"], 2, "did you mean norms?"),
        (["a", "--without", "cross.9.9"], 2, "no such head"),
        (["a", "-o", "x.pdf"], 3, "a view is saved as .html, .json, .npz, .svg"),
        (["a", "-o", "none/x.html"], 1, "the folder none does not exist"),
        (["a", "-o", "x.json", "--json"], 2, "choose one"),
        (["a", "--gold", "x"], 2, "--gold: is not for one text, but for --align"),
        (["a", "--metric", "x"], 2, "--metric: is not for one text, but for --heads"),
        (["a", "--heads", "--at", "1"], 2, "--at: is not for --heads"),
        (["a", "--heads", "-o", "x.svg"], 2, "a study of heads is saved as .html or .json"),
        (["a", "--align", "--at", "1"], 2, "--at: is not for --align"),
        (["none.tsv", "--align"], 3, "none.tsv"),
        (["a", "training.steps=3"], 2, "decoding"),
    ],
)
def test_mistakes_are_one_message(model: str, words: list[str], code: int, said: str) -> None:
    result = typed("look", model, *words)
    assert result.returncode == code, result.stderr
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_a_text_may_look_like_a_setting_or_come_from_a_pipe(model: str) -> None:
    assert typed("look", model, "a=b").stdout.startswith("a=b → ")
    result = forked("look", model, "-", given=b"bad cab\nmore\n", env=PLAIN)
    assert result.stdout.decode().startswith("bad cab → ")
    assert result.stderr.decode() == ""


def test_a_terminal_of_any_width_is_filled_and_not_more(model: str) -> None:
    for columns in (50, 120):
        shown = at_terminal(["look", model, ASKED], columns=columns)
        lines = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.terminal).splitlines()
        assert shown.code == 0
        assert max(map(len, lines)) <= columns
