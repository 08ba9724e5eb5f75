"""Gives a trained model the joint n-grams that it would have had, if they had been asked for when it was trained.

    python -m tools.add_joint runs/g2p model.safetensors [data.train=train.tsv data.dev=dev.tsv]
    python -m tools.add_joint runs/taught model.safetensors --task g2p-en

Training counts them before the first step, and they change nothing of what the network learns (a test says so), so that
the model is the one that `clearhead train … model.joint.order=8` makes. The data are those of the model's recipe; with
--task they are those of a task, and the model becomes one of the task, as ``g2p-en`` is. So a network may learn from
more words than the n-grams are counted from (``tools.more_words``).
"""

import argparse
import tempfile
from pathlib import Path

import torch

from clearhead.joint.ngrams import ORDER
from clearhead.models import SavedModel, build, fingerprint_of, save_model
from clearhead.recipe import DataSpec, JointSpec, Seq2SeqSpec, read_recipe
from clearhead.training import prepare, put_joint
from clearhead.training.start import Start
from clearhead.verbs.naming import saved_named


def add_joint(model: str, output: Path, settings: list[str], task: str | None = None) -> SavedModel:
    """Write the model with n-grams of its training pairs, or of those of a task."""
    saved = saved_named(model)
    if task is not None:
        data = saved.recipe.data
        of_task = DataSpec.model_validate({"task": task, "source": data.source, "target": data.target})
        saved = SavedModel(saved.model, saved.recipe.updated(data=of_task), saved.tokenizers, saved.origin)
    spec = saved.recipe.model
    assert isinstance(spec, Seq2SeqSpec)
    bare = _with_joint(saved, JointSpec())  # n-grams that it has already are counted anew
    asked = saved.recipe.updated(
        model=spec.replaced(joint=JointSpec(order=ORDER)),
        training=saved.recipe.training.with_steps(1, None).replaced(replans=None),
    )
    with tempfile.TemporaryDirectory() as folder:
        start = Start(bare, model, fingerprint_of(bare))  # whose tokenizers are kept
        run = prepare(read_recipe(asked, *settings), Path(folder) / "run", start=start)
        assert run.tokenizers == saved.tokenizers, "these are not the data that the model was trained on"
        assert isinstance(run.recipe.model, Seq2SeqSpec)
        made = _with_joint(saved, run.recipe.model.joint)
        put_joint(made.model, run.folder / "data")
    save_model(made, output)
    return made


def _with_joint(saved: SavedModel, joint: JointSpec) -> SavedModel:
    """The same network beside an empty table of this size."""
    spec = saved.recipe.model
    assert isinstance(spec, Seq2SeqSpec)
    recipe = saved.recipe.updated(model=spec.replaced(joint=joint))
    made, weights = build(recipe, seed=0), dict(saved.model.named_parameters())
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            parameter.copy_(weights[name])
    return SavedModel(made.eval(), recipe, saved.tokenizers, saved.origin)


def main() -> None:
    """Write the model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("output", type=Path)
    parser.add_argument("settings", nargs="*", default=[])
    parser.add_argument("--task", help="count the n-grams of this task's training pairs, and make the model one of it")
    asked = parser.parse_args()
    print(repr(add_joint(asked.model, asked.output, asked.settings, asked.task).model))


if __name__ == "__main__":
    main()
