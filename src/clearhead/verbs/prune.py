"""``clearhead.prune``: a smaller model without its least important heads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError, DataError
from clearhead.events import Event, Listener
from clearhead.verbs.evaluate import read_for
from clearhead.verbs.heads import study_examples
from clearhead.verbs.inputs import Data, temporary_files
from clearhead.verbs.naming import Changes
from clearhead.verbs.outputs import model_file
from clearhead.verbs.reporting import listener_of
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from clearhead.evaluation import HeadStudy, Scores
    from clearhead.predictor import Predictor
    from clearhead.verbs.run import Run

_TOLERANCE = 1e-3
"""Nats per token by which the loss of the smaller model may differ from that of the model with its heads off."""


@dataclass(frozen=True)
class PrunedSize:
    """A model before, or after, its heads were removed.

    Args:
        heads: number of heads.
        parameters: number of parameters.
        macs: multiply-accumulates of a forward pass over a line of the data's mean lengths.
        scores: how good it is on the data.
    """

    heads: int
    parameters: int
    macs: int
    scores: "Scores"

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        sizes = {"heads": self.heads, "parameters": self.parameters, "macs": self.macs}
        return sizes | {"metrics": self.scores.table()["metrics"]}


@dataclass(frozen=True, repr=False)
class Pruned:
    """What pruning did.

    Args:
        removed: the names of the heads that are gone, in the whole model; the least important first.
        before: the whole model.
        after: the smaller model.
        lengths: the mean lengths that ``macs`` is for, n and perhaps m.
        model: the smaller model, ready to answer.
        study: what the heads were chosen by; None if they were named.
    """

    removed: tuple[str, ...]
    before: PrunedSize
    after: PrunedSize
    lengths: dict[str, int]
    model: "Predictor"
    study: "HeadStudy | None"

    def rows(self) -> list[tuple[str, str, str]]:
        """What is compared, before and after, as text."""
        at = "".join(f", {name} = {length}" for name, length in self.lengths.items())
        sizes = [("heads", "heads"), ("parameters", "parameters"), ("macs", f"MACs{at}")]
        found = [(title, f"{getattr(self.before, key):,}", f"{getattr(self.after, key):,}") for key, title in sizes]
        metrics = self.before.scores.main
        return found + [(name, str(self.before.scores[name]), str(self.after.scores[name])) for name in metrics]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "removed": list(self.removed),
            "before": self.before.as_dict(),
            "after": self.after.as_dict(),
            "lengths": self.lengths,
        }

    def __str__(self) -> str:
        rows = [("", "before", "after"), *self.rows()]
        widths = [max(len(row[column]) for row in rows) for column in range(3)]
        lines = [f"{a.ljust(widths[0])}  {b.rjust(widths[1])}  {c.rjust(widths[2])}" for a, b, c in rows]
        return "\n".join([*lines, f"removed: {', '.join(self.removed)}"])

    def __repr__(self) -> str:
        return f"Pruned({len(self.removed)} heads; parameters {self.before.parameters:,} → {self.after.parameters:,})"

    def _repr_html_(self) -> str:
        from clearhead.drawing.html import fragment, table

        rows = table(["", "before", "after"], self.rows(), numbers=(1, 2))
        return fragment(f"{rows}<p>removed: {', '.join(self.removed)}</p>")


def prune(
    model: "str | Path | Run | Predictor",
    data: Data,
    output: str | Path | None = None,
    *,
    heads: int | Sequence[str],
    columns: Sequence[str] | None = None,
    resume: str | Path | None = None,
    force: bool = False,
    report: Listener | bool | None = None,
    settings: Changes = None,
) -> Pruned:
    """Remove heads for good: smaller W_Q, W_K, W_V and W_O; what remains computes as with these heads switched off.

        pruned = clearhead.prune("runs/demo", "dev.tsv", "smaller.safetensors", heads=8)
        print(pruned)
        pruned.model("lovely")

    Args:
        model: A model, a run, or the name of one.
        data: Examples such as the model was trained on, which the heads are judged on, and both models scored.
        output: The model file to write, called something.safetensors; without it nothing is written.
        heads: How many heads to remove, the least important first, or the names of heads, as ``["cross.2.5"]``. Every
            attention keeps at least one head.
        columns: Which columns are meant, for tables, dicts and files that have several.
        resume: A file that keeps what is done of the study of the heads: an interrupted one continues there.
        force: Replace the file if it exists.
        report: Called with an ``Event`` now and then; True prints lines to standard error.
        settings: Settings of ``[decoding]``, and ``data.bad_lines``.
    """
    listener = listener_of(report)
    path = None if output is None else model_file(output, force=force)
    if isinstance(heads, str) or (not isinstance(heads, int) and not heads):
        raise TypeError('heads is a number, 8, or a list of names, ["cross.2.5"]')
    with temporary_files({"data": data}, columns=columns) as files:
        where = files["data"]
        if where is None:
            raise DataError("name the data that the heads are judged on: a file, two parallel files, or examples")
        predictor, found = read_for(model, where, columns, settings, listener)
        with undisturbed():
            pruned = _pruned(predictor, found.examples, heads, resume, listener)
    if path is not None:
        _write(pruned.model, path)
    return pruned


def _pruned(
    predictor: "Predictor", examples: list[Any], heads: int | Sequence[str], resume: str | Path | None, tell: Listener
) -> Pruned:
    from clearhead.inspection import head_names, without_heads
    from clearhead.models import use_cores
    from clearhead.predictor import forced_batches

    use_cores()
    study = None
    if isinstance(heads, int):
        study = study_examples(predictor, examples, resume=resume, listener=tell)
        names = [head.name for head in study.least(heads)]
    else:
        names = list(heads)
    smaller = predictor.with_model(*without_heads(predictor.model, predictor.recipe, names))
    batches = forced_batches(predictor, examples)
    _require_equal(predictor, smaller, batches[:1], names)
    lengths = _mean_lengths(batches)
    tell(Event("note", f"scoring {len(examples):,} lines before and after"))
    before, after = (
        PrunedSize(len(head_names(one.model)), *_sizes(one, lengths), _scores(one, examples))
        for one in (predictor, smaller)
    )
    return Pruned(tuple(names), before, after, lengths, smaller, study)


def _require_equal(whole: "Predictor", smaller: "Predictor", batches: list[Any], names: list[str]) -> None:
    """Refuse to go on if the smaller model is not the whole one with these heads switched off."""
    from clearhead.inspection import heads_off, row_losses
    from clearhead.models import evaluating

    for batch in batches:
        with evaluating(whole.model), heads_off(whole.model, names):
            off = row_losses(whole.model, batch)
        with evaluating(smaller.model):
            found = row_losses(smaller.model, batch)
        if float((off - found).abs().max()) > _TOLERANCE * float(batch.tokens.max()):
            raise ClearheadError(
                "these heads cannot be removed: the smaller model computes something else than the whole one with them "
                "switched off"
            )


def _sizes(predictor: "Predictor", lengths: dict[str, int]) -> tuple[int, int]:
    from clearhead.costing import cost
    from clearhead.models import count_parameters

    formula = cost(predictor.recipe)
    return count_parameters(predictor.model), int(formula.macs.at(B=1, **lengths))


def _mean_lengths(batches: list[Any]) -> dict[str, int]:
    """The mean number of tokens of what is read, n, and of what an encoder-decoder writes, m."""
    if batches[0].inputs.is_floating_point():
        return {}  # an image has a fixed size
    lines = sum(len(batch.lines) for batch in batches)
    found = {"n": round(sum(int(batch.lengths.sum()) for batch in batches) / lines)}
    if batches[0].answer_lengths is not None:
        found["m"] = round(sum(int(batch.answer_lengths.sum()) for batch in batches) / lines)
    return found


def _scores(predictor: "Predictor", examples: list[Any]) -> "Scores":
    from clearhead.evaluation import evaluate

    return evaluate(predictor, examples, names="main")


def _write(predictor: "Predictor", path: Path) -> None:
    from clearhead.models import SavedModel, save_model

    try:
        save_model(SavedModel(predictor.model, predictor.recipe, predictor.tokenizers), path)
    except OSError as error:
        raise ClearheadError(f"{path}: cannot be written: {error.strerror}") from None
