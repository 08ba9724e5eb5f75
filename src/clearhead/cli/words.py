"""Words of a command line that may be files or settings."""

from collections.abc import Sequence
from pathlib import Path

from clearhead.errors import DataError, Problem, RecipeError
from clearhead.files import exists


def files_and_settings(words: Sequence[str] | None) -> tuple[list[Path], list[str]]:
    """Files, and words of the form key=value; a file that is there may have such a name."""
    settings = [word for word in words or [] if is_setting(word)]
    return [Path(word) for word in words or [] if word not in settings], settings


def is_setting(word: str) -> bool:
    """Whether a word reads key=value, and is no file."""
    return "=" in word and not exists(word)


def parallel_files(src: Path | None, tgt: Path | None) -> list[str]:
    """Both files, or none."""
    if (src is None) != (tgt is None):
        raise DataError("--src and --tgt come in twos")
    one_pipe({"--src": src, "--tgt": tgt})
    return [str(file) for file in (src, tgt) if file is not None]


def check_model_and_data(model: str, data: Sequence[Path | str]) -> None:
    """Refuse a model that has no weights, and data that are none, before anything is loaded."""
    from clearhead.recipe import require_data, weights_of

    weights_of(model)
    for file in data:
        require_data(file)


def one_pipe(files: dict[str, Path | str | None]) -> None:
    """Standard input holds one file, and not two."""
    piped = [name for name, file in files.items() if str(file) == "-"]
    if len(piped) > 1:
        raise RecipeError([Problem("command line", f"{piped[0]} - {piped[1]} -", "standard input holds one file only")])


def columns_setting(columns: str | None) -> list[str]:
    """``--columns src,tgt`` as a setting of the recipe."""
    import json

    if columns is None:
        return []
    return [f"data.columns={json.dumps([name.strip() for name in columns.split(',')], ensure_ascii=False)}"]
