"""Settings of transformers' ``generate``, from ``generation_config.json`` or an older ``config.json``, as ours.

transformers counts the decoder's first token as part of an answer, and a forced end token, too; ``decoding.max_length``
and ``decoding.min_length`` count neither. What clearhead has no rule for is reported.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from clearhead.errors import DataError
from clearhead.interop.huggingface.config import several_ends
from clearhead.interop.huggingface.folder import read_json

_NO_RULE = {
    "encoder_repetition_penalty": 1.0,
    "diversity_penalty": 0.0,
    "num_beam_groups": 1,
    "begin_suppress_tokens": None,
    "sequence_bias": None,
    "exponential_decay_length_penalty": None,
    "forced_decoder_ids": None,
    "typical_p": 1.0,
    "penalty_alpha": None,
    "guidance_scale": 1.0,
    "stop_strings": None,
}
"""Settings that change answers and have no counterpart, with the values that change nothing."""
_NO_RULE_SAMPLING = {"min_p": 0.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0}
"""The same, of sampling alone."""
_NO_RULE_BEAMS = {"early_stopping": False}
"""The same, of beams alone."""


@dataclass(frozen=True)
class Generation:
    """How a model answers.

    Args:
        decoding: settings of ``[decoding]``.
        vocabulary: ids of special tokens, which win over those of ``config.json``.
        notes: what was not imported, with reasons.
    """

    decoding: dict[str, Any] = field(default_factory=dict)
    vocabulary: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def read_generation(folder: Path, config: dict[str, Any], family: str) -> Generation:
    """The settings of ``generate``; nothing for models that do not generate.

    Args:
        folder: the folder.
        config: the content of ``config.json``.
        family: what the model is.
    """
    if family not in ("seq2seq", "lm"):
        return Generation()
    path = folder / "generation_config.json"
    stated = read_json(path) if path.is_file() else config
    if not isinstance(stated, dict):
        raise DataError(f"{path}: is not a table of settings")
    for name in ("suppress_tokens", "bad_words_ids"):
        if not isinstance(stated.get(name) or [], list):
            where = path if path.is_file() else folder / "config.json"
            raise DataError(f"{where}: {name} = {str(stated[name])[:60]} should be a list")
    found = Generation()
    _lengths(found, stated, family)
    _tokens(found, stated, family, own_file=path.is_file())
    _repeats(found, stated, family)
    _search(found, stated)
    rules = _NO_RULE | (_NO_RULE_SAMPLING if found.decoding.get("sample") else {})
    rules |= _NO_RULE_BEAMS if found.decoding["beam_size"] > 1 else {}
    for name, harmless in rules.items():
        value = stated.get(name)
        if value not in (None, harmless, []):
            found.notes.append(f"{name} = {str(value)[:60]}: clearhead has no such rule, so answers may differ")
    return found


def _whole(table: dict[str, Any], name: str) -> int | None:
    value = table.get(name)
    return value if type(value) is int and value >= 0 else None


def _lengths(found: Generation, stated: dict[str, Any], family: str) -> None:
    forced_end = 1 if stated.get("forced_eos_token_id") is not None else 0
    new, least_new = _whole(stated, "max_new_tokens"), _whole(stated, "min_new_tokens")
    whole, least = _whole(stated, "max_length"), _whole(stated, "min_length")
    if new is None and whole is not None:
        if family == "seq2seq":
            new = whole - 1  # the decoder's first token counts there
        else:
            found.notes.append(f"max_length = {whole}: counts the prompt, too; set decoding.max_length")
    if new is not None and new > forced_end:
        found.decoding["max_length"] = new - forced_end
    if least_new is None and least and family == "seq2seq":
        least_new = least - 1
    if least_new:
        found.decoding["min_length"] = min(least_new, found.decoding.get("max_length", least_new))


def _tokens(found: Generation, stated: dict[str, Any], family: str, *, own_file: bool) -> None:
    # transformers writes any token that is not banned, also <pad> and <unk>
    found.decoding["ban_specials"] = False
    banned = list(stated.get("suppress_tokens") or [])
    for word in stated.get("bad_words_ids") or []:
        if isinstance(word, list) and len(word) == 1:
            banned += word
        elif isinstance(word, list) and word and all(type(index) is int and index >= 0 for index in word):
            found.decoding.setdefault("banned_sequences", []).append(word)
        else:
            found.notes.append(f"bad_words_ids {str(word)[:60]}: is no list of token ids")
    banned = sorted({index for index in banned if type(index) is int and index >= 0})
    if banned:
        found.decoding["banned"] = banned
    forced = _whole(stated, "forced_bos_token_id")
    if family == "seq2seq" and forced is not None:
        found.decoding["prefix"] = [forced]
    if not own_file:
        return
    start, ends = _whole(stated, "decoder_start_token_id"), stated.get("eos_token_id")
    if family == "seq2seq" and start is not None:
        found.vocabulary["start"] = start
    if isinstance(ends, list) and ends:
        if len(ends) > 1:
            found.notes.append(several_ends(ends))
        ends = ends[0]
    if type(ends) is int:
        found.vocabulary["eos"] = ends


def _repeats(found: Generation, stated: dict[str, Any], family: str) -> None:
    for name in ("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"):
        size = _whole(stated, name)
        if size and name.startswith("encoder") and family != "seq2seq":
            found.notes.append(
                f"{name} = {size}: clearhead has no such rule for language models, so answers may differ"
            )
        elif size:
            found.decoding[name] = size
    penalty = stated.get("repetition_penalty")
    if isinstance(penalty, int | float) and 0 < penalty <= 1000:
        if penalty != 1.0:
            found.decoding["repetition_penalty"] = float(penalty)
    elif penalty is not None:
        found.notes.append(f"repetition_penalty = {str(penalty)[:60]}: must be above 0, so it is left out")


def _search(found: Generation, stated: dict[str, Any]) -> None:
    found.decoding["beam_size"] = _whole(stated, "num_beams") or 1
    penalty = stated.get("length_penalty")
    if isinstance(penalty, int | float) and 0 <= penalty <= 100:
        found.decoding["length_penalty"] = float(penalty)
    elif found.decoding["beam_size"] > 1:
        found.decoding["length_penalty"] = 1.0
        if penalty is not None:
            found.notes.append(f"length_penalty = {str(penalty)[:60]}: must be from 0 to 100 here, so it is 1")
    if stated.get("do_sample") is True:
        found.decoding["sample"] = True
        for name, low in (("temperature", 0.001), ("top_p", 0.0)):
            value = stated.get(name)
            if isinstance(value, int | float) and value > low and not (name == "top_p" and value > 1):
                found.decoding[name] = float(value)
        top = _whole(stated, "top_k")
        if top != 0:  # which means all
            found.decoding["top_k"] = top or 50  # transformers' default


def written_generation(decoding: Any, *, family: str) -> dict[str, Any]:
    """Our settings as those of ``generate``, for the ones that both have."""
    start = 1 if family == "seq2seq" else 0
    settings: dict[str, Any] = {"num_beams": decoding.beam_size}
    if decoding.prefix:
        settings["forced_bos_token_id"] = decoding.prefix[0]
    if decoding.max_length is not None and family == "seq2seq":
        settings["max_length"] = decoding.max_length + start
    if decoding.min_length and family == "seq2seq":
        settings["min_length"] = decoding.min_length + start
    for name in ("no_repeat_ngram_size", "encoder_no_repeat_ngram_size"):
        if getattr(decoding, name):
            settings[name] = getattr(decoding, name)
    if decoding.repetition_penalty != 1.0:
        settings["repetition_penalty"] = decoding.repetition_penalty
    if decoding.banned_sequences:
        settings["bad_words_ids"] = [list(words) for words in decoding.banned_sequences]
    return settings
