"""Joint n-grams inside a model: what goes in comes out, is stored, copied, and can be left behind."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.errors import DamagedFile
from clearhead.joint import fit, from_bytes, in_bytes
from clearhead.models import JointTable, SavedModel, Seq2Seq, build, load_model, save_model, without_joint
from clearhead.recipe import JointSpec, read_recipe
from tests.joint.test_ngrams import language, made

COUNTED = made()
SPEC = JointSpec(order=3, units=len(COUNTED.units), nodes=len(COUNTED.table.tokens))


def filled() -> SavedModel:
    recipe = read_recipe("tiny", "model.vocabulary.source=20", "model.vocabulary.target=20", "model.layers=1")
    recipe = recipe.updated(model=recipe.model.replaced(joint=SPEC))
    model = build(recipe, seed=1).eval()
    assert isinstance(model, Seq2Seq)
    assert model.joint is not None
    model.joint.fill(COUNTED)
    return SavedModel(model, recipe)


def test_a_table_scores_as_what_was_counted() -> None:
    """To the last bit: what is counted is rounded as it is stored."""
    table = JointTable(SPEC)
    table.fill(COUNTED)
    pairs = language(20, seed=6)
    assert np.array_equal(table.ngrams().score(*pairs), COUNTED.score(*pairs))
    assert np.array_equal(copy.deepcopy(table).ngrams().score(*pairs), COUNTED.score(*pairs))
    assert len(COUNTED.units) < 100 < len(COUNTED.table.tokens)


def test_a_model_file_holds_them(tmp_path: Path) -> None:
    saved = filled()
    save_model(saved, tmp_path / "model.safetensors")
    again = load_model(tmp_path / "model.safetensors").model
    assert isinstance(again, Seq2Seq)
    assert again.joint is not None
    pairs = language(20, seed=6)
    assert np.array_equal(again.joint.ngrams().score(*pairs), COUNTED.score(*pairs))


def test_a_model_says_how_many_there_are() -> None:
    assert f"joint n-grams: {SPEC.nodes:,}" in repr(filled().model)


def test_without_them_the_network_is_the_same() -> None:
    saved = filled()
    plain = without_joint(saved)
    assert plain.recipe.model == plain.model.spec
    assert not [name for name in plain.model.state_dict() if name.startswith("joint")]
    ids = torch.randint(4, 20, (2, 5))
    assert torch.equal(plain.model(ids, ids), saved.model(ids, ids))
    assert without_joint(plain) is plain
    assert any(name.startswith("joint") for name in saved.model.state_dict())  # which stays as it is


@pytest.mark.parametrize("value", [0.0, -0.03, -3.14159, -15.9])
def test_a_byte_holds_a_logarithm_to_a_32nd(value: float) -> None:
    assert abs(from_bytes(in_bytes(np.array([value])))[0] - value) <= 1 / 32


def test_what_is_less_probable_than_a_byte_can_say_is_as_probable_as_it_can_say() -> None:
    assert from_bytes(in_bytes(np.array([-1000.0])))[0] == -255 / 16
    assert fit([], []) is None


@pytest.mark.parametrize("name", ["followers", "tokens"])
@pytest.mark.parametrize("value", [-1, 3, 30_000])
def test_n_grams_that_are_no_tree_are_refused(name: str, value: int) -> None:
    """A look-up in them might never end."""
    table = JointTable(SPEC)
    table.fill(COUNTED)
    buffer = table.get_buffer(name)
    buffer[len(buffer) // 2] = value
    with pytest.raises(DamagedFile, match="n-grams"):
        table.ngrams()
