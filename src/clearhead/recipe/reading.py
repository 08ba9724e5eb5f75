"""From settings to a validated recipe: spread, merge, construct, refuse; all problems at once."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from clearhead.errors import ModelFileError, Problem, RecipeError, did_you_mean
from clearhead.recipe.model import CrossSpec, ModelSpec, Recipe, Seq2SeqSpec
from clearhead.recipe.naming import named, no_recipe
from clearhead.recipe.registry import KindSpec, Spec, kinds, load_plugins
from clearhead.recipe.sources import (
    MODEL_WORDS,
    Given,
    Key,
    Settings,
    preset_names,
    put,
    settings_of_file,
    settings_of_mapping,
    settings_of_overrides,
    settings_of_preset,
    short,
)
from clearhead.recipe.stack import DecoderSpec, StackSpec
from clearhead.recipe.stored import Header, read_header

_BUDGETS = tuple(("training", name) for name in ("steps", "epochs", "minutes"))
Tree = dict[str, "Tree | Given"]
S = TypeVar("S", bound=Spec)
Parts = dict[str, type[Spec]]
"""The parts of a model that shared settings reach, each with the spec of its kind."""


def read_recipe(source: str | Path | None = None, *overrides: str, anew: bool = False) -> Recipe:
    """Read a recipe from a preset's name, a TOML file, a model file or a run, changed by ``section.key=value``.

    The command line wins over the file, the file over the preset that it names with ``preset = "…"``. ``anew`` leaves
    out what training decided from its data, so that a model like that one can be trained on others. Everything that is
    wrong is reported in one ``RecipeError``.
    """
    return read_with_origins(source, *overrides, anew=anew)[0]


def read_with_origins(source: str | Path | None = None, *overrides: str, anew: bool = False) -> tuple[Recipe, Settings]:
    """The recipe as ``read_recipe`` reads it, and every setting that was given, with its place; the rest are defaults.

    Settings that several parts share stand under each part: ``model.layers`` as ``("model", "encoder", "layers")``.
    """
    changes = settings_of_overrides(overrides)
    levels = [] if source is None else _levels(source)
    if anew and source is not None and named(source) in ("run", "model"):
        levels = [without_results(level, changes) for level in levels]
    return _resolve([*levels, changes])


def recipe_from(table: Mapping[str, Any], *overrides: str, name: str = "recipe", anew: bool = False) -> Recipe:
    """A recipe from a nested mapping, such as the JSON inside a model file; ``name`` appears in errors."""
    return table_with_origins(table, *overrides, name=name, anew=anew)[0]


def table_with_origins(
    table: Mapping[str, Any], *overrides: str, name: str = "recipe", anew: bool = False
) -> tuple[Recipe, Settings]:
    """The recipe as ``recipe_from`` reads it, and every setting that was given."""
    level, changes = settings_of_mapping(table, name), settings_of_overrides(overrides)
    return _resolve([without_results(level, changes) if anew else level, changes])


def without_results(settings: Settings, changes: Settings) -> Settings:
    """The settings of a trained model without what its data decided: vocabulary, labels, and what hangs on them.

    If the changes name other data, or a budget, those of the run go, and with a budget how often dev was looked at.
    """
    gone: set[Key] = {("model", "labels"), ("model", "classes")}
    if any(key[:2] in (("data", "train"), ("data", "task")) for key in changes):
        gone |= {("data", name) for name in ("task", "train", "dev", "test", "columns")}
    if any(key in _BUDGETS for key in changes):
        gone |= {*_BUDGETS, ("training", "evaluate_every")}
    tied = settings.get(("model", "embedding", "tie"))
    if tied is not None and tied.value == "all":  # which needs one vocabulary for both sides
        gone.add(("model", "embedding", "tie"))
    return {key: given for key, given in settings.items() if key not in gone and key[:2] != ("model", "vocabulary")}


def recipe_of_header(header: Header) -> Recipe:
    """The recipe that a model file was built from; one that cannot be read says who wrote it."""
    try:
        return recipe_from(header.recipe_table(), name=str(header.path))
    except RecipeError as error:
        written = str(header.metadata.get("clearhead"))[:20]
        raise ModelFileError(f"{header.path}: was written by clearhead {written}; {error}") from None


def _levels(source: str | Path) -> list[Settings]:
    """The settings behind a name, lowest first: a preset, or a file and the preset that it builds on."""
    name, path, kind = str(source), Path(source), named(source)
    if kind == "preset":
        return [settings_of_preset(name)]
    if kind == "model":
        return [settings_of_mapping(read_header(path).recipe_table(), name)]
    if kind == "run":
        path = path / "recipe.toml" if path.is_dir() else path
    elif kind == "missing" and name.endswith(".toml"):
        raise RecipeError([Problem("", name, "no such file")])
    elif kind == "missing":
        names = preset_names()
        near = did_you_mean(name, names)
        raise RecipeError([Problem("", _shown(name), f"no such file or preset{near} (presets: {', '.join(names)})")])
    elif kind == "huggingface":
        hint = "is a folder, not a recipe; a Hugging Face folder becomes a model file with `clearhead import`"
        raise RecipeError([Problem("", name, hint)])
    elif kind in ("folder", "task", "stdin"):
        what = {"task": "is a task, not a recipe", "stdin": "a recipe is a file"}
        raise RecipeError([Problem("", name, what.get(kind, no_recipe(name)))])
    settings = settings_of_file(path)
    given = settings.pop(("preset",), None)
    if given is None:
        return [settings]
    if not isinstance(given.value, str):
        raise RecipeError([Problem(given.where, f"preset = {_shown(given.value)}", "must be the name of a preset")])
    return [settings_of_preset(given.value, given.where, given.key), settings]


def _resolve(levels: Sequence[Settings]) -> tuple[Recipe, Settings]:
    load_plugins()
    family = _family(levels)
    parts = _parts(levels, family)
    merged: Settings = {}
    lower: Parts = {}
    for number, level in enumerate(levels, start=1):
        known = _parts(levels[:number], _family(levels[:number]))
        if any(key in _BUDGETS for key in level):  # a budget replaces the one of a lower level, whatever it is in
            merged = {key: given for key, given in merged.items() if key not in _BUDGETS}
        merged = _merge(_without_other_parts(merged, lower, known), _spread(level, parts, known), known)
        lower = known
    merged = _with_own_positions(merged, parts)
    reader = _Reader(merged, parts)
    recipe = reader.construct(Recipe, _nest(merged), ())
    if recipe is not None and not reader.problems:
        reader.refuse(recipe)
    if reader.problems or recipe is None:
        raise RecipeError(reader.problems)
    return recipe, merged


def _family(levels: Sequence[Settings]) -> type[ModelSpec]:
    """The family that the highest level names; an unknown one is reported later, with its place."""
    for level in reversed(levels):
        if given := level.get(("model", "family")):
            kind = kinds("family").get(_word(given))
            if kind is not None and issubclass(kind.spec, ModelSpec):
                return kind.spec
    return Seq2SeqSpec


def _parts(levels: Sequence[Settings], family: type[ModelSpec]) -> Parts:
    """Encoder, decoder and cross-attention, as far as this family has them, each as its kind."""
    parts: Parts = {}
    for name, field in family.model_fields.items():
        base = spec_type(field)
        if base is not None and issubclass(base, StackSpec):
            parts[name] = _part_kind(levels, family, name, base)
        elif base is not None and issubclass(base, CrossSpec):
            parts[name] = base
    decoder = parts.get("decoder")
    if decoder is not None and issubclass(decoder, DecoderSpec) and not decoder.crosses:
        parts.pop("cross", None)
    return parts


def _part_kind(levels: Sequence[Settings], family: type[ModelSpec], part: str, base: type[StackSpec]) -> type[Spec]:
    """The kind that the highest level names; another family forgets the kinds that lower levels name."""
    for number in reversed(range(len(levels))):
        given = levels[number].get(("model", part, base.tag))
        if given is not None and _word(given) in kinds(base.slot):
            return kinds(base.slot)[_word(given)].spec
        if _family(levels[:number]) is not family:
            break
    default: type[Spec] = type(family.model_fields[part].default)
    return default


# ---- spreading: model.layers = 4 stands for model.encoder.layers = 4 and model.decoder.layers = 4 ----


def _spread(settings: Settings, parts: Parts, known: Parts) -> Settings:
    """Write shared settings of ``[model]`` into every part that takes them; what a part says itself wins.

    ``parts`` are those of the whole recipe, ``known`` those up to this level. What only the latter take was right when
    it was written, and means nothing now; what neither take stays, to be reported.
    """
    result: Settings = {}
    own: Settings = {}
    shared = _shared_names()
    for key, given in settings.items():
        name = key[1] if len(key) >= 2 and key[0] == "model" else ""
        if name in shared:
            meant = {_meaning(spec, name) for spec in known.values()} - {None}
            takes = {part: _meaning(spec, name) for part, spec in _parts_with_kind(parts, key, given).items()}
            for part, meaning in takes.items():
                if meaning is not None and (meaning in meant or not meant):
                    put(result, _heads(("model", part, *key[1:])), given)
            if not meant and not any(takes.values()):
                put(own, key, given)
        elif len(key) >= 3 and name in (*parts, "cross"):
            put(own, _heads(key), given)
        else:
            put(own, key, given)
    return _merge(result, own, parts)


def _parts_with_kind(parts: Parts, key: Key, given: Given) -> Parts:
    """For ``model.attention.kind = luong``: the parts that have this kind, if some have it; otherwise all parts.

    A kind of attention may say that only some of them are meant.
    """
    if key[2:] != (KindSpec.tag,):
        return parts
    slots = {part: _slot(spec, key[1]) for part, spec in parts.items()}
    having = {
        part: kinds(slot)[_word(given)].spec for part, slot in slots.items() if slot and _word(given) in kinds(slot)
    }
    meant = [part for part, kind in having.items() if part in getattr(kind, "shared_by", parts)]
    return {part: parts[part] for part in meant or having or parts}


def _shared_names() -> set[str]:
    """What may be written once under ``[model]``: every setting of some kind of encoder or decoder."""
    stacks = [entry.spec for slot in ("encoder", "decoder") for entry in kinds(slot).values()]
    return {"heads"}.union(*(spec.model_fields for spec in stacks)) - {StackSpec.tag}


def _meaning(spec: type[Spec], name: str) -> tuple[str, str] | None:
    """A setting that a part takes, and for a table of kinds their slot: the same word may mean different slots."""
    if name == "heads":
        return ("heads", "attention") if _slot(spec, "attention") == "attention" else None
    return (name, _slot(spec, name)) if name in spec.model_fields else None


def _slot(spec: type[Spec], name: str) -> str:
    """The slot of a field that takes one of several kinds; "" for any other field."""
    inner = spec_type(spec.model_fields[name]) if name in spec.model_fields else None
    return inner.slot if inner is not None and issubclass(inner, KindSpec) else ""


def _heads(key: Key) -> Key:
    """``model.encoder.heads`` is short for ``model.encoder.attention.heads``."""
    return (*key[:2], "attention", "heads") if len(key) == 3 and key[2] == "heads" else key


# ---- merging: the higher level wins; a new kind keeps the settings that it knows ----


def _merge(lower: Settings, upper: Settings, parts: Parts) -> Settings:
    merged = dict(lower)
    for key, given in upper.items():
        if key == ("model", "family"):
            merged = _without_other_kinds(merged, key[:-1], "family", given.value)
        elif len(key) == 4 and key[-1] == KindSpec.tag and key[1] in parts and (slot := _slot(parts[key[1]], key[2])):
            merged = _without_other_kinds(merged, key[:-1], slot, given.value)
    for key, given in upper.items():
        put(merged, key, given)
    return merged


def _without_other_parts(settings: Settings, lower: Parts, parts: Parts) -> Settings:
    """Drop what lower levels say of a part whose kind is another one now, or that is gone; what no kind knows stays."""
    kept = dict(settings)
    for part, old in lower.items():
        new = parts.get(part)
        if new is old:
            continue
        for key in [key for key in kept if key[:2] == ("model", part)]:
            meant = _meaning(old, key[2]) if len(key) > 2 else None
            if new is None or key[2:] == (StackSpec.tag,) or (meant and _meaning(new, key[2]) != meant):
                del kept[key]
    return kept


def _without_other_kinds(settings: Settings, table: Key, slot: str, kind: Any) -> Settings:
    """Drop from a table what only other kinds know: it means nothing to this one.

    What no kind knows stays, to be reported.
    """
    fields = {name: set(entry.spec.model_fields) for name, entry in kinds(slot).items()}
    if not isinstance(kind, str) or kind not in fields:
        return settings
    foreign = set().union(*fields.values()) - fields[kind]
    depth = len(table)
    # a family may have no output matrix, or no source: what a preset says of them is not the user's mistake
    outputs = [(*table, "embedding", name) for name in ("tie", "output_bias", "output_scale")]
    old = settings.get((*table, "family"))
    switched = outputs if slot == "family" and old is not None and old.value != kind else []
    return {
        key: given
        for key, given in settings.items()
        if (key[:depth] != table or len(key) <= depth or key[depth] not in foreign) and key not in switched
    }


# ---- attention that knows positions itself needs none besides ----


def _with_own_positions(settings: Settings, parts: Parts) -> Settings:
    """Positions are none where attention brings its own, unless somebody asks for some.

    What a preset says of positions was said of the preset's attention: it does not count if the attention is changed.
    """
    changed = dict(settings)
    for part, spec in parts.items():
        given = settings.get(("model", part, "attention", KindSpec.tag))
        kind = None if given is None else kinds("attention").get(_word(given))
        if given is None or not getattr(kind and kind.spec, "brings_position", False) or not _slot(spec, "position"):
            continue
        said = {key: other for key, other in settings.items() if key[:3] == ("model", part, "position")}
        by_user = not given.source.startswith(_PRESET)
        if all(by_user and other.source.startswith(_PRESET) for other in said.values()):
            changed = {key: other for key, other in changed.items() if key not in said}
            none = Given("none", given.key, given.source, given.line, given.order)
            changed["model", part, "position", KindSpec.tag] = none
    return changed


_PRESET = "preset "


def _nest(settings: Settings) -> Tree:
    tree: Tree = {}
    for key, given in settings.items():
        node = tree
        for name in key[:-1]:
            child = node.setdefault(name, {})
            assert isinstance(child, dict)  # put() removes a value that stands where a table is needed
            node = child
        node[key[-1]] = given
    return tree


# ---- constructing: tables become specs, and every problem is noted with its origin ----


class _Reader:
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
            for name, message in _messages(error, spec):
                self._note((*path, name), message)
            return None

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
        word = _word(given) if isinstance(given, Given) else ""
        message = f"no such {base.slot}{did_you_mean(word, list(known))} (there are: {', '.join(known)})"
        self._note((*path, base.tag), message)
        return None

    def _unknown(self, spec: type[Spec], key: Key) -> None:
        known = list(spec.model_fields)
        if issubclass(spec, ModelSpec):
            taken = {name for name in _shared_names() for part in self.parts.values() if _meaning(part, name)}
            known += sorted(taken)
            if key[-1] in _shared_names():
                of = ", ".join(
                    f"{part}: {kind.name()}" for part, kind in self.parts.items() if issubclass(kind, StackSpec)
                )
                self._note(key, f"no part of this model takes it ({of})", whole=True)
                return
        elif _meaning(spec, "heads"):
            known.append("heads")
        near = did_you_mean(key[-1], known)
        if not near and key[0] in MODEL_WORDS:
            near = ": it belongs under [model]"
        self._note(key, "no such setting" + (near or f" (there are: {', '.join(known)})"), whole=True)
        self._unknown_to_a_part.add(self._found[-1][1])

    def refuse(self, recipe: Recipe) -> None:
        """Note what cannot work together, at the setting that the user wrote, if it was written at all."""
        for setting, reason in recipe.refusals():
            self._note(tuple(setting.split(".")), reason)

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
        name = f"{written} = {_shown(given.value)}" if not whole and found == key else written
        self._found.append(((given.line, given.order), Problem(given.where, name, message)))

    @property
    def problems(self) -> list[Problem]:
        """Every problem once, in the order of the lines that cause them.

        A shared setting that one part does not know is no problem if another part knows it.
        """
        ordered = [problem for _, problem in sorted(self._found, key=lambda item: item[0])]
        return [p for p in dict.fromkeys(ordered) if p not in self._unknown_to_a_part or p.key not in self._known]


def spec_type(field: FieldInfo) -> type[Spec] | None:
    """The spec that a field takes, perhaps as a table that may be left out, or None for a plain value."""
    for annotation in (field.annotation, *get_args(field.annotation)):
        if isinstance(annotation, type) and issubclass(annotation, Spec):
            return annotation
    return None


def _word(given: Given) -> str:
    """The name of a kind; an empty text for anything that cannot be one."""
    return given.value if isinstance(given.value, str) else ""


def _needs_table(spec: type[Spec], node: Given) -> str:
    if issubclass(spec, KindSpec) and _word(node) in kinds(spec.slot):
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


def _shown(value: Any) -> str:
    try:
        text = f'"{value}"' if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    except ValueError:  # Python does not write out whole numbers of more than 4,300 digits
        text = "a number with thousands of digits"
    return short(text)


def _messages(error: ValidationError, spec: type[Spec]) -> Iterator[tuple[str, str]]:
    """One line per wrong field: what it must be, in the words of the recipe."""
    for field in dict.fromkeys(str(item["loc"][0]) for item in error.errors() if item["loc"]):
        yield field, f"must be {describe_field(spec, field)}"


def describe_field(spec: type[Spec], field: str) -> str:
    """What a field takes, from its JSON schema: ``a whole number ≥ 1``, ``pre or post`` …"""
    info = spec.model_fields[field]
    schema = TypeAdapter[Any](info.annotation or Any).json_schema()
    for rule in info.metadata:  # bounds that stand on the field itself
        schema |= {name: getattr(rule, name) for name in ("ge", "gt", "le", "lt", "multiple_of") if hasattr(rule, name)}
    return " or ".join(dict.fromkeys(_describe(schema)))


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


def _number(bound: float) -> str:
    """A bound as people write it: 1000 for 1000.0, and 1e+09 for a thousand millions."""
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _describe(schema: Mapping[str, Any]) -> Iterator[str]:
    for option in schema.get("anyOf", [schema]):
        if "enum" in option:
            yield from option["enum"]
        elif "const" in option:
            yield str(option["const"])
        elif option.get("type") == "array":
            yield f"a list of {', '.join(_describe(option.get('items', {})))}"
        elif option.get("type") in _TYPES:
            rules = [text.format(_number(option[name])) for name, text in _BOUNDS.items() if name in option]
            yield " ".join([_TYPES[option["type"]], " and ".join(rules)]).strip()
