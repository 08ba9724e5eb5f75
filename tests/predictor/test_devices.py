"""Answers on a GPU: nothing is left on the CPU, nothing waits more often than it must. See tests/fake_gpu.py."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.data import Labelled, Pair, Text
from clearhead.decoding.lean import lean_decoder
from clearhead.errors import DeviceError, RecipeError
from clearhead.models import build, device_of, pick_device
from clearhead.predictor import Predictor, TextWriter, load, predictor_of
from clearhead.recipe import read_recipe
from clearhead.training import prepare
from clearhead.verbs.answer import worker_count
from tests.cli.typed import typed
from tests.fake_gpu import META, FakeGpu
from tests.training.toy import FAMILIES, SMALL, write_pairs

LINES = ["abc", "d", "efgab"]


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    """A model of each family that was not trained, on the fake GPU."""
    found = {}
    for family, write in {"seq2seq": write_pairs, **FAMILIES}.items():
        folder = tmp_path_factory.mktemp(family)
        settings = [f"model.family={family}", f'data.train="{write(folder / "data", count=40)}"', *SMALL]
        run = prepare(
            read_recipe(None, *settings, "training.steps=1", "decoding.max_length=5", "decoding.min_length=5"),
            folder / "run",
        )
        made = predictor_of(build(run.recipe, seed=0).eval(), run.recipe, run.codecs)
        found[family] = made.on_device(META)
        assert (device_of(made.model).type, device_of(found[family].model)) == ("cpu", META)
    return found


def asked(family: str) -> list[str]:
    lines = LINES if family == "seq2seq" else [" ".join(line) for line in LINES]
    return [f"{line} <mask>" for line in lines] if family == "encoder" else lines


@pytest.mark.parametrize("family", ["seq2seq", *FAMILIES])
def test_a_model_answers_on_a_gpu(there: dict[str, Predictor], family: str) -> None:
    with FakeGpu() as gpu:
        answers = there[family].generate(asked(family))
    assert len(answers) == len(LINES)
    assert gpu.waits > 0


@pytest.mark.parametrize("family", ["seq2seq", "lm"])
@pytest.mark.parametrize("how", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}], ids=str)
def test_a_gpu_is_waited_for_once_a_token(there: dict[str, Predictor], family: str, how: dict[str, Any]) -> None:
    """Every answer has five tokens."""
    with FakeGpu() as gpu:
        there[family].generate(asked(family), **how)
    assert gpu.waits == 5


def test_text_is_written_piece_by_piece_on_a_gpu(there: dict[str, Predictor]) -> None:
    with FakeGpu() as gpu:
        list(there["seq2seq"].stream("abc"))
    assert gpu.waits == 5


EXAMPLES = {"seq2seq": Pair("ab", "B A", 1), "lm": Text("a b", 1), "classifier": Labelled("up", "a b", 1)}


@pytest.mark.parametrize("family", EXAMPLES)
def test_given_answers_are_scored_on_a_gpu(there: dict[str, Predictor], family: str) -> None:
    with FakeGpu():
        (line,) = there[family].forced([EXAMPLES[family]])
    assert len(line.log_probabilities) > 0


@pytest.mark.parametrize("family", ["seq2seq", "encoder", "classifier"])
def test_vectors_are_computed_on_a_gpu(there: dict[str, Predictor], family: str) -> None:
    with FakeGpu():
        assert len(there[family].vectors(asked(family))) == len(LINES)


@pytest.mark.parametrize("family", ["seq2seq", "lm", "classifier"])
def test_a_look_inside_is_made_on_a_gpu(there: dict[str, Predictor], family: str) -> None:
    with FakeGpu(lenient=True):
        assert there[family].look(asked(family)[0]).document()["answer"]


def test_images_are_answered_on_a_gpu() -> None:
    recipe = read_recipe("vit-b16", "model.layers=1", "model.width=16", "model.heads=2")
    patches = recipe.model.patches  # type: ignore[attr-defined]
    text = " ".join("0" for _ in range(patches.height * patches.width * patches.channels))
    recipe = recipe.updated(model=recipe.model.replaced(labels=["a", "b"], classes=2))
    predictor = predictor_of(build(recipe, seed=0).eval(), recipe, ()).on_device(META)
    with FakeGpu():
        assert predictor.generate([text]) == ["a"]
        assert predictor.vectors([text]).shape == (1, 16)


def test_the_steppers_for_cpus_stay_there(there: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch) -> None:
    """And where they do not, a wrong variant, it is seen: they read weights as NumPy arrays."""
    model = there["seq2seq"].model
    assert lean_decoder(model) is None
    monkeypatch.setattr("clearhead.decoding.lean._on_cpu", lambda _: True)
    assert lean_decoder(model) is not None
    with FakeGpu(), pytest.raises(TypeError, match="numpy"):
        there["seq2seq"].generate(LINES)


def test_a_line_that_stays_on_the_cpu_is_seen(there: dict[str, Predictor], monkeypatch: pytest.MonkeyPatch) -> None:
    module = sys.modules["clearhead.predictor.forced"]  # a function has the same name
    monkeypatch.setattr(module, "device_of", lambda _: torch.device("cpu"))
    with FakeGpu(), pytest.raises(AssertionError, match="mixes tensors"):
        there["seq2seq"].forced([EXAMPLES["seq2seq"]])


def test_a_gpu_is_used_by_one_process(there: dict[str, Predictor]) -> None:
    """What a process holds on a GPU does not survive a fork."""
    assert worker_count("all", there["lm"]) == worker_count(8, there["lm"]) == 1
    assert worker_count(8, clearhead.load("g2p-en", device="cpu")) == 8


def test_a_model_moves_only_if_it_must() -> None:
    here = clearhead.load("g2p-en")
    assert here.on_device(pick_device("cpu")) is here
    answering = here.answering(beam_size=7).on_device(META)
    assert answering.recipe.decoding.beam_size == 7
    assert type(answering) is type(here)


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "run": lambda file: ["run", "g2p-en", str(file)],
    "run --vectors": lambda file: ["run", "g2p-en", str(file), "--vectors"],
    "eval": lambda file: ["eval", "g2p-en", str(file)],
    "score": lambda file: ["score", "g2p-en", str(file)],
    "look": lambda file: ["look", "g2p-en", "cabbage"],
    "look --align": lambda file: ["look", "g2p-en", str(file), "--align"],
    "look --heads": lambda file: ["look", "g2p-en", str(file), "--heads"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_device_that_is_not_there_is_one_clear_error(command: str, tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    file = tmp_path / "pairs.tsv"
    file.write_text("cab\tK AE1 B\n")
    found = typed(*COMMANDS[command](file), "--device", "cuda:1")
    assert (found.returncode, found.stdout) == (4, "")
    assert "cuda is not available on this machine (available: cpu)" in found.stderr


def test_what_is_no_device_is_refused() -> None:
    with pytest.raises(DeviceError, match=r"no device 'cdua'; did you mean cuda\? \(auto, cpu, cuda, cuda:1, mps\)"):
        pick_device("cdua")
    for name in ("meta", "cuda:", "cuda:x", "cpu:1", "mps:0"):
        with pytest.raises(DeviceError, match="no device"):
            pick_device(name)


def test_a_gpu_that_this_machine_has_not_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert pick_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(DeviceError, match=r"there is no cuda:2: this machine has 2 GPUs"):
        pick_device("cuda:2")


def test_other_engines_compute_on_the_cpu(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("cab\tK AE1 B\n")
    for words in (["run", "g2p-en", str(file)], ["eval", "g2p-en", str(file)]):
        found = typed(*words, "--engine", "ctranslate2", "--device", "mps")
        assert found.returncode == 2
        assert "the engine ctranslate2 computes on the CPU here" in found.stderr
    with pytest.raises(RecipeError, match="computes on the CPU here"):
        clearhead.serve("g2p-en", engine="ctranslate2", device="cuda")
    with pytest.raises(RecipeError, match="is no device"):
        clearhead.serve("g2p-en", device="tpu")


def test_a_written_text_is_the_same_on_a_named_device(predictor: TextWriter, run: Path) -> None:
    named = clearhead.load(run, device="cpu")
    assert named.generate(["abc", "gfe"]) == predictor.generate(["abc", "gfe"]) == load(run).generate(["abc", "gfe"])
