"""What ``clearhead cost`` tells about one model: one screen, everything, or JSON. Never imports torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from clearhead.costing.forms.bill import Cost, ModelFormulas
from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.lengths import lengths_of, reads_images
from clearhead.costing.forms.letters import OPEN
from clearhead.costing.forms.shares import counted_shares, percent, shares_of
from clearhead.costing.forms.sketch import FLOAT
from clearhead.costing.forms.summary import DEPTH, By, lines_of, rows_of
from clearhead.costing.forms.text import compact, tidy
from clearhead.costing.forms.views import PRINTED, View, asymptotic, printed
from clearhead.costing.layout import Column
from clearhead.costing.sheet import Cell, CostReport, Formulaic, Sheet
from clearhead.errors import Problem, RecipeError, did_you_mean
from clearhead.machine import shown_bytes
from clearhead.recipe import Seq2SeqSpec, notes_of

SHORT, LONG = 30, 100
"""Letters of a formula that stands beside its number with words after it, and of one that may take three lines."""


@dataclass(frozen=True)
class Viewpoint:
    """The lengths at which numbers are computed, and the way in which formulas are written."""

    place: Mapping[str, int]
    """n, m, B and t."""
    view: View = "exact"
    within: str | None = None
    """With ``asymptotic``: the letter that grows; None if all do."""

    def number(self, formula: Formula) -> str:
        """The number of a formula, for people."""
        value = formula.at(**self.place)
        return f"{value:,}" if isinstance(value, int) else str(value)

    def cell(self, formula: Formula, counted: Formula | None = None) -> Formulaic:
        """A formula as this view writes it; ``counted`` is what the lectures count, where it is something else."""
        if self.view == "printed":
            formula = printed(counted or formula)
        elif self.view == "asymptotic":
            grown = asymptotic(formula.expression, self._growing(formula))
            return Formulaic(f"O({tidy(grown)})", grown, "O")
        return Formulaic(str(formula), formula.expression)

    def cells(self, formula: Formula, counted: Formula | None = None) -> tuple[Formulaic, str]:
        """A formula and its number; as printed, the number is that of the printed formula."""
        shown = printed(counted or formula) if self.view == "printed" else formula
        return self.cell(formula, counted), self.number(shown)

    def _growing(self, formula: Formula) -> list[Any] | None:
        if self.within is None:
            return None
        known = {symbol.name: symbol for symbol in formula.sizes} | OPEN
        if self.within not in known:
            near = did_you_mean(self.within, list(known))
            raise RecipeError([Problem("", f"growing {self.within}", f"no such letter in the formulas{near}")])
        return [known[self.within]]


def viewpoint(
    cost: ModelFormulas,
    *,
    n: int | None,
    m: int | None,
    t: int | None,
    batch: int,
    view: View = "exact",
    within: str | None = None,
) -> Viewpoint:
    """The lengths that were asked for, or those that suit the model."""
    _require("view", view, get_args(View))
    return Viewpoint(lengths_of(cost.recipe, n=n, m=m, t=t, batch=batch), view, within)


def _require(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        near = did_you_mean(given, list(known))
        raise RecipeError([Problem("", f"{what} {given}", f"must be {', '.join(known)}{near}")])


def _lengths(cost: ModelFormulas, place: Mapping[str, int], *, t: bool) -> str:
    """``at n = 512, m = 512, B = 1``: the letters that matter to this model."""
    letters = ("n", "m", "t", "B") if cost.writes else ("B",) if reads_images(cost.recipe) else ("n", "B")
    return "at " + ", ".join(f"{letter} = {place[letter]}" for letter in letters if t or letter != "t")


def _sizes(cost: ModelFormulas) -> str:
    return ", ".join(f"{symbol} = {size}" for symbol, size in cost.sizes.items())


# -- one screen ------------------------------------------------------------------------------------------------------


def screen(cost: ModelFormulas, at: Viewpoint) -> CostReport:
    """The totals with their formulas, where they are short, and the share of each part."""
    totals = Sheet(
        f"{cost.title} ({cost.recipe.model.family}) {_lengths(cost, at.place, t=False)}",
        [Column("", "name"), Column("", "number"), Column("", "words")],
        subtitle=_sizes(cost),
        rows=_totals(cost, at),
    )
    return CostReport([totals, _share_sheet(cost, at)])


def _totals(cost: ModelFormulas, at: Viewpoint) -> list[list[Cell]]:
    def words(formula: Formula, most: int, otherwise: str) -> str:
        written = compact(formula.expression)
        return written if len(written) <= most else otherwise

    def size(formula: Formula) -> str:
        return shown_bytes(formula.at(**at.place))

    place = at.place
    rows: list[list[Cell]] = [
        ["parameters", at.number(cost.parameters), words(cost.parameters, LONG, "learned numbers; shared ones once")],
        ["forward MACs", at.number(cost.macs), words(cost.macs, LONG, "all sequences at once")],
        [
            "training MACs",
            at.number(cost.training),
            f"{_step(cost)}, if everything were trained" if cost.is_tuned else f"{_step(cost)}, forward and backward",
        ],
    ]
    if cost.is_tuned:
        rows.insert(1, ["trained", at.number(cost.trained), _tuning(cost)])
    caches = cost.writes and cost.step.cache != 0
    if cost.writes:
        way = ", with a cache" if caches else ""
        rows.append(["decoding MACs", at.number(cost.decode_macs), f"greedy, m = {place['m']} tokens{way}"])
    added = "gradients, optimizer and average" if cost.average != 0 else "gradients and optimizer"
    held = cost.weights + cost.adapters * FLOAT + cost.gradients + cost.optimizer + cost.average
    rows.append(["weights", size(cost.weights), f"{size(held)} with {added}"])
    model = cost.recipe.model
    if isinstance(model, Seq2SeqSpec) and model.joint.nodes:
        said = f"{model.joint.nodes:,} of pairs, counted and not trained"
        rows.append(["n-grams", shown_bytes(model.joint.stored), said])
    rows.append(["activations", size(cost.fused.saved), _kept(cost, size(cost.copies))])
    if caches:
        bytes_ = words(cost.step.cache, SHORT, "keys and values")
        rows.append(["cache", size(cost.step.cache), f"{bytes_}, t = {place['t']} tokens so far"])
    waits = f"; of decoding {at.number(cost.decode_span)}" if cost.writes else ""
    rows.append(["span", at.number(cost.span), f"longest chain of operations{waits}"])
    rows.append(["sequential", at.number(cost.sequential), f"{cost.sequential}, steps that wait for one another"])
    return rows


def _step(cost: ModelFormulas) -> str:
    """What is counted of a training step: closed forms are those of lines that pass once."""
    return "each of two passes" if cost.recipe.training.agreement else "one step"


def _kept(cost: ModelFormulas, copies: str) -> str:
    """What is kept for the backward pass, in words that leave room for one line."""
    halved = cost.precision == "bfloat16"
    words = [f"in {cost.precision}" if halved else f"kept in {cost.precision}"]
    if cost.fused.saved != cost.saved:
        words.append("fused" if halved else "attention fused")
    if cost.recipe.training.recompute:
        words.append("layers computed again")
    if cost.recipe.training.agreement:
        words.append("each of two passes")
    if halved:
        words.append(f"{copies} copied weights")
    compiled = "; not compiled, a graph chooses what it keeps" if cost.recipe.training.compile else ""
    return ", ".join(words) + compiled


def precision_words(cost: ModelFormulas) -> str:
    """What activations are counted in, and why."""
    asked = cost.recipe.training.precision
    why = "as training.precision=auto chooses on this machine" if asked == "auto" else "as the recipe says"
    types = ", with the types of torch's autocast on a CPU" if cost.precision == "bfloat16" else ""
    return f"activations in {cost.precision}, {why}{types}"


def _tuning(cost: ModelFormulas) -> str:
    """What is trained, in words."""
    adapters, frozen = cost.recipe.training.adapters, cost.recipe.training.freeze
    words = [] if adapters is None else [f"adapters of rank {adapters.rank} beside {', '.join(adapters.targets)}"]
    if adapters is not None and adapters.also:
        words.append(f"and {', '.join(adapters.also)}")
    return " ".join([*words, *([f"without {', '.join(frozen)}"] if frozen else [])])


def _share_sheet(cost: ModelFormulas, at: Viewpoint) -> Sheet:
    columns = [
        Column("part", "name"),
        *(Column("", "number", optional=True), Column("parameters", "number")),
        *(Column("", "number", optional=True), Column("MACs", "number")),
    ]
    wholes = cost.parameters.at(**at.place), cost.macs.at(**at.place)
    rows: list[list[Cell]] = [
        [name, *(text for part, whole in zip(parts, wholes, strict=True) for text in _with_share(part, whole))]
        for name, *parts in counted_shares(cost, at.place)
    ]
    return Sheet("", columns, rows, notes_of(cost.recipe))


def _with_share(part: int, whole: int) -> tuple[str, str]:
    return (f"{part:,}", percent(part, whole)) if part else ("–", "–")


# -- everything ------------------------------------------------------------------------------------------------------


def everything(cost: ModelFormulas, at: Viewpoint, by: By) -> CostReport:
    """Every number with its formula and its convention; then every block, or layer."""
    _require("by", by, get_args(By))
    notes = [f"{_lengths(cost, at.place, t=True)}; {_sizes(cost)}", "a MAC is a multiply-accumulate; lg is ⌈log₂⌉"]
    notes += [precision_words(cost), *notes_of(cost.recipe)]
    if at.view == "printed":
        notes.append("as printed: " + "; ".join(PRINTED))
    columns = [Column("", "name"), Column("formula", "formula"), Column("number", "number"), Column("convention")]
    summary = Sheet(cost.title, columns, notes=notes)
    group = ""
    for line in lines_of(cost):
        if line.group != group:
            group = line.group
            summary.rows.append([group, "", "", ""])
        shown, number = at.cells(line.of(cost), line.printed and line.printed(cost))
        summary.rows.append([f"  {line.title}", shown, number, line.convention])
    return CostReport([summary] if by == "model" else [summary, _block_sheet(cost, at, by)])


def _block_sheet(cost: ModelFormulas, at: Viewpoint, by: By) -> Sheet:
    sheet = Sheet(
        f"by {by}",
        [
            Column("block", "name"),
            Column("parameters", "number"),
            Column("formula of parameters", "formula"),
            Column("forward MACs", "number"),
            Column("share", "number"),
            Column("formula of MACs", "formula"),
        ],
        notes=["parameters and dense MACs of all blocks of a row together; share is that of the MACs"],
    )
    whole = cost.macs.at(**at.place)
    for depth, part, times in _multiplied(cost, by):
        formula, number = at.cells(part.parameters * times, (part.matrices + part.tables) * times)
        macs, work = at.cells(part.macs * times)
        share = percent((part.macs * times).at(**at.place), whole)
        title = "  " * depth + part.name.replace("_", " ") + ("" if part.times == 1 else f" × {part.times}")
        sheet.rows.append([title, number, formula, work, share, macs])
    return sheet


def _multiplied(cost: ModelFormulas, by: By) -> list[tuple[int, Cost, Formula]]:
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


# -- JSON ------------------------------------------------------------------------------------------------------------


def as_json(cost: ModelFormulas, at: Viewpoint, by: By) -> dict[str, Any]:
    """Numbers, formulas, conventions, shares and blocks."""
    _require("by", by, get_args(By))
    lines = lines_of(cost)
    formulas = {line.key: line.of(cost) for line in lines}
    return {
        "recipe": cost.title,
        "family": cost.recipe.model.family,
        "precision": cost.precision,
        "at": dict(at.place),
        "sizes": {symbol.name: int(size) for symbol, size in cost.sizes.items()},
        **{key: formula.at(**at.place) for key, formula in formulas.items()},
        "formulas": {line.key: at.cell(formulas[line.key], line.printed and line.printed(cost)).text for line in lines},
        "view": at.view,
        "notes": notes_of(cost.recipe),
        "conventions": {line.key: line.convention for line in lines},
        "shares": [
            {
                "name": share.name,
                "parameters": share.parameters.at(**at.place),
                "macs": share.macs.at(**at.place),
            }
            for share in shares_of(cost)
        ],
        "blocks": [_json_block(part, at, 1, DEPTH[by]) for part in cost.parts] if DEPTH[by] else [],
    }


def _json_block(part: Cost, at: Viewpoint, depth: int, deepest: int) -> dict[str, Any]:
    return {
        "name": part.name,
        "times": part.times.at(**at.place),
        "parameters": part.parameters.at(**at.place),
        "macs": part.macs.at(**at.place),
        "operations": part.operations.at(**at.place),
        "saved_bytes": part.saved.at(**at.place),
        "span": part.span.at(**at.place),
        "formulas": {
            "parameters": at.cell(part.parameters, part.matrices + part.tables).text,
            "macs": at.cell(part.macs).text,
            "operations": at.cell(part.operations).text,
            "saved_bytes": at.cell(part.saved).text,
            "span": at.cell(part.span).text,
        },
        "parts": [_json_block(inside, at, depth + 1, deepest) for inside in part.parts] if depth < deepest else [],
    }
