"""What a word of a command names: one rule for every verb. Nothing here imports torch.

-                          standard input
tiny                       a preset, or a task (dates, digits): their names come first; a file of that name is ./tiny
g2p-en                     a model that comes with the package; where there is something to train, the task
g2p-en-stress              a model that comes with the package and has no task of its own
mine.toml                  a recipe
model.safetensors          a model file: whatever is called so, or begins like one
runs/mine                  a run: a folder with recipe.toml or best.safetensors
bert-base-uncased/         a Hugging Face folder: one with config.json
anything else that is there, pipes and <(…) among them, is data
in/*.txt                   a pattern that names files which are there: data, too
"""

import struct
from pathlib import Path
from typing import Literal

from clearhead.errors import (
    DataError,
    ForeignFile,
    ModelFileError,
    Problem,
    RecipeError,
)
from clearhead.files import exists, is_pattern, matching
from clearhead.recipe.data import TASKS
from clearhead.recipe.sources import preset_names
from clearhead.recipe.stored import LARGEST_HEADER
from clearhead.shipped import shipped_model

Named = Literal[
    "preset", "task", "recipe", "model", "run", "huggingface", "data", "stdin", "folder", "missing", "shipped"
]
BEST = "best.safetensors"
_WITHOUT_WEIGHTS = {"preset": "a preset", "task": "a task", "recipe": "a recipe"}


def named(word: str | Path) -> Named:
    """What a word names; a ``Path``, which forgets its ``./``, names a file if there is one."""
    text, path = str(word), Path(word)
    if text == "-":
        return "stdin"
    if isinstance(word, str) or not exists(path):
        if text in TASKS:
            return "task"
        if text in preset_names():
            return "preset"
        if shipped_model(text) is not None:
            return "shipped"
    if not exists(path):
        return "data" if matching(text) else "missing"
    return _named_folder(path) if path.is_dir() else _named_file(path)


def _named_folder(path: Path) -> Named:
    if (path / "recipe.toml").exists() or (path / BEST).exists():
        return "run"
    return "huggingface" if (path / "config.json").exists() else "folder"


def _named_file(path: Path) -> Named:
    if path.suffix == ".toml":
        return "run" if path.name == "recipe.toml" and (path.parent / BEST).exists() else "recipe"
    return "model" if path.suffix == ".safetensors" or _begins_like_a_model(path) else "data"


def shipped_file(word: str | Path) -> Path | None:
    """The model of this name that comes with the package; None if the word names something else."""
    return shipped_model(str(word)) if named(word) in ("task", "shipped") else None


def weights_of(word: str | Path) -> tuple[Path, bool]:
    """Where the weights are that a word names: a model file, or, if the second value says so, a Hugging Face folder.

    What has none is refused, with what to do instead.
    """
    kind, path = named(word), Path(word)
    if (shipped := shipped_file(word)) is not None:
        return shipped, False
    if kind in _WITHOUT_WEIGHTS:
        raise RecipeError(
            [
                Problem(
                    "command line",
                    str(word),
                    f"is {_WITHOUT_WEIGHTS[kind]} and has no weights: train it first: {_training(str(word), kind)}",
                )
            ]
        )
    if kind == "run":
        folder = path if path.is_dir() else path.parent
        if not (folder / BEST).exists():
            raise ModelFileError(
                f"{folder}: the run has no {BEST} yet: let it reach its first evaluation (clearhead train … --resume)"
            )
        return folder / BEST, False
    if kind == "missing":
        raise ModelFileError(f"{word}: cannot be read: no such model file, run or folder")
    if kind == "folder":
        raise ModelFileError(f"{word}: {_NO_MODEL_FOLDER}")
    if kind in ("data", "stdin"):
        raise ForeignFile(f"{word}: is data, not a clearhead model (not a safetensors file): name the model first")
    return path, kind == "huggingface"


def require_data(word: str | Path) -> None:
    """Refuse what stands where data belong and is something else; of a pattern, each file that it names."""
    path = Path(word)
    if str(word) == "-":
        return
    if found := matching(word):
        for file in found:
            require_data(file)
        return
    if not exists(path):
        raise DataError(f"{word}: {'no file has a name like this' if is_pattern(word) else 'no such file'}")
    what = {
        "run": "is a run",
        "recipe": "is a recipe",
        "model": "is a model file",
        "huggingface": "is a Hugging Face folder",
    }
    if (kind := named(path)) in (*what, "folder"):
        raise DataError(f"{word}: {what.get(kind, 'is a folder')}, not a file of data")


def no_recipe(word: str) -> str:
    """Why a folder or a file is no recipe."""
    return _NO_MODEL_FOLDER if Path(word).is_dir() else "is no recipe: a recipe is called something.toml"


_NO_MODEL_FOLDER = (
    "is a folder, not a recipe or a model: a run has recipe.toml inside, a Hugging Face folder config.json"
)


def _header_size(beginning: bytes) -> int | None:
    """Bytes of the JSON header of a safetensors file, None if it is none."""
    if len(beginning) < 9 or beginning[8:9] != b"{":
        return None
    (size,) = struct.unpack("<Q", beginning[:8])
    return int(size) if 2 <= size <= LARGEST_HEADER else None


def _begins_like_a_model(path: Path) -> bool:
    if not path.is_file():  # a pipe cannot be looked into
        return False
    try:
        with path.open("rb") as stream:
            return _header_size(stream.read(9)) is not None
    except OSError:
        return False


def _training(word: str, kind: Named) -> str:
    return f"clearhead train {word} -o RUN" if kind == "task" else f"clearhead train DATA {word} -o RUN"


def require_utf8(word: str) -> None:
    """Refuse a file name that a recipe, which is text, cannot keep."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = word.encode("utf-8", "backslashreplace").decode()
        raise DataError(f"{shown}: the name of the file is not UTF-8: rename it") from None
