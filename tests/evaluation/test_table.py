"""One table of metrics: what stands in it works everywhere, and a new metric is one entry."""

import inspect
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

import clearhead
from clearhead.errors import RecipeError
from clearhead.evaluation import PairResults, Results, Statistic, functions, kept_scores, measure
from clearhead.recipe import (
    Material,
    metric_kinds,
    metric_rises,
    metrics,
    metrics_for,
    metrics_of,
    read_recipe,
    register_metric,
)
from tests.cli.typed import typed
from tests.evaluation.results import perfect_and_poor
from tests.training.toy import FEW, SMALL, write_pairs

MATERIALS: tuple[Material, ...] = get_args(Material)


def test_every_entry_has_a_function_and_every_function_an_entry() -> None:
    there = [
        name for name, one in inspect.getmembers(functions, inspect.isfunction) if one.__module__ == functions.__name__
    ]
    assert sorted(name for name in there if not name.startswith("_")) == sorted(metric_kinds())
    for name, kind in metric_kinds().items():
        assert kind.load() is getattr(functions, name)
        assert kind.summary
        assert kind.judges


@pytest.mark.parametrize("material", MATERIALS)
def test_the_better_model_has_the_better_score(material: Material) -> None:
    """Each metric goes in the direction that the table says, so that training keeps the better model."""
    perfect, poor = perfect_and_poor(material)
    names = metrics_for(material)
    assert names
    good, bad = measure(perfect, names, 20), measure(poor, names, 20)
    for name in names:
        gain = good[name].value - bad[name].value
        assert (gain if metric_rises(name) else -gain) > 0, name
        if metric_kinds()[name].unit == "percent":
            assert 0 <= good[name].value <= 100 + 1e-9
        low, high = good[name].low, good[name].high
        assert low is not None
        assert high is not None
        assert low - 1e-9 <= good[name].value <= high + 1e-9


def test_every_family_has_a_usual_metric_and_a_loss() -> None:
    """Ties are decided by the loss; `auto` takes the first metric of a dev evaluation."""
    first = {"symbols": "line_error", "sentences": "bleu", "labels": "accuracy", "pictures": "accuracy"}
    for material in MATERIALS:
        assert metrics_for(material, "dev")[0] == first.get(material, "perplexity")
        assert "loss" in metrics_for(material)
    assert set(metrics_of("pairs")) == {*metrics_for("symbols"), *metrics_for("sentences")}
    assert metrics_of("nothing") == ()


def test_what_is_shown_first_suits_the_data() -> None:
    assert metrics_for("symbols", "dev", "main") == ("line_error", "symbol_error", "perplexity", "token_accuracy")
    assert metrics_for("sentences", "dev", "main")[:2] == ("bleu", "chrf")


@pytest.mark.parametrize("family", ["seq2seq", "lm", "encoder", "classifier"])
def test_training_takes_every_metric_of_the_family_and_no_other(family: str) -> None:
    spec = read_recipe(None, f"model.family={family}").model
    names = metrics_of(spec.learns)
    for name in names:
        assert read_recipe(None, f"model.family={family}", f"training.metric={name}").training.metric == name
    for name in metric_kinds().keys() - set(names):
        with pytest.raises(RecipeError, match=f"a model of family {family} is judged by {', '.join(names)}"):
            read_recipe(None, f"model.family={family}", f"training.metric={name}")


def test_a_misspelt_metric_is_told_with_the_nearest_one() -> None:
    with pytest.raises(RecipeError) as error:
        read_recipe(None, "training.metric=blue")
    known = "line_error, symbol_error, bleu, chrf, ter, perplexity, token_accuracy, loss"
    message = f"a model of family seq2seq is judged by {known}; did you mean bleu?"
    assert str(error.value) == f'command line: training.metric = "blue": {message}'
    with pytest.raises(RecipeError, match="must be a text"):
        read_recipe(None, "training.metric=3")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "bleu"}, "'bleu' is registered already"),
        ({"name": "auto"}, "small letters, digits and _"),
        ({"name": "My Metric"}, "small letters, digits and _"),
        ({"function": "nowhere"}, "package.module:function"),
        ({"judges": {"words": "dev"}}, "not 'words' to 'dev'"),
        ({"judges": {"symbols": "often"}}, "not 'symbols' to 'often'"),
    ],
)
def test_an_entry_that_cannot_work_is_refused(change: dict[str, Any], message: str) -> None:
    entry: dict[str, Any] = {"name": "mine", "function": "math:sqrt", "judges": {"symbols": "rest"}} | change
    with pytest.raises(ValueError, match=message):
        register_metric(summary="Mine.", rising=True, **entry)
    assert "mine" not in metric_kinds()


@pytest.fixture
def own_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that is thrown away after the test."""
    monkeypatch.setattr(metrics, "_metrics", dict(metrics._metrics))


@pytest.mark.usefixtures("own_table")
@pytest.mark.parametrize(("rising", "best"), [(True, 4), (False, 2)])
def test_a_new_metric_is_one_entry(tmp_path: Path, rising: bool, best: int) -> None:
    """Registered, it chooses the best model, stands in the curves, in scores.json and in JSON; direction counts."""
    values = [1.0, 3.0, 2.0]

    def luck(results: Results) -> Statistic:
        assert isinstance(results, PairResults)
        assert len(results.answers) == results.size
        value = values.pop(0) if values else 7.0
        return Statistic(lambda weights: value + weights[0], "by hand")

    clearhead.register_metric(
        "luck", luck, summary="Luck.", rising=rising, judges={"symbols": "rest", "sentences": "rest"}, unit="plain"
    )
    run = tmp_path / "run"
    words = ["--max-steps", "6", "training.evaluate_every=2", "training.metric=luck", *SMALL]
    trained = typed("train", str(write_pairs(tmp_path / "pairs.tsv", count=FEW)), "-o", str(run), *words)
    assert trained.returncode == 0, trained.stderr
    assert f"best dev luck: {4 if rising else 2}.00 at step {best}," in trained.stderr
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [row["dev_luck"] for row in rows if row["kind"] == "dev"] == [2.0, 4.0, 3.0]
    assert kept_scores(run)["dev"]["luck"].value == 8.0
    asked = json.loads(typed("eval", str(run), "--split", "dev", "--json").stdout)
    found = asked["metrics"]["luck"]
    assert (found["value"], found["signature"]) == (8.0, "by hand")
    assert found["low"] < 8.0 < found["high"]
    plain = typed("eval", str(run), "--split", "dev").stdout
    assert "luck " not in plain  # it was registered as one of the rest, which the last line names
    assert "luck" in plain.splitlines()[-1]


@pytest.mark.usefixtures("own_table")
def test_a_metric_may_have_no_interval() -> None:
    register_metric(
        "slow",
        lambda results: Statistic(lambda weights: float(np.sum(weights))),
        summary="Slow.",
        rising=True,
        judges={"texts": "rest"},
        interval=False,
    )
    perfect, _ = perfect_and_poor("texts")
    found = measure(perfect, ["slow", "loss"], 10)
    assert (found["slow"].value, found["slow"].low, found["slow"].high) == (3.0, None, None)
    assert found["loss"].low is not None
    assert list(found) == ["slow", "loss"]
