"""Words of a command line: files, settings, and what is wrong with them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

import clearhead

Engine = Annotated[
    Literal["native", "ctranslate2", "onnxruntime"],
    typer.Option(help="What answers; the last two convert the model once, and keep the conversion beside it."),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="DEVICE",
        help="Where to compute: cpu, cuda, cuda:1, mps; auto takes a GPU if there is one, else the CPU.",
    ),
]
Int8 = Annotated[bool, typer.Option("--int8", help="For ctranslate2: weights in eight bits.")]

Others = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="MODEL",
        help="Another model with the same tokens, which answers together with this one; as often as you like.",
    ),
]


def usage(what: str, why: str) -> clearhead.RecipeError:
    """The error for something that was typed."""
    return clearhead.RecipeError([clearhead.Problem("command line", what, why)])


def all_together(
    model: str, others: Sequence[str] | None, *, engine: str, int8: bool, device: str
) -> tuple[Any, dict[str, Any]]:
    """A model, or several as one, and what it is asked to compute with."""
    if not others:
        return model, {"engine": engine, "int8": int8, "device": device}
    if engine != "native" or int8:
        raise usage("--with", "several models answer natively: leave out --engine and --int8")
    return clearhead.together([model, *others], device=device), {}


def is_setting(word: str) -> bool:
    """Whether a word reads key=value, and is no file."""
    return "=" in word and clearhead.named(word) == "missing"


def files_and_settings(words: Sequence[str] | None) -> tuple[list[str], list[str]]:
    """Names, and words of the form key=value; a file that is there may have such a name."""
    settings = [word for word in words or [] if is_setting(word)]
    return [word for word in words or [] if word not in settings], settings


def parallel(src: Path | None, tgt: Path | None, option: str = "--") -> tuple[Path, Path] | None:
    """Both files, or none."""
    if src is None and tgt is None:
        return None
    one_pipe({f"{option}src": src, f"{option}tgt": tgt})
    if src is None or tgt is None:
        raise usage(f"{option}src, {option}tgt", "parallel files come in twos")
    return src, tgt


def one_of(options: Mapping[str, object], what: str) -> None:
    """Refuse two ways to say one thing."""
    given = [name for name, value in options.items() if value is not None]
    if len(given) > 1:
        raise usage(" and ".join(given), f"{what} is named twice: choose one")


def one_pipe(files: Mapping[str, Path | str | None]) -> None:
    """Standard input holds one file, and not two."""
    piped = [name for name, file in files.items() if str(file) == "-"]
    if len(piped) > 1:
        raise usage(f"{piped[0]} - {piped[1]} -", "standard input holds one file only")


def columns_of(columns: str | None) -> list[str] | None:
    """``--columns src,tgt`` as a list."""
    return None if columns is None else [name.strip() for name in columns.split(",")]
