"""What ``clearhead cost --devices`` tells: bytes that each device sends in a step, and holds, formula beside number."""

from typing import Any

from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.parallel import Parallel
from clearhead.costing.layout import Column
from clearhead.costing.report import Viewpoint, precision_words
from clearhead.costing.sheet import Cell, Sheet
from clearhead.machine import shown_bytes

_WHOLE = {"ddp": "the whole model on each", "fsdp": "a part of the model on each"}


def share_sheet(parallel: Parallel, at: Viewpoint) -> Sheet:
    """A row for each collective and for each thing that is held; formulas in bytes."""
    cost = parallel.cost
    sheet = Sheet(
        f"{cost.title} on {parallel.devices} devices, {parallel.kind}: {_WHOLE[parallel.kind]}",
        [Column("", "name"), Column("", "number"), Column("bytes", "number"), Column("formula", "formula")],
        notes=[
            "for each device, B lines on each; W devices in a ring; "
            + ", ".join(f"{symbol} = {size}" for symbol, size in parallel.sizes.items()),
            precision_words(cost),
        ],
    )

    def row(name: str, formula: Formula) -> list[Cell]:
        number = formula.at(**at.place)
        return [name, shown_bytes(int(number)), f"{int(number):,}", at.cell(formula)]

    sheet.rows.append(["sent in a step", "", "", ""])
    sheet.rows += [row(f"  {part.call}: {part.name}", part.bytes) for part in parallel.sent()]
    sheet.rows += [row("  together", parallel.bytes_sent), ["held", "", "", ""]]
    sheet.rows += [row(f"  {part.name}", part.bytes) for part in parallel.held()]
    sheet.rows.append(row("  together", parallel.bytes_held))
    return sheet


def share_json(parallel: Parallel, at: Viewpoint) -> dict[str, Any]:
    """The same as data."""

    def entry(formula: Formula) -> dict[str, Any]:
        return {"bytes": int(formula.at(**at.place)), "formula": str(formula)}

    return {
        "recipe": parallel.cost.title,
        "devices": parallel.devices,
        "parallel": parallel.kind,
        "precision": parallel.cost.precision,
        "at": dict(at.place),
        "sizes": {symbol.name: int(size) for symbol, size in parallel.sizes.items()},
        "sent": [
            {"name": part.name, "call": part.call, "payload": entry(part.payload), **entry(part.bytes)}
            for part in parallel.sent()
        ],
        "bytes_sent": entry(parallel.bytes_sent),
        "held": [{"name": part.name, **entry(part.bytes)} for part in parallel.held()],
        "bytes_held": entry(parallel.bytes_held),
    }
