"""Folders of sentence-transformers: how the vectors of the tokens become one vector for a sentence."""

import json
from pathlib import Path
from typing import Any

from clearhead.errors import DataError
from clearhead.interop.huggingface.folder import read_json
from clearhead.recipe import DecodingSpec

_MODES = {"pooling_mode_mean_tokens": "mean", "pooling_mode_cls_token": "cls", "pooling_mode_max_tokens": "max"}
"""Their ways of pooling, and ours."""


def model_folder(folder: Path) -> Path:
    """Where the model itself is: the folder, or the one inside of it that ``modules.json`` names."""
    if (folder / "config.json").is_file():
        return folder
    for kind, inner in _modules(folder):
        if kind == "Transformer" and (inner / "config.json").is_file():
            return inner
    return folder


def read_pooling(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Settings of ``[decoding]`` for sentence vectors, and what was not imported; nothing for other folders."""
    settings: dict[str, Any] = {}
    notes: list[str] = []
    prompts = _table(folder / "config_sentence_transformers.json")
    if prompts.get("default_prompt_name") is not None:
        name = str(prompts["default_prompt_name"])[:60]
        notes.append(f"default_prompt_name = {name}: clearhead puts no prompt before a text, so vectors may differ")
    for kind, inner in _modules(folder):
        if kind == "Pooling":
            pooling, problem = _pooling(inner / "config.json")
            settings |= pooling
            notes += problem
        elif kind == "Normalize":
            settings["normalize"] = True
        elif kind == "Transformer":
            if _table(inner / "sentence_bert_config.json").get("do_lower_case") is True:
                notes.append("do_lower_case = True: clearhead keeps capitals that the tokenizer keeps")
        else:
            notes.append(f"module {kind}: clearhead has no such step, so vectors are those before it")
    return settings, notes


def longest_text(folder: Path) -> int | None:
    """The most tokens, special ones included, that are read of a sentence, if the folder says so."""
    found = _table(folder / "sentence_bert_config.json").get("max_seq_length")
    return found if type(found) is int and found > 0 else None


def write_pooling(folder: Path, decoding: DecodingSpec, *, width: int, room: int) -> None:
    """Write how vectors are pooled, as sentence-transformers reads it; nothing if they are plain means of whole texts.

    Args:
        folder: the folder of the model.
        decoding: its settings.
        width: features of a vector.
        room: how many tokens stand around every text.
    """
    usual, cut = DecodingSpec(), decoding.max_source != DecodingSpec().max_source
    if (decoding.pooling, decoding.normalize) == (usual.pooling, usual.normalize) and not cut:
        return
    steps = ["", "1_Pooling", *(["2_Normalize"] if decoding.normalize else [])]
    modules = [
        {"idx": number, "name": str(number), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for number, (kind, path) in enumerate(zip(("Transformer", "Pooling", "Normalize"), steps, strict=False))
    ]
    for path in steps:
        (folder / path).mkdir(exist_ok=True)
    modes = {name: ours == decoding.pooling for name, ours in _MODES.items()}
    tables: dict[str, Any] = {
        "modules.json": modules,
        "1_Pooling/config.json": {"word_embedding_dimension": width} | modes,
    }
    if cut:
        tables["sentence_bert_config.json"] = {"max_seq_length": decoding.max_source + room, "do_lower_case": False}
    for name, table in tables.items():
        (folder / name).write_text(json.dumps(table, indent=1), encoding="utf-8")


def _table(path: Path) -> dict[str, Any]:
    """The settings in a file; none if it does not exist or is no table."""
    found = read_json(path) if path.is_file() else {}
    return found if isinstance(found, dict) else {}


def _modules(folder: Path) -> list[tuple[str, Path]]:
    """The kind and the folder of each step, in order."""
    path = folder / "modules.json"
    if not path.is_file():
        return []
    try:
        steps = [(str(step["type"]).rpartition(".")[2], str(step["path"])) for step in read_json(path)]
    except (TypeError, KeyError):
        raise DataError(f"{path}: does not list the steps of a sentence-transformers model") from None
    # a step's folder is inside of this one
    return [(kind, folder / Path(inner).name if inner else folder) for kind, inner in steps]


def _pooling(path: Path) -> tuple[dict[str, Any], list[str]]:
    table = read_json(path)
    if not isinstance(table, dict):
        raise DataError(f"{path}: is not a table of settings")
    newer = table.get("pooling_mode")
    chosen = [name for name in table if name.startswith("pooling_mode_") and table[name] is True]
    if isinstance(newer, str) and not chosen:
        chosen = [name for name, ours in _MODES.items() if ours == newer] or [newer]
    if len(chosen) == 1 and chosen[0] in _MODES:
        return {"pooling": _MODES[chosen[0]]}, []
    return {}, [f"{' + '.join(chosen) or 'pooling'}: clearhead pools by mean, cls or max; vectors are means"]
