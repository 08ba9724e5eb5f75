"""Learning pieces of words by the ``tokenizers`` library: byte-level BPE, or unigram."""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import repeat

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from clearhead.data.library import library
from clearhead.data.texts import DistinctWords, Kind, Texts, chunks, words_of

_AT_ONCE = 200_000
"""Distinct words that are counted before they are cut into pieces: more would only take memory."""
_LINE = 1_000
"""Characters of a line on which a piece stands again and again."""


def learn_subwords(kind: Kind, texts: Texts, size: int | None, specials: Sequence[AddedToken]) -> Tokenizer:
    """A tokenizer with so many tokens, or a number that suits: byte-level BPE, which knows every text, or unigram."""
    return (_bpe if kind == "bpe" else _unigram)(texts, size, list(specials))


def _bpe(texts: Texts, size: int | None, specials: list[AddedToken]) -> Tokenizer:
    pieces, suitable = _pieces(texts)
    size = size or suitable
    tokenizer = Tokenizer(models.BPE())
    # what is learnt depends only on how often each piece occurs: each distinct word is cut once, and the library counts
    # lines of ready pieces three times as fast as it would cut and count the texts; a test compares the results
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        vocab_size=size,
        special_tokens=specials,
        show_progress=False,
    )
    with _learning("bpe", size):
        tokenizer.train_from_iterator(_lines(pieces), trainer)
    # a space before every text, so that its first word is cut like any other; taken away again when decoding
    tokenizer.normalizer = normalizers.Prepend(" ")
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def _pieces(texts: Texts) -> tuple[Counter[str], int]:
    """How often each piece occurs that BPE does not merge across, and the size that suits the texts.

    Pieces are letters, digits or marks, with the space before them; they are made of characters that stand for bytes,
    none of which is white space.
    """
    cut = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str
    pieces, words, distinct = Counter[str](), Counter[str](), DistinctWords()

    def settle() -> None:
        distinct.add(words)
        for word, count in words.items():
            for piece, _ in cut(f" {word}"):
                pieces[piece] += count
        words.clear()

    for chunk in chunks(texts):
        words.update(words_of(chunk)[0])
        if len(words) > _AT_ONCE:
            settle()
    settle()
    return pieces, distinct.suitable_size


def _lines(pieces: Counter[str]) -> Iterator[str]:
    """Lines on which each piece occurs as often as it was counted."""
    for piece, count in pieces.items():
        each = max(1, _LINE // (len(piece) + 1))
        full, rest = divmod(count, each)
        yield from repeat(" ".join([piece] * min(each, count)), full)
        if rest:
            yield " ".join([piece] * rest)


def _unigram(texts: Texts, size: int | None, specials: list[AddedToken]) -> Tokenizer:
    if size is None:
        distinct = DistinctWords()
        for chunk in chunks(texts):
            distinct.add(words_of(chunk)[0])
        size = distinct.suitable_size
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(unk_token="<unk>", vocab_size=size, special_tokens=specials, show_progress=False)
    with _learning("unigram", size):
        tokenizer.train_from_iterator(iter(texts), trainer)
    return tokenizer


def _learning(kind: Kind, size: int) -> AbstractContextManager[None]:
    return library(f"{size} tokens of kind {kind} cannot be learnt from this text (data.source.size, data.target.size)")
