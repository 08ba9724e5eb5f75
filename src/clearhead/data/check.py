"""The data doctor: what is odd about examples, before anybody trains on them.

Training examples are read chunk by chunk, and only checksums of them are remembered, so that a million pairs fit.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from typing import Any

from clearhead.data.corpus import Corpus
from clearhead.data.examples import Labelled, Pair
from clearhead.data.labels import unknown_labels
from clearhead.data.tokens import UNK, Codec, learn_codec, learn_codecs

EXAMPLES = 5
SAMPLE = 100_000
"""Training examples that tokenizers are learnt from, and whose tokens are counted, at most."""
REMEMBERED = 4_000_000
"""Training examples that are compared with each other, at most: of more, an even part is."""
_CHUNK = 10_000
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


@dataclass(frozen=True, repr=False)
class Findings:
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
    notes: tuple[str, ...] = ()
    """What was decided about the files."""

    @property
    def healthy(self) -> bool:
        """Whether nothing serious was found."""
        return not any(finding.serious and finding.count for finding in self.findings)

    def table(self) -> dict[str, Any]:
        """For JSON."""
        sides = self.sides.items()
        return {
            "healthy": self.healthy,
            "examples": self.name,
            "sizes": self.sizes,
            "tokenizers": {name: side.kind for name, side in sides},
            "vocabulary": {name: side.vocabulary for name, side in sides},
            "characters": {name: side.alphabet for name, side in sides},
            "labels": dict(self.labels),
            "unknown_percent": self.unknown,
            "round_trip_loss_percent": self.lost,
            "notes": self.notes,
            "findings": [asdict(finding) for finding in self.findings],
        }

    def __repr__(self) -> str:
        counted = [f"{finding.count:,} {finding.what}" for finding in self.findings if finding.count]
        sizes = ", ".join(f"{size:,} {part}" for part, size in self.sizes.items())
        verdict = "healthy" if self.healthy else "not healthy"
        return f"Findings({self.name}: {sizes}; {'; '.join([verdict, *counted])})"


def check_corpus(corpus: Corpus[Any]) -> Findings:
    """Examine train, dev and test."""
    codecs = _codecs(corpus, _sample(corpus))
    held_out = {"dev": corpus.dev, "test": corpus.test}
    sides = {side: SideCheck(codec.kind, len(codec), Counter(), 0) for side, codec in codecs.items()}
    alphabets: dict[str, set[str]] = {side: set() for side in codecs}
    labels: Counter[str] = Counter()
    leaks, oddities, confusions = _Leaks(corpus, held_out), _Oddities(corpus), _Confusions(corpus)
    examples, stride, start = corpus.train(), _stride(corpus), 0
    while chunk := list(islice(examples, _CHUNK)):
        sampled = set(range(-start % stride, len(chunk), stride))
        start += len(chunk)
        sizes = _sizes(codecs, chunk, sampled, corpus.spec.max_length)
        for side in codecs:
            sides[side].lengths.update(sizes[index][side] for index in sampled)
            alphabets[side].update(chain.from_iterable(_texts(chunk, side)))
        labels.update(example.label for example in chunk if isinstance(example, Labelled))
        leaks.add(chunk)
        confusions.add(chunk)
        oddities.add(chunk, sizes)
    bad = Finding(f"lines that are no {corpus.format.name}", serious=True, count=len(corpus.skipped))
    bad.examples = [str(line) for line in corpus.skipped.first[:EXAMPLES]]
    return Findings(
        name=corpus.format.name,
        sizes={"train": corpus.train_size, "dev": len(corpus.dev), "test": len(corpus.test)},
        sides={side: replace(found, alphabet=len(alphabets[side])) for side, found in sides.items()},
        labels=labels,
        unknown={part: _unknown(codecs, examples) for part, examples in held_out.items() if examples and codecs},
        lost={part: _lost(codecs, examples) for part, examples in held_out.items() if examples and codecs},
        findings=[
            bad,
            *leaks.findings(),
            *_label_findings(labels, held_out),
            *confusions.findings(),
            *oddities.findings(),
        ],
        notes=(*corpus.notes, *_samples(corpus)),
    )


def _samples(corpus: Corpus[Any]) -> Iterator[str]:
    """What was not looked at in full."""
    name = corpus.format.name
    if (stride := _stride(corpus)) > 1 and corpus.format.texts:
        yield f"tokenizers, lengths and their ratios are those of one in {stride} {name}; all else is of all of them"
    if (every := _every(corpus)) > 1:
        yield f"what stands there twice, or with several labels, is counted in one of {every} {name}"


def _every(corpus: Corpus[Any]) -> int:
    return -(-corpus.train_size // REMEMBERED)


def _stride(corpus: Corpus[Any]) -> int:
    return max(1, -(-corpus.train_size // SAMPLE))


def _sample(corpus: Corpus[Any]) -> list[Any]:
    """Training examples, evenly spread."""
    stride = _stride(corpus)
    return [example for index, example in enumerate(corpus.train()) if index % stride == 0]


def _sizes(
    codecs: Mapping[str, Codec], chunk: Sequence[Any], sampled: set[int], most: int
) -> dict[int, dict[str, int]]:
    """Tokens of each side of the sampled examples, and of all that could be longer than ``most``.

    No tokenizer makes more tokens of a text than it has bytes, and one more.
    """
    chosen = sorted(
        sampled.union(
            index
            for index, example in enumerate(chunk)
            for side in codecs
            if 4 * len(text := getattr(example, side)) >= most and len(text.encode()) >= most
        )
    )
    sizes: dict[int, dict[str, int]] = {index: {} for index in chosen}
    for side, codec in codecs.items():
        rows = codec.encode([getattr(chunk[index], side) for index in chosen])
        for index, row in zip(chosen, rows, strict=True):
            sizes[index][side] = len(row)
    return sizes


def _codecs(corpus: Corpus[Any], examples: Sequence[Any]) -> dict[str, Codec]:
    """The tokenizer of each side of text, by its name."""
    if corpus.format.parallel:
        source, target = learn_codecs(_texts(examples, "source"), _texts(examples, "target"), corpus.spec)
        return {"source": source, "target": target}
    spec = corpus.spec
    return {side: learn_codec(_texts(examples, side), spec.text, case=spec.case) for side in corpus.format.texts}


def _texts(examples: Sequence[Any], side: str) -> list[str]:
    return [getattr(example, side) for example in examples]


def _checksum(*texts: str) -> int:
    """64 bits that stand for texts: among a million, two that differ meet once in 10⁷ corpora."""
    return int.from_bytes(hashlib.blake2b("\0".join(texts).encode(), digest_size=8).digest(), "big")


class _Leaks:
    """What training has seen of dev or test: scores on them would flatter."""

    def __init__(self, corpus: Corpus[Any], held_out: Mapping[str, Sequence[Any]]) -> None:
        self._question = corpus.format.question
        self._keys = {part: dict.fromkeys(example.key for example in examples) for part, examples in held_out.items()}
        self._found: dict[str, set[str]] = {part: set() for part in held_out}

    def add(self, chunk: Sequence[Any]) -> None:
        keys = {example.key for example in chunk}
        for part, known in self._keys.items():
            self._found[part] |= keys & known.keys()

    def findings(self) -> Iterator[Finding]:
        for part, known in self._keys.items():
            finding = Finding(f"{part} {self._question}s that stand in train too", serious=True)
            for text in known:
                if text in self._found[part]:
                    finding.add(text)
            yield finding


def _label_findings(labels: Mapping[str, int], held_out: Mapping[str, Sequence[Any]]) -> Iterator[Finding]:
    """Labels that cannot be learnt."""
    if not labels:
        return
    single = Finding("label for all texts: there is nothing to learn", serious=True)
    if len(labels) == 1:
        single.add(min(labels))
    yield single
    for part, examples in held_out.items():
        unknown = Finding(f"{part} texts with a label that training does not know", serious=True)
        for bad in unknown_labels(examples, labels.keys(), part):
            unknown.add(str(bad))
        yield unknown


class _Confusions:
    """Texts that stand there with several labels."""

    def __init__(self, corpus: Corpus[Any]) -> None:
        self._every = _every(corpus)
        self._first: dict[int, str] = {}
        self._labels: dict[int, set[str]] = {}
        self._finding = Finding("texts with several labels", serious=False)
        self._texts: dict[int, str] = {}

    def add(self, chunk: Sequence[Any]) -> None:
        for example in chunk:
            if not isinstance(example, Labelled):
                return
            text = _checksum(example.text)
            if text % self._every:
                continue
            first = self._first.setdefault(text, example.label)
            if first != example.label:
                self._labels.setdefault(text, {first}).add(example.label)
                if len(self._texts) < EXAMPLES:
                    self._texts.setdefault(text, example.text)

    def findings(self) -> Iterator[Finding]:
        if not self._first:
            return
        self._finding.count = len(self._labels)
        self._finding.examples = [
            f"{shown[:40]}: {', '.join(sorted(self._labels[text]))}" for text, shown in self._texts.items()
        ]
        yield self._finding


class _Oddities:
    """What stands there twice, is too long, or is no translation."""

    def __init__(self, corpus: Corpus[Any]) -> None:
        name, self._most, self._columns = corpus.format.name, corpus.spec.max_length, corpus.format.columns
        self._twice = Finding(f"{name} that stand there twice", serious=False)
        self._long = Finding(f"{name} longer than data.max_length ({self._most} tokens)", serious=False)
        self._same = Finding("pairs whose sides are identical", serious=False)
        self._ratio = Finding(f"pairs with one side {ODD_RATIO:.0f} times as long as the other", serious=False)
        self._every = _every(corpus)
        self._seen: set[int] = set()

    def add(self, chunk: Sequence[Any], sizes: Mapping[int, Mapping[str, int]]) -> None:
        for index, example in enumerate(chunk):
            columns = [getattr(example, column) for column in self._columns]
            for finding in self._odd(example, columns, list(sizes.get(index, {}).values())):
                finding.add(f"line {example.line}: {' → '.join(column[:40] for column in columns)}")

    def _odd(self, example: Any, columns: Sequence[str], sizes: Sequence[int]) -> Iterator[Finding]:
        """The oddities of one example."""
        checksum = _checksum(*columns)
        if not checksum % self._every:
            if checksum in self._seen:
                yield self._twice
            self._seen.add(checksum)
        if max(sizes, default=0) > self._most:
            yield self._long
        if isinstance(example, Pair):
            if example.source == example.target:
                yield self._same
            if sizes and max(sizes) > ODD_RATIO * max(1, min(sizes)):
                yield self._ratio

    def findings(self) -> Iterator[Finding]:
        yield from (self._same, self._twice, self._ratio, self._long)


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
