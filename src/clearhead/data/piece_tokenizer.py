"""SentencePiece models with a vocabulary of their own, as Marian and M2M100 have them: cut by the library itself.

The ids are not those of the SentencePiece model: its pieces are looked up in ``vocab.json``.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tokenizers import AddedToken

from clearhead.errors import DataError

_SPACE = "\N{LOWER ONE EIGHTH BLOCK}"
_CODE = re.compile(r">>.*?<<", re.DOTALL)
"""A language that Marian's texts may begin with: >>fr<<."""


class Cut(NamedTuple):
    """The tokens of a text."""

    ids: list[int]
    offsets: list[tuple[int, int]]
    """Empty: where in the text a piece stands is not known once the text was normalised."""
    lacking: tuple[str, ...] = ()
    """Pieces that the vocabulary lacks, each once."""


class PieceTokenizer:
    """A SentencePiece model, with the methods of a ``tokenizers.Tokenizer`` that ``Codec`` uses.

    Args:
        model: the SentencePiece model, the bytes of a ``.spm`` or ``.model`` file.
        vocabulary: pieces and their ids.
        added: tokens that are found in a text before it is cut, by id.
        unknown: the token for pieces that the vocabulary lacks.
        around: the ids before and after every text.
        codes: whether a text may begin with a language between >> and <<, which is one token.
    """

    def __init__(
        self,
        model: bytes,
        vocabulary: Mapping[str, int],
        added: Mapping[int, AddedToken],
        *,
        unknown: str,
        around: tuple[Sequence[int], Sequence[int]],
        codes: bool = False,
    ) -> None:
        try:
            from sentencepiece import SentencePieceProcessor
        except ImportError:
            reason = "needs the package sentencepiece: pip install 'clearhead[interop]'"
            raise DataError(f"the tokenizer {reason}") from None
        self.serialized, self.vocabulary, self._added = model, dict(vocabulary), dict(added)
        self.unknown, self.around, self.codes = unknown, (list(around[0]), list(around[1])), codes
        self.encode_special_tokens = False
        try:
            self._pieces = SentencePieceProcessor(model_proto=model)
        except (RuntimeError, TypeError, OSError):
            raise DataError("is not a SentencePiece model") from None
        if unknown not in self.vocabulary:
            raise DataError(f"the vocabulary lacks {unknown}, which stands for what it does not know")
        self._unknown = self.vocabulary[unknown]
        self._names = {index: piece for piece, index in self.vocabulary.items()}
        self._names |= {index: token.content for index, token in self._added.items()}
        self._ids = {token.content: index for index, token in self._added.items()}
        self._specials = {index for index, token in self._added.items() if token.special}
        longest_first = sorted(self._ids, key=len, reverse=True)
        self._parts = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")") if longest_first else None

    @classmethod
    def from_table(cls, table: Any) -> "PieceTokenizer":
        """The tokenizer that ``to_str`` wrote, as parsed JSON; anything else is a ``DataError``."""
        try:
            added = {
                int(index): AddedToken(
                    token["content"],
                    special=token["special"],
                    lstrip=token["lstrip"],
                    rstrip=token["rstrip"],
                    normalized=False,
                )
                for index, token in table["added"].items()
            }
            model = base64.b64decode(table["model"], validate=True)
            vocabulary, (before, after) = table["vocabulary"], table["around"]
            sound = all(type(index) is int and index >= 0 for index in (*vocabulary.values(), *before, *after, *added))
            unknown, codes = str(table["unknown"]), bool(table["codes"])
        except (ValueError, KeyError, TypeError, AttributeError):
            sound = False
        if not sound:
            raise DataError("is not a SentencePiece tokenizer")
        return cls(model, vocabulary, added, unknown=unknown, around=(before, after), codes=codes)

    def to_str(self) -> str:
        """The whole tokenizer as JSON."""
        added = {
            index: {
                "content": token.content,
                "special": token.special,
                "lstrip": token.lstrip,
                "rstrip": token.rstrip,
            }
            for index, token in self._added.items()
        }
        table = {
            "model": base64.b64encode(self.serialized).decode(),
            "vocabulary": self.vocabulary,
            "added": added,
            "unknown": self.unknown,
            "around": self.around,
            "codes": self.codes,
        }
        return json.dumps(table, ensure_ascii=False)

    def get_added_tokens_decoder(self) -> dict[int, AddedToken]:
        """Tokens that are found before the text is cut, by id."""
        return dict(self._added)

    def get_vocab(self) -> dict[str, int]:
        """Every token with its id."""
        return self.vocabulary | self._ids

    def get_vocab_size(self) -> int:
        """How many tokens there are."""
        return len(self._names)

    def id_to_token(self, index: int) -> str | None:
        """What a token is called; None if there is none of this id."""
        return self._names.get(index)

    def token_to_id(self, token: str) -> int | None:
        """The id of a token; None if there is no such token."""
        return self._ids.get(token, self.vocabulary.get(token))

    def encode(self, text: str, *, add_special_tokens: bool = True) -> Cut:
        """The ids of a text, with what stands around it or without."""
        found = [pair for part in self._split(text) for pair in self._cut(part)]
        lacking = dict.fromkeys(piece.strip(_SPACE) for piece, index in found if index == self._unknown)
        named = tuple(piece for piece in lacking if piece and piece != self.unknown)
        before, after = self.around if add_special_tokens else ([], [])
        return Cut([*before, *(index for _, index in found), *after], [], named)

    def encode_batch(self, texts: Sequence[str], *, add_special_tokens: bool = True) -> list[Cut]:
        """The ids of several texts."""
        return [self.encode(text, add_special_tokens=add_special_tokens) for text in texts]

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        """The text of some ids; those that mean nothing are left out."""
        kept = [index for index in ids if not (skip_special_tokens and index in self._specials)]
        names = [self._names[index] for index in kept if index in self._names]
        text: str = self._pieces.decode_pieces(names) if names else ""
        return text.replace(_SPACE, " ").strip()

    def decode_batch(self, rows: Sequence[Sequence[int]], *, skip_special_tokens: bool = True) -> list[str]:
        """The text of each row of ids."""
        return [self.decode(row, skip_special_tokens=skip_special_tokens) for row in rows]

    def _split(self, text: str) -> list[str]:
        """The text in parts, of which some are added tokens, with the spaces that these take with them removed."""
        if self._parts is None or self.encode_special_tokens:
            return [text]
        parts = [part for part in self._parts.split(text) if part]
        for place, part in enumerate(parts):
            if part not in self._ids:
                continue
            token = self._added[self._ids[part]]
            if token.rstrip and place + 1 < len(parts):
                parts[place + 1] = parts[place + 1].lstrip()
            if token.lstrip and place:
                parts[place - 1] = parts[place - 1].rstrip()
        return [part for part in parts if part]

    def _cut(self, part: str) -> list[tuple[str, int]]:
        """The pieces of an added token, or of a part of the text, with their ids."""
        if part in self._ids and not self.encode_special_tokens:
            return [(part, self._ids[part])]
        pieces: list[str] = []
        if self.codes and (code := _CODE.match(part)):
            pieces.append(code.group())
            part = part[code.end() :]
        pieces += self._pieces.encode(part, out_type=str)
        return [(piece, self.vocabulary.get(piece, self._unknown)) for piece in pieces]
