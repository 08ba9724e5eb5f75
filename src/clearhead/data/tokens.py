"""Text to tokens and back, by the ``tokenizers`` library; learnt from training text only, kept as JSON.

Four specials come first in every vocabulary: <pad> <s> </s> <unk>. An encoder's has <mask> as a fifth.
"""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from clearhead.errors import DataError
from clearhead.recipe import Data
from clearhead.recipe import Tokenizer as TokenizerSpec

SPECIALS = ["<pad>", "<s>", "</s>", "<unk>"]
MASK = "<mask>"
"""Stands for a token that is hidden, to be filled in."""
PAD, BOS, EOS, UNK = range(4)
Kind = Literal["characters", "symbols", "bpe", "unigram"]


class Codec:
    """A tokenizer of one side: encodes lines in bulk, decodes ids, and is kept as text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # a special's name inside a text is text; the setting is not part of the JSON
        self._tokenizer.encode_special_tokens = True
        names = {token.content: index for index, token in tokenizer.get_added_tokens_decoder().items()}
        self.mask: int | None = names.get(MASK)
        """The id of <mask>, if the vocabulary has one."""

    @classmethod
    def learn(cls, kind: Kind, texts: Sequence[str], size: int | None = None, *, masked: bool = False) -> "Codec":
        """Learn a vocabulary from training text, with <mask> in it or without."""
        # words stand apart from a <mask> beside them by a space, which is no token of its own; characters do not
        apart = kind != "characters"
        mask = [AddedToken(MASK, lstrip=apart, rstrip=apart, special=True)] if masked else []
        specials = [*(AddedToken(name, special=True) for name in SPECIALS), *mask]
        if kind in ("characters", "symbols"):
            return cls(_closed(kind, texts, specials))
        return cls(_subwords(kind, texts, size or suitable_size(texts), specials))

    @classmethod
    def from_json(cls, text: str) -> "Codec":
        """The tokenizer that ``to_json`` wrote."""
        return cls(Tokenizer.from_str(text))

    def to_json(self) -> str:
        """The tokenizer as text, for the model file."""
        return self._tokenizer.to_str()

    def __len__(self) -> int:
        return self._tokenizer.get_vocab_size()

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text. The name of a special inside a text is text, if only an unknown one."""
        rows = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        if self.mask is not None:
            rows = [[UNK if index == self.mask else index for index in row] for row in rows]
        return [row if not row or min(row) >= UNK else [max(index, UNK) for index in row] for row in rows]

    def encode_gaps(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, in which <mask> stands for a hidden token; names of other specials are unknown."""
        self._tokenizer.encode_special_tokens = False
        try:
            rows = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts), add_special_tokens=False)]
        finally:
            self._tokenizer.encode_special_tokens = True
        return [[max(index, UNK) for index in row] for row in rows]

    def decode(self, ids: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence of ids; specials are left out."""
        texts: list[str] = self._tokenizer.decode_batch([list(row) for row in ids], skip_special_tokens=True)
        return texts

    @property
    def kind(self) -> Kind:
        """How this tokenizer cuts text."""
        parts = json.loads(self.to_json())
        if parts["model"]["type"] != "WordLevel":
            return "bpe" if parts["model"]["type"] == "BPE" else "unigram"
        return "symbols" if parts["pre_tokenizer"]["type"] == "WhitespaceSplit" else "characters"


def _closed(kind: Kind, texts: Sequence[str], specials: Sequence[AddedToken]) -> Tokenizer:
    """Every character, or every symbol between spaces, that the training text has."""
    units: Counter[str] = Counter()
    for text in texts:
        units.update(text if kind == "characters" else text.split())
    ordered = [unit for unit, _ in sorted(units.items(), key=lambda item: (-item[1], item[0]))]
    words = list(dict.fromkeys([*(token.content for token in specials), *ordered]))
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(words)}, unk_token="<unk>"))
    if kind == "characters":
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
        tokenizer.decoder = decoders.Fuse()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        # symbols come back with one space between them, which is what WordLevel does by itself
    tokenizer.add_special_tokens(list(specials))
    return tokenizer


def _subwords(kind: Kind, texts: Sequence[str], size: int, specials: Sequence[AddedToken]) -> Tokenizer:
    """Pieces of words: byte-level BPE, which knows every text, or unigram."""
    common: dict[str, Any] = {"vocab_size": size, "special_tokens": list(specials), "show_progress": False}
    trainer: Any
    if kind == "bpe":
        tokenizer = Tokenizer(models.BPE())
        # a space before every text, so that its first word is cut like any other; taken away again when decoding
        tokenizer.normalizer = normalizers.Prepend(" ")
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
        trainer = trainers.BpeTrainer(initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **common)
    else:
        tokenizer = Tokenizer(models.Unigram())
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
        tokenizer.decoder = decoders.Metaspace()
        trainer = trainers.UnigramTrainer(unk_token="<unk>", **common)
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def suitable_kind(texts: Sequence[str]) -> Kind:
    """What suits these lines: symbols, characters, or subwords.

    Symbols: a small, closed set of words that come back again and again (phones, letters with spaces between).
    Characters: single words of a small alphabet. Everything else is sentences, and gets byte-level BPE.
    """
    sample = texts[:: max(1, len(texts) // 20_000)]
    words = Counter(word for text in sample for word in text.split())
    total = sum(words.values())
    if total >= 2 * len(sample) and len(words) <= max(20, min(500, total // 20)):
        return "symbols"
    alphabet = {character for text in sample for character in text}
    if total <= 1.2 * len(sample) and len(alphabet) <= 500:
        return "characters"
    return "bpe"


def suitable_size(texts: Sequence[str]) -> int:
    """Subwords for this much text: about a third of its distinct words, between 500 and 32,000."""
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return max(500, min(32_000, len(words) // 300 * 100))


def suitable_sharing(source: Sequence[str], target: Sequence[str]) -> bool:
    """Whether one vocabulary suits both sides: their alphabets overlap."""
    left, right = ({character for text in side[:20_000] for character in text} for side in (source, target))
    return len(left & right) >= 0.5 * min(len(left), len(right))


def learn_codecs(source: Sequence[str], target: Sequence[str], spec: Data) -> tuple[Codec, Codec]:
    """The tokenizers of both sides as ``[data]`` describes them, one for both if they share it."""
    left = suitable_kind(source) if spec.source.kind == "auto" else spec.source.kind
    right = suitable_kind(target) if spec.target.kind == "auto" else spec.target.kind
    shared = spec.shared
    if shared is None:
        shared = left == right and left in ("bpe", "unigram") and suitable_sharing(source, target)
    if shared:
        both = Codec.learn(left, [*source, *target], spec.source.size or spec.target.size)
        return both, both
    return Codec.learn(left, source, spec.source.size), Codec.learn(right, target, spec.target.size)


def learn_codec(texts: Sequence[str], spec: TokenizerSpec, *, masked: bool = False) -> Codec:
    """The tokenizer of a family that has one side."""
    return Codec.learn(suitable_kind(texts) if spec.kind == "auto" else spec.kind, texts, spec.size, masked=masked)


def codecs_of(tokenizers: Mapping[str, str]) -> tuple[Codec, Codec]:
    """The tokenizers of source and target from the texts that a model file keeps."""
    if "shared" in tokenizers:
        both = Codec.from_json(tokenizers["shared"])
        return both, both
    if "source" in tokenizers and "target" in tokenizers:
        return Codec.from_json(tokenizers["source"]), Codec.from_json(tokenizers["target"])
    raise DataError("the model file has no tokenizers: it cannot read text")
