"""``clearhead.vector_lines`` and ``clearhead.vector_file``: a vector for each of many lines, in the same order."""

import json
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clearhead.errors import ClearheadError
from clearhead.files import whole_file
from clearhead.recipe import require_data, weights_of
from clearhead.verbs.answer import files_of
from clearhead.verbs.naming import Changes, model_named
from clearhead.verbs.outputs import free_file
from clearhead.verbs.undisturbed import undisturbed

if TYPE_CHECKING:
    from torch import Tensor

    from clearhead.predictor import Line, Predictor, ReadAs
    from clearhead.verbs.run import Run

_WINDOW = 256
"""Lines that are read together."""
_DIGITS = 9
"""Digits that tell any two float32 numbers apart."""


def vector_lines(
    model: "str | Path | Run | Predictor",
    files: str | Path | Sequence[str | Path] = (),
    *,
    read_as: "ReadAs" = "auto",
    device: str | None = None,
    settings: Changes = None,
) -> Iterator[str]:
    """Yield a JSON object for each line of files, or of standard input: its text, and its ``vector``.

        list(clearhead.vector_lines("encoder.safetensors", "lines.txt", settings={"decoding.normalize": True}))

    Args:
        model: A model that has an encoder, a run, or the name of one.
        files: Files of lines (also .gz and .jsonl); ``-`` or nothing is standard input.
        read_as: What the lines are: ``text``, ``jsonl`` with a field "source" or "text", or ``auto`` by name.
        device: Where the model computes, as for ``clearhead.load``; without it a loaded model stays where it is.
        settings: Settings of ``[decoding]``: ``pooling`` and ``normalize`` are about vectors.
    """
    for line, vector, question in _found(model, files, read_as, device, settings):
        numbers = [float(f"{value:.{_DIGITS}g}") for value in vector.tolist()]
        table: dict[str, Any] = {question: line.source} | (line.fields or {}) | {"vector": numbers}
        yield json.dumps(table, ensure_ascii=False)


def vector_file(
    model: "str | Path | Run | Predictor",
    files: str | Path | Sequence[str | Path] = (),
    output: str | Path = "vectors.npy",
    *,
    force: bool = False,
    read_as: "ReadAs" = "auto",
    device: str | None = None,
    settings: Changes = None,
) -> int:
    """Write the vectors of lines to a file that appears when it is complete; returns how many there are.

    Args:
        output: ``something.npy``, an array of float32, (lines, features), or ``something.jsonl``, a JSON object a line.
        force: Replace the file if it exists.

    The others are those of ``vector_lines``.
    """
    path = Path(output)
    if path.suffix not in (".npy", ".jsonl"):
        raise ClearheadError(f"-o {path}: vectors are written as something.npy or something.jsonl")
    count = 0
    with whole_file(free_file(path, force=force)) as stream:
        if path.suffix == ".jsonl":
            for row in vector_lines(model, files, read_as=read_as, device=device, settings=settings):
                stream.write(f"{row}\n".encode())
                count += 1
            return count
        import numpy as np

        rows = [vector.numpy() for _, vector, _ in _found(model, files, read_as, device, settings)]
        array = np.stack(rows).astype(np.float32) if rows else np.empty((0, 0), np.float32)
        np.save(stream, array, allow_pickle=False)
        return len(rows)


def _found(
    model: "str | Path | Run | Predictor",
    files: str | Path | Sequence[str | Path],
    read_as: "ReadAs",
    device: str | None,
    settings: Changes,
) -> "Iterator[tuple[Line, Tensor, str]]":
    """Each line with its vector, and what its text is called in JSON."""
    names = files_of(files)
    if isinstance(model, str | Path):
        weights_of(model)
    for name in names:
        require_data(name)
    predictor = model_named(model, settings, device=device)

    from clearhead.data import format_of
    from clearhead.predictor import lines_to_answer

    question = format_of(predictor.model.spec).question
    arrived = (line for line in lines_to_answer(names, read_as, question) if line is not None)
    with undisturbed():
        while window := list(islice(arrived, _WINDOW)):
            vectors = predictor.vectors([line.source.strip() for line in window])
            for line, vector in zip(window, vectors, strict=True):
                yield line, vector, question
