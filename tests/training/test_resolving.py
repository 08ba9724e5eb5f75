"""What a recipe leaves open, resolved from the data, the budget and the machine."""

from pathlib import Path
from typing import Any

import pytest

from clearhead.recipe import Recipe, StackSpec, read_recipe, read_with_origins
from clearhead.recipe.precision import FROM_WIDTH
from clearhead.training import prepare
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
