"""How words and options of a command name data: recipe, preset, task, file, pipe, parallel files."""

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clearhead.cli.words import is_setting, one_pipe
from clearhead.errors import DataError, Problem, RecipeError, did_you_mean
from clearhead.files import exists, whole_file


def data_settings(
    words: Sequence[str],
    files: Mapping[str, Path | None],
    parallel: Mapping[str, tuple[Path | None, Path | None]],
) -> tuple[str | None, list[str]]:
    """The recipe that a command names, and overrides for everything else: data first, then the user's.

    Without a recipe, a task brings its own; a .txt file whose first line has no tab is for a language model, and so is
    a file with a column called text; one with columns called label and text is for a classifier.
    """
    from clearhead.recipe import TASKS

    source, data = _bare_words([word for word in words if not is_setting(word)])
    one_pipe({"DATA": data, **{f"--{part}": file for part, file in files.items()}, **_sides(parallel)})
    settings = [] if data is None else [f"data.task={data}" if data in TASKS else f"data.train={_file(data)}"]
    for part, file in files.items():
        if file is not None:
            settings.append(f"data.{part}={_file(str(file))}")
    for part, (left, right) in parallel.items():
        if left is None and right is None:
            continue
        if left is None or right is None:
            missing = "source" if left is None else "target"
            raise RecipeError([Problem("command line", f"{part} {missing}", "parallel files come in twos")])
        settings.append(f"data.{part}=[{_file(str(left))}, {_file(str(right))}]")
    named = files.get("train") or (None if data is None or data in TASKS else data)
    if source is None and named is not None and (family := _family(str(named))):
        settings.insert(0, f"model.family={family}")
    if source is None and data in TASKS:
        settings = [*TASKS[data].settings, *settings]
    return source, [*settings, *(word for word in words if is_setting(word))]


def kept_inputs(
    folder: Path, words: Sequence[str], files: dict[str, Path | None], *, resume: bool = False
) -> tuple[list[str], dict[str, Path | None]]:
    """The same words and files, in which what can be read only once is a copy in the run folder.

    A resumed run needs no pipe: what a run has begun with is kept, whatever comes through the pipe now; without
    ``resume`` one that has not trained yet is begun anew.
    """
    from clearhead.recipe import named

    once = {name: file for name, file in files.items() if file is not None and _once(str(file))}
    piped = [word for word in words if not is_setting(word) and named(word) in ("data", "stdin") and _once(word)]
    one_pipe({word: word for word in piped} | {f"--{name}": file for name, file in once.items()})
    kept = {word: str(kept_input(folder, word, "train", resume=resume)) for word in piped}
    copies = {name: kept_input(folder, str(file), name.replace("_", "-"), resume=resume) for name, file in once.items()}
    return [kept.get(word, word) for word in words], files | copies


def kept_input(folder: Path, name: str = "-", part: str = "train", *, resume: bool = False) -> Path:
    """Standard input, or a pipe, as a file in the run folder; its first line says what it is."""
    stem = "stdin" if name == "-" else f"{part}-pipe"
    earlier = list((folder / "data").glob(f"{stem}.*"))
    begun = resume and any((folder / name).exists() for name in ("recipe.toml", "run.json"))
    trained = (folder / "best.safetensors").exists() or any((folder / "last").glob("step-*"))
    if earlier and (begun or trained):
        return earlier[0]
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError([Problem("command line", name, "several processes cannot share a pipe: give a file")])
    if name == "-" and sys.stdin is not None and sys.stdin.isatty():
        raise RecipeError([Problem("command line", "-", "pipe the training data in: zcat pairs.tsv.gz | clearhead …")])
    from clearhead.data import first_line, open_input, shown_input

    first = first_line(name)
    if first is None:
        raise DataError(f"{shown_input(name)}: is empty")
    suffix = {"lines": "txt"}.get(kind := _kind(name, first), kind)
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


def _kind(name: str, first: str) -> str:
    from clearhead.data import kind_of

    return kind_of(name, first)


def _once(name: str) -> bool:
    """Whether an input is gone once it is read; only then the library has to be asked, which takes a second to load."""
    path = Path(name)
    return name == "-" or (exists(path) and not path.is_file() and not path.is_dir())


def _sides(parallel: Mapping[str, tuple[Path | None, Path | None]]) -> dict[str, Path | None]:
    names = {part: "" if part == "train" else f"{part}-" for part in parallel}
    return {
        f"--{names[part]}{side}": file
        for part, pair in parallel.items()
        for side, file in zip(("src", "tgt"), pair, strict=True)
    }


def _family(file: str) -> str | None:
    """The family that a file is for, if its name and its first line tell; what is wrong with it is told later."""
    from clearhead.data import first_line, kind_of, named_family

    try:
        first = first_line(file)
    except DataError:
        first = None
    known = Path(file.removesuffix(".gz")).suffix
    if first is None:
        return "lm" if known == ".txt" else None
    if known not in (".tsv", ".csv", ".json", ".jsonl") and kind_of(file, first) == "lines":
        return "lm" if known == ".txt" or _once(file) else None
    return named_family(file)


def _bare_words(words: Sequence[str]) -> tuple[str | None, str | None]:
    """The recipe among the words, and the file or task."""
    from clearhead.recipe import TASKS, named, no_recipe, preset_names

    recipes, data = [], []
    for word in words:
        kind = named(word)
        if kind in ("task", "data", "stdin"):
            data.append(word)
        elif kind in ("preset", "recipe", "model", "run", "huggingface") or word.endswith(".toml"):
            recipes.append(word)
        elif kind == "folder":
            raise RecipeError([Problem("", word, no_recipe(word))])
        else:
            near = did_you_mean(word, [*TASKS, *preset_names()])
            raise RecipeError([Problem("", word, f"no such recipe, file or task{near}")])
    for what, found in (("recipe", recipes), ("file or task", data)):
        if len(found) > 1:
            raise RecipeError([Problem("command line", " ".join(words), f"one {what} is enough")])
    return recipes[0] if recipes else None, data[0] if data else None


def _file(name: str) -> str:
    """The name of a data file as TOML, after a look at whether it is data at all."""
    from clearhead.recipe import require_data, require_utf8

    require_utf8(name)
    require_data(name)
    return json.dumps(name, ensure_ascii=False)
