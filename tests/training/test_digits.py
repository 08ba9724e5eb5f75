"""Images as examples: the task digits, files of images, and the same contracts as for texts."""

from pathlib import Path

import numpy as np
import pytest
import torch

from clearhead.data import PICTURES, Picture, pixels_of, read_corpus
from clearhead.errors import DataError, RecipeError
from clearhead.evaluation import evaluate
from clearhead.predictor import load
from clearhead.recipe import DataSpec, PatchesSpec, read_recipe
from clearhead.training import Trainer, prepare, reopen
from clearhead.verbs.inputs import data_settings
from clearhead.verbs.session import make_trainer
from tests.training.test_damage import every_file_is_made_again
from tests.training.test_trainer import HARD, assert_same_run, continued
from tests.training.toy import SMALL


def new_run(folder: Path, *overrides: str) -> Trainer:
    derived, stated = data_settings({"train": "digits"})
    recipe = read_recipe(None, *derived, *SMALL, "training.steps=24", *overrides, settings=stated)
    return make_trainer(prepare(recipe, folder))


def test_the_pixels_are_scikit_learns() -> None:
    """All 1,797, between 0 and 1, in the same order and the same way up; split for good."""
    from sklearn.datasets import load_digits

    corpus = read_corpus(DataSpec(task="digits"), PICTURES)
    everything = sorted([*corpus.train(), *corpus.dev, *corpus.test], key=lambda picture: picture.line)
    reference = load_digits()
    assert len(everything) == len(reference.images) == 1797
    for picture, image, label in zip(everything, reference.images, reference.target, strict=True):
        assert picture.label == str(label)
        np.testing.assert_allclose(pixels_of(picture.pixels, PatchesSpec())[:, :, 0], image / 16)
    assert 120 < len(corpus.dev) < 240
    assert 280 < len(corpus.test) < 440
    again = read_corpus(DataSpec(task="digits"), PICTURES)
    assert [picture.line for picture in again.test] == [picture.line for picture in corpus.test]


def test_a_resumed_run_ends_as_one_that_never_stopped(tmp_path: Path) -> None:
    """And so two runs with one seed are the same."""
    new_run(tmp_path / "whole", *HARD).run()
    trainer = new_run(tmp_path / "parts", *HARD)
    while trainer.progress.step < 11:
        trainer._step()
        if trainer.progress.step % trainer.evaluate_every == 0:
            trainer._evaluate()
        if trainer.progress.step % (trainer.spec.save_every or 1) == 0:
            trainer.save()
    torch.manual_seed(999)
    trainer = continued(tmp_path / "parts")
    trainer.run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_damaged_data_are_made_again(tmp_path: Path) -> None:
    every_file_is_made_again(["digits"], tmp_path / "run")


def test_dev_scores_eval_and_neighbours(tmp_path: Path) -> None:
    """The dev score is what eval says; an image is answered alone as in a batch; numbers are read as they stand."""
    trainer = new_run(tmp_path / "run", *HARD, "training.optimizer.rate=0.004")
    progress = trainer.run()
    predictor = load(tmp_path / "run")
    dev = reopen(tmp_path / "run").corpus.dev
    assert trainer.metric == "accuracy"
    assert evaluate(predictor, dev, bootstrap=0).metrics["accuracy"].value == pytest.approx(progress.best)
    texts = [picture.pixels for picture in dev[:40]]
    together = predictor.answers(texts)
    assert len({best.text for best, *_ in together}) > 1
    for tokens in (1, 50):
        for (mine, *_), (theirs, *_) in zip(
            predictor.answers(texts, predictor.decoding(batch_tokens=tokens)), together, strict=True
        ):
            assert mine.text == theirs.text
            assert mine.log_probability == pytest.approx(theirs.log_probability, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1 2", "3 numbers instead of 2 × 2 × 1"),
        ("0 1 2 x", "an image is numbers between spaces"),
        ("0 1 2 nan", "not finite"),
    ],
)
def test_what_is_no_image_is_refused(text: str, message: str, tmp_path: Path) -> None:
    """Alone, and in a file of one's own, with its line; images that fit are trained on."""
    spec = PatchesSpec(height=2, width=2, size=1)
    with pytest.raises(DataError, match=message):
        pixels_of(text, spec)
    file = tmp_path / "images.tsv"
    good = [f"{'ab'[i % 2]}\t{i % 2} 0 {i / 100} 1" for i in range(100)]
    patches = "model.patches={height=2, width=2, size=1}"
    settings = ["model.family=classifier", patches, f'data.train="{file}"', *SMALL, "training.steps=1"]
    file.write_text("\n".join(good))
    assert len(prepare(read_recipe(None, *settings), tmp_path / "good").examples) > 80
    file.write_text("\n".join([*good, f"a\t{text}"]))
    dev = tmp_path / "dev.tsv"
    dev.write_text(good[0])
    with pytest.raises(DataError, match=f"images.tsv, line 101: .*{message}"):
        prepare(read_recipe(None, *settings, f'data.dev="{dev}"'), tmp_path / "bad")
    file.write_text("\n".join(good))
    dev.write_text(f"{good[0]}\na\t{text}")
    with pytest.raises(DataError, match=f"dev.tsv, line 2: .*{message}"):
        prepare(read_recipe(None, *settings, f'data.dev="{dev}"'), tmp_path / "bad")


def test_digits_are_for_pictures() -> None:
    with pytest.raises(RecipeError, match="has pictures, and this model, of family seq2seq, learns from pairs"):
        read_recipe(None, "data.task=digits")
    assert Picture("3", "0 1", 1).key == "0 1"


def test_pictures_are_moved_by_seed_epoch_and_index(tmp_path: Path) -> None:
    """Not by the batch, and never by more than was asked for; reference: pixel by pixel. Without shift they stay."""
    trainer = new_run(tmp_path / "run", "training.shift=2")
    rows = np.arange(30)

    def batch(rows: np.ndarray, epoch: int) -> dict[int, torch.Tensor]:
        inputs = trainer.objective.batch(trainer.examples, rows, epoch).inputs
        return dict(zip(rows.tolist(), inputs, strict=True))

    together, parts = batch(rows, 3), batch(rows[:7], 3) | batch(rows[7:][::-1], 3)
    assert all(torch.equal(image, parts[row]) for row, image in together.items())
    other = batch(rows, 4)
    assert any(not torch.equal(image, other[row]) for row, image in together.items())
    still = new_run(tmp_path / "still", "training.shift=0")
    originals = still.objective.batch(still.examples, rows, 3).inputs
    seen = set()
    for original, image in zip(originals, together.values(), strict=True):
        ways = [
            (down, right)
            for down in range(-2, 3)
            for right in range(-2, 3)
            if torch.equal(image, by_hand(original, down, right))
        ]
        assert ways, "moved by more than two pixels, or not moved but changed"
        seen.update(ways)
    assert len(seen) > 10


def by_hand(image: torch.Tensor, down: int, right: int) -> torch.Tensor:
    result = torch.zeros_like(image)
    for y in range(8):
        for x in range(8):
            if 0 <= y - down < 8 and 0 <= x - right < 8:
                result[y, x] = image[y - down, x - right]
    return result
