"""Writes the pages of docs/ that are made from the code: run by `make docs`, checked by tests/test_docs.py.

docs/recipe.md   every setting of a recipe: type, default, one line
docs/models/…    the cards of the models that come with the package
docs/claims.md   every claim of the lectures: its verdict, the modules that implement it, the tests that prove it
"""

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from clearhead.lectures import VERDICTS, claims
from clearhead.recipe import (
    DataSpec,
    DecodingSpec,
    Spec,
    TrainingSpec,
    kinds,
    metric_kinds,
    preset_names,
    preset_text,
    slots,
)
from clearhead.recipe.describing import describe_field
from clearhead.recipe.spec import spec_type
from clearhead.shipped import model_card, shipped_names

ROOT = Path(__file__).parent.parent
CLAIM = re.compile(r"\bL[0-4]\.\d+\b")


def recipe_page() -> str:
    """The reference of all settings of a recipe."""
    lines = [
        "# Recipes",
        "",
        "A recipe is a TOML file. `clearhead presets` lists recipes to start from; a file builds on one with",
        '`preset = "tiny"` as its first line, and every command takes overrides of the form `section.key=value`.',
        "The command line wins over the file, the file over the preset.",
        "",
        "Settings that several parts share (`layers`, `width`, `heads`, `attention`, `position`, `feedforward`,",
        "`norm`, `residual`, `dropout`) may be written once under `[model]`; `[model.encoder]`, `[model.decoder]` and",
        "`[model.cross]` say otherwise for a part. `heads` is short for `attention.heads`. A shared setting goes to",
        "the parts that take it; one that no part takes is refused. A recurrent decoder's `attention` is an alignment.",
        "`model.attention.kind` goes where the paper of the mechanism has it: disentangled attention to encoder and",
        "decoder, Linformer's to the encoder, all others to cross-attention too; `model.cross.attention.kind` says",
        "otherwise. Disentangled attention knows distances itself: positions are then none, unless the recipe says",
        "`position.kind`. `model.position` means the stacks alone; cross-attention has `model.cross.position`.",
        "`clearhead show A --against B` prints what sets two recipes apart, and what each costs.",
        "",
        "## Presets",
        "",
        "| preset | what it is |",
        "|---|---|",
        *(f"| `{name}` | {preset_text(name).splitlines()[0].lstrip('# ')} |" for name in preset_names()),
        "",
    ]
    tables: dict[str, type[Spec]] = {}
    for name, section in (("data", DataSpec), ("training", TrainingSpec), ("decoding", DecodingSpec)):
        lines += [f"## `[{name}]`", "", f"{(section.__doc__ or '').strip()}", "", *_settings(section, tables), ""]
    lines += [*_metrics(), ""]
    lines += ["## `[model]`", "", "What it takes depends on its family; the tables below say what each kind takes.", ""]
    for slot in ("family", *(slot for slot in slots() if slot != "family")):
        lines += [f"## {slot}", ""]
        for name, kind in kinds(slot).items():
            lines += [f'### `{kind.spec.tag} = "{name}"`', "", f"{(kind.spec.__doc__ or '').strip()}", ""]
            lines += [*_settings(kind.spec, tables), ""]
    lines += ["## Tables", ""]
    waiting = list(tables)
    for name in waiting:  # grows while it is read: a table may hold tables
        known = set(tables)
        lines += [
            f"### `{name}`",
            "",
            f"{(tables[name].__doc__ or '').strip()}",
            "",
            *_settings(tables[name], tables),
            "",
        ]
        waiting += [new for new in tables if new not in known]
    return "\n".join(lines).strip() + "\n"


_JUDGED = {
    "symbols": "pairs of symbols or characters",
    "sentences": "other pairs",
    "texts": "texts (lm)",
    "gaps": "hidden tokens (encoder)",
    "labels": "labels of texts",
    "pictures": "labels of pictures",
}


def _metrics() -> Iterator[str]:
    """The table of metrics."""
    yield "## Metrics"
    yield ""
    yield "What `clearhead eval --json` measures, each with a 95 % interval, and what `training.metric` can name. Each"
    yield "dev evaluation measures the loss, `training.metric` and what is marked *dev*; `eval` prints that and what is"
    yield "marked *main*. Percentages, but for perplexity and loss. `clearhead.register_metric` adds a metric."
    yield ""
    yield f"| metric | what it is | better | {' | '.join(_JUDGED.values())} |"
    yield f"|---|---|---|{'---|' * len(_JUDGED)}"
    for name, kind in metric_kinds().items():
        marks = {"dev": "*dev*", "main": "*main*", "rest": "yes"}
        ranks = " | ".join(marks.get(kind.judges.get(material, ""), "") for material in _JUDGED)  # type: ignore[call-overload]
        yield f"| `{name}` | {kind.summary} | {'more' if kind.rising else 'less'} | {ranks} |"


def _settings(spec: type[Spec], tables: dict[str, type[Spec]]) -> Iterator[str]:
    yield "| setting | takes | default | what it is |"
    yield "|---|---|---|---|"
    for name, info in spec.model_fields.items():
        if name == getattr(spec, "tag", None):
            continue
        if (inner := spec_type(info)) is not None:
            if hasattr(inner, "slot"):
                takes, default = f"a table: {inner.slot}", f"`{info.default.kind}`"
            else:
                name_in_docs = inner.__name__.removesuffix("Spec")
                takes, default = f"a table: {name_in_docs}", ""
                tables.setdefault(name_in_docs, inner)
        else:
            takes = describe_field(spec, name)
            default = (
                ""
                if info.default is None
                else f"`{str(info.default).lower() if isinstance(info.default, bool) else info.default}`"
            )
        what = " ".join((info.description or "").split()).replace("|", r"\|")
        yield f"| `{name}` | {takes} | {default} | {what} |"


def claims_page() -> str:
    """Every claim of the lectures: its verdict, the modules that implement it, the tests that prove it."""
    modules, tests = defaultdict(set), defaultdict(list)
    for claim in claims():
        modules[claim.id].add(f"clearhead/{'/'.join(claim.module.split('.')[1:])}.py")
    for path in sorted((ROOT / "src").rglob("*.py")):
        module = path.relative_to(ROOT / "src")
        if "lectures" not in module.parts:
            for name in set(CLAIM.findall(path.read_text(encoding="utf-8"))):
                modules[name].add(str(module))
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (named := re.match(r"test_L(\d)_(\d+)_", node.name)):
                proved = sentence(ast.get_docstring(node) or "")
                tests[f"L{named[1]}.{named[2]}"].append(f"`{path.relative_to(ROOT)}`: {proved}".replace("|", r"\|"))
    lines = [
        "# Claims of the lectures",
        "",
        "Every claim, whether it holds, the modules that implement it and the tests that prove it, each of which also",
        "rejects a wrong variant. `clearhead lecture L4.8` runs one claim and shows its evidence; `clearhead lecture",
        "--all` runs all of them. `make docs` makes this page from the registry of claims, the names and docstrings of",
        "the tests, and the ids in the code.",
        "",
        *(f"- **{verdict}**: {meaning}." for verdict, meaning in VERDICTS.items()),
        "",
        "The claims stand in the order of the notes. Where a formula is printed wrong, the right one stands below it.",
        "",
        "| claim | what it says | in the notes | verdict | try it | modules | tests |",
        "|---|---|---|---|---|---|---|",
    ]
    for claim in claims():
        verdict = claim.verdict + (f": {claim.right}" if claim.right else "")
        where = "<br>".join(f"`{module}`" for module in sorted(modules[claim.id]))
        if claim.printed:
            formulas = (("as printed", claim.printed_formula), ("right", claim.formula))
            shown = (f"{name}: `{line}`" for name, text in formulas for line in text.splitlines())
            verdict += "<br>" + "<br>".join(shown)
        attempts = [attempt for attempt in (claim.try_it, claim.trained) if attempt is not None]
        attempt = "<br>".join(f"`{attempt.command}`: {attempt.see}" for attempt in attempts)
        place = str(claim.place) if claim.place.section else ""
        said = [text.replace("|", r"\|") for text in (claim.title, place, verdict, attempt)]
        lines.append(f"| {claim.id} | {' | '.join(said)} | {where} | {'<br>'.join(tests[claim.id])} |")
    return "\n".join(lines) + "\n"


def sentence(docstring: str) -> str:
    """The first paragraph of a docstring, without the claims that it begins with: ``L0.2: a test.`` is "A test.".

    Claims inside a sentence stay, as it would not be one without them. A formula keeps its small first letter.
    """
    text = " ".join(docstring.partition("\n\n")[0].split())
    text = re.sub(rf"^{CLAIM.pattern}(, {CLAIM.pattern})*[:;,] *", "", text)
    return text[:1].upper() + text[1:] if re.match(r"[a-z]{2,}[ ,:]|a [a-z]{2,}", text) else text


PAGES: dict[str, Callable[[], str]] = {
    "docs/recipe.md": recipe_page,
    "docs/claims.md": claims_page,
    **{f"docs/models/{name}.md": partial(model_card, name) for name in shipped_names()},
}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(page(), encoding="utf-8")
        print(name)
