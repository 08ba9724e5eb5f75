"""What follows from a recipe's settings: shown with a model, its cost and its training, so that nothing surprises."""

from clearhead.recipe.attention import AttentionSpec, LinformerSpec
from clearhead.recipe.model import ModelSpec, Recipe
from clearhead.recipe.position import NoPositionSpec, PositionSpec
from clearhead.recipe.stack import CrossSpec, StackSpec, dropout_rate


def notes_of(recipe: Recipe) -> list[str]:
    """One sentence for each thing that follows from a setting, and that a reader might not expect."""
    model, notes = recipe.model, []
    attentions = _attentions(model)
    stacks = {part: attention for part, attention in attentions.items() if part != "cross"}
    for kind in dict.fromkeys(attention.kind for attention in stacks.values()):
        parts = [part for part, attention in stacks.items() if attention.kind == kind]
        for position in dict.fromkeys(_position(model, part).kind for part in parts):
            here = [part for part in parts if _position(model, part).kind == position]
            if stacks[here[0]].brings_position:
                notes.append(_positions(kind, here, position))
        if isinstance(linformer := stacks[parts[0]], LinformerSpec):
            notes.append(f"{_named(parts)}: linformer attention reads up to {linformer.length} tokens")
    kinds = dict.fromkeys(attention.kind for attention in attentions.values())
    if len(kinds) > 1:
        shown = "; ".join(
            f"{_named([part for part, attention in attentions.items() if attention.kind == kind])}: {kind}"
            for kind in kinds
        )
        notes.append(f"attention is not the same everywhere: {shown}")
    if recipe.training.agreement and not drops_out(model):
        notes.append(
            "training.agreement compares two passes, and without dropout they are the same: model.dropout.residual=0.2"
        )
    return notes


def drops_out(model: ModelSpec) -> bool:
    """Whether a pass drops out what another may not; a rate that is left to the data may become 0."""
    stacks = [part for _, part in model if isinstance(part, StackSpec)]
    tables = [ngrams.dropout for stack in stacks if (ngrams := getattr(stack, "ngrams", None)) and ngrams.reach]
    rates = [rate for stack in stacks for _, rate in stack.dropout]
    return any(map(dropout_rate, rates)) or any(rate != "auto" and rate for rate in tables)


def _positions(kind: str, parts: list[str], position: str) -> str:
    if position == NoPositionSpec.name():
        return f"{_named(parts)}: {kind} attention knows distances itself, so position.kind = none"
    return f"{_named(parts)}: {kind} attention knows distances itself, and {position} positions are added as well"


def _named(parts: list[str]) -> str:
    return " and ".join("cross-attention" if part == "cross" else part for part in parts)


def _position(model: ModelSpec, part: str) -> PositionSpec:
    position: PositionSpec = getattr(getattr(model, part), "position", NoPositionSpec())
    return position


def _attentions(model: ModelSpec) -> dict[str, AttentionSpec]:
    """The attention of each part that has one."""
    decoder = getattr(model, "decoder", None)
    found: dict[str, AttentionSpec] = {}
    for name in ("encoder", "decoder", "cross"):
        part = getattr(model, name, None)
        if isinstance(part, CrossSpec) and not getattr(decoder, "crosses", False):
            continue
        attention = getattr(part, "attention", None)
        if isinstance(attention, AttentionSpec):
            found[name] = attention
    return found
