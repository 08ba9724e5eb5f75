"""Language models, encoders and classifiers on the command line: train, eval, run, score, check, mistakes."""

import gzip
import json
from pathlib import Path

import pytest

from tests.cli.test_run import clearhead, lines_of
from tests.cli.test_train import kill_while_writing, start
from tests.cli.typed import typed
from tests.training.test_trainer import assert_same_run
from tests.training.toy import FAMILIES, SMALL

QUICK = [*SMALL, "training.evaluate_every=30", "--max-steps", "60", "training.optimizer.rate=0.004"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder of each family; the language model's file is gzipped, and nobody names its family."""
    folder = tmp_path_factory.mktemp("families")
    for family, write in FAMILIES.items():
        data = write(folder / f"{family}.txt")
        named = [f"model.family={family}"]
        if family == "lm":
            data, named = folder / "lm.txt.gz", []
            data.write_bytes(gzip.compress((folder / "lm.txt").read_bytes()))
        result = clearhead("train", str(data), "-o", str(folder / family), *named, *QUICK)
        assert result.returncode == 0, result.stderr.decode()
    return folder


@pytest.mark.parametrize(
    ("family", "metric", "said"),
    [
        ("lm", "perplexity", "training lines of text"),
        ("encoder", "perplexity", "training lines of text"),
        ("classifier", "accuracy", "training labelled texts"),
    ],
)
def test_the_dev_score_is_what_eval_says(runs: Path, family: str, metric: str, said: str) -> None:
    (scores,) = (
        json.loads(line) for line in lines_of(clearhead("eval", str(runs / family), "--split", "dev", "--json"))
    )
    log = (runs / family / "train.log").read_text()
    assert f"best dev {metric}: {scores['metrics'][metric]['value']:.2f} " in log
    assert said in log
    interval = scores["metrics"][metric]
    assert interval["low"] <= interval["value"] <= interval["high"]


def test_a_classifier_says_labels(runs: Path, tmp_path: Path) -> None:
    """One a line; scores, n-best, JSON with probabilities; the share of right ones is the accuracy of eval."""
    run = str(runs / "classifier")
    rows = [line.split("\t") for line in (runs / "classifier.txt").read_text().splitlines()]
    texts = "\n".join(text for _, text in rows).encode()
    said = lines_of(clearhead("run", run, given=texts))
    right = sum(label == answer for (label, _), answer in zip(rows, said, strict=True))
    (scores,) = (json.loads(line) for line in lines_of(clearhead("eval", run, str(runs / "classifier.txt"), "--json")))
    assert scores["metrics"]["accuracy"]["value"] == pytest.approx(100 * right / len(rows))
    assert scores["texts"] == len(rows)
    given = b"a b c\n\nc d e a\n"
    assert lines_of(clearhead("run", run, given=given))[1] == ""
    scored = lines_of(clearhead("run", run, "--scores", given=given))[0].split("\t")
    best = [line.split(" ||| ") for line in lines_of(clearhead("run", run, "--n-best", "3", given=given))]
    assert [row[0] for row in best] == ["0", "0", "1", "2", "2"]
    assert best[0][1:] == scored
    source = tmp_path / "x.jsonl"
    source.write_text('{"text": "a b c", "id": 7}\n')
    (table,) = (json.loads(line) for line in lines_of(clearhead("run", run, str(source), "--json")))
    assert (table["id"], table["label"], len(table["probabilities"])) == (7, scored[0], 2)
    assert sum(table["probabilities"].values()) == pytest.approx(1)
    pairs = tmp_path / "x.tsv"
    pairs.write_text(f"{scored[0]}\ta b c\n")
    assert lines_of(clearhead("score", run, str(pairs))) == [scored[1]]


def test_a_language_model_goes_on_and_scores(runs: Path, tmp_path: Path) -> None:
    run = str(runs / "lm")
    assert len(lines_of(clearhead("run", run, given=b"a b c\n\nf g\n"))) == 3
    file = tmp_path / "x.txt"
    file.write_text("a b c\nd e\n")
    plain = [float(value) for value in lines_of(clearhead("score", run, str(file)))]
    tables = [json.loads(line) for line in lines_of(clearhead("score", run, str(file), "--json"))]
    assert [table["text"] for table in tables] == ["a b c", "d e"]
    assert [len(table["tokens"]) for table in tables] == [4, 3]
    assert plain == pytest.approx([table["log_probability"] for table in tables], abs=1e-5)
    (scores,) = (json.loads(line) for line in lines_of(clearhead("eval", run, str(file), "--json")))
    assert scores["tokens"] == 7


def test_an_encoder_fills_in(runs: Path, tmp_path: Path) -> None:
    (filled,) = lines_of(clearhead("run", str(runs / "encoder"), given=b"a <mask> c"))
    first, gap, last = filled.split()
    assert (first, last) == ("a", "c")
    assert gap in "abcdefg"
    given = clearhead("run", str(runs / "encoder"), "--json", given=b"a <mask> c\n\na b\nd\n")
    assert [json.loads(row)["filled"] for row in lines_of(given)][1:] == ["", "a b", "d"]
    told = [
        f"standard input, line {number}: there is no <mask> to fill in; the text stays as it is" for number in (3, 4)
    ]
    assert given.stderr.decode().splitlines() == told
    file = tmp_path / "x.txt"
    file.write_text("a b c\n")
    refused = clearhead("score", str(runs / "encoder"), str(file))
    assert refused.returncode == 1
    assert "an encoder gives masked tokens a probability, not lines" in refused.stderr.decode()


def test_killed_while_writing_and_resumed_ends_the_same(tmp_path: Path) -> None:
    """Contract 3 for the family whose batches are drawn: SIGKILL in the middle of a checkpoint, as for pairs."""
    data = FAMILIES["encoder"](tmp_path / "data.txt")
    hard = ["training.accumulate=2", "training.evaluate_every=10", "training.save_every=1", "model.family=encoder"]
    arguments = ["train", str(data), "--max-steps", "30", *hard, *SMALL]
    undisturbed = clearhead(*arguments, "-o", str(tmp_path / "whole"))
    assert undisturbed.returncode == 0, undisturbed.stderr.decode()
    process = start(*arguments, "-o", str(tmp_path / "killed"))
    kill_while_writing(process, tmp_path / "killed" / "last", after=3)
    resumed = clearhead(*arguments, "-o", str(tmp_path / "killed"), "--resume")
    assert resumed.returncode == 0, resumed.stderr.decode()
    assert "continuing after step" in resumed.stderr.decode()
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


BAD: dict[str, str | bytes] = {
    "labels.tsv": "up\ta b\ndown\tb c\n" * 20,
    "single.tsv": "".join(f"up\ta {i}\n" for i in range(200)),
    "unknown.tsv": "up\ta\nsideways\tb\n",
    "columns.tsv": "up\ta\tb\n",
    "empty.tsv": "up\t\n",
    "gap.txt": "a b\n\nc d\n",
    "nothing.txt": "",
    "bytes.txt": b"a b\n\xff\n",
    "few.txt": "a b\n",
    "turned.tsv": "b c\tup\n",
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "single.tsv", "model.family=classifier"], "single.tsv: every text has the label 'up'"),
        (
            ["train", "labels.tsv", "--dev", "unknown.tsv", "model.family=classifier"],
            "unknown.tsv, line 2: label 'sideways' is not in the training data",
        ),
        (["train", "columns.tsv", "model.family=classifier"], "line 1: 3 columns between tabs instead of 2"),
        (["train", "empty.tsv", "model.family=classifier"], "line 1: empty text"),
        (["train", "gap.txt"], "gap.txt, line 2: empty line"),
        (["train", "bytes.txt"], "bytes.txt, line 2: is not UTF-8"),
        (["train", "nothing.txt"], "nothing.txt: is empty"),
        (["train", "few.txt", "model.family=encoder"], "1 lines of text are too few"),
        (["eval", "CLASSIFIER", "unknown.tsv"], "unknown.tsv, line 2: label 'sideways' is not in the training data"),
        (["score", "CLASSIFIER", "unknown.tsv"], "unknown.tsv, line 2: label 'sideways'"),
        (["eval", "CLASSIFIER", "turned.tsv"], "is not in the training data: the label comes first, then the text"),
        (["eval", "LM", "nothing.txt"], "no lines of text inside"),
        (["run", "CLASSIFIER", "--from", "jsonl", "x.jsonl"], 'no text in the field "text"'),
    ],
)
def test_what_goes_wrong_is_one_message(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in BAD.items():
        (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
    (tmp_path / "x.jsonl").write_text('{"source": "a"}\n')
    names = {"CLASSIFIER": str(runs / "classifier"), "LM": str(runs / "lm")}
    command = [names.get(word, word) for word in arguments]
    result = typed(*command, *(["-o", "run"] if command[0] == "train" else []))
    assert result.returncode == 3, result.stderr
    assert message in result.stderr
    assert not (tmp_path / "run").exists()


def test_a_file_of_text_is_for_a_language_model(tmp_path: Path) -> None:
    """By its name, if its first line has no tab and no family is named; check sees it the same way."""
    file = FAMILIES["lm"](tmp_path / "x.txt")

    def examined(*words: str) -> str:
        (line,) = typed("check", str(file), "--json", *words).stdout.splitlines()
        return str(json.loads(line)["examples"])

    assert examined() == "lines of text"
    file.write_text("".join(f"{line[0]}\t{line}\n" for line in file.read_text().splitlines()))
    assert examined("data.dev_share=0.4") == "pairs"
    assert examined("data.dev_share=0.4", "model.family=classifier") == "labelled texts"
