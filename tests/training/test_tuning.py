"""Training a part of a model: frozen weights stay, adapters merge into what they compute, and resuming is exact."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import clearhead
from clearhead.errors import ClearheadError, ModelFileError, RecipeError
from clearhead.models import build, load_model, stored_tensors
from clearhead.recipe import read_recipe
from clearhead.training import AdaptedLinear, ProcessGroup, merged, reopen, tuned
from clearhead.verbs.session import make_trainer
from tests.training.test_trainer import assert_same_run, state_of
from tests.training.toy import FEW, SMALL, write_pairs

EVERY = ["training.evaluate_every=3", "training.save_every=3", "training.threads=1"]
LORA = ["training.adapters=lora", "training.adapters.rank=2", "training.adapters.targets=query,up"]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a trained run, ``base``, and ``pairs.tsv``."""
    folder = tmp_path_factory.mktemp("tuning")
    write_pairs(folder / "pairs.tsv", FEW)
    clearhead.train(folder / "pairs.tsv", folder / "base", steps=2, settings=SMALL)
    return folder


def train(base: Path, output: Path, *settings: str, steps: int = 6, resume: bool = False) -> clearhead.Run:
    start = None if resume else base / "base"
    return clearhead.train(
        base / "pairs.tsv", output, start=start, steps=steps, resume=resume, settings=[*EVERY, *settings]
    )


def test_merged_equals_unmerged() -> None:
    """To 1e-6 in float64's shadow; with the sign of BA turned, or without alpha / rank, it does not."""
    recipe = read_recipe(None, *SMALL, *LORA, "model.vocabulary.source=20", "model.vocabulary.target=20")
    model = tuned(build(recipe, seed=1), recipe.training).eval()
    adapters = [part for part in model.modules() if isinstance(part, AdaptedLinear)]
    assert len(adapters) == 5  # three kinds of attention, two nets
    source, target = torch.randint(4, 20, (3, 7)), torch.randint(4, 20, (3, 5))
    with torch.no_grad():
        before = model(source, target)
        assert torch.equal(before, merged(model)(source, target))  # B is 0
        for part in adapters:
            part.lora_B.weight.normal_(0, 0.3)
        after, plain = model(source, target), merged(model)
        assert (after - before).abs().max() > 1e-2
        torch.testing.assert_close(plain(source, target), after, rtol=0, atol=1e-6)
        for wrong in (lambda scale: -scale, lambda scale: scale * 2):
            for part in adapters:
                part.scale = wrong(part.scale)
            assert (merged(model)(source, target) - after).abs().max() > 1e-2
            for part in adapters:
                part.scale = 16.0 / 2
    assert not any(isinstance(part, AdaptedLinear) for part in plain.modules())
    assert plain.state_dict().keys() == build(recipe, seed=1).state_dict().keys()


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize(
    ("settings", "moved"),
    [
        (["training.freeze=encoder,decoder.1.cross"], lambda name: "encoder" not in name and "cross.query" not in name),
        (LORA, lambda name: name.endswith(("query.weight", "up.weight"))),
    ],
    ids=["freeze", "lora"],
)
def test_only_what_is_trained_moves(
    base: Path, tmp_path: Path, settings: list[str], moved: Callable[[str], bool], kind: str
) -> None:
    """The best model, a moving average, has frozen weights bit for bit; checkpoints do not hold them."""
    run = train(base, tmp_path / "run", *settings, f"training.optimizer.kind={kind}", steps=3)
    before, after = (
        stored_tensors(load_model(path / "best.safetensors").model) for path in (base / "base", run.folder)
    )
    for name, tensor in after.items():
        if "around_cross" in name or name.startswith("decoder.layers.0.cross"):
            continue
        assert torch.equal(tensor, before[name]) != moved(name), name
    kept = [name for name in state_of(run.folder)[0] if name.startswith(("model.", "average."))]
    assert kept
    assert not any("encoder.embedding" in name for name in kept)


@pytest.mark.parametrize("settings", [["training.freeze=embedding,encoder.1"], LORA], ids=["freeze", "lora"])
def test_a_resumed_run_is_the_same_and_needs_no_start(base: Path, tmp_path: Path, settings: list[str]) -> None:
    own = shutil.copytree(base, tmp_path / "own")
    train(own, tmp_path / "whole", *settings)
    train(own, tmp_path / "resumed", *settings)
    for file in sorted((tmp_path / "resumed" / "last").iterdir())[1:]:
        file.unlink()
    shutil.rmtree(own / "base")
    run = train(own, tmp_path / "resumed", *settings, resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "resumed")
    assert run.origin["name"] == str(own / "base")
    # what every other process of a group begins with
    others = [make_trainer(reopen(run.folder), ProcessGroup(rank, 1)).model for rank in (0, 1)]
    weights = [dict(model.named_parameters()) for model in others]
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_adapters_alone_and_their_base_make_the_best_model(base: Path, tmp_path: Path) -> None:
    run = train(base, tmp_path / "run", *LORA, steps=3)
    alone = run.folder / "adapters.safetensors"
    assert alone.stat().st_size < (run.folder / "best.safetensors").stat().st_size / 2
    made = clearhead.merge_adapters(base / "base", run.folder, tmp_path / "merged.safetensors")
    best = stored_tensors(load_model(run.folder / "best.safetensors").model)
    for name, tensor in stored_tensors(made.model).items():
        torch.testing.assert_close(tensor, best[name], rtol=0, atol=1e-6)
    assert clearhead.load(tmp_path / "merged.safetensors")("abc") == run.model("abc")
    with pytest.raises(ModelFileError, match=r"belongs to .*base .*, not to this model"):
        clearhead.merge_adapters(run.folder, alone)
    with pytest.raises(ClearheadError, match="exists already"):
        clearhead.merge_adapters(base / "base", alone, tmp_path / "merged.safetensors")
    damaged = bytearray(alone.read_bytes())
    damaged[-1] ^= 1
    (tmp_path / "damaged.safetensors").write_bytes(damaged)
    with pytest.raises(ModelFileError, match="does not match its checksum"):
        clearhead.merge_adapters(base / "base", tmp_path / "damaged.safetensors")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            ["training.freeze=encodr"],
            r'\["encodr"\]: no such part; did you mean encoder\? .*decoder.1-1',
        ),
        (["training.freeze=encoder.0"], "no such part"),
        (["training.freeze=*"], "nothing is left to train"),
        (["training.adapters.targets=embedding"], "no such linear map of a layer .*query"),
        (["training.adapters=lore"], "training.adapters"),
        (["training.adapters.rank=0"], "training.adapters.rank"),
    ],
)
def test_what_cannot_be_trained_is_refused(base: Path, tmp_path: Path, settings: list[str], words: str) -> None:
    with pytest.raises(RecipeError, match=words):
        train(base, tmp_path / "run", *settings)
    assert not (tmp_path / "run").exists()


def test_adapters_need_a_start(base: Path, tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="adapters change a trained model: name one with --from"):
        clearhead.train(base / "pairs.tsv", tmp_path / "run", steps=2, settings=[*SMALL, *LORA])
