"""What a run still needs of its data once the training examples are encoded: dev, test, and what was said of the files.

It is kept beside the encoded examples, so that a run is resumed without reading the texts again.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from clearhead.data.corpus import Corpus
from clearhead.data.fingerprint import KnownFingerprint
from clearhead.data.formats import Format
from clearhead.data.skipped import BadLine, Skipped
from clearhead.data.spool import Unread
from clearhead.recipe import DataSpec


def held_out_table(corpus: Corpus[Any]) -> dict[str, Any]:
    """Everything but the training examples, as plain values."""
    return {
        "fingerprint": corpus.fingerprint(),
        "files": corpus.checksums,
        "train_size": corpus.train_size,
        **({"beside": corpus.beside} if corpus.beside else {}),
        "shares": list(corpus._shares),
        "notes": list(corpus.notes),
        "skipped": {
            "counts": dict(corpus.skipped.counts),
            "first": [asdict(line) for line in corpus.skipped.first],
        },
        **{name: [asdict(example) for example in getattr(corpus, name)] for name in ("dev", "test")},
    }


def corpus_without_training(table: Mapping[str, Any], spec: DataSpec, format: Format[Any]) -> Corpus[Any]:
    """The corpus of such a table."""
    skipped = Skipped()
    skipped.counts = Counter(table["skipped"]["counts"])
    skipped.first = [BadLine(**line) for line in table["skipped"]["first"]]
    dev, test = ([format.make(**example) for example in table[name]] for name in ("dev", "test"))
    shares = table["shares"][0], table["shares"][1]
    known = KnownFingerprint(table["fingerprint"], table["files"])
    return Corpus(
        spec,
        format.selecting(spec.columns),
        dev,
        test,
        skipped,
        table["train_size"],
        shares,
        Unread(),
        known,
        tuple(table["notes"]),
        beside=table.get("beside", 0),
    )
