"""The labels of a classifier's data: which there are, and what to do with those that training does not know."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from clearhead.data.corpus import Corpus
from clearhead.data.examples import Labelled
from clearhead.data.formats import shown
from clearhead.data.skipped import BadLine, Skipped
from clearhead.errors import DataError

L = TypeVar("L", bound=Labelled)


def training_labels(corpus: Corpus[L]) -> Counter[str]:
    """How often each label occurs in the training data; one label alone teaches nothing."""
    counts: Counter[str] = Counter()
    for block in corpus.train_blocks():
        counts.update(corpus.format.column(block, "label"))
    if len(counts) < 2:
        raise DataError(
            f"{shown(corpus.spec.train or '')}: every text has the label {min(counts)!r}: "
            "a classifier needs two labels or more"
        )
    return counts


def with_known_labels(corpus: Corpus[L], labels: Collection[str]) -> Corpus[L]:
    """The corpus without labels in dev and test that training does not know: refused, or left out and counted."""
    skipped = Skipped()
    skipped.add_all(corpus.skipped)
    unknown = Skipped()
    parts: dict[str, list[L]] = {}
    for part, given in (("dev", corpus.dev), ("test", corpus.test)):
        file = shown(getattr(corpus.spec, part) or corpus.spec.train or "")
        for bad in unknown_labels(given, labels, file):
            unknown.add(bad)
        parts[part] = [example for example in given if example.label in labels]
    if corpus.spec.bad_lines == "refuse":
        unknown.refuse()
    if not parts["dev"]:
        raise DataError("no dev example has a label that the training data have")
    skipped.add_all(unknown)
    return replace(corpus, dev=parts["dev"], test=parts["test"], skipped=skipped)


def unknown_labels(examples: Sequence[Labelled], labels: Collection[str], file: str) -> Iterator[BadLine]:
    """The examples whose label is none of these."""
    for example in examples:
        if example.label not in labels:
            turned = ": the label comes first, then the text" if example.text in labels else ""
            yield BadLine(file, example.line, f"label {example.label!r} is not in the training data{turned}")
