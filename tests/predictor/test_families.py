"""Answers of language models, encoders and classifiers: the contracts of decoding, for what they do."""

import math
import random
from typing import Any

import pytest
import torch

from clearhead.data import BOS, EOS, Labelled, Text
from clearhead.errors import ClearheadError, DataError
from clearhead.models import LanguageModel
from clearhead.predictor import Filler, Labeller, NothingMasked, Predictor, TextWriter, UnknownCharacters, load
from clearhead.recipe import read_recipe
from clearhead.training import prepare
from clearhead.verbs.session import make_trainer
from tests.training.toy import FAMILIES, SMALL

LINES = [" ".join(random.Random(seed).choices("abcdefg", k=1 + seed % 9)) for seed in range(60)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Predictor]:
    """One model of each family, trained a little; lines of more than six tokens are cut."""
    found = {}
    for family, write in FAMILIES.items():
        folder = tmp_path_factory.mktemp(family)
        settings = [f"model.family={family}", f'data.train="{write(folder / "data")}"', *SMALL, "data.max_length=6"]
        quick = ["training.steps=120", "training.optimizer.rate=0.004", "training.average=0.98"]
        recipe = read_recipe(None, *settings, *quick, "training.evaluate_every=120")
        trainer = make_trainer(prepare(recipe, folder / "run"))
        trainer.run()
        found[family] = load(folder / "run")
    return found


def test_the_kind_of_predictor_follows_the_family(trained: dict[str, Predictor]) -> None:
    assert [type(predictor) for predictor in trained.values()] == [TextWriter, Filler, Labeller]


@pytest.mark.parametrize("family", FAMILIES)
def test_an_answer_does_not_depend_on_the_batch(trained: dict[str, Predictor], family: str) -> None:
    """Contract 1: alone, in small batches, all together, shuffled."""
    predictor = trained[family]
    texts = [f"{line} <mask> {line[:3]}" if family == "encoder" else line for line in LINES]
    together = predictor.answers(texts, predictor.decoding(), scored=True)
    for tokens in (1, 30, 100_000):
        other = predictor.answers(texts, predictor.decoding(batch_tokens=tokens), scored=True)
        assert [best.text for best, *_ in other] == [best.text for best, *_ in together]
        for (mine, *_), (theirs, *_) in zip(other, together, strict=True):
            assert mine.log_probability == pytest.approx(theirs.log_probability, abs=1e-5)
    order = list(range(len(texts)))
    random.Random(1).shuffle(order)
    shuffled = predictor.generate([texts[index] for index in order])
    assert shuffled == [together[index][0].text for index in order]
    assert len(set(shuffled)) > 1


@pytest.mark.parametrize("family", FAMILIES)
def test_scores_do_not_depend_on_neighbours(trained: dict[str, Predictor], family: str) -> None:
    predictor = trained[family]
    examples: list[Any] = [Labelled("up", line, 1) if family == "classifier" else Text(line, 1) for line in LINES]
    judge = predictor.hidden if isinstance(predictor, Filler) else predictor.forced
    together = judge(examples)
    for example, line in zip(examples, together, strict=True):
        (alone,) = judge([example])
        assert alone.log_probabilities == pytest.approx(line.log_probabilities, abs=1e-5)
        assert alone.right == line.right


def test_L0_1_the_score_of_a_line_is_that_of_its_tokens_one_by_one(trained: dict[str, Predictor]) -> None:
    """L0.1: Σ log p(y_l | y_<l), the end among them; reference: one forward pass for every token of a short line.

    The wrong variant leaves out the end.
    """
    predictor = trained["lm"]
    model = predictor.model
    assert isinstance(model, LanguageModel)
    for line in ("a b c d", "g", "f a c b a e"):
        ids = [BOS, *predictor.source.encode([line])[0], EOS]
        total = 0.0
        with torch.no_grad():
            for place in range(1, len(ids)):
                logits = model(torch.tensor([ids[:place]]))[0, -1]
                total += float(logits.log_softmax(-1)[ids[place]])
        (score,) = predictor.score([line])
        assert score == pytest.approx(total, abs=1e-5)
        (forced,) = predictor.forced([Text(line, 1)])
        assert sum(forced.log_probabilities[:-1]) != pytest.approx(total, abs=1e-3)


def test_a_long_line_is_scored_in_windows(trained: dict[str, Predictor]) -> None:
    """data.max_length is 6: tokens 1 to 7 are said after <s>, the others after the seventh alone; each counts once."""
    predictor = trained["lm"]
    model = predictor.model
    assert isinstance(model, LanguageModel)
    line = "a b c d e f g a c d"
    ids = predictor.source.encode([line])[0]
    (forced,) = predictor.forced([Text(line, 1)])
    assert len(forced.log_probabilities) == len(ids) + 1
    expected: list[float] = []
    with torch.no_grad():
        for row in ([BOS, *ids[:7]], [*ids[6:], EOS]):
            log_p = model(torch.tensor([row[:-1]]))[0].log_softmax(-1)
            expected += [float(log_p[place, token]) for place, token in enumerate(row[1:])]
    assert forced.log_probabilities == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("beam", [1, 3])
def test_a_continuation_has_the_score_of_the_whole_line(trained: dict[str, Predictor], beam: int) -> None:
    """log p found while writing = that of its tokens in the whole line, fed in: prompts begin with <s>."""
    predictor = trained["lm"]
    prompts = ["a", "b c", "e f g"]
    found = predictor.answers(prompts, predictor.decoding(beam_size=beam, max_length=3), scored=True)
    for prompt, (best, *_) in zip(prompts, found, strict=True):
        (whole,) = predictor.forced([Text(f"{prompt} {best.text}", 1)])
        after = whole.log_probabilities[len(prompt.split()) :]
        assert best.log_probability == pytest.approx(sum(after if best.finished else after[:-1]), abs=1e-5)
        assert best.text


@pytest.mark.parametrize("family", FAMILIES)
def test_L0_3_hard_attention_answers_and_scores_alike(trained: dict[str, Predictor], family: str) -> None:
    """``decoding.attention`` is heeded wherever the model is asked, not only where it writes."""
    predictor = trained[family]
    texts = [f"{line} <mask>" if family == "encoder" else line for line in LINES]

    def asked() -> list[list[float]]:
        answers = predictor.answers(texts, scored=True)
        if isinstance(predictor, Filler):
            judged = predictor.hidden([Text(line, 1) for line in LINES])
        elif isinstance(predictor, Labeller):
            judged = predictor.forced([Labelled(predictor.labels[0], line, 1) for line in LINES])
        else:
            judged = predictor.forced([Text(line, 1) for line in LINES])
        return [[best.log_probability for best, *_ in answers], [line.log_probability for line in judged]]

    trained_recipe = predictor.recipe
    soft = asked()
    try:
        predictor.recipe = trained_recipe.model_copy(update={"decoding": predictor.decoding(attention="hard")})
        hard = asked()
    finally:
        predictor.recipe = trained_recipe
    assert asked() == soft
    for mine, theirs in zip(hard, soft, strict=True):
        assert mine != pytest.approx(theirs, abs=1e-3)


def test_labels_have_probabilities(trained: dict[str, Predictor]) -> None:
    """They sum to one, the best comes first, and scores are their logarithms."""
    predictor = trained["classifier"]
    for text, answers in zip(LINES, predictor.answers(LINES, n_best=5), strict=True):
        assert [answer.text for answer in answers] == list(answers[0].probabilities or {})
        probabilities = list((answers[0].probabilities or {}).values())
        assert sum(probabilities) == pytest.approx(1)
        assert probabilities == sorted(probabilities, reverse=True)
        (score,) = predictor.score([answers[1].text], [text])
        assert score == pytest.approx(answers[1].log_probability)
    with pytest.raises(DataError, match="label 'sideways' is unknown to the model"):
        predictor.score(["sideways"], ["a b"])


def test_gaps_are_filled_and_the_rest_stays(trained: dict[str, Predictor]) -> None:
    """Also where the tokenizer knows nothing; several fillings are sorted, distinct, and by joint probability."""
    predictor = trained["encoder"]
    with pytest.warns(UnknownCharacters, match=r"1 text: the model does not know \? z"):
        assert predictor("a  ? <mask> z").startswith("a  ? ")
    (answers,) = predictor.answers(["a <mask> c <mask>"], n_best=4)
    totals = [answer.log_probability for answer in answers]
    assert totals == sorted(totals, reverse=True)
    assert len({answer.text for answer in answers}) == 4
    (ones,) = predictor.answers(["a <mask> c <mask>"], n_best=49)
    assert len(ones) == 49
    assert sum(math.exp(answer.log_probability) for answer in ones) <= 1 + 1e-5
    assert totals == pytest.approx([answer.log_probability for answer in ones[:4]])


def test_a_text_with_nothing_to_fill_in_is_named(
    trained: dict[str, Predictor], recwarn: pytest.WarningsRecorder
) -> None:
    """It stays as it is; the warning points to the caller's line. Empty texts and those with a gap are no matter."""
    predictor = trained["encoder"]
    with pytest.warns(NothingMasked, match=r"^1 text: there is no <mask> to fill in; the text stays as it is$") as told:
        assert predictor("a b") == "a b"
    with pytest.warns(NothingMasked, match=r"^2 texts: there is no <mask> to fill in;") as more:
        assert predictor.generate(["a b", "", "a <mask>", "c"])[::3] == ["a b", "c"]
    assert [warning.filename for warning in (*told, *more)] == [__file__, __file__]
    with pytest.warns(NothingMasked, match="to fill in, as far as it was read; the text"):
        assert predictor("a b c <mask>", max_source=2) == "a b c <mask>"
    predictor.generate(["", "a <mask> c"])
    assert not recwarn.list


def test_what_a_family_cannot_do_is_said(trained: dict[str, Predictor]) -> None:
    with pytest.raises(ClearheadError, match="an encoder gives masked tokens a probability, not lines"):
        trained["encoder"].score(["a b"])
    with pytest.raises(ClearheadError, match="a model of family classifier does not generate text"):
        trained["classifier"].stream("a")
    with pytest.raises(DataError, match="surrogate"):
        trained["encoder"]("\ud800")
    with pytest.raises(DataError, match="the text has 1 mask, but the target 2 tokens: give one for each"):
        trained["encoder"].look("a <mask>", target="b c")
