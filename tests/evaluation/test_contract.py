"""Contract 2: the dev score of training = what `eval` says = scoring what `run` writes; and what `eval` prints."""

import json
import pickle
from pathlib import Path

import pytest

import clearhead
from clearhead.data import Pair
from clearhead.errors import DataError, RecipeError
from clearhead.evaluation import dev_scores, evaluate, group, kept_scores, score
from clearhead.predictor import Predictor, load
from clearhead.training import reopen
from tests.cli.test_run import clearhead as command
from tests.cli.test_run import lines_of
from tests.cli.typed import typed
from tests.training.toy import SMALL, write_pairs

QUICK = ["--max-steps", "80", "training.evaluate_every=40", "training.optimizer.rate=0.004", "training.average=0.98"]
KINDS = {"symbols": [], "sentences": ["data.target.kind=bpe", "training.metric=ter"]}
FIRST = {"symbols": ["line_error", "symbol_error"], "sentences": ["bleu", "chrf"]}


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on pairs of which some sources have two references."""
    folder = tmp_path_factory.mktemp(request.param)
    pairs = write_pairs(folder / "pairs.tsv", count=300)
    rows = pairs.read_text().splitlines()
    pairs.write_text("".join(f"{row}\n" for row in [*rows, *(f"{row} A" for row in rows[::5])]))
    result = typed("train", str(pairs), "-o", str(folder / "run"), *KINDS[request.param], *QUICK, *SMALL)
    assert result.returncode == 0, result.stderr
    return folder / "run"


@pytest.fixture(scope="module")
def model(run: Path) -> Predictor:
    return load(run)


def test_dev_eval_and_run_agree(run: Path, model: Predictor, tmp_path: Path) -> None:
    """Every metric of answers, to the last digit; other answers give other values."""
    dev = reopen(run).corpus.dev
    sources, references = group(dev)
    assert len(sources) < len(dev)
    (tmp_path / "sources.txt").write_text("".join(f"{source}\n" for source in sources))
    answers = lines_of(command("run", str(run), str(tmp_path / "sources.txt")))
    kind = run.parent.name.rstrip("0123456789")
    by_hand = score(answers, references, spaced=kind == "symbols")
    asked = json.loads(typed("eval", str(run), "--split", "dev", "--json").stdout)
    assert set(by_hand) == {"line_error", "symbol_error", "bleu", "chrf", "ter"}
    assert {name: asked["metrics"][name] for name in by_hand} == by_hand.table()["metrics"]
    assert kept_scores(run)["dev"].table() == asked
    assert evaluate(model, dev).table() == asked
    history = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    rows = [row for row in history if row["kind"] == "dev"]
    metric = "line_error" if kind == "symbols" else "ter"
    best = min(rows, key=lambda row: (row[f"dev_{metric}"], row["dev_loss"]))
    measured = {name.removeprefix("dev_") for name in best if name.startswith("dev_")}
    assert measured == {*FIRST[kind], metric, "loss"}
    for name in measured:
        assert best[f"dev_{name}"] == pytest.approx(asked["metrics"][name]["value"], rel=1e-9)
    others = score([known[0] for known in references], references, spaced=kind == "symbols", bootstrap=0)
    assert all(others[name].value != by_hand[name].value for name in by_hand)


def test_the_screen_shows_what_matters_and_json_everything(run: Path) -> None:
    kind = run.parent.name.rstrip("0123456789")
    lines = typed("eval", str(run), "--split", "test").stdout.splitlines()
    shown = [line.split()[0] for line in lines[1:-1]]
    assert shown == [*FIRST[kind], "perplexity", "token_accuracy"]
    everything = json.loads(typed("eval", str(run), "--split", "test", "--json").stdout)
    others = [name for name in everything["metrics"] if name not in shown]
    assert lines[-1] == f"clearhead eval --json also gives {', '.join(others)}"
    assert {*shown, *others} >= {"line_error", "symbol_error", "bleu", "chrf", "ter", "loss"}
    for found in everything["metrics"].values():
        assert found["low"] <= found["value"] <= found["high"]
    assert [line for line in (run / "train.log").read_text().splitlines() if "also gives" in line] == []


def test_scores_of_a_model(run: Path, model: Predictor) -> None:
    """Names choose what is measured, and nothing else is computed; what is known of each line fits the metrics."""
    dev = reopen(run).corpus.dev
    everything = evaluate(model, dev, bootstrap=20)
    assert isinstance(everything, clearhead.Scores)
    assert list(everything) == [*everything.main, *everything.rest]
    few = evaluate(model, dev, names="main", bootstrap=20)
    assert few.main == everything.main == tuple(few)
    assert few.rest == everything.rest
    assert all(few[name] == everything[name] for name in few)
    for name in everything.rest:  # any of them can be what the best model is chosen by
        assert dev_scores(model, dev, metric=name)[name] == everything[name].value
    wrong = [line for line in everything.lines if not line.right]
    assert everything["line_error"].value == pytest.approx(100 * len(wrong) / len(everything.lines))
    assert everything.worst(len(wrong)) == sorted(wrong, key=lambda line: -line.error)
    assert [line.answer for line in everything.lines] == model.generate([line.source for line in everything.lines])
    first = everything.lines[0]
    log_p = model.score([first.source] * len(first.references), list(first.references))
    assert first.log_probability == pytest.approx(max(log_p), abs=1e-4)
    assert pickle.loads(pickle.dumps(everything)).worst(3) == everything.worst(3)
    likelihood = evaluate(model, dev, names=["loss"], bootstrap=0)
    assert (tuple(likelihood), likelihood.lines) == (("loss",), [])


def test_what_cannot_be_measured(model: Predictor) -> None:
    dev = [Pair("ab", "B A", 1)]
    with pytest.raises(RecipeError, match=r"blue: .* are judged by line_error, .*; did you mean bleu"):
        evaluate(model, dev, names=["blue"])
    with pytest.raises(RecipeError, match="accuracy: "):
        evaluate(model, dev, names=["bleu", "accuracy"])
    with pytest.raises(TypeError, match=r"names is a list of metrics, \['bleu'\]"):
        evaluate(model, dev, names="bleu")
    with pytest.raises(DataError, match="no examples"):
        evaluate(model, [])
