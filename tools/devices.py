"""Writes docs/evidence/devices.md: what every model does on a device whose values Python cannot see.

python -m tools.devices -o /tmp/devices.md
"""

import argparse
import sys
from pathlib import Path

from tests.models.on_meta import CASES, STEPS, Walk, batch_of, model_of

PAGE = Path("docs/evidence/devices.md")
DONE = "✓"
Row = tuple[str, str, list[str]]
INTRODUCTION = """\
# Every model without a GPU

*Made by `python -m tools.devices`.*

No machine that we test on has a GPU. torch's device `meta` has shapes and no values: a tensor that was made on another
device fails there, and so does every `.item()` and every branch on values, for which a GPU would have to be waited.
Each model of our tests' zoo (every registered mechanism in every family that takes it, a layer or two, lines of unequal
length) does these steps there with all its tensors: `forward`, `loss`, `backward`, two steps of the optimizers `AdamW`
and `Muon`, and, if it writes, `decode`: it reads, and writes two tokens by its cache, with beams moved in between.
`pytest tests/models/test_devices.py` runs some of them, and wrong variants that fail; `make prove` runs all. What this
cannot show: kernels that only a GPU has (fused AdamW, CUDA's autocast), and speed."""


def row(family: str, variant: str) -> list[str]:
    """What each step came to: done, the beginning of an error, or nothing for what a model does not do."""
    found: dict[str, str] = {}
    walk = Walk(model_of(family, variant), batch_of(family))
    for name, step in walk.steps():
        if any(outcome != DONE for outcome in found.values()):
            found[name] = "not reached"
            continue
        try:
            step()
            found[name] = DONE
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:60]}"
    return [found.get(name, "") for name in STEPS]


def summary(rows: list[Row]) -> str:
    """How many models do all their steps."""
    good = sum(set(outcomes) <= {DONE, ""} for *_, outcomes in rows)
    return f"{len(rows)} models; {good} do every step, {len(rows) - good} fail"


def page(rows: list[Row]) -> str:
    """The page, a table for each family."""
    parts = [INTRODUCTION, f"**{summary(rows)}.**"]
    head = f"| | {' | '.join(STEPS)} |\n|---|{'---|' * len(STEPS)}"
    for family in dict.fromkeys(family for family, *_ in rows):
        lines = [f"| {name} | {' | '.join(outcomes)} |" for of, name, outcomes in rows if of == family]
        parts += [f"## {family}", "\n".join([head, *lines])]
    return "\n\n".join(parts) + "\n"


def main() -> int:
    """Run every model, write the page, and print how many do everything."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    output: Path = parser.parse_args().output
    rows = [(family, variant, row(family, variant)) for family, variant in CASES]
    output.write_text(page(rows), encoding="utf-8")
    print(summary(rows))
    return int(any(not set(outcomes) <= {DONE, ""} for *_, outcomes in rows))


if __name__ == "__main__":
    sys.exit(main())
