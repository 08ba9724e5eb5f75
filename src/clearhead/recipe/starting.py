"""What a run takes over from the recipe of the model that it starts from: the model, its tokens, its way to answer.

Training is the user's own: its settings are not taken over. Neither are the data, only how text becomes tokens.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from clearhead.errors import Problem, RecipeError
from clearhead.recipe.describing import shown
from clearhead.recipe.model import EncoderModelSpec, ModelSpec, Recipe
from clearhead.recipe.parts import parts_of
from clearhead.recipe.registry import kinds
from clearhead.recipe.settings import Given, Key, Settings
from clearhead.recipe.writing import recipe_table

_TOKENS = ("source", "target", "case", "shared")
"""Settings of ``[data]`` that the tokenizers of a trained model have decided."""
_OUTPUT = ("tie", "output_bias", "output_scale")
"""Settings of ``[model.embedding]`` that mean nothing to an encoder."""
_FREE = {"family", "labels", "classes", "pooling", "pooler", "head_dropout", "head", "head_transform", "init"}
"""Settings of ``[model]`` that may differ from the start's: what stands on top of its body, and how that begins."""


def carried_over(start: Recipe, family: str, name: str) -> dict[str, Any]:
    """The table of a recipe that a run of this family begins with.

    Args:
        start: the recipe of the trained model.
        family: the family to train: the same, or one whose stacks the model has.
        name: what the model is called, for the error if it has not.
    """
    table = recipe_table(start)
    data = {key: value for key, value in table["data"].items() if key in (*_TOKENS, "max_length")}
    model = table["model"] if family == start.model.family else dict(_other_family(start, table["model"], family, name))
    return {"model": model, "data": data, "decoding": table["decoding"]}


def _other_family(start: Recipe, table: Mapping[str, Any], family: str, name: str) -> Iterator[tuple[str, Any]]:
    """The settings that another family takes over: its stacks, embedding and vocabulary; the head is new."""
    has, needs = (parts_of([{("model", "family"): Given(one, "", "")}]) for one in (start.model.family, family))
    missing = needs.keys() - has.keys() - {"cross"}
    if family not in kinds("family") or missing:
        known = kinds("family").get(family)
        stack = "a decoder" if "decoder" in missing else "an encoder"
        needed = f"needs {stack}, which {name}, of family {start.model.family}, does not have"
        raise RecipeError([Problem("", f"model.family = {shown(family)}", needed if known else "no such family")])
    yield "family", family
    yield "vocabulary", table["vocabulary"]
    yield "init", table["init"]
    yield "embedding", {key: value for key, value in table["embedding"].items() if key not in _OUTPUT}
    for part in needs:
        yield part, table[part]
    if isinstance(start.model, EncoderModelSpec):
        if start.model.patches is not None:
            yield "patches", table["patches"]
        if start.model.pooler:  # which sums up the first token
            yield "pooler", True
            if family == "classifier":
                yield "pooling", "first"


def require_agreement(recipe: Recipe, stated: Settings, table: Mapping[str, Any], name: str) -> None:
    """Refuse settings that contradict the model that a run starts from, all at once.

    Args:
        recipe: the recipe that was asked for.
        stated: what somebody said of it.
        table: what ``carried_over`` gave.
        name: what the model is called.
    """
    now = recipe_table(recipe)
    found: dict[Problem, None] = {}
    for key, given in stated.items():
        if not _is_fixed(key):
            continue
        has, wanted = _at(table, key), _at(now, key)
        if has != wanted:
            what = "tokenizer" if key[0] == "data" else "model"
            reason = f"{name} has {shown(has) if has is not None else 'none'}, and a tuned {what} keeps its settings"
            found[Problem(given.where, f"{given.key} = {shown(given.value)}", f"{reason}: leave it out")] = None
    if found:
        raise RecipeError(list(found))


def _is_fixed(key: Key) -> bool:
    if key[0] == "data":
        return key[1] in _TOKENS
    return key[0] == "model" and key[1] not in _FREE and "dropout" not in key


def _at(table: Mapping[str, Any], key: Key) -> Any:
    value: Any = table
    for name in key:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def family_of(model: ModelSpec, *levels: Settings) -> str:
    """The family that the highest of these levels names; without any, the model's own."""
    for level in reversed(levels):
        if given := level.get(("model", "family")):
            return str(given.value)
    return model.family
