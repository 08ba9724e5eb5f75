"""Joint n-grams of a run: counted once, kept, restored, sent along, and left alone where they do not help."""

import pickle
import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import clearhead
from clearhead.decoding import Hypothesis
from clearhead.errors import ClearheadError
from clearhead.joint import UNALIGNED
from clearhead.models import Seq2Seq, load_model
from clearhead.recipe import read_recipe
from clearhead.training import prepare
from clearhead.training.joint import JOINT
from tests.cli.typed import typed
from tests.training.toy import SMALL, write_pairs

WITH = ["model.joint.order=3"]
OFTEN = ["training.evaluate_every=30", "training.save_every=15"]
LEFT_TO_DATA = {"layers", "joint", "batch"}


def write_spoken(path: Path, count: int = 1500, seed: int = 0) -> Path:
    """Letters, each in capitals, but c before e, which is spoken as s: what goes side by side."""
    rng = random.Random(seed)
    words = sorted({"".join(rng.choices("abcde", k=rng.randint(3, 8))) for _ in range(count)})
    rng.shuffle(words)
    lines = [f"{word}\t{' '.join(word.replace('ce', 'se').upper())}\n" for word in words]
    path.write_text("".join(lines))
    return path


def joint_of(model: Any) -> dict[str, torch.Tensor]:
    assert isinstance(model, Seq2Seq)
    assert model.joint is not None
    return dict(model.joint.named_buffers())


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was never stopped."""
    folder = tmp_path_factory.mktemp("joint")
    pairs = write_spoken(folder / "pairs.tsv", 400)
    steps = ["--max-steps", "90", *OFTEN]
    assert typed("train", str(pairs), "-o", str(folder / "whole"), *SMALL, *WITH, *steps).returncode == 0
    return folder / "whole"


def test_what_was_counted_stands_in_the_model_and_not_in_checkpoints(run: Path) -> None:
    kept = load_file(run / "data" / JOINT)
    for name, tensor in joint_of(load_model(run / "best.safetensors").model).items():
        assert torch.equal(tensor, kept[name])
    assert int(kept["followers"].sum()) == len(kept["tokens"]) - 1 > 100
    last = load_file(sorted((run / "last").glob("*.safetensors"))[-1])
    assert not [name for name in last if "joint" in name]
    assert load_model(run / "best.safetensors").recipe.model.joint.nodes == len(kept["tokens"])  # type: ignore[attr-defined]


def test_a_stopped_run_ends_as_one_that_was_never_stopped(run: Path, tmp_path: Path) -> None:
    """Contract 3, with n-grams that checkpoints leave out; without the file they are counted again, to the last bit."""
    pairs = run.parent / "pairs.tsv"
    some = [
        str(pairs),
        "-o",
        str(tmp_path / "run"),
        *SMALL,
        *WITH,
        "training.evaluate_every=6",
        "training.save_every=3",
    ]
    assert typed("train", *some, "--max-steps", "30").returncode == 0
    (tmp_path / "run" / "data" / JOINT).unlink()
    again = typed("train", *some, "--max-steps", "90", "--resume")
    assert again.returncode == 0
    assert "rebuilt from the data" in again.stderr
    for name, tensor in joint_of(load_model(run / "best.safetensors").model).items():
        assert torch.equal(tensor, joint_of(load_model(tmp_path / "run" / "best.safetensors").model)[name])


def test_answers_are_ranked_by_network_and_n_grams_together(run: Path) -> None:
    model, words = clearhead.load(run), ["abcce", "dace", "ebbc"]
    plain = model.answers(words, n_best=4, joint_weight=0.0)
    ranked = model.answers(words, n_best=4, joint_weight=2.0)
    joint: Any = model.model
    for word, before, after in zip(words, plain, ranked, strict=True):
        source = model.source.encode([word])[0]
        log_p = {answer.text: joint.joint.ngrams().score([source], [answer.tokens])[0] for answer in before}
        expected = {answer.text: answer.score + 2.0 * log_p[answer.text] for answer in before}
        assert [answer.text for answer in after] == sorted(expected, key=lambda text: -expected[text])
        assert {answer.text: answer.score for answer in after} == pytest.approx(expected)
        known = {answer.text: answer.log_probability for answer in before}
        assert {answer.text: answer.log_probability for answer in after} == known  # the network's own


def test_an_answer_that_n_grams_prefer_comes_first_if_the_network_hardly_minds(run: Path) -> None:
    model: Any = clearhead.load(run)
    right, wrong = model.target.encode(["D A S E", "D A C E"])
    for lead, first in ((0.5, right), (50.0, wrong)):
        found = [Hypothesis(wrong, -1.0, -1.0), Hypothesis(right, -1.0 - lead, -1.0 - lead)]
        ranked = model._ranked(["dace"], [found], model.decoding())
        assert ranked[0][0].tokens == first
        assert model._ranked(["dace"], [found], model.decoding(joint_weight=0.0)) == [found]


def test_greedy_search_and_samples_are_the_networks_own(run: Path) -> None:
    model, words = clearhead.load(run), ["abcce", "dace"]
    for settings in ({"beam_size": 1}, {"sample": True}):
        assert model.generate(words, **settings) == model.generate(words, joint_weight=0.0, **settings)


def test_one_answer_alone_and_among_others_here_there_and_looked_at(run: Path) -> None:
    """Contract 1; a predictor that is sent to another process, and a look, give the same answers."""
    model, words = clearhead.load(run), ["abcce", "dace", "ebbc", "aaa"]
    together = model.generate(words)
    assert [model(word) for word in words] == together
    assert pickle.loads(pickle.dumps(model)).generate(words) == together
    views = [model.look(word) for word in words]
    assert [view.answer_text for view in views] == together
    assert "joint n-grams" in str(views[0])
    assert "joint n-grams" not in str(model.look(words[0], joint_weight=0.0))


def test_dev_scores_are_those_of_eval(run: Path) -> None:
    """Contract 2: the score of an evaluation is computed with the n-grams, as eval's is."""
    best = clearhead.Run(run).best
    assert best is not None
    found = clearhead.Run(run).scores["dev"]["line_error"].value
    assert best["dev_line_error"] == pytest.approx(found)


def test_a_tuned_model_keeps_the_n_grams_of_its_start(run: Path, tmp_path: Path) -> None:
    other = write_spoken(tmp_path / "other.tsv", 200, seed=1)
    done = typed("train", str(other), "--from", str(run), "-o", str(tmp_path / "tuned"), "--max-steps", "2")
    assert done.returncode == 0
    start, tuned = (load_model(folder / "best.safetensors").model for folder in (run, tmp_path / "tuned"))
    for name, tensor in joint_of(start).items():
        assert torch.equal(tensor, joint_of(tuned)[name])


def test_new_target_tokens_are_counted_anew(run: Path, tmp_path: Path) -> None:
    """N-grams of other tokens would say nothing: those of the new pairs take their place."""
    other = tmp_path / "stressed.tsv"
    other.write_text(write_spoken(tmp_path / "plain.tsv", 200, seed=1).read_text().replace("A", "A1"))
    done = typed("train", str(other), "--from", str(run), "-o", str(tmp_path / "tuned"), "--max-steps", "2")
    assert done.returncode == 0, done.stderr
    tuned = load_model(tmp_path / "tuned" / "best.safetensors").model
    kept = load_file(tmp_path / "tuned" / "data" / JOINT)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in joint_of(tuned).items())
    model: Any = clearhead.load(tmp_path / "tuned")
    source, target = model.source.encode(["abe"])[0], model.target.encode(["A1 B E"])[0]
    assert joint_score(tuned, source, target) > -20
    assert joint_score(load_model(run / "best.safetensors").model, source, target) == UNALIGNED


def joint_score(model: Any, source: list[int], target: list[int]) -> float:
    return float(model.joint.ngrams().score([source], [target])[0])


def joint_order(pairs: Path, folder: Path, *settings: str, free: set[str] = LEFT_TO_DATA) -> int:
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, "training.steps=2", *settings)
    run = prepare(recipe, folder, free=free)
    assert (run.folder / "data" / JOINT).exists() == bool(run.recipe.model.joint.order)  # type: ignore[attr-defined]
    return int(run.recipe.model.joint.order)  # type: ignore[attr-defined]


def test_n_grams_are_counted_unasked_where_they_explain_the_targets(tmp_path: Path) -> None:
    """Not for words spelt backwards, nor for a few pairs, nor where somebody described the model or said no."""
    spoken, backwards = write_spoken(tmp_path / "spoken.tsv"), write_pairs(tmp_path / "backwards.tsv", 3000)
    assert joint_order(spoken, tmp_path / "1") == 8
    assert joint_order(backwards, tmp_path / "2") == 0
    assert joint_order(write_spoken(tmp_path / "few.tsv", 200), tmp_path / "3") == 0
    assert joint_order(spoken, tmp_path / "4", free=set()) == 0
    assert joint_order(spoken, tmp_path / "5", "data.target.kind=bpe", "data.target.size=40") == 0
    assert joint_order(spoken, tmp_path / "6", "model.joint.order=2", free=set()) == 2


def test_pairs_that_do_not_align_are_refused_if_n_grams_are_asked_for(tmp_path: Path) -> None:
    pairs = tmp_path / "long.tsv"
    pairs.write_text("".join(f"{word}\t{'X ' * 9}\n" for word in map(str, range(40))))
    with pytest.raises(ClearheadError, match="cannot be aligned"):
        joint_order(pairs, tmp_path / "run", *WITH)


def test_runs_are_the_same_run(run: Path, tmp_path: Path) -> None:
    """The n-grams change nothing of what the network learns."""
    pairs = run.parent / "pairs.tsv"
    steps = ["--max-steps", "90", *OFTEN]
    assert typed("train", str(pairs), "-o", str(tmp_path / "plain"), *SMALL, *steps).returncode == 0
    with_joint, plain = (load_model(folder / "best.safetensors").model for folder in (run, tmp_path / "plain"))
    other = dict(plain.named_parameters())
    assert all(torch.equal(weight, other[name]) for name, weight in with_joint.named_parameters())


def test_what_comes_beside_the_data_is_not_counted(run: Path, tmp_path: Path) -> None:
    """N-grams are those of ``data.train``, whatever ``data.more`` brings, when they are made again, too."""
    more = tmp_path / "more.tsv"
    words = [line.split("\t")[0] for line in write_spoken(tmp_path / "words.tsv", 300, seed=1).read_text().splitlines()]
    rows = [f"{word}\t{' '.join(word[::-1].upper())}\n" for word in words]
    more.write_text("".join([*rows, *(f"{word * 99}\t{'A ' * 99}\n" for word in words)]))  # half of them are too long
    some = [str(run.parent / "pairs.tsv"), "--more", str(more), "-o", str(tmp_path / "run"), *SMALL, *WITH]
    done = typed("train", *some, "--max-steps", "2")
    assert done.returncode == 0, done.stderr
    assert "training pairs are from" in done.stderr
    path = tmp_path / "run" / "data" / JOINT
    alone, beside = load_file(run / "data" / JOINT), load_file(path)
    for name in ("followers", "log_p", "log_backoff"):  # the letters may have other numbers, by how often they come
        assert torch.equal(alone[name].sort().values, beside[name].sort().values)
    before = path.read_bytes()
    path.write_bytes(before[:-8])
    again = typed("train", "-o", str(tmp_path / "run"), "--resume", "--max-steps", "3")
    assert again.returncode == 0, again.stderr
    assert path.read_bytes() == before
    more.write_text(more.read_text() + "abc\tA\n")
    changed = typed("train", "-o", str(tmp_path / "run"), "--resume", "--max-steps", "4")
    assert changed.returncode != 0
    assert "the data have changed" in changed.stderr
