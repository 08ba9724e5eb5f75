"""Text to tokens and back, by the ``tokenizers`` library; learnt from training text only, kept as JSON.

Four specials come first in every vocabulary: <pad> <s> </s> <unk>. An encoder's has <mask> as a fifth.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Literal

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from clearhead.data.library import library
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
    """A tokenizer of one side: encodes lines in bulk, decodes ids, and is kept as text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # a special's name inside a text is text; the setting is not part of the JSON
        self._tokenizer.encode_special_tokens = True
        added = tokenizer.get_added_tokens_decoder()
        names = {token.content: index for index, token in added.items()}
        self.own = all(names.get(name) == index for index, name in enumerate(SPECIALS))
        """Whether its specials are ours; an imported tokenizer has its own."""
        self.mask_name = next((name for name in MASKS if name in names), MASK)
        """How a hidden token is written in a text."""
        self.mask: int | None = names.get(self.mask_name)
        """The id of <mask>, if the vocabulary has one."""
        self.specials = frozenset(index for index, token in added.items() if token.special)
        """Ids that are no text."""
        self.around: tuple[int, int] = self._around()
        """What stands before and after every line."""
        self._gaps: Tokenizer | None = None
        if self.mask is not None:
            # reads <mask> as what it stands for: a tokenizer of its own, as threads may read in both ways at once
            self._gaps = Tokenizer.from_str(tokenizer.to_str())
            self._gaps.encode_special_tokens = False

    def _around(self) -> tuple[int, int]:
        if self.own:
            return BOS, EOS
        wrapped = self._tokenizer.encode("", add_special_tokens=True).ids
        return (wrapped[0], wrapped[-1]) if len(wrapped) == 2 else (BOS, EOS)

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
        with library("is not a tokenizer"):
            tokenizer = Tokenizer.from_str(text)
            tokenizer.encode("\U0010fffd")  # a tokenizer that has no token for what it does not know fails here
        return cls(tokenizer)

    def to_json(self) -> str:
        """The tokenizer as text, for the model file."""
        return self._tokenizer.to_str()

    @property
    def largest(self) -> int:
        """The largest id that a text can become; −1 if there is none."""
        return max(self._tokenizer.get_vocab().values(), default=-1)

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
        if not self.own:  # another library's ids: what they mean is its own affair
            found = tokenizer.encode_batch(list(texts), add_special_tokens=False)
            return [encoding.ids for encoding in found], [()] * len(found)
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

    def wrapped(self, ids: list[int], size: int) -> list[int]:
        """The first ``size`` tokens of a line, between what stands before and after every line."""
        first, last = self.around
        return [first, *ids[:size], last]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids; specials are left out."""
        texts: list[str] = self._tokenizer.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return texts

    @cached_property
    def _by_bytes(self) -> bool:
        """Whether its tokens are spelt in bytes, each of them a character."""
        return "ByteLevel" in json.dumps(json.loads(self.to_json())["decoder"])

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
        parts = json.loads(self.to_json())
        if parts["model"]["type"] != "WordLevel":
            return "bpe" if parts["model"]["type"] == "BPE" else "unigram"
        return "symbols" if parts["pre_tokenizer"]["type"] == "WhitespaceSplit" else "characters"


def _spelt(token: str) -> str:
    """A token of a byte-level tokenizer as text."""
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
