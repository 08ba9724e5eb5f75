"""From one flat set of settings to a recipe: tables become specs, and every problem is noted with its origin."""

from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.recipe.describing import shown, wrong_fields
from clearhead.recipe.model import ModelSpec, Recipe
from clearhead.recipe.parts import Parts, full_names, meaning, shared_names, word
from clearhead.recipe.registry import kinds
from clearhead.recipe.settings import Given, Key, Settings, Tree, nested
from clearhead.recipe.spec import KindSpec, Spec, spec_type
from clearhead.recipe.stack import StackSpec

S = TypeVar("S", bound=Spec)


def recipe_of(settings: Settings, parts: Parts) -> Recipe:
    """The recipe that these settings describe; all mistakes are reported at once, in one ``RecipeError``."""
    constructor = _Constructor(settings, parts)
    recipe = constructor.construct(Recipe, nested(settings), ())
    return constructor.possible(recipe)


def section_of(settings: Settings, name: str, recipe: Recipe) -> Recipe:
    """The recipe with one section made anew from these settings, all of which begin with its ``name``."""
    constructor = _Constructor(settings, {})
    tree = nested(settings).get(name, {})
    assert isinstance(tree, dict)
    section = constructor.construct(type(getattr(recipe, name)), tree, (name,))
    return constructor.possible(None if section is None else recipe.model_copy(update={name: section}))


class _Constructor:
    """Builds specs from tables and collects what is wrong with them.

    ``settings`` know where each value was written, ``parts`` which kinds the parts of the model have.
    """

    def __init__(self, settings: Settings, parts: Parts) -> None:
        self.settings, self.parts = settings, parts
        self._found: list[tuple[tuple[int, int], Problem]] = []
        self._known: set[str] = set()
        """Settings, as written, that some part of the model knows."""
        self._unknown_to_a_part: set[Problem] = set()

    def construct(self, spec: type[S], tree: Tree, path: Key) -> S | None:
        """Build a spec from its table; note every problem, and return None if this very table is unusable."""
        values: dict[str, Any] = {}
        for name, node in tree.items():
            field = spec.model_fields.get(name)
            if field is None:
                self._unknown(spec, (*path, name))
            elif (inner := spec_type(field)) is None:
                values[name] = node.value if isinstance(node, Given) else _plain(node)
                self._known.add(_written(node))
            elif isinstance(node, Given):
                self._note((*path, name), _needs_table(inner, node))
            else:
                kind = self._kind(field, node, (*path, name))
                child = kind and self.construct(kind, node, (*path, name))
                if child is not None:
                    values[name] = child
        try:
            return spec.model_validate(values)
        except ValidationError as error:
            for name, message in wrong_fields(error, spec):
                self._note((*path, name), message)
            return None

    def possible(self, recipe: Recipe | None) -> Recipe:
        """The recipe, if nothing is wrong with it and everything in it can work together."""
        if recipe is not None and not self.problems:
            for setting, reason in recipe.refusals():
                self._note(tuple(setting.split(".")), reason)
        if self.problems or recipe is None:
            raise RecipeError(self.problems)
        return recipe

    @property
    def problems(self) -> list[Problem]:
        """Every problem once, in the order of the lines that cause them.

        A shared setting that one part does not know is no problem if another part knows it.
        """
        ordered = [problem for _, problem in sorted(self._found, key=lambda item: item[0])]
        return [p for p in dict.fromkeys(ordered) if p not in self._unknown_to_a_part or p.key not in self._known]

    def _kind(self, field: FieldInfo, table: Tree, path: Key) -> type[Spec] | None:
        """The spec that a table asks for: the field's own, or the kind that the table names."""
        base = spec_type(field)
        if base is None or not issubclass(base, KindSpec):
            return base
        if base.tag not in table:
            return type(field.default)
        given, known = table[base.tag], kinds(base.slot)
        if isinstance(given, Given) and isinstance(given.value, str) and given.value in known:
            return known[given.value].spec
        name = word(given) if isinstance(given, Given) else ""
        message = f"no such {base.slot}{did_you_mean(name, list(known))} (there are: {', '.join(known)})"
        self._note((*path, base.tag), message)
        return None

    def _unknown(self, spec: type[Spec], key: Key) -> None:
        """Note a name that a table does not know, with the nearest one, or with all that there are."""
        name, known, shared = key[-1], list(spec.model_fields), shared_names()
        if issubclass(spec, ModelSpec):
            known += sorted({taken for taken in shared for part in self.parts.values() if meaning(part, taken)})
            if name in shared:
                stacks = {part: kind for part, kind in self.parts.items() if issubclass(kind, StackSpec)}
                of = ", ".join(f"{part}: {kind.name()}" for part, kind in stacks.items())
                self._note(key, f"no part of this model takes it ({of})", whole=True)
                return
        elif meaning(spec, "heads"):
            known.append("heads")
        near = did_you_mean(name, known)
        meant = full_names(name) if len(key) == 1 else []  # a setting without its section
        if meant and (not near or meant[0].endswith(f".{name}")):
            near = f"; did you mean {' or '.join(meant)}?"
        self._note(key, "no such setting" + (near or f" (there are: {', '.join(known)})"), whole=True)
        self._unknown_to_a_part.add(self._found[-1][1])

    def _note(self, key: Key, message: str, *, whole: bool = False) -> None:
        """Add a problem at the setting that the user wrote, which may be shared or stand inside a table.

        With ``whole`` the problem is the name itself, however deep: it is shown as written, without its value.
        """
        found = next((other for other in self.settings if other[: len(key)] == key), None)
        if found is None:  # a default does not fit: name the setting
            self._found.append(((0, 0), Problem("", ".".join(key), message)))
            return
        given = self.settings[found]
        parts = given.key.split(".")
        written = given.key if whole else ".".join(parts[: len(parts) - (len(found) - len(key))])
        name = f"{written} = {shown(given.value)}" if not whole and found == key else written
        self._found.append(((given.line, given.order), Problem(given.where, name, message)))


def _needs_table(spec: type[Spec], node: Given) -> str:
    if issubclass(spec, KindSpec) and word(node) in kinds(spec.slot):
        return f"must be a table of settings: write {node.key}.{spec.tag}={node.value}"
    fields = [name for name in spec.model_fields if name != getattr(spec, "tag", None)] or list(spec.model_fields)
    return f"must be a table of settings: for instance {node.key}.{fields[0]}=… ({', '.join(spec.model_fields)})"


def _written(node: "Tree | Given") -> str:
    """The setting as the user wrote it."""
    while isinstance(node, dict):
        node = next(iter(node.values()))
    return node.key


def _plain(tree: Tree) -> dict[str, Any]:
    return {name: node.value if isinstance(node, Given) else _plain(node) for name, node in tree.items()}
