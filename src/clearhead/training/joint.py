"""Counts the joint n-grams of a run before its first step, and keeps them in its folder.

They are a function of the training pairs alone, so that a damaged file is made again from them.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.torch import load as load_tensors

from clearhead.data import Encoded, EncodedPairs, Pair, Progress, unwatched
from clearhead.errors import ClearheadError
from clearhead.joint import JointNgrams, explained, fit
from clearhead.joint.ngrams import ORDER
from clearhead.models import JointTable, Model, Seq2Seq, stored_tensors
from clearhead.models.tensor_file import write_tensors
from clearhead.recipe import Recipe, Seq2SeqSpec
from clearhead.training.objectives import Codecs

JOINT = "joint.safetensors"
"""In ``data/`` of a run."""
LEAST_PAIRS = 1000
"""Training pairs from which n-grams are counted unasked."""
MOST_PAIRS = 500_000
"""Training pairs that n-grams are counted from, at most: the first ones."""
MOST_JUDGED = 2000
"""Dev pairs by which n-grams are judged, at most."""
LEAST_EXPLAINED = 0.5
"""N-grams are kept unasked if they explain so much of what the dev targets say."""

Lines = list[NDArray[np.int64]]


def count_joint(
    recipe: Recipe,
    codecs: Codecs,
    examples: Encoded,
    dev: Sequence[Any],
    folder: Path,
    *,
    free: bool,
    progress: Progress = unwatched,
) -> tuple[Recipe, list[str]]:
    """Count the n-grams that the recipe asks for, into ``folder``; returns the recipe with their number, and notes.

    With ``free``, they are counted where both sides are symbols or characters, and kept if they explain enough. The
    examples of ``data.more`` are not counted: they may be the answers of a model, whose mistakes would count like what
    is right.
    """
    model = recipe.model
    if not isinstance(model, Seq2SeqSpec) or not isinstance(examples, EncodedPairs):
        return recipe, []
    wanted = (
        free and all(codec.closed for codec in codecs) and len(examples) - examples.beside >= LEAST_PAIRS and bool(dev)
    )
    order = model.joint.order or (ORDER if wanted else 0)
    if not order:
        return recipe, []
    pairs = _lines(examples)
    counted = fit(*pairs, order=order, progress=partial(progress, "aligning"))
    if counted is None:
        if model.joint.order:
            raise ClearheadError(
                "model.joint.order: most training pairs cannot be aligned: a target may have twice as many tokens as "
                "its source, each side some dozens, and a vocabulary 32,767; leave model.joint out"
            )
        return recipe, []
    notes = []
    if not model.joint.order:
        share = explained(counted, pairs, _encoded(codecs, dev[:MOST_JUDGED]), order=order)
        if share < LEAST_EXPLAINED:
            return recipe, []
        notes = [
            f"{len(counted.table.tokens):,} joint n-grams explain {100 * share:.0f} % of what dev targets say: they "
            "rank answers beside the network (decoding.joint_weight; model.joint.order=0: without)"
        ]
    size = model.joint.replaced(order=order, units=len(counted.units), nodes=len(counted.table.tokens))
    recipe = recipe.updated(model=model.replaced(joint=size))
    write_joint(counted, recipe, folder)
    return recipe, notes


def has_joint(start: Recipe, recipe: Recipe) -> bool:
    """Whether a model that was tuned from another has its n-grams: not if it writes tokens that they do not know."""
    if not isinstance(start.model, Seq2SeqSpec) or not isinstance(recipe.model, Seq2SeqSpec):
        return False
    new_tokens = recipe.model.vocabulary.target > start.model.vocabulary.target
    return bool(start.model.joint.nodes) and not new_tokens


def write_joint(counted: JointNgrams, recipe: Recipe, folder: Path) -> None:
    """Write n-grams as they stand in a model."""
    assert isinstance(recipe.model, Seq2SeqSpec)
    table = JointTable(recipe.model.joint)
    table.fill(counted)
    write_tensors(folder / JOINT, stored_tensors(table), {})


def count_again(recipe: Recipe, examples: Encoded, folder: Path) -> None:
    """Write the n-grams of a run once more, as ``count_joint`` has."""
    assert isinstance(recipe.model, Seq2SeqSpec)
    assert isinstance(examples, EncodedPairs)
    counted = fit(*_lines(examples), order=recipe.model.joint.order)
    if counted is not None:
        write_joint(counted, recipe, folder)


def put_joint(model: Model, folder: Path) -> None:
    """Give a new model the n-grams of its run, if it has any; the folder is that of the prepared data."""
    if isinstance(model, Seq2Seq) and model.joint is not None and (folder / JOINT).is_file():
        for name, tensor in load_tensors((folder / JOINT).read_bytes()).items():
            model.joint.get_buffer(name).copy_(tensor)


def joint_names(model: Model) -> list[str]:
    """The tensors of a model that are its n-grams: they do not change, so that checkpoints need not hold them."""
    joint = model.joint if isinstance(model, Seq2Seq) else None
    return [] if joint is None else [f"joint.{name}" for name in stored_tensors(joint)]


def _lines(examples: EncodedPairs) -> tuple[Lines, Lines]:
    """The ids of both sides, but for what stands beside the data."""
    count = min(len(examples) - examples.beside, MOST_PAIRS)
    source, target = (
        np.split(side.ids[: side.starts[count]].astype(np.int64), side.starts[1:count])
        for side in (examples.source, examples.target)
    )
    return source, target


def _encoded(codecs: Codecs, pairs: Sequence[Pair]) -> tuple[Lines, Lines]:
    source, target = codecs
    left, right = source.encode([pair.source for pair in pairs]), target.encode([pair.target for pair in pairs])
    return [np.array(ids, np.int64) for ids in left], [np.array(ids, np.int64) for ids in right]
