"""``clearhead.align``: word alignments of many pairs, and their error against gold."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from clearhead.errors import DataError
from clearhead.verbs.naming import Changes, model_named

if TYPE_CHECKING:
    from clearhead.inspection import View
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run

Link = tuple[int, int]


@dataclass(frozen=True)
class HeadError:
    """The alignment error of one head, or of the mean of all."""

    head: str | None
    """Its name; None for the mean of all heads."""
    shift: int
    """1 if an answer token is read at the step that takes it as input, 0 at the step that puts it out."""
    error: float
    """AER, from 0 to 1."""


@dataclass(frozen=True)
class AlignmentScores:
    """Alignments against gold."""

    chosen: HeadError
    """Of the alignments that were returned."""
    best: HeadError
    """Of the head and the shift with the lowest error on these very lines: choose on dev, report on test."""


class Alignments:
    """Alignments of pairs, computed one by one while they are iterated over.

    Args:
        model: the model.
        pairs: source and answer of each line; without an answer (None), the model writes its own.
        head: the head to read. None: the mean of all.
        shift: see ``HeadError.shift``.
        keep: whether the alignments of every head are kept, for ``scores``.
    """

    def __init__(
        self,
        model: "Predictor",
        pairs: Sequence[tuple[str, str | None]],
        *,
        head: str | None,
        shift: Literal[0, 1],
        keep: bool,
    ) -> None:
        self._model, self._pairs, self._head, self._shift, self._keep = model, pairs, head, shift, keep
        self._found: list[list[Link]] = []
        self._by_head: dict[tuple[str, Literal[0, 1]], list[list[Link]]] = {}

    def __len__(self) -> int:
        return len(self._pairs)

    def __iter__(self) -> Iterator[list[Link]]:
        self._found, self._by_head = [], {}
        for source, target in self._pairs:
            if not source.strip():
                links: list[Link] = []
                self._keep_all(None)
            else:
                view = self._model.look(source, target=target, n_best=1)
                links = view.align(self._head, shift=self._shift)
                self._keep_all(view)
            self._found.append(links)
            yield links

    def _keep_all(self, view: "View | None") -> None:
        if not self._keep:
            return
        if view is not None:
            for key, links in view.alignments().items():
                self._by_head.setdefault(key, [[] for _ in self._found]).append(links)
        else:
            for lines in self._by_head.values():
                lines.append([])

    def scores(self, gold: str | Path | Iterable[str]) -> AlignmentScores:
        """Compare with gold alignments, a Pharaoh line for every pair; after all pairs were iterated over."""
        from clearhead.inspection import choose, error_rate, read_pharaoh

        name = gold if isinstance(gold, str | Path) else "gold"
        truth = [read_pharaoh(line, f"{name}:{number}") for number, line in enumerate(_read(gold), start=1)]
        chosen = HeadError(self._head, self._shift, error_rate(self._found, truth))
        best = choose(self._by_head, truth)
        return AlignmentScores(chosen, HeadError(best.head, best.shift, best.error))


def align(
    model: "str | Path | Run | Predictor",
    lines: str | Path | Iterable[str],
    *,
    head: str | None = None,
    shift: Literal[0, 1] = 1,
    scored: bool = False,
    device: str | None = None,
    settings: Changes = None,
) -> Alignments:
    """Align the tokens of sources and answers by cross-attention: the source token of every answer token.

    for links in clearhead.align("runs/demo", ["lovely", "cage<TAB>K EY JH"]):
        print(clearhead.pharaoh(links))

    Args:
        model: A model, a run, or the name of one.
        lines: A file of lines, or the lines: ``source<TAB>answer``, or a source alone, which the model answers itself.
        head: The cross-attention head to read, such as ``cross.2.5``. Default: the mean of all, by norms.
        shift: 1 reads an answer token where the decoder reads it (the default), 0 where it is put out.
        scored: Whether ``scores`` will be asked for, for which the links of every head are kept.
        device: Where the model computes, as for ``clearhead.load``; without it a loaded model stays where it is.
        settings: Settings of ``[decoding]``.
    """
    pairs: list[tuple[str, str | None]] = []
    for number, line in enumerate(_read(lines), start=1):
        source, tab, target = line.rstrip("\r\n").partition("\t")
        if tab and not target.strip():
            raise DataError(f"line {number}: there is nothing after the tab")
        pairs.append((source, target if tab else None))
    return Alignments(model_named(model, settings, device=device), pairs, head=head, shift=shift, keep=scored)


def _read(lines: str | Path | Iterable[str]) -> Iterable[str]:
    if not isinstance(lines, str | Path):
        return lines
    from clearhead.data import read_lines

    return read_lines(lines)
