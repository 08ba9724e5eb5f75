"""How words and options of a command name data: recipe, preset, task, file, parallel files."""

import gzip
import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from clearhead.errors import DataError, Problem, RecipeError, did_you_mean


def data_settings(
    words: Sequence[str],
    files: Mapping[str, Path | None],
    parallel: Mapping[str, tuple[Path | None, Path | None]],
) -> tuple[str | None, list[str]]:
    """The recipe or preset that a command names, and overrides for everything else: data first, then the user's.

    Without a recipe, a task brings its own, and a .txt file whose first line has no tab is for a language model.
    """
    from clearhead.recipe import TASKS

    source, settings = _bare_words([word for word in words if "=" not in word])
    for part, file in files.items():
        if file is not None:
            settings.append(f"data.{part}={_toml(str(file))}")
    for part, (left, right) in parallel.items():
        if left is None and right is None:
            continue
        if left is None or right is None:
            missing = "source" if left is None else "target"
            raise RecipeError([Problem("command line", f"{part} {missing}", "parallel files come in twos")])
        settings.append(f"data.{part}={_toml([str(left), str(right)])}")
    named = files.get("train") or next((Path(word) for word in words if Path(word).is_file()), None)
    if source is None and named is not None and _is_text(named):
        settings.insert(0, "model.family=lm")
    if source is None:
        settings = [setting for word in words if word in TASKS for setting in TASKS[word].settings] + settings
    return source, [*settings, *(word for word in words if "=" in word)]


def kept_input(folder: Path) -> Path:
    """Standard input as a file in the run folder, so that a resumed run needs no pipe; its first line says what it is.

    The input of a run that has begun is kept as it is, whatever comes through the pipe now.
    """
    earlier = list((folder / "data").glob("stdin.*"))
    if earlier and (folder / "recipe.toml").is_file():
        return earlier[0]
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise RecipeError([Problem("command line", "-", "several processes cannot share a pipe: give a file")])
    if sys.stdin.isatty():
        raise RecipeError([Problem("command line", "-", "pipe the training data in: zcat pairs.tsv.gz | clearhead …")])
    first = sys.stdin.buffer.readline()
    if not first:
        raise DataError("standard input: is empty")
    suffix = "jsonl" if first.lstrip().startswith(b"{") else "tsv" if b"\t" in first else "txt"
    (folder / "data").mkdir(parents=True, exist_ok=True)
    unfinished = folder / "data" / ".stdin"
    with unfinished.open("wb") as stream:
        stream.write(first)
        shutil.copyfileobj(sys.stdin.buffer, stream)
    for old in earlier:
        old.unlink()
    return unfinished.rename(folder / "data" / f"stdin.{suffix}")


def _is_text(file: Path) -> bool:
    """Whether a file holds lines of text, by its name and its first line; what is wrong with it is told later."""
    if not file.name.removesuffix(".gz").endswith(".txt"):
        return False
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            return b"\t" not in stream.readline()
    except (OSError, EOFError):
        return True


def _bare_words(words: Sequence[str]) -> tuple[str | None, list[str]]:
    from clearhead.recipe import TASKS, preset_names

    recipes, data = [], []
    for word in words:
        if word in TASKS:
            data.append(f"data.task={word}")
        elif word.endswith(".toml") or word in preset_names():
            recipes.append(word)
        elif Path(word).is_file():
            data.append(f"data.train={_toml(word)}")
        else:
            near = did_you_mean(word, [*TASKS, *preset_names()])
            raise RecipeError([Problem("", word, f"no such recipe, file or task{near}")])
    for what, found in (("recipe", recipes), ("file or task", data)):
        if len(found) > 1:
            raise RecipeError([Problem("command line", " ".join(words), f"one {what} is enough")])
    return recipes[0] if recipes else None, data


def _toml(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)
