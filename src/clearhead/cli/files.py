"""How words and options of a command name data: recipe, preset, task, file of pairs, parallel files."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from clearhead.errors import Problem, RecipeError, did_you_mean

TASKS = ("g2p-en",)


def data_settings(
    words: Sequence[str],
    files: Mapping[str, Path | None],
    parallel: Mapping[str, tuple[Path | None, Path | None]],
) -> tuple[str | None, list[str]]:
    """The recipe or preset that a command names, and overrides for everything else: data first, then the user's."""
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
    return source, [*settings, *(word for word in words if "=" in word)]


def _bare_words(words: Sequence[str]) -> tuple[str | None, list[str]]:
    from clearhead.recipe import preset_names

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
            raise RecipeError([Problem("", word, f"no such recipe, file of pairs or task{near}")])
    for what, found in (("recipe", recipes), ("file of pairs or task", data)):
        if len(found) > 1:
            raise RecipeError([Problem("command line", " ".join(words), f"one {what} is enough")])
    return recipes[0] if recipes else None, data


def _toml(value: str | list[str]) -> str:
    return json.dumps(value, ensure_ascii=False)
