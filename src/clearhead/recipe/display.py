"""A recipe to look at: one line for a prompt, a tree of settings for a notebook. Nothing here knows a family."""

from collections.abc import Iterator
from html import escape
from typing import Any, NamedTuple

from clearhead.recipe.describing import shown
from clearhead.recipe.spec import KindSpec, Spec

_STACKS = ("encoder", "decoder")
_SHARING = (*_STACKS, "cross")
_HEADLINE = ("kind", "layers", "width", "cell", "attention.heads", "attention.kind", "position.kind")
"""Settings of a stack that the line says in words."""
_MOST_CHANGES = 3
"""Other settings that the line, or the summary of a table, names."""
_MOST_ITEMS = 8
"""Items of a list that are shown."""


class Setting(NamedTuple):
    """A value of a table, and whether it is what it would be if nobody had set it."""

    name: str
    value: Any
    usual: Any
    """The value by default; of a table, the table that stands there by default, or None."""
    meaning: str
    """What the setting is, from its documentation."""

    @property
    def is_set(self) -> bool:
        """Whether the value is another one than by default."""
        return bool(self.value != self.usual)


def settings_of(table: Spec, usual: Spec | None) -> Iterator[Setting]:
    """The settings of a table; ``usual`` is the one that stands in its place by default, None if there is none.

    What a recipe does not write out, such as the cross-attention of a recurrent decoder, is not shown.
    """
    for name in table.model_dump():
        info = type(table).model_fields[name]
        default = info.get_default(call_default_factory=True)
        if usual is None:  # the whole table is there only because somebody gave it
            default = None
        elif type(usual) is type(table) or (isinstance(table, KindSpec) and name == table.tag):
            default = getattr(usual, name)
        yield Setting(name, getattr(table, name), default, " ".join((info.description or "").split()))


def changes(table: Spec, usual: Spec | None, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """The (full name, value) of every setting that is another one than by default, in the order of the recipe."""
    for setting in settings_of(table, usual):
        if isinstance(setting.value, Spec):
            yield from changes(setting.value, setting.usual, f"{prefix}{setting.name}.")
        elif setting.is_set:
            yield f"{prefix}{setting.name}", setting.value


def one_line(recipe: Spec, usual: Spec, model: KindSpec) -> str:
    """Family, sizes and kinds of the recipe's ``model``, then a few settings that differ from the ``usual`` recipe."""
    family = getattr(model, model.tag)
    stacks = {name: _stack(part) for name in _STACKS if isinstance(part := getattr(model, name, None), Spec)}
    if len(set(stacks.values())) == 1:
        line = f"{family}: {next(iter(stacks.values()))}"
    else:
        line = f"{family}: " + "; ".join(f"{name} {text}" for name, text in stacks.items())
    others = _few(_together(changes(recipe, usual)))
    return f"Recipe({line}{f'; {others}' if others else ''})"


def _stack(part: Spec) -> str:
    """``3 layers, width 192, 4 heads, multihead attention, sinusoidal positions``."""
    kind, layers = getattr(part, "kind", "transformer"), getattr(part, "layers", 0)
    words = [] if kind == "transformer" else [" ".join([kind, getattr(part, "cell", "")]).strip()]
    words += [f"{layers} layer{'' if layers == 1 else 's'}", f"width {getattr(part, 'width', '?')}"]
    attention, position = getattr(part, "attention", None), getattr(part, "position", None)
    if (heads := getattr(attention, "heads", None)) is not None:
        words.append(f"{heads} head{'' if heads == 1 else 's'}")
    if isinstance(attention, KindSpec):
        words.append(f"{getattr(attention, attention.tag)} attention".replace("none ", "no "))
    if isinstance(position, KindSpec):
        words.append(f"{getattr(position, position.tag)} positions".replace("none ", "no "))
    return ", ".join(words)


def _together(changed: Iterator[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """Changes without those that the line has said in words; one that several parts share is named once."""
    groups: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    for name, value in changed:
        section, part, rest = (*name.split(".", 2), "", "")[:3]
        shared = section == "model" and part in _SHARING and rest
        groups.setdefault((f"model.{rest}" if shared else name, _text(value)), []).append((name, value))
    found = []
    for (shared_name, _), alike in groups.items():
        said = any(name.startswith(("model.encoder.", "model.decoder.")) for name, _ in alike)
        if shared_name == "model.family" or (said and shared_name.removeprefix("model.") in _HEADLINE):
            continue
        found.append((shared_name if len(alike) > 1 else alike[0][0], alike[0][1]))
    return sorted(found, key=lambda change: change[0].startswith("model.vocabulary."))  # the least telling come last


def _few(changed: list[tuple[str, Any]]) -> str:
    said = [f"{name} = {_text(value)}" for name, value in changed[:_MOST_CHANGES]]
    return ", ".join([*said, *([f"{len(changed) - len(said)} more"] if len(changed) > len(said) else [])])


def _text(value: Any) -> str:
    """A value on one line; of a long list only its beginning, for a classifier may have a million labels."""
    if isinstance(value, list) and len(value) > _MOST_ITEMS:
        text = f"{shown(value[:_MOST_ITEMS])} ({len(value):,} in all)"
    else:
        text = "none" if value is None else shown(value)
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


# ---- a tree for notebooks: no script, its own few rules of style, readable on dark and on light ----

_STYLE = """
.clearhead .recipe{font:13px/1.5 ui-monospace,Menlo,Consolas,monospace}
.clearhead .recipe ul{list-style:none;margin:0;padding-left:1.4em}
.clearhead .recipe summary{cursor:pointer}
.clearhead .recipe .usual{opacity:.65}
.clearhead .recipe .set{font-weight:600}
.clearhead .recipe .set .value{background:rgba(255,170,0,.25);border-radius:3px;padding:0 .3em}
.clearhead .recipe .few{opacity:.65;font-weight:400}
"""


def tree(recipe: Spec, usual: Spec, model: KindSpec) -> str:
    """The recipe as nested ``<details>``: defaults are dimmed, set values bold on a tint, meanings in tooltips."""
    from clearhead.drawing.html import fragment  # reads its style sheets: not needed to read a recipe

    line = escape(one_line(recipe, usual, model))
    body = f'<details class="recipe" open><summary>{line}</summary>{_list(recipe, usual)}</details>'
    return fragment(body, style=_STYLE)


def _list(table: Spec, usual: Spec | None) -> str:
    rows = [_row(setting) for setting in settings_of(table, usual)]
    return f"<ul>{''.join(rows)}</ul>"


def _row(setting: Setting) -> str:
    name, title = escape(setting.name), escape(setting.meaning, quote=True)
    kind = "set" if setting.is_set else "usual"
    if not isinstance(setting.value, Spec):
        value = escape(_text(setting.value))
        return f'<li class="{kind}" title="{title}">{name} = <span class="value">{value}</span></li>'
    table = setting.value
    word = f" {escape(str(getattr(table, table.tag)))}" if isinstance(table, KindSpec) else ""
    few = escape(_few(list(changes(table, setting.usual))))
    summary = f'<summary class="{kind}" title="{title}">{name}{word} <span class="few">{few}</span></summary>'
    return f"<li><details>{summary}{_list(table, setting.usual)}</details></li>"
