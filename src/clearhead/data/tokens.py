"""Text to tokens and back, by the ``tokenizers`` library; learnt from training text only, kept as JSON.

Four specials come first in every vocabulary: <pad> <s> </s> <unk>. An encoder's has <mask> as a fifth.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from tokenizers import AddedToken, Encoding, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from clearhead.data.imported import Ids, ImportedTokenizer, frame_of, imported_from, is_imported
from clearhead.data.library import library
from clearhead.data.piece_tokenizer import Cut
from clearhead.data.subwords import learn_subwords
from clearhead.data.texts import Joined, Kind, Texts, lowered, suitable_kind, suitable_sharing
from clearhead.errors import DataError
from clearhead.recipe import DataSpec, TokenizerSpec

SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
MASK = "<mask>"
"""Stands for a token that is hidden, to be filled in."""
MASKS = (MASK, "[MASK]")
"""How tokenizers spell it: ours and RoBERTa's, BERT's."""
PAD, BOS, EOS, UNK = range(4)
_PLAIN = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
_REST = [byte for byte in range(256) if byte not in _PLAIN]
_BYTES = {chr(byte): byte for byte in _PLAIN} | {chr(256 + number): byte for number, byte in enumerate(_REST)}
"""The byte for which each character of a byte-level token stands (GPT-2's table)."""
_BYTE_NAME = re.compile("<0x[0-9A-F]{2}>")
"""How a tokenizer with SentencePiece's byte fallback names a byte."""
Case = Literal["keep", "lower"]
"""What becomes of capital letters: `data.case`."""


class Codec:
    """A tokenizer of one side: encodes lines in bulk, decodes ids, and is kept as text.

    Args:
        tokenizer: the tokenizer of the library.
        imported: how it is used by the library that it was imported from. Default: it is ours.
    """

    def __init__(self, tokenizer: Tokenizer, imported: ImportedTokenizer | None = None) -> None:
        self._tokenizer, self.imported = tokenizer, imported
        # a special's name inside a text is text, unless another library has it otherwise; the setting is not part of
        # the JSON
        self._tokenizer.encode_special_tokens = imported is None or imported.splits_specials
        added = tokenizer.get_added_tokens_decoder()
        names = {token.content: index for index, token in added.items()}
        self.own = imported is None and all(names.get(name) == index for index, name in enumerate(SPECIALS))
        """Whether its specials are ours; an imported tokenizer has its own."""
        stated = None if imported is None else imported.mask_name
        self.mask_name = stated or next((name for name in MASKS if name in names), MASK)
        """How a hidden token is written in a text."""
        self.mask: int | None = names.get(self.mask_name)
        """The id of <mask>, if the vocabulary has one."""
        self.specials = frozenset(index for index, token in added.items() if token.special)
        """Ids that are no text."""
        self._frame: tuple[Ids, Ids] = ((BOS,), (EOS,)) if self.own else frame_of(tokenizer)
        self._gaps: Tokenizer | None = None
        if self.mask is not None and self._tokenizer.encode_special_tokens and isinstance(tokenizer, Tokenizer):
            # reads <mask> as what it stands for: a tokenizer of its own, as threads may read in both ways at once
            self._gaps = Tokenizer.from_str(tokenizer.to_str())
            self._gaps.encode_special_tokens = False

    @property
    def languages(self) -> Mapping[str, int]:
        """The tokens that stand for languages, by name; most tokenizers have none."""
        return {} if self.imported is None else self.imported.languages

    def frame(self, language: str | None = None) -> tuple[Ids, Ids]:
        """What stands before and after every line.

        Args:
            language: the language of the line, if the tokenizer tells languages apart. Default: its usual one.
        """
        if language is None or not self.languages:
            return self._frame
        known = set(self.languages.values())
        chosen = self.languages[language]
        before, after = (tuple(chosen if index in known else index for index in part) for part in self._frame)
        return before, after

    @property
    def room(self) -> int:
        """How many tokens stand around every line."""
        return sum(map(len, self._frame))

    @property
    def around(self) -> tuple[int, int]:
        """The token before and the token after every line, of a tokenizer that puts one there."""
        before, after = self._frame
        if len(before) != 1 or len(after) != 1:
            counts = f"{len(before)} tokens before a line and {len(after)} after it"
            raise DataError(f"the tokenizer puts {counts}: only one on each side can be trained with")
        return before[0], after[0]

    @classmethod
    def learn(
        cls, kind: Kind, texts: Texts, size: int | None = None, *, masked: bool = False, case: Case = "keep"
    ) -> "Codec":
        """Learn a vocabulary from training text, with <mask> in it or without, with capitals or without."""
        # words stand apart from a <mask> beside them by a space, which is no token of its own; characters do not
        apart = kind != "characters"
        mask = [AddedToken(MASK, lstrip=apart, rstrip=apart, special=True)] if masked else []
        specials = [*(AddedToken(name, special=True) for name in SPECIALS), *mask]
        if case == "lower":
            texts = lowered(texts)
        if kind in ("characters", "symbols"):
            tokenizer = _closed(kind, texts, specials)
        else:
            tokenizer = learn_subwords(kind, texts, size, specials)
        return cls(tokenizer).lowering() if case == "lower" else cls(tokenizer)

    @classmethod
    def from_json(cls, text: str) -> "Codec":
        """The tokenizer that ``to_json`` wrote; a text that is none, or cannot encode, is a ``DataError``."""
        imported = imported_from(text) if is_imported(text) else None
        with library("is not a tokenizer"):
            tokenizer = Tokenizer.from_str(text) if imported is None else imported.tokenizer
            tokenizer.encode("\U0010fffd")  # a tokenizer that has no token for what it does not know fails here
        return cls(tokenizer, imported)

    def to_json(self) -> str:
        """The tokenizer as text, for the model file."""
        if self.imported is not None:
            return self.imported.to_json()
        text: str = self._tokenizer.to_str()
        return text

    @property
    def largest(self) -> int:
        """The largest id that a text can become, with what stands around it and its language; −1 if there is none."""
        before, after = self._frame
        ids = (*self._tokenizer.get_vocab().values(), *before, *after, *self.languages.values())
        return max(ids, default=-1)

    def lowering(self) -> "Codec":
        """The same vocabulary for text whose capitals are read as small letters, which the tokenizer itself sees to."""
        tokenizer = Tokenizer.from_str(self.to_json())
        before = tokenizer.normalizer
        lower = normalizers.Lowercase()
        tokenizer.normalizer = lower if before is None else normalizers.Sequence([lower, before])
        return Codec(tokenizer)

    @property
    def closed(self) -> bool:
        """Whether it knows a list of characters or symbols, and nothing else; a new one can be added to it."""
        return self.own and self.kind in ("characters", "symbols")

    def new_units(self, texts: Texts) -> list[str]:
        """Characters or symbols of these texts that a closed vocabulary lacks, the most frequent first."""
        parts = json.loads(self.to_json())
        known = parts["model"]["vocab"]
        if "Lowercase" in json.dumps(parts["normalizer"]):
            texts = lowered(texts)
        return [unit for unit in _units(self.kind, texts) if unit not in known]

    def with_units(self, units: Sequence[str]) -> "Codec":
        """The same tokenizer with these characters or symbols after all that it knows, whose ids stay as they are."""
        if not units:
            return self
        parts = json.loads(self.to_json())
        vocabulary = parts["model"]["vocab"]
        vocabulary |= {unit: len(vocabulary) + number for number, unit in enumerate(units)}
        return Codec.from_json(json.dumps(parts, ensure_ascii=False))

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text. The name of a special inside a text is text, if only an unknown one."""
        return self.read(texts)[0]

    def encode_gaps(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, in which <mask> stands for a hidden token; names of other specials are unknown."""
        return self.read(texts, gaps=True)[0]

    def read(self, texts: Sequence[str], *, gaps: bool = False) -> tuple[list[list[int]], list[tuple[str, ...]]]:
        """Ids of each text, and which of its parts, each once, are not in the vocabulary and became <unk>.

        With ``gaps``, <mask> stands for a hidden token.
        """
        tokenizer = self._gaps if gaps and self._gaps is not None else self._tokenizer
        if not self.own:  # another library's ids: what they mean is its own affair, but for the one of the unknown
            found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
            lacking = [self._lacking(text, encoding) for text, encoding in zip(texts, found, strict=True)]
            return [encoding.ids for encoding in found], lacking
        hidden = self.mask if self._gaps is None or not gaps else None
        rows: list[list[int]] = []
        unknown: list[tuple[str, ...]] = []
        for text, encoding in zip(texts, tokenizer.encode_batch(list(texts), add_special_tokens=False), strict=True):
            ids = encoding.ids
            if not ids or (min(ids) > UNK and (hidden is None or hidden not in ids)):
                rows.append(ids)
                unknown.append(())
                continue
            strange = [index <= UNK or index == hidden for index in ids]
            parts = [text[start:end] for (start, end), new in zip(encoding.offsets, strange, strict=True) if new]
            rows.append([UNK if new else index for index, new in zip(ids, strange, strict=True)])
            unknown.append(tuple(dict.fromkeys(parts)))
        return rows, unknown

    @cached_property
    def _unknown(self) -> int | None:
        """The id that another library's tokenizer gives to what it does not know, if there is one."""
        model = json.loads(self._tokenizer.to_str())["model"]
        index, name = model.get("unk_id"), model.get("unk_token")
        return self._tokenizer.token_to_id(name) if index is None and name is not None else index

    def _lacking(self, text: str, encoding: Encoding | Cut) -> tuple[str, ...]:
        """The parts of a text that another library's tokenizer does not know, each once."""
        if isinstance(encoding, Cut):
            return encoding.lacking
        if self._unknown is None or self._unknown not in encoding.ids:
            return ()
        places = zip(encoding.offsets, encoding.ids, strict=True)
        parts = dict.fromkeys(text[slice(*place)].strip() for place, index in places if index == self._unknown)
        return tuple(part for part in parts if part and part != self.name(self._unknown))

    def wrapped(self, ids: list[int], size: int) -> list[int]:
        """The first ``size`` tokens of a line, between what stands before and after every line."""
        before, after = self._frame
        return [*before, *ids[:size], *after]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids; specials are left out."""
        texts: list[str] = self._tokenizer.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return texts if self.imported is None else [self.imported.tidied(text) for text in texts]

    @cached_property
    def _by_bytes(self) -> bool:
        """Whether its tokens are spelt in bytes, each of them a character."""
        return "ByteLevel" in json.dumps(json.loads(self._tokenizer.to_str()).get("decoder"))

    def name(self, index: int) -> str | None:
        """What the tokenizer calls a token; None if it has none of this id."""
        found: str | None = self._tokenizer.id_to_token(index)
        return found

    def is_byte(self, index: int) -> bool:
        """Whether a token is one byte by its name, <0xE2>: what it spells depends on the bytes around it."""
        return _BYTE_NAME.fullmatch(self._tokenizer.id_to_token(index) or "") is not None

    def shown(self, ids: Sequence[int]) -> list[str]:
        """Each token as people read it: spaces as spaces, bytes as the characters that they spell, specials by name.

        A byte that is only a part of a character is written <0xE2>.
        """
        by_bytes = self._by_bytes
        names = [self._tokenizer.id_to_token(index) for index in ids]
        return [
            f"<{index}>"
            if name is None
            else name
            if index in self.specials
            else _spelt(name)
            if by_bytes
            else name.replace("\N{LOWER ONE EIGHTH BLOCK}", " ")
            for index, name in zip(ids, names, strict=True)
        ]

    def number(self, word: str) -> int | None:
        """The id of a token, as the tokenizer or ``shown`` writes it; None if there is no such token."""
        found: int | None = self._tokenizer.token_to_id(word)
        if found is not None:
            return found
        for text in (word, word.removeprefix(" ")):
            ids = self._tokenizer.encode(text, add_special_tokens=False).ids
            if len(ids) == 1 and self.shown(ids)[0].strip() == word.strip():
                return int(ids[0])
        return None

    @property
    def kind(self) -> Kind:
        """How this tokenizer cuts text."""
        if self.imported is not None:
            return "bpe" if type(getattr(self._tokenizer, "model", None)).__name__ == "BPE" else "unigram"
        parts = json.loads(self.to_json())
        if parts["model"]["type"] != "WordLevel":
            return "bpe" if parts["model"]["type"] == "BPE" else "unigram"
        return "symbols" if parts["pre_tokenizer"]["type"] == "WhitespaceSplit" else "characters"


def _spelt(token: str) -> str:
    """A token of a byte-level tokenizer as text."""
    if any(character not in _BYTES for character in token):  # one that was added, and is spelt as it is
        return token
    raw = bytes(_BYTES[character] for character in token)
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "".join(f"<0x{byte:02X}>" for byte in raw)


def _units(kind: Kind, texts: Texts) -> list[str]:
    """The characters of texts, or their symbols between spaces, the most frequent first."""
    units: Counter[str] = Counter()
    for text in texts:
        units.update(text if kind == "characters" else text.split())
    return [unit for unit, _ in sorted(units.items(), key=lambda item: (-item[1], item[0]))]


def _closed(kind: Kind, texts: Texts, specials: Sequence[AddedToken]) -> Tokenizer:
    """Every character, or every symbol between spaces, that the training text has."""
    words = list(dict.fromkeys([*(token.content for token in specials), *_units(kind, texts)]))
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    if kind == "characters":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        tokenizer.decoder = decoders.Fuse()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        # symbols come back with one space between them, which is what WordLevel does by itself
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def learn_codecs(source: Texts, target: Texts, spec: DataSpec) -> tuple[Codec, Codec]:
    """The tokenizers of both sides as ``[data]`` describes them, one for both if they share it.

    ``data.case`` is about the source; if one vocabulary serves both sides, each has a tokenizer of its own over it.
    """
    if spec.case == "lower":
        source = lowered(source)
    left = suitable_kind(source) if spec.source.kind == "auto" else spec.source.kind
    right = suitable_kind(target) if spec.target.kind == "auto" else spec.target.kind
    shared = spec.shared
    if shared is None:
        shared = left == right and left in ("bpe", "unigram") and suitable_sharing(source, target)
    if shared:
        both = Codec.learn(left, Joined(source, target), spec.source.size or spec.target.size)
        return (both if spec.case == "keep" else both.lowering()), both
    return (
        Codec.learn(left, source, spec.source.size, case=spec.case),
        Codec.learn(right, target, spec.target.size),
    )


def learn_codec(texts: Texts, spec: TokenizerSpec, *, masked: bool = False, case: Case = "keep") -> Codec:
    """The tokenizer of a family that has one side."""
    if case == "lower":
        texts = lowered(texts)
    kind = suitable_kind(texts) if spec.kind == "auto" else spec.kind
    return Codec.learn(kind, texts, spec.size, masked=masked, case=case)


def codecs_of(tokenizers: Mapping[str, str]) -> tuple[Codec, Codec]:
    """The tokenizers of source and target from the texts that a model file keeps."""
    if "shared" in tokenizers:
        both = Codec.from_json(tokenizers["shared"])
        return both, both
    if "source" in tokenizers and "target" in tokenizers:
        return Codec.from_json(tokenizers["source"]), Codec.from_json(tokenizers["target"])
    raise DataError("the model file has no tokenizers: it cannot read text")
