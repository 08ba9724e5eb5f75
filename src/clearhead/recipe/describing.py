"""What a setting takes, in the words of a recipe: ``a whole number ≥ 1``, ``pre or post``; and how values are shown."""

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

_TYPES = {
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "string": "a text",
    "array": "a list",
}
_BOUNDS = {
    "minimum": "≥ {}",
    "ge": "≥ {}",
    "exclusiveMinimum": "> {}",
    "gt": "> {}",
    "maximum": "≤ {}",
    "le": "≤ {}",
    "exclusiveMaximum": "< {}",
    "lt": "< {}",
    "multipleOf": "a multiple of {}",
    "multiple_of": "a multiple of {}",
}
"""Bounds as JSON schema names them, and as pydantic does."""


def describe_field(spec: type[BaseModel], field: str) -> str:
    """What a field takes, from its JSON schema: ``a whole number ≥ 1``, ``pre or post`` …"""
    info = spec.model_fields[field]
    schema = TypeAdapter[Any](info.annotation or Any).json_schema()
    for rule in info.metadata:  # bounds that stand on the field itself
        schema |= {name: getattr(rule, name) for name in ("ge", "gt", "le", "lt", "multiple_of") if hasattr(rule, name)}
    return " or ".join(dict.fromkeys(_options(schema)))


def wrong_fields(error: ValidationError, spec: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """One (field, message) for each field that pydantic refused: what it must be, in the words of the recipe."""
    for field in dict.fromkeys(str(item["loc"][0]) for item in error.errors() if item["loc"]):
        yield field, f"must be {describe_field(spec, field)}"


def shown(value: Any) -> str:
    """A value as a message shows it: like TOML, and cut if it is long."""
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # Python does not write out whole numbers of more than 4,300 digits
        text = "a number with thousands of digits"
    return short(text)


def short(text: str, most: int = 60) -> str:
    """A text for a message: its beginning, if it is longer than ``most`` characters."""
    return text if len(text) <= most else text[: most - 3] + "…"


def _options(schema: Mapping[str, Any]) -> Iterator[str]:
    for option in schema.get("anyOf", [schema]):
        if "enum" in option:
            yield from option["enum"]
        elif "const" in option:
            yield str(option["const"])
        elif option.get("type") == "array":
            yield f"a list of {', '.join(_options(option.get('items', {})))}"
        elif option.get("type") in _TYPES:
            rules = [text.format(_number(option[name])) for name, text in _BOUNDS.items() if name in option]
            yield " ".join([_TYPES[option["type"]], " and ".join(rules)]).strip()
        elif option.get("type") == "object" or "$ref" in option:
            yield f"a table of settings ({option.get('title') or option['$ref'].rpartition('/')[2]})"


def _number(bound: float) -> str:
    """A bound as it is usually written: 1000 for 1000.0, and 1e+09 for a thousand millions."""
    return f"{bound:g}" if isinstance(bound, float) else str(bound)
