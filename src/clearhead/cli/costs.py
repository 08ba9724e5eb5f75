"""What ``clearhead cost`` prints. Only ``--table`` needs torch, to measure."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.cli.sheets import Formulaic, Sheet, show
from clearhead.costing import Cost, Formula, ModelCost
from clearhead.costing import cost as cost_of_recipe
from clearhead.costing.forms.crossover import COMPARED, Crossover, compare, quadratic_against_rest
from clearhead.costing.forms.letters import OPEN
from clearhead.costing.forms.summary import DEPTH, lines_of, rows_of
from clearhead.costing.forms.text import tidy
from clearhead.costing.forms.views import PRINTED, asymptotic, printed
from clearhead.errors import ClearheadError, Problem, RecipeError, did_you_mean
from clearhead.recipe import Recipe, notes_of
from clearhead.verbs import recipe_named


@dataclass(frozen=True)
class Asked:
    """What was typed."""

    what: list[str]
    n: int
    m: int | None
    t: int | None
    batch: int
    by: str
    view: str
    within: str | None
    format: str
    crossover: str | None
    of: Any
    output: Path | None
    table: str | None

    @property
    def place(self) -> dict[str, int]:
        """n, m, B and t."""
        m = self.n if self.m is None else self.m
        return {"n": self.n, "m": m, "B": self.batch, "t": m if self.t is None else self.t}


def answer(asked: Asked) -> None:
    """Answer what was asked."""
    if asked.table is not None:
        _table(asked)
        return
    recipes = _recipes(asked.what)
    if asked.output is not None and asked.crossover is None:
        raise _wrong("-o", "is for --crossover: it names the file that the curves are drawn into")
    if asked.crossover is not None:
        _crossover(asked, recipes)
        return
    if len(recipes) > 1:
        raise _wrong(recipes[1][0], "a second recipe needs --crossover n: one recipe at a time otherwise")
    name, recipe = recipes[0]
    cost = cost_of_recipe(recipe)
    _check_lengths(recipe, asked)
    if asked.format == "json":
        print(json.dumps(_json(name, cost, asked), ensure_ascii=False))
    else:
        show(_sheets(name, cost, asked), asked.format)


def _wrong(key: str, message: str) -> RecipeError:
    return RecipeError([Problem("command line", key, message)])


def _recipes(words: list[str]) -> list[tuple[str, Recipe]]:
    """Recipes with the changes that follow each."""
    groups: list[list[str]] = []
    for word in words:
        if "=" not in word or not groups:
            groups.append([])
        groups[-1].append(word)
    if not groups:
        raise ClearheadError("name a preset or a recipe file: clearhead cost transformer-base")
    if len(groups) > 2:
        raise _wrong(groups[2][0], "more than two recipes: changes to a recipe read section.key=value")
    return [(" ".join(group), recipe_named(group[0], group[1:])) for group in groups]


def _check_lengths(recipe: Recipe, asked: Asked) -> None:
    """A table of learned positions ends somewhere; an image has as many tokens as it has."""
    if _reads_images(recipe):
        return
    both = hasattr(recipe.model, "encoder") and hasattr(recipe.model, "decoder")
    for part in ("encoder", "decoder"):
        option, length = ("--m", asked.place["m"]) if both and part == "decoder" else ("--n", asked.n)
        position = getattr(getattr(recipe.model, part, None), "position", None)
        size = getattr(position, "size", None)
        if size is not None and length > size:
            raise _wrong(f"{option} {length}", f"the {part}'s table of learned positions holds {size}")


def _reads_images(recipe: Recipe) -> bool:
    return getattr(recipe.model, "patches", None) is not None


# -- one model -------------------------------------------------------------------------------------------------------


def _shown(formula: Formula, asked: Asked, counted: Formula | None = None) -> tuple[Formulaic, str]:
    """A formula in the view that was asked for, and its number."""
    if asked.view == "printed":
        formula = printed(counted or formula)
        return Formulaic(str(formula), formula.expression), _number(formula, asked)
    if asked.view == "asymptotic":
        known = {symbol.name: symbol for symbol in formula.sizes} | OPEN
        if asked.within is not None and asked.within not in known:
            raise _wrong(f"--in {asked.within}", f"no such letter{did_you_mean(asked.within, list(known))}")
        grown = asymptotic(formula.expression, None if asked.within is None else [known[asked.within]])
        return Formulaic(f"O({tidy(grown)})", grown, "O"), _number(formula, asked)
    return Formulaic(str(formula), formula.expression), _number(formula, asked)


def _number(formula: Formula, asked: Asked) -> str:
    value = formula.at(**asked.place)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _sheets(name: str, cost: ModelCost, asked: Asked) -> list[Sheet]:
    place = asked.place
    open_letters = ("n", "m", "B", "t") if cost.writes else ("B",) if _reads_images(cost.recipe) else ("n", "B")
    lengths = [f"{letter} = {place[letter]}" for letter in open_letters]
    sizes = [f"{symbol} = {size}" for symbol, size in cost.sizes.items()]
    notes = [f"at {', '.join(lengths)}; {', '.join(sizes)}", "a MAC is a multiply-accumulate; lg is ⌈log₂⌉"]
    notes += notes_of(cost.recipe)
    if asked.view == "printed":
        notes.append("as printed: " + "; ".join(PRINTED))
    summary = Sheet(name, ["", "formula", "number", "convention"], numeric=frozenset({2}))
    group = ""
    for line in lines_of(cost):
        if line.group != group:
            group = line.group
            summary.rows.append([group, "", "", ""])
        formula = line.of(cost)
        shown, number = _shown(formula, asked, line.printed and line.printed(cost))
        summary.rows.append([f"  {line.title}", shown, number, line.convention])
    summary.notes = notes
    return [summary] if asked.by == "model" else [summary, _block_sheet(cost, asked)]


def _block_sheet(cost: ModelCost, asked: Asked) -> Sheet:
    sheet = Sheet(
        f"by {asked.by}",
        ["block", "parameters", "formula", "forward MACs", "share", "formula"],
        numeric=frozenset({1, 3, 4}),
        notes=["parameters and dense MACs of all blocks of a row together; share is that of the MACs"],
    )
    whole = cost.macs.at(**asked.place)
    for depth, part, times in _multiplied(cost, asked.by):
        parameters = part.parameters * times
        counted = (part.matrices + part.tables) * times
        formula, number = _shown(parameters, asked, counted)
        macs, work = _shown(part.macs * times, asked)
        share = f"{100 * (part.macs * times).at(**asked.place) / whole:.1f} %" if whole else ""
        title = "  " * depth + part.name.replace("_", " ") + _times(part)
        sheet.rows.append([title, number, formula, work, share, macs])
    return sheet


def _times(part: Cost) -> str:
    return "" if part.times == 1 else f" × {part.times}"


def _multiplied(cost: ModelCost, by: str) -> list[tuple[int, Cost, Formula]]:
    """Blocks with how often they stand in the model; those that cost nothing are left out."""
    rows: list[tuple[int, Cost, Formula]] = []
    around: list[Formula] = []
    for depth, part in rows_of(cost, by):
        outer = around[depth - 1] if depth else None
        times = part.times if outer is None else outer * part.times
        around[depth:] = [times]
        if part.parameters != 0 or part.macs != 0:
            rows.append((depth, part, times))
    return rows


def _json(name: str, cost: ModelCost, asked: Asked) -> dict[str, Any]:
    lines = lines_of(cost)
    formulas = {line.key: line.of(cost) for line in lines}
    return {
        "recipe": name,
        "family": cost.recipe.model.family,
        "at": asked.place,
        "sizes": {symbol.name: int(size) for symbol, size in cost.sizes.items()},
        **{key: formula.at(**asked.place) for key, formula in formulas.items()},
        "formulas": {
            line.key: _shown(formulas[line.key], asked, line.printed and line.printed(cost))[0].text for line in lines
        },
        "view": asked.view,
        "notes": notes_of(cost.recipe),
        "conventions": {line.key: line.convention for line in lines},
        "blocks": [_json_block(part, asked, 1) for part in cost.parts] if asked.by != "model" else [],
    }


def _json_block(part: Cost, asked: Asked, depth: int) -> dict[str, Any]:
    return {
        "name": part.name,
        "times": part.times.at(**asked.place),
        "parameters": part.parameters.at(**asked.place),
        "macs": part.macs.at(**asked.place),
        "operations": part.operations.at(**asked.place),
        "saved_bytes": part.saved.at(**asked.place),
        "span": part.span.at(**asked.place),
        "formulas": {
            "parameters": _shown(part.parameters, asked, part.matrices + part.tables)[0].text,
            "macs": _shown(part.macs, asked)[0].text,
            "operations": _shown(part.operations, asked)[0].text,
            "saved_bytes": _shown(part.saved, asked)[0].text,
            "span": _shown(part.span, asked)[0].text,
        },
        "parts": [_json_block(inside, asked, depth + 1) for inside in part.parts] if depth < DEPTH[asked.by] else [],
    }


# -- two models ------------------------------------------------------------------------------------------------------


def _crossover(asked: Asked, recipes: list[tuple[str, Recipe]]) -> None:
    over = asked.crossover or "n"
    if over not in ("n", "m"):
        raise _wrong(f"--crossover {over}", "must be n or m")
    if asked.output is not None:
        from clearhead.cli.plot import check_file

        check_file(asked.output)
    fixed = {"B": asked.batch} | ({} if asked.m is None or over == "m" else {"m": asked.m})
    costs = [cost_of_recipe(recipe) for _, recipe in recipes]
    if len(costs) == 1:
        if asked.of != "work":
            raise _wrong(f"--of {asked.of}", "with one recipe the work of a layer is compared: name a second recipe")
        found = quadratic_against_rest(costs[0], over=over, **fixed)
        title, convention = f"{recipes[0][0]}: a layer's work", "multiply-accumulates, forward, dense"
    else:
        names = (recipes[0][0], recipes[1][0])
        if names[0] == names[1]:
            raise _wrong(names[1], "is compared with itself")
        found = compare(costs[0], costs[1], what=asked.of, names=names, over=over, **fixed)
        title, convention = COMPARED[asked.of].title, COMPARED[asked.of].convention
    if asked.format == "json":
        print(json.dumps(_crossover_json(found, convention, fixed), ensure_ascii=False))
    else:
        show([_crossover_sheet(found, title, convention, fixed)], asked.format)
    if asked.output is not None:
        from clearhead.cli.plot import draw_crossover

        draw_crossover(found, title=title, convention=convention, path=asked.output)


def _crossover_sheet(found: Crossover, title: str, convention: str, fixed: dict[str, int]) -> Sheet:
    sheet = Sheet(title, [f"from {found.letter} =", "cheaper", "A", "B", "equal at"], numeric=frozenset({0, 2, 3}))
    marks = dict(zip(found.names, "AB", strict=True))
    sheet.rows.append(["1", marks[found.cheaper_at_first], *(f"{value:,}" for value in found.at(1)), ""])
    for place in found.crossings:
        equal: Formulaic | str = found.equal_at(place)
        if place.formula is not None:
            equal = Formulaic(found.equal_at(place), place.formula)
        sheet.rows.append(
            [f"{place.at:,}", marks[place.cheaper], *(f"{value:,}" for value in found.at(place.at)), equal]
        )
    lengths = ", ".join(f"{letter} = {value}" for letter, value in fixed.items())
    sheet.notes = [f"{convention}; {lengths}" + ("" if "m" in fixed else "; other lengths grow with it")]
    for name, formula in zip(found.names, found.formulas, strict=True):
        sheet.notes.append(f"{marks[name]}, {name}: {formula}")
    if not found.crossings:
        sheet.notes.append(f"they do not cross: {found.cheaper_at_first} is never the dearer one")
    return sheet


def _crossover_json(found: Crossover, convention: str, fixed: dict[str, int]) -> dict[str, Any]:
    return {
        "over": found.letter.name,
        "convention": convention,
        "fixed": fixed,
        "names": list(found.names),
        "formulas": [str(formula) for formula in found.formulas],
        "cheaper_at_first": found.cheaper_at_first,
        "crossings": [
            {
                "at": crossing.at,
                "cheaper": crossing.cheaper,
                "formula": None if crossing.formula is None else tidy(crossing.formula),
                "values": list(found.at(crossing.at)),
            }
            for crossing in found.crossings
        ],
    }


# -- the lectures ----------------------------------------------------------------------------------------------------


def _table(asked: Asked) -> None:
    if asked.table != "lectures":
        raise _wrong(f"--table {asked.table}", "there is one table: lectures")
    if asked.what:
        raise _wrong(asked.what[0], "--table stands alone")
    from clearhead.costing.lectures import lecture_tables

    tables = lecture_tables()
    if asked.format == "json":
        print(
            json.dumps(
                [{"title": one.title, "columns": one.columns, "rows": one.rows} for one in tables], ensure_ascii=False
            )
        )
    else:
        show(
            [Sheet(one.title, one.columns, [list(row) for row in one.rows], notes=one.notes) for one in tables],
            asked.format,
        )
