"""Reads the tokenizer of a Hugging Face folder, whatever files it is kept in.

``tokenizer.json`` is read by the ``tokenizers`` library alone. Marian's and M2M100's SentencePiece models, whose pieces
have ids of their own, are kept as they are and cut by ``sentencepiece``. Everything older (``vocab.json`` and
``merges.txt``, ``vocab.txt``, ``spiece.model``, ``sentencepiece.bpe.model``) depends on the architecture: transformers,
if it is installed, makes a ``tokenizer.json`` of it. Code of the folder is never run.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from clearhead.data import Codec, ImportedTokenizer, PieceTokenizer
from clearhead.data.library import library
from clearhead.errors import DataError
from clearhead.interop.exporting.torch_export import quiet
from clearhead.interop.huggingface.folder import read_json

MADE_BY = "clearhead"
"""What ``made_by`` says in the ``tokenizer_config.json`` of our own exports."""
_LANGUAGE = re.compile(r"[a-z]{2,3}_[A-Z][A-Za-z]{1,3}")
"""How mBART and NLLB write a language: en_XX, eng_Latn."""
_SPELT_OUT = re.compile(r"__([a-z]{2,3})__")
"""How M2M100's vocabulary writes one; users write what is inside."""
_M2M100 = """
af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr ht hu hy id ig
ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps pt ro ru sd si sk sl
so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu
"""
"""M2M100's languages in the order of their ids, which follow those of its vocabulary."""
_OLDER = ("vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "spm.model", "tokenizer.model")
"""Files of which transformers makes a tokenizer."""


def read_tokenizers(folder: Path, kind: str, sizes: Mapping[str, int]) -> tuple[dict[str, str], list[str]]:
    """The tokenizers of a folder as a model file keeps them, by side; and a line that says why there are none.

    Args:
        folder: the folder.
        kind: the ``model_type`` of its model.
        sizes: the sizes of the model's vocabularies, ``source`` and ``target``.
    """
    try:
        found = dict(_read(folder, kind))
        for side, codec in found.items():
            _check(codec, min(sizes.values()) if side == "shared" else sizes.get(side, min(sizes.values())))
    except DataError as error:
        return {}, [f"tokenizer: {error}"]
    return {side: codec.to_json() for side, codec in found.items()}, []


def _check(codec: Codec, size: int) -> None:
    if codec.largest >= size:
        raise DataError(f"has ids up to {codec.largest:,}, but the model has {size:,} tokens")
    Codec.from_json(codec.to_json())  # what is written can be read again, and encodes what it does not know


def _read(folder: Path, kind: str) -> Iterator[tuple[str, Codec]]:
    """The tokenizers that the folder has, by side."""
    config = _config(folder)
    if (folder / "source.spm").is_file():
        yield from _marian(folder, config)
    elif (folder / "tokenizer.json").is_file():
        yield "shared", _fast(folder, kind, config)
    elif (folder / "source_tokenizer" / "tokenizer.json").is_file():
        for side in ("source", "target"):
            inner = folder / f"{side}_tokenizer"
            yield side, _fast(inner, kind, _config(inner))
    elif (folder / "vocab.json").is_file() and (folder / "sentencepiece.bpe.model").is_file():
        yield "shared", _m2m100(folder, config)
    elif any((folder / name).is_file() for name in _OLDER):
        yield "shared", _converted(folder, kind, config)


def _config(folder: Path) -> dict[str, Any]:
    """``tokenizer_config.json``, and what only ``special_tokens_map.json`` says; empty if there are none."""
    found: dict[str, Any] = {}
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        path = folder / name
        table = read_json(path) if path.is_file() else {}
        if not isinstance(table, dict):
            raise DataError(f"{path}: is not a table of settings")
        found |= table
    for name in ("src_lang", "tgt_lang"):
        if not isinstance(found.get(name) or "", str):
            raise DataError(f"{folder / 'tokenizer_config.json'}: {name} = {str(found[name])[:60]} is no language")
    return found


def _fast(folder: Path, kind: str, config: dict[str, Any]) -> Codec:
    path = folder / "tokenizer.json"
    with library(f"{path}: is not a tokenizer"):
        tokenizer = Tokenizer.from_file(str(path))
        tokenizer.encode("a")
    plain = Codec(tokenizer)
    if plain.own and config.get("made_by", MADE_BY if not config else "") == MADE_BY:
        return plain
    return _finished(tokenizer, kind, config)


def _finished(tokenizer: Tokenizer, kind: str, config: dict[str, Any]) -> Codec:
    """The tokenizer without what is the business of batches, with every token that its settings add."""
    tokenizer.no_truncation()
    tokenizer.no_padding()
    for index, token in sorted(_added(config).items()):
        if tokenizer.id_to_token(index) is None:
            (tokenizer.add_special_tokens if token.special else tokenizer.add_tokens)([token])
    languages: dict[str, int] = {}
    if kind in ("mbart", "m2m_100") or str(config.get("tokenizer_class", "")).startswith(("MBart", "Nllb")):
        added = tokenizer.get_added_tokens_decoder()
        languages = {token.content: index for index, token in added.items() if _LANGUAGE.fullmatch(token.content)}
    return _codec(ImportedTokenizer(tokenizer, config, languages))


def _codec(imported: ImportedTokenizer) -> Codec:
    return Codec(imported.tokenizer, imported)


def _added(config: Mapping[str, Any]) -> dict[int, AddedToken]:
    """``added_tokens_decoder``: tokens by id."""
    listed = config.get("added_tokens_decoder")
    if not isinstance(listed, dict):
        return {}
    flags = ("lstrip", "rstrip", "single_word", "normalized", "special")
    try:
        found = {
            int(index): AddedToken(token["content"], **{flag: bool(token.get(flag, False)) for flag in flags})
            for index, token in listed.items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DataError("tokenizer_config.json: added_tokens_decoder does not list tokens") from None
    for index in found:
        if not 0 <= index < 2**31:
            raise DataError(f"tokenizer_config.json: added_tokens_decoder: {str(index)[:20]} is no id")
    return found


def _name(config: Mapping[str, Any], key: str, default: str) -> str:
    """What a special token is called."""
    found = config.get(key, default)
    found = found.get("content", default) if isinstance(found, dict) else found
    return found if isinstance(found, str) else default


def _vocabulary(path: Path) -> dict[str, int]:
    table = read_json(path)
    if not isinstance(table, dict) or not all(type(index) is int and index >= 0 for index in table.values()):
        raise DataError(f"{path}: is not a table of tokens and ids")
    return table


def _specials(config: Mapping[str, Any], vocabulary: Mapping[str, int], *names: str) -> dict[int, AddedToken]:
    """The tokens that are found before a text is cut: those that are listed, and the special ones."""
    usual = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    found = _added(config)
    for key in names:
        name = _name(config, key, usual[key])
        if name in vocabulary and vocabulary[name] not in found:
            found[vocabulary[name]] = AddedToken(name, special=True, normalized=False)
    return found


def _pieces(path: Path, *arguments: Any, **options: Any) -> PieceTokenizer:
    try:
        return PieceTokenizer(path.read_bytes(), *arguments, **options)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from None
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def _marian(folder: Path, config: dict[str, Any]) -> Iterator[tuple[str, Codec]]:
    """A SentencePiece model for each side, with one vocabulary for both, or two."""
    unknown, end = _name(config, "unk_token", "<unk>"), _name(config, "eos_token", "</s>")
    apart = bool(config.get("separate_vocabs", False))
    for side in ("source", "target"):
        vocabulary = _vocabulary(folder / ("target_vocab.json" if apart and side == "target" else "vocab.json"))
        if end not in vocabulary:
            raise DataError(f"{folder / 'vocab.json'}: lacks {end}, which ends every line")
        added = _specials(config, vocabulary, "eos_token", "unk_token", "pad_token")
        around: tuple[list[int], list[int]] = [], [vocabulary[end]]
        made = _pieces(folder / f"{side}.spm", vocabulary, added, unknown=unknown, around=around, codes=True)
        yield side, _codec(ImportedTokenizer(made, config))


def _m2m100(folder: Path, config: dict[str, Any]) -> Codec:
    """One SentencePiece model; the languages stand after the vocabulary."""
    vocabulary = _vocabulary(folder / "vocab.json")
    unknown, end = _name(config, "unk_token", "<unk>"), _name(config, "eos_token", "</s>")
    added = _specials(config, vocabulary, "bos_token", "eos_token", "unk_token", "pad_token")
    listed = config.get("additional_special_tokens") or config.get("extra_special_tokens") or []
    names = [name for name in listed if isinstance(name, str)] or [f"__{code}__" for code in _M2M100.split()]
    for index, name in enumerate(names, start=len(vocabulary)):
        if name not in (token.content for token in added.values()):
            added[index] = AddedToken(name, special=True, normalized=False)
    matches = {index: _SPELT_OUT.fullmatch(token.content) for index, token in added.items()}
    languages = {match.group(1): index for index, match in matches.items() if match is not None}
    usual = config.get("src_lang") or "en"
    if usual not in languages or end not in vocabulary:
        raise DataError(f"{folder}: its tokenizer has no language {usual}, or no {end}")
    around = [languages[usual]], [vocabulary[end]]
    path = folder / "sentencepiece.bpe.model"
    return _codec(
        ImportedTokenizer(_pieces(path, vocabulary, added, unknown=unknown, around=around), config, languages)
    )


def _converted(folder: Path, kind: str, config: dict[str, Any]) -> Codec:
    """What transformers makes of older files."""
    files = ", ".join(name for name in ("vocab.json", *_OLDER) if (folder / name).is_file())
    try:
        import transformers
    except ImportError:
        raise DataError(f"{files}: reading it needs transformers: pip install 'clearhead[interop]'") from None
    with quiet(), library(f"{files}: transformers cannot read it"):
        made = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        text = made.backend_tokenizer.to_str()
    tokenizer = Tokenizer.from_str(text)
    if tokenizer.get_vocab_size() < _lines(folder):  # transformers would rather make an empty one than fail
        raise DataError(f"{files}: transformers does not find the tokens in it")
    names = {key: value for key, value in made.special_tokens_map.items() if isinstance(value, str)}
    return _finished(tokenizer, kind, names | config)


def _lines(folder: Path) -> int:
    """How many tokens the files name, at least."""
    text, table = folder / "vocab.txt", folder / "vocab.json"
    if table.is_file():
        return len(_vocabulary(table))
    if text.is_file():
        return len(set(text.read_text(encoding="utf-8", errors="replace").splitlines()))
    return 100  # of a SentencePiece model, the library would have to tell


def written_files(codec: Codec, folder: Path, side: str) -> None:
    """Write the files that ``read_tokenizers`` reads, for transformers: of an imported tokenizer, those it came from.

    Args:
        codec: an imported tokenizer.
        folder: where to write.
        side: ``shared``, ``source`` or ``target``.
    """
    imported = codec.imported
    assert imported is not None
    config = json.dumps(imported.config, indent=1, ensure_ascii=False)
    (folder / "tokenizer_config.json").write_text(config, encoding="utf-8")
    if not isinstance(imported.tokenizer, PieceTokenizer):
        (folder / "tokenizer.json").write_text(imported.tokenizer.to_str(), encoding="utf-8")
        return
    apart = side == "target" and bool(imported.config.get("separate_vocabs", False))
    vocabulary = json.dumps(imported.tokenizer.vocabulary, indent=1, ensure_ascii=False)
    (folder / ("target_vocab.json" if apart else "vocab.json")).write_text(vocabulary, encoding="utf-8")
    name = "sentencepiece.bpe.model" if side == "shared" else f"{side}.spm"
    (folder / name).write_bytes(imported.tokenizer.serialized)
