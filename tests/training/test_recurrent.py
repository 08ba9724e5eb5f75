"""Recurrent models go through the same training: they learn, and a resumed run ends as one that never stopped."""

from pathlib import Path

import pytest

from clearhead.decoding import lean_decoder
from clearhead.predictor import load
from clearhead.recipe import read_recipe
from clearhead.training import Trainer, prepare, reopen
from clearhead.verbs.session import make_trainer
from tests.training.test_trainer import assert_same_run
from tests.training.toy import write_pairs

SMALL = ["model.family=recurrent", "model.width=32", "training.batch_tokens=256", "training.threads=1"]
SHORT = ["decoding.beam_size=1", "decoding.max_length=12"]
"""What has learnt nothing does not stop writing either."""
KINDS = {
    "bahdanau": ["model.attention.kind=bahdanau"],
    "luong": ["model.cell=lstm", "model.layers=2"],
    "none": ["model.attention.kind=none"],
    "Transformer to recurrent": ["model.encoder.kind=transformer", "model.encoder.heads=2"],
    "recurrent to Transformer": ["model.decoder.kind=transformer", "model.decoder.heads=2", "model.cross.heads=2"],
}


def new_run(folder: Path, *overrides: str) -> Trainer:
    data = write_pairs(folder.parent / "pairs.tsv")
    return make_trainer(prepare(read_recipe(None, f'data.train="{data}"', *SMALL, *overrides), folder))


def continued(folder: Path) -> Trainer:
    trainer = make_trainer(reopen(folder))
    assert trainer.resume()
    return trainer


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_as_one_that_never_stopped(tmp_path: Path, kind: str) -> None:
    """Contract 3: a checkpoint holds all that the next step depends on, dropout in every loop included."""
    settings = [*KINDS[kind], "training.steps=12", "training.evaluate_every=6", "training.save_every=4", *SHORT]
    new_run(tmp_path / "whole", *settings).run()
    trainer = new_run(tmp_path / "parts", *settings)
    for _ in range(4):
        trainer._step()
    trainer.save()
    trainer._step()  # lost
    continued(tmp_path / "parts").run()
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


@pytest.mark.prove
def test_a_recurrent_model_learns_and_answers_alike_in_any_batch(tmp_path: Path) -> None:
    """Spelling backwards: right for most unseen words, by greedy search and by beam, alone and together."""
    quick = ["training.optimizer.rate=0.007", "training.average=0.95", "training.steps=500", "model.width=48"]
    quick += ["model.dropout.residual=0.1", "model.dropout.embedding=0.1"]
    trainer = new_run(tmp_path / "run", *quick, "training.evaluate_every=500")
    assert trainer.run().best is not None
    predictor = load(tmp_path / "run")
    assert lean_decoder(predictor.model) is None
    words = ["gab", "fade", "bagged", "cabbage", "dec", "feedbag", "a", "gfedcb"]
    for settings in ({"beam_size": 1}, {"beam_size": 4}):
        together = [best.text for best, *_ in predictor.answers(words, predictor.decoding(**settings))]
        alone = [predictor.answers([word], predictor.decoding(**settings, batch_tokens=1))[0][0].text for word in words]
        assert together == alone
        right = [answer == " ".join(reversed(word.upper())) for word, answer in zip(words, together, strict=True)]
        assert sum(right) >= 6, together
    scored = [best for best, *_ in predictor.answers(words, predictor.decoding(beam_size=4))]
    again = predictor.score(words, [answer.text for answer in scored])
    for answer, score in zip(scored, again, strict=True):
        assert answer.log_probability == pytest.approx(score, abs=1e-4)
