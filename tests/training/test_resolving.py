"""What a recipe leaves open, resolved from the data, the budget and the machine."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.recipe import Recipe, StackSpec, read_recipe, read_with_origins
from clearhead.recipe.precision import FROM_WIDTH
from clearhead.training import preparation, prepare
from clearhead.training import resolving as module
from clearhead.training.resolving import LEAST_DROPOUT, with_precision
from clearhead.training.resuming import StatedRecipe
from tests.training.toy import SMALL, write_pairs

WIDE = [f"model.width={FROM_WIDTH}"]


@pytest.mark.parametrize(
    ("settings", "fast", "expected"),
    [
        (WIDE, True, "bfloat16"),
        (WIDE, False, "float32"),
        ([f"model.width={FROM_WIDTH - 4}"], True, "float32"),
        ([*WIDE, "model.family=recurrent"], True, "float32"),
        ([*WIDE, "model.encoder.kind=convolutional"], True, "float32"),
        ([*WIDE, "training.precision=float32"], True, "float32"),
        (["training.precision=bfloat16"], False, "bfloat16"),
    ],
)
def test_precision_follows_from_model_and_machine_unless_it_is_said(
    settings: list[str], fast: bool, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "computes_bfloat16", lambda: fast)
    recipe = read_recipe(None, *settings, "training.device=cpu")
    assert with_precision(recipe).training.precision == expected


def test_a_gpu_stays_at_float32_unless_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "computes_bfloat16", lambda: True)
    monkeypatch.setattr(module, "pick_device", lambda name: __import__("torch").device("cuda"))
    assert with_precision(read_recipe(None, *WIDE)).training.precision == "float32"


def rates(recipe: Recipe) -> set[float | str]:
    return {part.dropout.residual for _, part in recipe.model if isinstance(part, StackSpec)}


def prepared(folder: Path, *settings: str) -> Recipe:
    """The recipe of a run of 1,000 steps on 600 words, which are seen very often, without a setting of dropout."""
    pairs = write_pairs(folder / "pairs.tsv")
    sizes = [setting for setting in SMALL if "dropout" not in setting]
    recipe = read_recipe(None, f'data.train="{pairs}"', *sizes, "training.steps=1000", *settings)
    return prepare(recipe, folder / "run").recipe


def test_dropout_grows_with_parameters_and_passes_for_each_token(tmp_path: Path) -> None:
    """By the closed form: (parameters / tokens) × passes, at most 0.3; what is too small to matter is 0."""
    few, many, wide = (
        prepared(folder, *settings)
        for folder, settings in zip(
            _folders(tmp_path, 3),
            (["training.steps=5"], ["training.steps=60"], ["training.steps=60", "model.width=64"]),
            strict=True,
        )
    )
    assert rates(few) == {0.0}
    (middle,), (more,) = rates(many), rates(wide)
    assert isinstance(middle, float)
    assert isinstance(more, float)
    assert LEAST_DROPOUT <= middle < more <= 0.3
    assert rates(prepared(_folders(tmp_path, 4)[3])) == {0.3}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [(["training.steps=5"], 0.0), ([], 0.3), (["model.encoder.ngrams.dropout=0.1"], 0.1)],
)
def test_rows_of_n_grams_are_dropped_where_data_are_seen_often(
    settings: list[str], expected: float, tmp_path: Path
) -> None:
    ngrams = ["model.encoder.ngrams.reach=1", "model.encoder.ngrams.buckets=4"]
    model: Any = prepared(tmp_path, *ngrams, *settings).model
    assert model.encoder.ngrams.dropout == expected


def test_dropout_that_is_said_stays(tmp_path: Path) -> None:
    recipe = prepared(tmp_path, "model.dropout.residual=0.07")
    assert rates(recipe) == {0.07}
    assert {part.dropout.embedding for _, part in recipe.model if isinstance(part, StackSpec)} == {0.3}


def _folders(parent: Path, count: int) -> list[Path]:
    folders = [parent / str(number) for number in range(count)]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    return folders


@pytest.mark.parametrize(
    ("settings", "free", "expected", "ngrams"),
    [
        ([], True, "rope", 2),
        ([], False, "none", 0),
        (["data.source.kind=bpe"], True, "none", 0),
        (["model.encoder.kind=transformer", "data.target.kind=bpe"], True, "none", 2),
    ],
)
def test_symbols_and_characters_know_positions_across_and_their_neighbours(
    settings: list[str], free: bool, expected: str, ngrams: int, tmp_path: Path
) -> None:
    """Positions across if both sides are such, n-grams if the source is, where nobody described the layers."""
    pairs = write_pairs(tmp_path / "pairs.tsv", 60)
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, "training.steps=2", *settings)
    model: Any = prepare(recipe, tmp_path / "run", free={"layers"} if free else ()).recipe.model
    assert model.cross.position.kind == expected
    assert model.encoder.ngrams.reach == ngrams


@pytest.mark.parametrize(
    ("kind", "batches", "left", "expected"),
    [
        ("characters", 10, {"batch"}, 64),
        ("bpe", 10, {"batch"}, 64),  # words of two languages, too
        ("bpe", 10_000, {"batch"}, 512),  # an epoch would have too few
        ("bpe", 10, set(), 512),  # somebody chose
    ],
)
def test_many_pairs_have_larger_batches(
    kind: str, batches: int, left: set[str], expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE_BATCH", 64)
    monkeypatch.setattr(module, "LEAST_BATCHES", batches)
    pairs = write_pairs(tmp_path / "pairs.tsv")
    sizes = [setting for setting in SMALL if "batch_tokens" not in setting]
    kinds = [f"data.source.kind={kind}", f"data.target.kind={kind}"]
    recipe = read_recipe(None, f'data.train="{pairs}"', *sizes, *kinds, "training.steps=5")
    assert prepare(recipe, tmp_path / "run", free=left).recipe.training.batch_tokens == expected


@pytest.mark.parametrize(
    ("kind", "tokens", "left", "expected"),
    [
        ("bpe", 64, {"rate"}, module.RATE_OF_SUBWORDS),
        ("characters", 64, {"rate"}, 0.001),
        ("bpe", 32, {"rate"}, 0.001),  # small batches
        ("bpe", 64, set(), 0.001),  # somebody chose
    ],
)
def test_large_batches_of_subwords_have_a_higher_rate(
    kind: str, tokens: int, left: set[str], expected: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGE_BATCH", 64)
    pairs = write_pairs(tmp_path / "pairs.tsv")
    kinds = [f"data.source.kind={kind}", f"data.target.kind={kind}"]
    given = [f"training.batch_tokens={tokens}", "training.steps=5", "training.optimizer.rate=0.001"]
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, *kinds, *given)
    assert prepare(recipe, tmp_path / "run", free=left).recipe.training.optimizer.rate == expected


def test_who_says_anything_about_the_optimizer_keeps_its_rate() -> None:
    """What is left to the data, by what was stated on the command line."""
    for setting, left in (("training.seed=2", True), ("training.optimizer.kind=muon", False)):
        recipe, stated = read_with_origins(None, setting)
        assert ("rate" in StatedRecipe(recipe, stated, free=True).left_to_data) == left


@pytest.mark.parametrize(
    ("settings", "left", "expected"),
    [
        (["training.steps=1000"], {"agreement"}, 5.0),
        (["training.steps=5"], {"agreement"}, None),  # the data are not seen often
        (["training.steps=1000"], set(), None),  # somebody chose
        (["training.steps=1000", "model.dropout.residual=0", "model.dropout.embedding=0"], {"agreement"}, None),
    ],
)
def test_pairs_that_are_seen_often_pass_twice(
    settings: list[str], left: set[str], expected: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LOAD_OF_AGREEMENT", 20.0)
    pairs = write_pairs(tmp_path / "pairs.tsv")
    run = prepare(read_recipe(None, f'data.train="{pairs}"', *SMALL, *settings), tmp_path / "run", free=left)
    assert run.recipe.training.agreement == expected
    assert any("training.agreement" in note for note in run.notes) == (expected is not None)


def test_minutes_have_fewer_steps_that_pass_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed is measured once more, with both passes."""
    monkeypatch.setattr(module, "LOAD_OF_AGREEMENT", 20.0)
    monkeypatch.setattr(
        preparation, "seconds_per_step", lambda recipe, *_, **__: 0.02 if recipe.training.agreement else 0.01
    )
    pairs = write_pairs(tmp_path / "pairs.tsv")
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, "training.minutes=1")
    once, twice = (
        prepare(recipe, tmp_path / name, free=left).recipe.training.steps
        for name, left in (("once", set[str]()), ("twice", {"agreement"}))
    )
    assert once is not None
    assert twice is not None
    assert once == pytest.approx(2 * twice, abs=2)


def test_two_passes_have_less_dropout(tmp_path: Path) -> None:
    """With data that are seen very often, the most of either kind."""
    once, twice = (
        rates(prepared(folder, *more))
        for folder, more in zip(_folders(tmp_path, 2), ([], ["training.agreement=5"]), strict=True)
    )
    assert once == {0.3}
    assert twice == {0.2}


@pytest.mark.parametrize(
    ("kind", "left", "expected"),
    [("bpe", {"length"}, module.PENALTY_OF_SUBWORDS), ("characters", {"length"}, 0.6), ("bpe", set(), 0.6)],
)
def test_sentences_have_a_stronger_length_penalty(kind: str, left: set[str], expected: float, tmp_path: Path) -> None:
    pairs = write_pairs(tmp_path / "pairs.tsv", 60)
    kinds = [f"data.source.kind={kind}", f"data.target.kind={kind}"]
    recipe = read_recipe(None, f'data.train="{pairs}"', *SMALL, *kinds, "training.steps=2")
    assert prepare(recipe, tmp_path / "run", free=left).recipe.decoding.length_penalty == expected


@pytest.mark.parametrize(
    ("part", "setting"), [("agreement", "training.agreement=0"), ("length", "decoding.length_penalty=0.6")]
)
def test_what_was_said_is_not_left_to_the_data(part: str, setting: str) -> None:
    for said, left in (("training.seed=2", True), (setting, False)):
        recipe, stated = read_with_origins(None, said)
        assert (part in StatedRecipe(recipe, stated, free=True).left_to_data) == left
