"""What a recipe leaves to the data, to the budget and to the machine, resolved before the first step.

The resolved recipe is part of the run: a resumed one keeps what was chosen, wherever it goes on.
"""

from typing import Any

import numpy as np

from clearhead.data import Encoded, all_sizes
from clearhead.models import computes_bfloat16, outline, pick_device
from clearhead.recipe import (
    NgramsSpec,
    Recipe,
    RotarySpec,
    Seq2SeqSpec,
    StackSpec,
    TransformerEncoderSpec,
    drops_out,
    precision_of,
)
from clearhead.training.objectives import Codecs, Objective

NGRAMS_REACH = 2
"""Tokens to either side that the n-grams of symbols and characters reach to."""
LARGE_BATCH, LEAST_BATCHES = 2048, 200
"""Tokens of a batch of pairs, where an epoch has so many batches."""
RATE_OF_SUBWORDS = 0.002
"""The highest learning rate for such batches of subwords."""
MOST_LISTED = 1_000_000
"""Training examples that are shuffled by a list, at most, unless the recipe says how."""
LOAD_OF_FULL_DROPOUT = 1200.0
"""The load, (parameters / training tokens) × passes, at which the dropout of ``auto`` would reach 1."""
LEAST_DROPOUT, MOST_DROPOUT = 0.03, 0.3
"""Less than the first is not worth its time, and becomes 0."""
AGREEMENT, LOAD_OF_AGREEMENT = 5.0, 500.0
"""The agreement of pairs that nobody chose, from this load on …"""
MOST_DROPOUT_AGREEING = 0.2
"""… and the most dropout then, as the predictions are kept from one another's extremes."""
PENALTY_OF_SUBWORDS = 1.5
"""α of the length penalty for sentences, which a beam else makes too short."""


def with_smoothing(recipe: Recipe, objective: Objective[Any, Any, Any]) -> Recipe:
    """Resolve what the family decides."""
    return recipe.updated(training=recipe.training.replaced(label_smoothing=objective.smoothing))


def with_positions_across(recipe: Recipe, codecs: Codecs) -> Recipe:
    """Rotary positions in cross-attention where both sides are symbols or characters, as letters and sounds are.

    Such pairs run side by side, and a decoder that knows how far along the source it is learns them faster. Words of
    two languages change places, and other engines have no such cross-attention.
    """
    if not isinstance(recipe.model, Seq2SeqSpec) or not all(codec.closed for codec in codecs):
        return recipe
    cross = recipe.model.cross.replaced(position=RotarySpec())
    return recipe.updated(model=recipe.model.replaced(cross=cross))


def with_ngrams(recipe: Recipe, codecs: Codecs) -> Recipe:
    """N-grams where the source is symbols or characters: how one of them is read depends on those beside it."""
    if not isinstance(recipe.model, Seq2SeqSpec) or not codecs[0].closed:
        return recipe
    encoder = recipe.model.encoder
    assert isinstance(encoder, TransformerEncoderSpec)  # of models that nobody described
    return recipe.updated(model=recipe.model.replaced(encoder=encoder.replaced(ngrams=NgramsSpec(reach=NGRAMS_REACH))))


def with_batch(recipe: Recipe, examples: Encoded) -> Recipe:
    """Larger batches for many pairs: a line teaches as much, and a step has less to do beside its products."""
    if not isinstance(recipe.model, Seq2SeqSpec):
        return recipe
    if examples.tokens < LARGE_BATCH * LEAST_BATCHES:
        return recipe
    return recipe.updated(training=recipe.training.replaced(batch_tokens=LARGE_BATCH))


def with_rate(recipe: Recipe, codecs: Codecs) -> Recipe:
    """A higher rate for large batches of subwords, most of which are in few batches; symbols are in all of them.

    Chosen on dev data: docs/evidence/quality.md.
    """
    spec = recipe.training
    if spec.batch_tokens < LARGE_BATCH or all(codec.closed for codec in codecs):
        return recipe
    if not isinstance(recipe.model, Seq2SeqSpec):
        return recipe
    return recipe.updated(training=spec.replaced(optimizer=spec.optimizer.replaced(rate=RATE_OF_SUBWORDS)))


def with_length_penalty(recipe: Recipe, codecs: Codecs) -> Recipe:
    """A stronger length penalty for subwords: sentences may be said in few words, symbols not.

    Chosen on dev data: docs/evidence/quality.md.
    """
    if not isinstance(recipe.model, Seq2SeqSpec) or all(codec.closed for codec in codecs):
        return recipe
    return recipe.updated(decoding=recipe.decoding.replaced(length_penalty=PENALTY_OF_SUBWORDS))


def with_shuffle(recipe: Recipe, examples: Encoded) -> Recipe:
    """Resolve how the examples are shuffled, if there are too many for a list of them."""
    if recipe.training.shuffle is not None or len(examples) <= MOST_LISTED:
        return recipe
    return recipe.updated(training=recipe.training.replaced(shuffle="formula"))


def with_precision(recipe: Recipe) -> Recipe:
    """Resolve ``auto``: bfloat16 where this CPU multiplies it and the model is wide enough to gain, else float32."""
    spec = recipe.training
    found = precision_of(recipe, multiplies=lambda: pick_device(spec.device).type == "cpu" and computes_bfloat16())
    return recipe if found == spec.precision else recipe.updated(training=spec.replaced(precision=found))


def with_agreement(recipe: Recipe) -> Recipe:
    """Two passes of each batch that are drawn together."""
    return recipe.updated(training=recipe.training.replaced(agreement=AGREEMENT))


def wants_agreement(recipe: Recipe, examples: Encoded) -> bool:
    """Whether pairs are seen so often that dropout alone does not keep them new."""
    if not isinstance(recipe.model, Seq2SeqSpec) or not drops_out(recipe.model):
        return False
    return _load(recipe, examples) >= LOAD_OF_AGREEMENT


def with_dropout(recipe: Recipe, examples: Encoded) -> Recipe:
    """Resolve ``auto``: what has much room, sees little and sees it often would learn it by heart, and is hindered.

    The rate is the load over ``LOAD_OF_FULL_DROPOUT``.
    """
    most = MOST_DROPOUT_AGREEING if recipe.training.agreement else MOST_DROPOUT
    rate = round(min(most, _load(recipe, examples) / LOAD_OF_FULL_DROPOUT), 3)
    rate = rate if rate >= LEAST_DROPOUT else 0.0
    stacks = {name: part.with_dropout(rate) for name, part in recipe.model if isinstance(part, StackSpec)}
    return recipe.updated(model=recipe.model.replaced(**stacks))


def _load(recipe: Recipe, examples: Encoded) -> float:
    """(parameters / training tokens) × passes over the data."""
    spec = recipe.training
    assert spec.steps is not None
    tokens = float(np.max(np.sum([[side.sum() for side in sizes] for sizes in all_sizes(examples)], axis=0)))
    passes = spec.steps * spec.accumulate * spec.batch_tokens / tokens
    parameters: int = sum(weight.numel() for weight in outline(recipe.model).parameters())
    return parameters / tokens * passes
