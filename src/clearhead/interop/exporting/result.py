"""What an export is: the files, and how it compares with the model that it was made from."""

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from clearhead.drawing.html import fragment, table

SAME = 1e-9
"""By how much a number may differ in float64, as a part of the largest one."""
ROUNDINGS = 4.0
"""By how many times its own rounding a model may differ from an export that rounds elsewhere."""
Target = Literal["huggingface", "onnx", "ctranslate2", "torch-export"]


@dataclass(frozen=True)
class Agreement:
    """How far an export and its model agree.

    Args:
        measure: what is compared: ``logits``, ``vectors`` or ``log p``.
        worst: the largest |Δ| between the two.
        largest: the largest |value| of the model, to judge ``worst`` by.
        values: how many numbers were compared.
        answers: how many greedy answers were compared; 0 if the model gives none.
        same: how many of them are identical.
        ties: how many differ where the model's two best tokens are equally good, up to rounding.
        exact: the largest |Δ| in float64, measured if ``worst`` alone does not tell a mistake from rounding.
        rounding: the largest |Δ| between the model and itself in float64, measured in the same case.
    """

    measure: str
    worst: float
    largest: float
    values: int
    answers: int = 0
    same: int = 0
    ties: int = 0
    exact: float | None = None
    rounding: float | None = None

    def close(self, tolerance: float) -> bool:
        """Whether no value differs by more than ``tolerance`` of the largest."""
        return math.isfinite(self.worst) and self.worst <= tolerance * max(1.0, self.largest)

    def holds(self, tolerance: float) -> bool:
        """Whether no value differs by more than ``tolerance`` of the largest, and no answer differs.

        Values may differ by more if only rounding differs, which the model enlarges: if they agree in float64, or
        differ by no more than a few times what the model itself loses by computing in float32.
        """
        same = self.exact is not None and self.exact <= SAME * max(1.0, self.largest)
        rounded = self.rounding is not None and self.worst <= ROUNDINGS * self.rounding
        return (self.close(tolerance) or same or rounded) and self.same + self.ties == self.answers

    def __str__(self) -> str:
        shown = f"max |Δ| of {self.measure} {self.worst:.1e}"
        if self.exact is not None:
            shown += f" ({self.exact:.1e} in float64)"
        elif self.rounding is not None:
            shown += f" ({self.rounding:.1e} is the model's own rounding)"
        if not self.answers:
            return shown
        ties = f" and {self.ties} at a tie" if self.ties else ""
        return f"{shown}, {self.same} of {self.answers} greedy answers identical{ties}"


@dataclass(frozen=True, repr=False)
class Exported:
    """A finished export, which was loaded by the other library and compared before it got its name.

    Args:
        target: what it was exported to.
        folder: where it is.
        form: what the other library takes it for, such as ``MarianMTModel``.
        files: the bytes of each file.
        agreement: how it compares with the model.
        lines: on how many inputs it was compared.
        inputs: where these come from.
        notes: what a user should know: what was left out, how it is loaded.
    """

    target: Target
    folder: Path
    form: str
    files: dict[str, int]
    agreement: Agreement
    lines: int
    inputs: str
    notes: tuple[str, ...] = ()
    int8: Agreement | None = field(default=None)
    """The same for the weights in eight bits, if they were asked for: answers are counted, not required."""

    @property
    def bytes(self) -> int:
        """The size of all files."""
        return sum(self.files.values())

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        table: dict[str, Any] = {
            "target": self.target,
            "form": self.form,
            "files": self.files,
            "lines": self.lines,
            "inputs": self.inputs,
            "agreement": _as_dict(self.agreement),
            "notes": list(self.notes),
        }
        return table if self.int8 is None else table | {"int8": _as_dict(self.int8)}

    def _rows(self) -> list[tuple[str, str]]:
        return [(name, _size(size)) for name, size in sorted(self.files.items())]

    def __str__(self) -> str:
        width = max(len(name) for name in self.files)
        lines = [f"{self.folder}: {self.form}, {_size(self.bytes)}"]
        lines += [f"  {name.ljust(width)}  {size.rjust(9)}" for name, size in self._rows()]
        lines.append(f"compared on {self.lines} lines ({self.inputs}): {self.agreement}")
        if self.int8 is not None:
            lines.append(f"in eight bits: {self.int8}")
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def __repr__(self) -> str:
        return f"Exported({self.target}, {str(self.folder)!r}; {self.agreement})"

    def _repr_html_(self) -> str:
        words = [f"compared on {self.lines} lines ({self.inputs}): {self.agreement}", *self.notes]
        below = "".join(f"<p>{word}</p>" for word in words)
        return fragment(f"<h3>{self.form}</h3>{table(['file', 'size'], self._rows(), numbers=(1,))}{below}")


def _as_dict(agreement: Agreement) -> dict[str, Any]:
    return {
        "measure": agreement.measure,
        "max_difference": agreement.worst,
        "largest": agreement.largest,
        "values": agreement.values,
        "answers": agreement.answers,
        "identical": agreement.same,
        "ties": agreement.ties,
    }


def _size(count: int) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000  # type: ignore[assignment]
    return f"{count:.1f} GB"
