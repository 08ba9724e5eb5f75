"""Examples to learn from: read with care, checked, tokenized, kept as arrays, and put into batches."""

from clearhead.data.arrays import (
    Encoded,
    EncodedPairs,
    EncodedTexts,
    EncodedWindows,
    all_sizes,
    read_encoded,
    read_texts,
    write_encoded,
    write_texts,
)
from clearhead.data.batches import (
    Batch,
    LabelBatch,
    PictureBatch,
    TextBatch,
    TokenBatch,
    gap_batch,
    label_batch,
    make_batch,
    padding_share,
    picture_batch,
    window_batch,
)
from clearhead.data.check import Finding, Findings, check_corpus
from clearhead.data.corpus import Corpus, TrainTexts, read_corpus
from clearhead.data.english import EnglishWords, read_english
from clearhead.data.examples import Example, Labelled, Pair, Picture, Text
from clearhead.data.formats import (
    LABELS,
    PAIRS,
    PICTURES,
    TEXTS,
    Block,
    Format,
    Where,
    files_of,
    format_of,
    shown,
)
from clearhead.data.framing import Framing
from clearhead.data.given import GIVEN, write_given
from clearhead.data.held_out import corpus_without_training, held_out_table
from clearhead.data.imported import ImportedTokenizer
from clearhead.data.inputs import STDIN, open_input, reads_once, shown_input
from clearhead.data.labels import training_labels, unknown_labels, with_known_labels
from clearhead.data.layout import family_of_columns, is_json, kind_of, layout_of, named_columns, named_family
from clearhead.data.lines import decoded, first_line, read_lines
from clearhead.data.masking import Masker
from clearhead.data.parquet import column_names, is_table
from clearhead.data.pictures import EncodedPictures, pixels_of, read_pictures, write_pictures
from clearhead.data.piece_tokenizer import PieceTokenizer
from clearhead.data.plans import EpochPlan
from clearhead.data.sequences import beginning, pieces, windows
from clearhead.data.skipped import BadLine, Skipped
from clearhead.data.stream import arriving_lines
from clearhead.data.tasks import pronunciations
from clearhead.data.texts import suitable_kind
from clearhead.data.tokens import (
    BOS,
    EOS,
    MASK,
    PAD,
    SPECIALS,
    UNK,
    Codec,
    codecs_of,
    learn_codec,
    learn_codecs,
)
from clearhead.data.working import Progress, unwatched

__all__ = [
    "BOS",
    "EOS",
    "GIVEN",
    "LABELS",
    "MASK",
    "PAD",
    "PAIRS",
    "PICTURES",
    "SPECIALS",
    "STDIN",
    "TEXTS",
    "UNK",
    "BadLine",
    "Batch",
    "Block",
    "Codec",
    "Corpus",
    "Encoded",
    "EncodedPairs",
    "EncodedPictures",
    "EncodedTexts",
    "EncodedWindows",
    "EnglishWords",
    "EpochPlan",
    "Example",
    "Finding",
    "Findings",
    "Format",
    "Framing",
    "ImportedTokenizer",
    "LabelBatch",
    "Labelled",
    "Masker",
    "Pair",
    "Picture",
    "PictureBatch",
    "PieceTokenizer",
    "Progress",
    "Skipped",
    "Text",
    "TextBatch",
    "TokenBatch",
    "TrainTexts",
    "Where",
    "all_sizes",
    "arriving_lines",
    "beginning",
    "check_corpus",
    "codecs_of",
    "column_names",
    "corpus_without_training",
    "decoded",
    "family_of_columns",
    "files_of",
    "first_line",
    "format_of",
    "gap_batch",
    "held_out_table",
    "is_json",
    "is_table",
    "kind_of",
    "label_batch",
    "layout_of",
    "learn_codec",
    "learn_codecs",
    "make_batch",
    "named_columns",
    "named_family",
    "open_input",
    "padding_share",
    "picture_batch",
    "pieces",
    "pixels_of",
    "pronunciations",
    "read_corpus",
    "read_encoded",
    "read_english",
    "read_lines",
    "read_pictures",
    "read_texts",
    "reads_once",
    "shown",
    "shown_input",
    "suitable_kind",
    "training_labels",
    "unknown_labels",
    "unwatched",
    "window_batch",
    "windows",
    "with_known_labels",
    "write_encoded",
    "write_given",
    "write_pictures",
    "write_texts",
]
