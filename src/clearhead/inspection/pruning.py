"""Removing heads for good: smaller W_Q, W_K, W_V and W_O, which free sizes allow (L0.7).

The heads that stay keep their weights, their sizes and their positions, so that the smaller model computes what the
whole one computes with the other heads switched off.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from clearhead.attention import Heads
from clearhead.errors import ClearheadError, Problem, RecipeError
from clearhead.inspection.gates import HeadedAttention, known_heads
from clearhead.models import Model, build
from clearhead.recipe import AttentionSpec, CrossSpec, FreeHeadsSpec, Recipe, StackSpec


def without_heads(model: Model, recipe: Recipe, names: Iterable[str]) -> tuple[Model, Recipe]:
    """A copy of a model without these heads, and its recipe.

    Args:
        model: the model, which stays as it is.
        recipe: the recipe that it was built from.
        names: the heads to remove, each ``STACK.LAYER.HEAD``. Every attention must keep at least one.

    Heads that cannot be removed raise a ``RecipeError`` with the reason: no W_O, no projections, axial attention, an
    attention of another package that does not have ``kept`` among its settings.
    """
    names = set(names)
    attentions = known_heads(model, names)
    smaller = _smaller_recipe(recipe, attentions, names)
    cut = build(smaller, seed=0)  # its weights are replaced
    weights = dict(model.named_parameters()) | dict(model.named_buffers())
    kept = {id(part): _kept(attention, names) for attention in attentions for part in attention.parts}
    owners = {id(old): part for attention in attentions for part in attention.parts for old in part.parameters()}
    with torch.no_grad():
        for name, new in cut.named_parameters():
            old = weights[name]
            part = owners.get(id(old))
            new.copy_(old if part is None or old.shape == new.shape else _rows(old, new, part, kept[id(part)], name))
    return cut.to(next(model.parameters()).device).train(model.training), smaller


def _kept(attention: HeadedAttention, names: set[str]) -> list[int]:
    """The heads of an attention that stay, from 0."""
    return [number for number, name in enumerate(attention.head_names) if name not in names]


def _rows(old: Tensor, new: Tensor, part: Heads, kept: list[int], name: str) -> Tensor:
    """The share of a weight that belongs to the heads that stay: along one dimension, heads stand one after another."""
    differing = [dim for dim in range(old.dim()) if old.shape[dim] != new.shape[dim]]
    if len(differing) != 1 or old.shape[differing[0]] % part.heads:
        raise ClearheadError(f"{name}: cannot tell which of its numbers belong to which head")
    (dim,) = differing
    by_head = old.view(*old.shape[:dim], part.heads, -1, *old.shape[dim + 1 :])
    return by_head.index_select(dim, torch.tensor(kept, device=old.device)).flatten(dim, dim + 1)


def _smaller_recipe(recipe: Recipe, attentions: list[HeadedAttention], names: set[str]) -> Recipe:
    """The recipe in which ``kept`` leaves these heads out."""
    changed, problems = recipe.model, []
    for stack in dict.fromkeys(attention.stack for attention in attentions):
        layers = [attention for attention in attentions if attention.stack == stack]
        gone = [name for attention in layers for name in attention.head_names if name in names]
        if not gone:
            continue
        part = getattr(changed, stack)
        assert isinstance(part, StackSpec | CrossSpec)
        spec = getattr(part, "attention", None)
        assert isinstance(spec, AttentionSpec)
        empty = [attention.name for attention in layers if not _kept(attention, names)]
        if empty:
            reason = "would keep no head: an attention without heads would add a constant; keep one of them"
            problems += [Problem("", name, reason) for name in empty]
        elif not isinstance(spec, FreeHeadsSpec):
            reason = f"{spec.kind} attention has no setting kept, by which heads could be removed"
            problems.append(Problem("", ", ".join(gone), reason))
        else:
            before = spec.kept or [list(range(1, spec.heads + 1)) for _ in layers]
            if any(attention.heads != len(heads) for attention, heads in zip(layers, before, strict=True)):
                # axial attention; its own refusal says why
                after = [[1] for _ in layers]
            else:
                after = [
                    [heads[number] for number in _kept(attention, names)]
                    for attention, heads in zip(layers, before, strict=True)
                ]
            changed = changed.replaced(**{stack: part.replaced(attention=spec.replaced(kept=after))})
    if problems:
        raise RecipeError(problems)
    return recipe.updated(model=changed)
