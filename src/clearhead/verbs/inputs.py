"""From what a caller gives as data to settings of ``[data]``: a file, a task, a pipe, parallel files, or examples in
memory. Nothing here imports torch.
"""

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeGuard

from clearhead.errors import DataError, Problem, RecipeError, did_you_mean
from clearhead.files import exists, whole_file
from clearhead.machine import processes
from clearhead.recipe import TASKS, named, no_recipe, preset_names, require_data, require_utf8

Where = str | Path | tuple[str | Path, str | Path]
"""A file, ``-`` for standard input, a task's name, or two parallel files."""
Data = Where | Iterable[Any]
"""The same, or examples in memory: pairs, lines, dicts, or a table with columns."""
Parts = Mapping[str, Where | None]
"""``train``, ``dev``, ``test`` and ``more``."""


def is_named(data: Any) -> TypeGuard[Where | None]:
    """Whether data are given by name, and not as examples in memory; two names in a tuple are parallel files."""
    pair = isinstance(data, tuple) and len(data) == 2 and all(isinstance(name, str | Path) for name in data)
    return data is None or isinstance(data, str | Path) or pair


def recipe_and_data(words: Sequence[str]) -> tuple[str | None, str | None]:
    """Which of these names is a recipe (a preset, a file, a run, a model), and which is data (a file, a task)."""
    recipes, data = [], []
    for word in words:
        kind = named(word)
        if kind in ("task", "data", "stdin"):
            data.append(word)
        elif kind in ("preset", "recipe", "model", "run", "huggingface", "shipped") or word.endswith(".toml"):
            recipes.append(word)
        elif kind == "folder":
            raise RecipeError([Problem("", word, no_recipe(word))])
        else:
            near = did_you_mean(word, [*TASKS, *preset_names()])
            raise RecipeError([Problem("", word, f"no such recipe, file or task{near}")])
    for what, found in (("recipe", recipes), ("file or task", data)):
        if len(found) > 1:
            raise RecipeError([Problem("", " ".join(words), f"one {what} is enough")])
    return recipes[0] if recipes else None, data[0] if data else None


def data_settings(parts: Parts, *, columns: Sequence[str] | None = None) -> tuple[list[str], dict[str, Any]]:
    """Words that follow from the data unless a recipe is named, and settings that name the data.

    A task brings settings of its own. A .txt file whose first line has no tab is for a language model, and so is a file
    with a column called text, or one of which a single column is meant; one with columns called label and text is for a
    classifier.
    """
    _require_one_pipe(parts)
    stated: dict[str, Any] = {}
    for part, where in parts.items():
        if isinstance(where, tuple):
            stated[f"data.{part}"] = [_file(name) for name in where]
        elif part == "train" and isinstance(where, str) and where in TASKS:
            stated["data.task"] = where
        elif where is not None:
            stated[f"data.{part}"] = _file(where)
    if columns is not None:
        stated["data.columns"] = list(columns)
    train = parts.get("train")
    if train is None or isinstance(train, tuple):
        return [], stated
    if isinstance(train, str) and train in TASKS:
        return list(TASKS[train].settings), stated
    family = _family(str(train)) or ("lm" if columns is not None and len(columns) == 1 else None)
    return [f"model.family={family}"] if family else [], stated


def in_files(
    parts: Mapping[str, Data | None], folder: Path, *, columns: Sequence[str] | None = None, resume: bool = False
) -> dict[str, Where | None]:
    """The same data, in which what can be read only once, or stands in memory, is a file in ``folder / "data"``.

    A resumed run needs no pipe: what a run has begun with is kept, whatever comes through the pipe now, and examples in
    memory must be the same as before; without ``resume`` a run that has not trained yet is begun anew.
    """
    _require_one_pipe({part: where for part, where in parts.items() if is_named(where)})
    found: dict[str, Where | None] = {}
    for part, where in parts.items():
        if not is_named(where):
            found[part] = _written(where, folder / "data", part, columns, keep=_begun(folder, resume=resume))
        elif isinstance(where, tuple):
            left, right = (
                _kept(folder, name, f"{part}-{side}", resume=resume)
                for name, side in zip(where, ("src", "tgt"), strict=True)
            )
            found[part] = (left, right)
        else:
            found[part] = where if where is None else _kept(folder, where, part, resume=resume)
    return found


@contextmanager
def temporary_files(
    parts: Mapping[str, Data | None], *, columns: Sequence[str] | None = None
) -> Iterator[dict[str, Where | None]]:
    """The same for work that leaves nothing behind: examples in memory stand in a file until the block ends."""
    with TemporaryDirectory() as folder:
        yield {
            part: where if is_named(where) else _written(where, Path(folder), part, columns)
            for part, where in parts.items()
        }


def _written(data: Any, folder: Path, part: str, columns: Sequence[str] | None, *, keep: bool = False) -> Path:
    """Examples in memory as a file."""
    from clearhead.data import write_given  # imports torch: not needed for what has a name

    return write_given(data, folder, part, columns=columns, keep=keep)


def _begun(folder: Path, *, resume: bool) -> bool:
    """Whether what is in a run folder is needed: it is to be resumed, or has trained something."""
    begun = resume and any((folder / name).exists() for name in ("recipe.toml", "run.json"))
    return begun or (folder / "best.safetensors").exists() or any((folder / "last").glob("step-*"))


def _kept(folder: Path, name: str | Path, part: str, *, resume: bool) -> str | Path:
    """A pipe as a file in the run folder; what is a file, or a task, as it is."""
    return kept_input(folder, str(name), part, resume=resume) if _once(str(name)) else name


def kept_input(folder: Path, name: str = "-", part: str = "train", *, resume: bool = False) -> Path:
    """Standard input, or a pipe, as a file in the run folder; its first line says what it is."""
    stem = "stdin" if name == "-" else f"{part}-pipe"
    earlier = list((folder / "data").glob(f"{stem}.*"))
    if earlier and _begun(folder, resume=resume):
        return earlier[0]
    if processes() > 1:
        raise RecipeError([Problem("", name, "several processes cannot share a pipe: give a file")])
    if name == "-" and sys.stdin is not None and sys.stdin.isatty():
        raise RecipeError([Problem("", "-", "pipe the training data in: zcat pairs.tsv.gz | clearhead …")])
    from clearhead.data import first_line, kind_of, open_input, shown_input

    first = first_line(name)
    if first is None:
        raise DataError(f"{shown_input(name)}: is empty")
    suffix = {"lines": "txt"}.get(kind := kind_of(name, first), kind)
    (folder / "data").mkdir(parents=True, exist_ok=True)
    file = folder / "data" / f"{stem}.{suffix}"
    with open_input(name) as stream:
        zipped = stream.read(2) == b"\x1f\x8b"
    file = file.with_name(f"{file.name}.gz") if zipped else file
    with open_input(name) as stream, whole_file(file) as copy:
        shutil.copyfileobj(stream, copy)
    for old in earlier:
        if old != file:
            old.unlink()
    return file


def _once(name: str) -> bool:
    """Whether an input is gone once it is read."""
    path = Path(name)
    return name == "-" or (exists(path) and not path.is_file() and not path.is_dir())


def _require_one_pipe(parts: Mapping[str, Any]) -> None:
    """Standard input holds one file, and not two."""
    sides = [(part, name) for part, where in parts.items() for name in (where if isinstance(where, tuple) else [where])]
    piped = [part for part, name in sides if isinstance(name, str | Path) and str(name) == "-"]
    if len(piped) > 1:
        raise RecipeError([Problem("", f"{piped[0]} - and {piped[1]} -", "standard input holds one file only")])


def _family(file: str) -> str | None:
    """The family that a file, or the first of a pattern, is for, if they tell; errors come later."""
    from clearhead.data import column_names, family_of_columns, files_of, first_line, is_table, kind_of, named_family

    file = files_of(file)[0]
    try:
        if is_table(file):
            return family_of_columns(column_names(file))
        first = first_line(file)
    except DataError:
        first = None
    known = Path(file.removesuffix(".gz")).suffix
    if first is None:
        return "lm" if known == ".txt" else None
    if known not in (".tsv", ".csv", ".json", ".jsonl") and kind_of(file, first) == "lines":
        return "lm" if known == ".txt" or _once(file) else None
    return named_family(file)


def _file(name: str | Path) -> str:
    """The name of a data file, after a look at whether it is data at all."""
    require_utf8(str(name))
    require_data(name)
    return str(name)
