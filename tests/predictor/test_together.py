"""Several models that answer together: at each token the mean of their probabilities decides."""

import importlib
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.data import Pair
from clearhead.errors import ClearheadError
from clearhead.predictor import TextWriter, together
from tests.cli.typed import typed
from tests.training.toy import FEW, SMALL, write_labels, write_lines, write_pairs

module = importlib.import_module("clearhead.predictor.together")  # the function has the same name
LINES = ["abc", "gfedc", "a", "", "bbbb", "cafe"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[clearhead.Run]:
    """Three runs on the same data, with other seeds."""
    folder = tmp_path_factory.mktemp("together")
    pairs = write_pairs(folder / "pairs.tsv", count=FEW)
    return [
        clearhead.train(pairs, folder / f"run{seed}", steps=30, settings=[*SMALL, f"training.seed={seed}"])
        for seed in (1, 2, 3)
    ]


def mean_log_p(models: list[Any], text: str, answer: Any) -> float:
    """Σ log of the mean of p(token), by teacher forcing each model as a whole: no cache, no search."""
    first = models[0]
    tokens = [*answer.tokens, *([first.engine.eos] if answer.finished else [])]
    source = torch.tensor(first._encode([text], first.decoding())[0])
    inputs = torch.tensor([[first.engine.first, *tokens[:-1]]])
    with torch.no_grad():
        ps = [one.model.eval()(source, inputs)[0].double().softmax(-1) for one in models]
    mean = sum(ps) / len(ps)
    return float(mean[torch.arange(len(tokens)), tokens].log().sum())


@pytest.mark.parametrize("beams", [1, 4])
def test_an_answer_has_the_mean_probability_of_the_models(runs: list[clearhead.Run], beams: int) -> None:
    """Held against whole passes of each model; a mean of logits, or one model alone, says something else."""
    models: list[Any] = [run.model for run in runs]
    all_three: Any = clearhead.together(runs)
    for text, (best, *_) in zip(LINES, all_three.answers(LINES, beam_size=beams), strict=True):
        assert best.log_probability == pytest.approx(mean_log_p(models, text, best), abs=1e-4)
        if best.tokens:
            assert best.log_probability != pytest.approx(mean_log_p(models[:1], text, best), abs=1e-4)


def test_greedy_search_takes_the_token_of_the_highest_mean(runs: list[clearhead.Run]) -> None:
    """Each token, after those before it, is the one that the models together find most probable."""
    models: list[Any] = [run.model for run in runs]
    both: Any = together(models)
    for text, (best,) in zip(LINES, both.answers(LINES, beam_size=1), strict=True):
        source = torch.tensor(both._encode([text], both.decoding())[0])
        banned = both.engine.never_written(both.decoding())
        for place, token in enumerate(best.tokens):
            inputs = torch.tensor([[both.engine.first, *best.tokens[:place]]])
            with torch.no_grad():
                mean = sum(one.model.eval()(source, inputs)[0, -1].softmax(-1) for one in models)
            mean[banned] = 0
            assert int(mean.argmax()) == token


@pytest.mark.parametrize("how", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True, "seed": 5}])
def test_neighbours_and_order_do_not_matter(runs: list[clearhead.Run], how: dict[str, Any]) -> None:
    """Contract 1: a line alone is answered as among others; and the mean has no first and last."""
    both, turned = together([runs[0].model, runs[1].model]), together([runs[1].model, runs[0].model])
    whole = both.generate(LINES, **how)
    assert turned.generate(LINES, **how) == whole
    alone = [both.answers([line], numbers=[number], **how)[0][0].text for number, line in enumerate(LINES)]
    assert alone == whole


def test_a_model_beside_itself_is_itself(runs: list[clearhead.Run]) -> None:
    model = runs[0].model
    for alone, twice in zip(model.answers(LINES), together([model, model]).answers(LINES), strict=True):
        assert [answer.tokens for answer in twice] == [answer.tokens for answer in alone]
        assert twice[0].score == pytest.approx(alone[0].score, abs=1e-4)
    assert together([model]) is model


def test_models_answer_together_piece_by_piece_and_elsewhere(runs: list[clearhead.Run]) -> None:
    """A stream is the greedy answer; another process has all models."""
    both = together([run.model for run in runs])
    greedy = both.generate(LINES, beam_size=1)
    assert ["".join(both.stream(line, beam_size=1)) for line in LINES] == greedy
    there: TextWriter = pickle.loads(pickle.dumps(both))
    assert there.generate(LINES, beam_size=1) == greedy
    assert there.engine.described == both.engine.described


def test_language_models_continue_together(tmp_path: Path) -> None:
    lines = write_lines(tmp_path / "lines.txt", count=FEW)
    models = [
        clearhead.train(lines, tmp_path / f"lm{seed}", steps=10, settings=[*SMALL, f"training.seed={seed}"]).model
        for seed in (1, 2)
    ]
    both = together(models)
    texts = both.generate(["a b c", "d"], beam_size=1)
    assert texts == together(models[::-1]).generate(["a b c", "d"], beam_size=1)
    texts = ["a b c", "d"]
    source = torch.tensor([both.engine.first, *both.target.encode(texts)[0]])
    with torch.no_grad():
        ps = [one.model.eval()(source[None])[0].double().softmax(-1) for one in models]
    following = torch.tensor([*source[1:], both.engine.eos])
    mean = (sum(ps) / len(ps))[torch.arange(len(following)), following].log().sum()
    assert both.score(texts)[0] == pytest.approx(float(mean), abs=1e-4)
    assert both.score(texts)[0] != pytest.approx(models[0].score(texts)[0], abs=1e-4)


def test_what_cannot_answer_together_is_refused(runs: list[clearhead.Run], tmp_path: Path) -> None:
    """Other tokens, other families, no text at all; and what several models do not have in common."""
    (tmp_path / "other.tsv").write_text("".join(f"{number}x\tX {number % 7}\n" for number in range(60)))
    other = clearhead.train(tmp_path / "other.tsv", tmp_path / "other", steps=2, settings=SMALL)
    with pytest.raises(ClearheadError, match="have different tokens: train them on the same data"):
        clearhead.together([runs[0], other])
    lm = clearhead.train(write_lines(tmp_path / "l.txt", count=FEW), tmp_path / "lm", steps=2, settings=SMALL)
    with pytest.raises(ClearheadError, match="families seq2seq and lm write differently"):
        clearhead.together([runs[0], lm])
    labels = write_labels(tmp_path / "labels.tsv", count=FEW)
    settings = [*SMALL[:-1], "model.family=classifier"]
    classifier = clearhead.train(labels, tmp_path / "labels", steps=2, settings=settings)
    with pytest.raises(ClearheadError, match="of family classifier does not write answers"):
        clearhead.together([classifier, classifier])
    with pytest.raises(ClearheadError, match="name a model"):
        clearhead.together([])
    both = clearhead.together(runs)
    with pytest.raises(ClearheadError, match="cannot be one of several"):
        together([both, runs[0].model])
    pairs = str(runs[0].folder.parent / "pairs.tsv")
    for what, call in (
        ("to look into", lambda: both.look("abc")),
        ("for vectors", lambda: both.vectors(["abc"])),
        ("to trace", lambda: both.trace("abc", [3], both.decoding())),
        ("to move or change", lambda: both.with_model(both.model, both.recipe)),
        ("to study", lambda: clearhead.prune(both, pairs, heads=1)),
        ("to study", lambda: clearhead.study_heads(both, pairs)),
        ("to train from", lambda: clearhead.train(pairs, tmp_path / "tuned", start=both, steps=1)),
        ("for another engine", lambda: clearhead.evaluate(both, pairs, engine="native")),
        ("for another engine", lambda: next(iter(clearhead.answer_lines(both, pairs, engine="ctranslate2")))),
    ):
        with pytest.raises(ClearheadError, match=f"one answer and its log p: name one of them {what}"):
            call()


def test_two_orders_do_not_wait_for_each_other(runs: list[clearhead.Run]) -> None:
    """Threads that lock the same models in turn: with the order of the names each could hold what the other needs."""
    ways = [together([run.model for run in order]) for order in (runs[:2], runs[1::-1])]
    expected = [way.generate(LINES) for way in ways]
    taken: list[list[int]] = []
    for way in ways:
        taken.append([])
        with pytest.MonkeyPatch.context() as patch:
            locking = module.evaluating

            def noted(model: Any, choice: Any, taken: list[int] = taken[-1], locking: Any = locking) -> Any:
                taken.append(id(model))
                return locking(model, choice)

            patch.setattr(module, "evaluating", noted)
            assert way.generate(LINES) == expected[ways.index(way)]
    assert taken[0] == taken[1] == sorted(taken[0][:2]) * (len(taken[0]) // 2)


def test_a_batch_needs_the_memory_of_all_models(runs: list[clearhead.Run]) -> None:
    """Where one model fits and two do not, two are refused."""
    engine: Any = together([run.model for run in runs]).engine
    one: Any = runs[0].model
    assert engine._memory(2, 3, 5, 7) == 3 * one.engine._memory(2, 3, 5, 7)


def test_a_pair_is_scored_by_the_mean_probability(runs: list[clearhead.Run]) -> None:
    """log p of what the models answer is what the search found, and the share of right tokens that of the mean."""
    both: Any = clearhead.together(runs)
    models: list[Any] = [run.model for run in runs]
    for text, (best, *_) in zip(LINES, both.answers(LINES, beam_size=1), strict=True):
        if best.finished:
            (found,) = both.forced([Pair(text, best.text, 0)])
            assert found.log_probability == pytest.approx(best.log_probability, abs=1e-4)
            assert found.log_probability != pytest.approx(models[0].score([text], [best.text])[0], abs=1e-4)
            assert found.right == len(best.tokens) + 1


def test_run_and_eval_take_several_models(runs: list[clearhead.Run], tmp_path: Path) -> None:
    """``--with`` says what Python says; answers of other models are not taken up again by --resume."""
    one, two, three = (str(run.folder) for run in runs)
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    found = typed("run", one, str(tmp_path / "lines.txt"), "--with", two, "--with", three)
    assert found.returncode == 0, found.stderr
    assert found.stdout.splitlines() == clearhead.together(runs).generate(LINES)
    pairs = str(runs[0].folder.parent / "pairs.tsv")
    scores = typed("eval", one, pairs, "--with", two, "--json")
    assert scores.returncode == 0, scores.stderr
    expected = clearhead.evaluate(clearhead.together(runs[:2]), pairs).table()
    assert typed("eval", one, pairs, "--json").stdout != scores.stdout
    assert f'"value": {expected["metrics"]["line_error"]["value"]}' in scores.stdout
    lines = str(tmp_path / "lines.txt")
    for words, message in (
        (["run", one, lines, "--engine", "ctranslate2"], "several models answer natively"),
        (["run", one, lines, "-o", f"{tmp_path}/out/", "--on", "ray"], "several models answer on this machine"),
        (["eval", one, "--split", "dev"], "a split is that of one run"),
    ):
        refused = typed(*words, "--with", two)
        assert refused.returncode == 2
        assert message in refused.stderr
    answers = ["run", one, lines, "-o", str(tmp_path / "answers.txt")]
    assert typed(*answers, "--with", two).returncode == 0
    described = {together([run.model for run in some]).engine.described for some in (runs[:2], runs, runs[::2])}
    assert len(described) == 3
    nowhere = typed("run", one, str(tmp_path / "lines.txt"), "--with", str(tmp_path / "nowhere"))
    assert nowhere.returncode != 0
    assert "nowhere" in nowhere.stderr
