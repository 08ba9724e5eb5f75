"""Pairs of text: read with care, checked, tokenized, kept as arrays, and put into batches."""

from clearhead.data.arrays import EncodedPairs, read_encoded, write_encoded
from clearhead.data.batches import Batch, make_batch, padding_share, plan_epoch
from clearhead.data.check import Checkup, Finding, check_corpus
from clearhead.data.corpus import Corpus, read_corpus
from clearhead.data.lines import decoded, read_lines
from clearhead.data.pairs import BadLine, Pair, Skipped, read_pairs, scan_pairs
from clearhead.data.stream import arriving_lines
from clearhead.data.tokens import BOS, EOS, PAD, SPECIALS, UNK, Codec, codecs_of, learn_codecs, suitable_kind

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "SPECIALS",
    "UNK",
    "BadLine",
    "Batch",
    "Checkup",
    "Codec",
    "Corpus",
    "EncodedPairs",
    "Finding",
    "Pair",
    "Skipped",
    "arriving_lines",
    "check_corpus",
    "codecs_of",
    "decoded",
    "learn_codecs",
    "make_batch",
    "padding_share",
    "plan_epoch",
    "read_corpus",
    "read_encoded",
    "read_lines",
    "read_pairs",
    "scan_pairs",
    "suitable_kind",
    "write_encoded",
]
