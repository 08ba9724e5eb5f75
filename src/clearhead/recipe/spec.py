"""A table of a recipe as validated, frozen data: the base of every spec, and how one is changed."""

from typing import Any, ClassVar, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.recipe.describing import shown, wrong_fields


class Spec(BaseModel):
    """A table of a recipe: frozen, strict, and without unknown keys."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", strict=True, use_attribute_docstrings=True, allow_inf_nan=False
    )
    own: ClassVar[frozenset[str]] = frozenset()
    """Settings that are not meant by those of the same name which several parts share (``model.position``)."""

    def replaced(self, **changes: Any) -> Self:
        """This table with other values, validated like any table: ``recipe.training.replaced(steps=100)``.

        ``changes`` are values by the names of fields; a table inside this one is given as a spec. Wrong names and
        values raise a ``RecipeError``, all at once. What cannot work together is known to ``Recipe.updated``.
        """
        problems: list[Problem] = []
        table = _validated(self.model_copy(update=changes), "", problems)
        if problems:
            raise RecipeError(problems)
        return table


class KindSpec(Spec):
    """A table whose ``tag`` field (``kind``, or ``family``) says which spec it is."""

    slot: ClassVar[str]
    tag: ClassVar[str] = "kind"

    @classmethod
    def name(cls) -> str:
        """The word that a recipe uses for this kind."""
        return str(cls.model_fields[cls.tag].default)


S = TypeVar("S", bound=Spec)


def spec_type(field: FieldInfo) -> type[Spec] | None:
    """The spec that a field takes, perhaps as a table that may be left out, or None for a plain value."""
    for annotation in (field.annotation, *get_args(field.annotation)):
        if isinstance(annotation, type) and issubclass(annotation, Spec):
            return annotation
    return None


def _validated(table: S, prefix: str, problems: list[Problem]) -> S:
    """The table with every value validated, tables inside of it too; pydantic's ``model_copy`` validates nothing.

    Only the fields that were set are looked at, so that the copy still knows which ones those are.
    """
    kind, values = type(table), {}
    for name in [name for name in dict(table) if name in table.model_fields_set]:
        value, field = getattr(table, name), kind.model_fields.get(name)
        if field is None:
            near = did_you_mean(name, list(kind.model_fields))
            problems.append(Problem("", f"{prefix}{name}", f"no such setting{near}"))
        elif isinstance(value, Spec):
            values[name] = _validated(value, f"{prefix}{name}.", problems)
        elif value is not None and (inner := spec_type(field)) is not None:  # pydantic would take a dict, of any kind
            problems.append(Problem("", f"{prefix}{name}", f"must be a table of settings ({inner.__name__})"))
        else:
            values[name] = value
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        for name, message in wrong_fields(error, kind):
            value = getattr(table, name)
            written = f"{prefix}{name}" if isinstance(value, Spec) else f"{prefix}{name} = {shown(value)}"
            problems.append(Problem("", written, message))
        return table
