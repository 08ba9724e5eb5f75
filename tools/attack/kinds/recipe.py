"""Recipes with absurd values, unknown words and broken TOML, as files and as overrides."""

import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from clearhead.recipe import preset_names, preset_text, read_recipe, recipe_table
from tools.attack.case import Case
from tools.attack.kinds.damage import BYTES, NASTY, copied, damaged
from tools.attack.victims import SMALL, Victim

RIGHT = frozenset({0, 2, 4})
TRAINED = frozenset({0, 2, 3, 4, 5})
"""Training may also find the data bad, or diverge."""
BUILT_LATER = 10**5
"""Larger sizes are legal, but building them might take minutes: they go to `cost` only."""


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield overrides and files, without end."""
    while True:
        yield chance.choice([_override, _override, _file])(chance, chance.choice(victims))


def _keys(family: str) -> list[str]:
    """The settings of a family, as dotted names."""
    names = {"pairs": "seq2seq", "pictures": "classifier"}
    table = recipe_table(read_recipe(None, f"model.family={names.get(family, family)}"))
    optional = ("training.minutes", "training.epochs", "training.patience", "training.threads", "data.dev_share")
    more = ("data.source.size", "decoding.top_k", "decoding.top_p", "decoding.max_length", "model.patches.size")
    return [*_dotted(table), *optional, *more, "model.layers", "model.width", "model.heads", "model.attention.kind"]


def _dotted(table: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _dotted(value, f"{path}{name}.")
        else:
            yield path + name


def _value(chance: random.Random) -> str:
    value = chance.choice(NASTY)
    if isinstance(value, str) or value is None:
        return chance.choice([value or "", json.dumps(value)])
    return chance.choice([json.dumps(value), repr(value)])


def _override(chance: random.Random, victim: Victim) -> Case:
    keys = _keys(victim.family)
    settings = [f"{chance.choice(keys)}={_value(chance)}" for _ in range(chance.choice([1, 1, 1, 2, 5]))]
    if chance.random() < 0.1:
        odd = [
            "=",
            "model",
            "model.=1",
            ".=1",
            "a" * 50 + "=1",
            "model..x=1",
            "x" + ".x" * 10_000 + "=1",
            "model.layers==2",
        ]
        settings.append(chance.choice(odd))
    command = chance.choice(["cost", "check", "train", "show"])
    if command in ("show", "train") and any(_is_slow(setting) for setting in settings):
        command = "cost"
    family = family_settings(victim)
    settings = [setting.replace("\x00", "\\0") for setting in settings]  # no argument can hold it
    if command == "train":
        words = ["train", victim.data, "-o", "other", "training.steps=1", *SMALL, *family, *settings]
    elif command == "check":
        words = ["check", victim.data, *family, *settings]
    else:
        words = [command, chance.choice(["tiny", "small", "lecture", "rnn-luong", "gpt2"]), *settings]
        if command == "show":
            words = ["show", "tiny", *family, *settings]
    name = f"{victim.family}: {' '.join(words)}"
    allowed = TRAINED if command in ("train", "check") else RIGHT
    return Case("recipe", name[:400], words, allowed, lambda folder: copied(victim.home, folder))


def family_settings(victim: Victim) -> list[str]:
    """Overrides that set the family of a victim, if its data do not imply it."""
    if victim.family in ("pairs", "lm"):
        return ["model.family=lm"] * (victim.family == "lm")
    patches = ["model.patches={height=4, width=4, channels=1, size=2}"] if victim.family == "pictures" else []
    return [f"model.family={'classifier' if victim.family == 'pictures' else victim.family}", *patches]


def _is_slow(setting: str) -> bool:
    """Whether a setting is a legal size that would really be built, or trained for, a long time."""
    _, _, value = setting.partition("=")
    try:
        return 100 < float(value) <= BUILT_LATER
    except ValueError:
        return "100000" in value


def _file(chance: random.Random, victim: Victim) -> Case:
    """A recipe file: a preset with damaged bytes, or absurd TOML."""
    seed = chance.randrange(2**32)
    preset = chance.choice(preset_names())
    command = chance.choice(["cost", "check", "train"])

    def prepare(folder: Path) -> None:
        copied(victim.home, folder)
        inner = random.Random(seed)
        (folder / "bad.toml").write_bytes(_toml(preset, inner))

    words = [command, "bad.toml"]
    if command == "check":
        words.append(victim.data)
    if command == "train":
        words += [victim.data, "-o", "other", "training.steps=1", *SMALL]
    name = f"{victim.family}: {' '.join(words)}, {preset} (seed {seed})"
    return Case("recipe", name, words, RIGHT if command == "cost" else TRAINED, prepare)


def _toml(preset: str, chance: random.Random) -> bytes:
    text = preset_text(preset)
    odd = [
        "[" * 5000,
        "a=" + "[" * 5000,
        "x = {" * 2000,
        ".".join("a" * 3000) + "=1",
        "model = 3",
        "[[model]]\nlayers=1",
        "[model]\nlayers=1\nlayers=2",
        f"[model]\nlayers={'9' * 5000}",
        "[model]\nlayers=1979-05-27",
        "[model]\nwidth=nan",
        'preset = "../../etc/passwd"',
        'preset = ["tiny"]',
        "preset = 3",
        "[model.encoder]\nkind = []",
        "[model.attention]\nkind = {a=1}",
        "[model.vocabulary]\npad='x'",
        "\ufeff[model]\nlayers=1",
        "[data]\ntrain=[]\n",
        "[data]\ntrain=['a','b','c']",
        "[data]\ntrain='\\u0000'",
        "[model]\nfamily=1",
        "[model]\nfamily='lm'\n[model.cross.attention]\nkind='multihead'",
    ]
    if chance.random() < 0.5:
        return chance.choice(odd).encode()
    return damaged(text.encode(), chance.choice(BYTES), chance)
