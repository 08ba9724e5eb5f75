"""The data doctor: what is odd about examples, before anybody trains on them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from clearhead.data.corpus import Corpus
from clearhead.data.examples import Labelled, Pair
from clearhead.data.labels import unknown_labels
from clearhead.data.tokens import UNK, Codec, learn_codec, learn_codecs

EXAMPLES = 5
ODD_RATIO = 9.0
"""A side with this many times the tokens of the other is odd."""


@dataclass
class Finding:
    """One kind of oddity: how often, and the first examples."""

    what: str
    serious: bool
    """An error, which makes `clearhead check` fail, or only something to look at."""
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        """Count one more."""
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)


@dataclass(frozen=True)
class SideCheck:
    """What one side of the training examples is like."""

    kind: str
    """The tokenizer that would be chosen."""
    vocabulary: int
    lengths: Counter[int]
    """How many lines have how many tokens."""
    alphabet: int
    """Distinct characters."""


@dataclass(frozen=True)
class Checkup:
    """What the doctor found."""

    name: str
    """What was examined: pairs, lines of text, labelled texts."""
    sizes: dict[str, int]
    """Examples of train, dev and test."""
    sides: dict[str, SideCheck]
    labels: Counter[str]
    """How often each label occurs in training, if there are labels."""
    unknown: dict[str, float]
    """Share of dev and test tokens that the training side does not know, in percent."""
    lost: dict[str, float]
    """Share of dev and test lines that do not come back from their tokens as they were, in percent."""
    findings: list[Finding]

    @property
    def healthy(self) -> bool:
        """Whether nothing serious was found."""
        return not any(finding.serious and finding.count for finding in self.findings)


def check_corpus(corpus: Corpus[Any]) -> Checkup:
    """Examine train, dev and test."""
    train = list(corpus.train())
    codecs = _codecs(corpus, train)
    ids = {side: codec.encode(_texts(train, side)) for side, codec in codecs.items()}
    bad = Finding(f"lines that are no {corpus.format.name}", serious=True, count=len(corpus.skipped))
    bad.examples = [str(line) for line in corpus.skipped.first[:EXAMPLES]]
    held_out = {"dev": corpus.dev, "test": corpus.test}
    return Checkup(
        name=corpus.format.name,
        sizes={"train": len(train), "dev": len(corpus.dev), "test": len(corpus.test)},
        sides={
            side: SideCheck(
                codec.kind, len(codec), Counter(map(len, ids[side])), len(set(chain.from_iterable(_texts(train, side))))
            )
            for side, codec in codecs.items()
        },
        labels=Counter(example.label for example in train if isinstance(example, Labelled)),
        unknown={part: _unknown(codecs, examples) for part, examples in held_out.items() if examples and codecs},
        lost={part: _lost(codecs, examples) for part, examples in held_out.items() if examples and codecs},
        findings=[
            bad,
            *_leaks(corpus, train, held_out),
            *_label_findings(train, held_out),
            *_oddities(corpus, train, list(ids.values())),
        ],
    )


def _codecs(corpus: Corpus[Any], train: Sequence[Any]) -> dict[str, Codec]:
    """The tokenizer of each side of text, by its name."""
    if corpus.format.parallel:
        source, target = learn_codecs(_texts(train, "source"), _texts(train, "target"), corpus.spec)
        return {"source": source, "target": target}
    return {side: learn_codec(_texts(train, side), corpus.spec.text) for side in corpus.format.texts}


def _texts(examples: Sequence[Any], side: str) -> list[str]:
    return [getattr(example, side) for example in examples]


def _leaks(corpus: Corpus[Any], train: Sequence[Any], held_out: Mapping[str, Sequence[Any]]) -> list[Finding]:
    """What training has seen of dev or test: scores on them would flatter."""
    known = {example.key for example in train}
    findings = []
    for part, examples in held_out.items():
        finding = Finding(f"{part} {corpus.format.question}s that stand in train too", serious=True)
        for text in dict.fromkeys(example.key for example in examples):
            if text in known:
                finding.add(text)
        findings.append(finding)
    return findings


def _label_findings(train: Sequence[Any], held_out: Mapping[str, Sequence[Any]]) -> Iterator[Finding]:
    """Labels that cannot be learnt, and texts that cannot be told apart."""
    if not isinstance(train[0], Labelled):
        return
    labels: dict[str, set[str]] = {}
    for example in train:
        labels.setdefault(example.text, set()).add(example.label)
    known = {label for found in labels.values() for label in found}
    single = Finding("label for all texts: there is nothing to learn", serious=True)
    if len(known) == 1:
        single.add(min(known))
    yield single
    for part, examples in held_out.items():
        unknown = Finding(f"{part} texts with a label that training does not know", serious=True)
        for bad in unknown_labels(examples, known, part):
            unknown.add(str(bad))
        yield unknown
    several = Finding("texts with several labels", serious=False)
    for text, found in labels.items():
        if len(found) > 1:
            several.add(f"{text[:40]}: {', '.join(sorted(found))}")
    yield several


def _oddities(corpus: Corpus[Any], train: Sequence[Any], ids: Sequence[Sequence[Sequence[int]]]) -> Iterator[Finding]:
    """What stands there twice, is too long, or is no translation."""
    name, most = corpus.format.name, corpus.spec.max_length
    twice = Finding(f"{name} that stand there twice", serious=False)
    long = Finding(f"{name} longer than data.max_length ({most} tokens)", serious=False)
    same = Finding("pairs whose sides are identical", serious=False)
    ratio = Finding(f"pairs with one side {ODD_RATIO:.0f} times as long as the other", serious=False)
    seen: set[tuple[str, ...]] = set()
    for example, *rows in zip(train, *ids, strict=True):
        columns = tuple(getattr(example, column) for column in corpus.format.columns)
        shown = f"line {example.line}: {' → '.join(column[:40] for column in columns)}"
        sizes = [len(row) for row in rows]
        if columns in seen:
            twice.add(shown)
        seen.add(columns)
        if max(sizes, default=0) > most:
            long.add(shown)
        if isinstance(example, Pair):
            if example.source == example.target:
                same.add(shown)
            if max(sizes) > ODD_RATIO * max(1, min(sizes)):
                ratio.add(shown)
    yield from (same, twice, ratio, long)


def _unknown(codecs: Mapping[str, Codec], examples: Sequence[Any]) -> float:
    rows = [row for side, codec in codecs.items() for row in codec.encode(_texts(examples, side))]
    total = sum(map(len, rows))
    return 100 * sum(row.count(UNK) for row in rows) / max(1, total)


def _lost(codecs: Mapping[str, Codec], examples: Sequence[Any]) -> float:
    lost = 0
    for side, codec in codecs.items():
        texts = _texts(examples, side)
        lost += sum(back != text for back, text in zip(codec.decode(codec.encode(texts)), texts, strict=True))
    return 100 * lost / (len(codecs) * len(examples))
