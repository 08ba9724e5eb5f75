"""A study of heads: importance by definition and by its derivative, for every family; resumed; refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.data import Labelled, Pair, Text
from clearhead.errors import ClearheadError, DataError
from clearhead.evaluation import HeadStudy, evaluate, study_heads
from clearhead.evaluation.heads import StudiedHead
from clearhead.evaluation.metrics import Metric
from clearhead.inspection import head_gates, headed_attentions, row_losses
from clearhead.models import build
from clearhead.predictor import Predictor, forced_batches, predictor_of
from clearhead.recipe import read_recipe
from clearhead.training import prepare
from tests.training.toy import FAMILIES, write_pairs

SMALL = ["model.layers=2", "model.width=16", "model.heads=2", "model.feedforward.width=20", "training.steps=2"]
LINES = ["b c e f g a", "a b", "c e g", "d e f g", "a c", "f g a b c"]
EXAMPLES: dict[str, list[Any]] = {
    "seq2seq": [Pair(word, " ".join(word.upper()), line) for line, word in enumerate(["abc", "g", "bade", "cf"], 1)],
    "lm": [Text(text, line) for line, text in enumerate(LINES, 1)],
    "encoder": [Text(text, line) for line, text in enumerate(LINES, 1)],
    "classifier": [Labelled(("up", "down")[line % 2], text, line) for line, text in enumerate(LINES, 1)],
}


@pytest.fixture(scope="module")
def predictors(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    """Models of every family with weights that matter, and their tokenizers."""
    folder, found = tmp_path_factory.mktemp("families"), {}
    for family in EXAMPLES:
        write = FAMILIES.get(family, write_pairs)
        data = write(folder / f"{family}.data", 60)
        settings = [f"model.family={family}", f'data.train="{data}"', *SMALL]
        ready = prepare(read_recipe(None, *settings), folder / family)
        model, generator = build(ready.recipe, seed=5), torch.Generator().manual_seed(7)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() > 1:
                    parameter.normal_(0, 0.3, generator=generator)
        found[family] = predictor_of(model.double(), ready.recipe, ready.codecs)
    return found


def loss_without(predictor: Predictor, examples: list[Any], attention: int, head: int) -> float:
    """The loss that ``eval`` measures when these rows of W_O are 0."""
    (part,) = headed_attentions(predictor.model)[attention].parts
    output: Any = part.output
    size = output.in_features // part.heads
    columns = slice(head * size, (head + 1) * size)
    with torch.no_grad():
        kept = output.weight[:, columns].clone()
        output.weight[:, columns] = 0
        value = evaluate(predictor, examples, names=["loss"], bootstrap=0)["loss"].value
        output.weight[:, columns] = kept
    return value


@pytest.mark.parametrize("family", list(EXAMPLES))
def test_importance_is_the_change_of_the_loss_that_eval_measures(predictors: dict[str, Predictor], family: str) -> None:
    predictor, examples = predictors[family], EXAMPLES[family]
    study = study_heads(predictor, examples, bootstrap=50)
    whole = evaluate(predictor, examples, names=["loss"], bootstrap=0)["loss"].value
    assert study.loss.value == pytest.approx(whole, abs=1e-6)
    for attention in (-1, 0):
        name = headed_attentions(predictor.model)[attention].name
        changes = [loss_without(predictor, examples, attention, head) - whole for head in (0, 1)]
        found = [study[f"{name}.{head}"].importance for head in (1, 2)]
        assert [one.value for one in found] == pytest.approx(changes, abs=1e-6)
    assert found[0].value != pytest.approx(changes[1], abs=1e-4)  # the wrong variant: another head
    assert all(one.low <= one.value <= one.high for one in found if one.low is not None and one.high is not None)
    assert all(0 <= (head.score or 0) <= 1.0001 for head in study.heads)
    assert study.heads[0].role is not None


@pytest.mark.parametrize("family", ["seq2seq", "classifier"])
def test_the_gradient_is_the_central_difference(predictors: dict[str, Predictor], family: str) -> None:
    predictor, examples = predictors[family], EXAMPLES[family]
    study, step = study_heads(predictor, examples, bootstrap=0), 1e-4
    attention = headed_attentions(predictor.model)[-1]
    batches = forced_batches(predictor, examples)

    def loss(gate: list[float]) -> float:
        predictor.model.eval()
        with torch.no_grad(), head_gates(predictor.model, {attention.name: torch.tensor(gate).double()}):
            return sum(float(row_losses(predictor.model, batch).sum()) for batch in batches) / study.tokens

    difference = (loss([1.0, 1.0 + step]) - loss([1.0, 1.0 - step])) / (2 * step)
    own, other = (study[f"{attention.name}.{head}"].gradient.value for head in (2, 1))
    assert own == pytest.approx(difference, rel=1e-3)
    assert other != pytest.approx(difference, rel=1e-2)  # the wrong variant: another head


def test_an_interrupted_study_continues(predictors: dict[str, Predictor], tmp_path: Path) -> None:
    """What is done is not computed again, and the result is the same; a journal of other data is refused."""
    predictor, examples, journal = predictors["lm"], EXAMPLES["lm"] * 400, tmp_path / "journal.npz"
    whole = study_heads(predictor, examples, bootstrap=0)

    class Stop(Exception):
        pass

    def stop(share: float) -> None:
        if share > 0.5:
            raise Stop

    with pytest.raises(Stop):
        study_heads(predictor, examples, bootstrap=0, journal=journal, progress=stop)
    shares: list[float] = []
    resumed = study_heads(predictor, examples, bootstrap=0, journal=journal, progress=shares.append)
    assert 0 < shares[0] < 1
    assert len(shares) < len(forced_batches(predictor, examples)) * len(whole.heads)
    assert resumed.as_dict() == whole.as_dict()
    with pytest.raises(DataError, match="is the journal of another model or other data"):
        study_heads(predictor, examples[1:], bootstrap=0, journal=journal)
    journal.write_bytes(b"no")
    with pytest.raises(DataError, match="is no journal of a study of heads"):
        study_heads(predictor, examples, bootstrap=0, journal=journal)


def test_the_change_of_a_metric(predictors: dict[str, Predictor]) -> None:
    predictor, examples = predictors["classifier"], EXAMPLES["classifier"]
    study = study_heads(predictor, examples, metric="accuracy", bootstrap=20)
    assert study.value is not None
    assert study.metric == "accuracy"
    assert all(head.metric is not None for head in study.heads)
    assert "accuracy without it" in str(study)


def made(values: dict[str, float]) -> HeadStudy:
    heads = tuple(StudiedHead(name, Metric(value, value, value), Metric(0.0)) for name, value in values.items())
    return HeadStudy(heads, 3, 9, Metric(1.0), {})


def test_the_least_important_heads_leave_one_in_every_attention() -> None:
    study = made({"encoder.1.1": 0.1, "encoder.1.2": 0.2, "cross.1.1": 0.5, "cross.1.2": 0.4})
    assert [head.name for head in study.least(2)] == ["encoder.1.1", "cross.1.2"]
    assert study.ranked()[0].name == "cross.1.1"
    with pytest.raises(DataError, match="4 heads in 2 attentions, each of which keeps at least one, so that at most 2"):
        study.least(3)


def test_a_model_without_heads_is_refused(tmp_path: Path) -> None:
    data = write_pairs(tmp_path / "pairs.tsv", 40)
    settings = ["model.family=recurrent", f'data.train="{data}"', "model.width=8", "model.layers=1", "training.steps=2"]
    ready = prepare(read_recipe(None, *settings), tmp_path / "run")
    predictor = predictor_of(build(ready.recipe, seed=1), ready.recipe, ready.codecs)
    with pytest.raises(ClearheadError, match="this model has no heads"):
        study_heads(predictor, EXAMPLES["seq2seq"])
    with pytest.raises(DataError, match="there are no examples"):
        study_heads(predictor, [])
