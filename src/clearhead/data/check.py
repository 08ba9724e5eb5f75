"""The data doctor: what is odd about examples, before anybody trains on them.

Training examples are looked at block by block, and only numbers are remembered of them, so that millions fit.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import compress
from operator import eq
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clearhead.data.bulk import BulkEncoder
from clearhead.data.corpus import Corpus
from clearhead.data.formats import Block
from clearhead.data.labels import unknown_labels
from clearhead.data.repeats import Confusions, Repeats, Shown, examples_at, shown_at
from clearhead.data.tokens import UNK, Codec, learn_codec, learn_codecs

EXAMPLES = 5
SAMPLE = 100_000
"""Training examples that tokenizers are learnt from, and whose tokens are counted, at most."""
REMEMBERED = 4_000_000
"""Training examples that are compared with each other, at most: of more, an even part is."""
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
    codecs = _codecs(corpus)
    held_out = {"dev": corpus.dev, "test": corpus.test}
    sides = {side: _Side(corpus, side, codec) for side, codec in codecs.items()}
    labels: Counter[str] = Counter()
    leaks, oddities, confusions = _Leaks(corpus, held_out), _Oddities(corpus), Confusions(_every(corpus))
    start, stride = 0, _stride(corpus)
    for block in corpus.train_blocks():
        sampled = (start + np.arange(len(block))) % stride == 0
        start += len(block)
        counted = np.any([sampled, *(side.may_be_long(block) for side in sides.values())], axis=0)
        sizes = [side.add(block, sampled, counted) for side in sides.values()]
        if "label" in corpus.format.columns:
            classes = corpus.format.column(block, "label")
            labels.update(classes)
            confusions.add(classes, corpus.format.column(block, corpus.format.question))
        leaks.add(block)
        oddities.add(block, counted, sizes)
    bad = Finding(f"lines that are no {corpus.format.name}", serious=True, count=len(corpus.skipped))
    bad.examples = [str(line) for line in corpus.skipped.first[:EXAMPLES]]
    return Findings(
        name=corpus.format.name,
        sizes={"train": corpus.train_size, "dev": len(corpus.dev), "test": len(corpus.test)},
        sides={name: side.result() for name, side in sides.items()},
        labels=labels,
        unknown={part: _unknown(codecs, examples) for part, examples in held_out.items() if examples and codecs},
        lost={part: _lost(codecs, examples) for part, examples in held_out.items() if examples and codecs},
        findings=[
            bad,
            *leaks.findings(),
            *_label_findings(labels, held_out),
            *_confusion_findings(confusions, corpus),
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


def _codecs(corpus: Corpus[Any]) -> dict[str, Codec]:
    """The tokenizer of each side of text, by its name, learnt from training examples that are evenly spread."""
    spec, stride = corpus.spec, _stride(corpus)
    texts = {side: corpus.train_texts(side, every=stride) for side in corpus.format.texts}
    if corpus.format.parallel:
        source, target = learn_codecs(texts["source"], texts["target"], spec)
        return {"source": source, "target": target}
    return {side: learn_codec(found, spec.text, case=spec.case) for side, found in texts.items()}


class _Side:
    """What one side of the training examples is like, as more and more of them are seen."""

    def __init__(self, corpus: Corpus[Any], name: str, codec: Codec) -> None:
        self._column = corpus.format.columns.index(name)
        self._most = corpus.spec.max_length
        self._codec, self._encoder = codec, BulkEncoder(codec)
        self._lengths: Counter[int] = Counter()
        self._alphabet = np.zeros(0x110000, dtype=bool)  # of every character, whether it was seen

    def may_be_long(self, block: Block) -> NDArray[np.bool_]:
        """(n,) No tokenizer makes more tokens of a text than it has bytes, and one more."""
        most = self._most
        return np.array(
            [4 * len(text) >= most and len(text.encode()) >= most for text in block.columns[self._column]], dtype=bool
        )

    def add(self, block: Block, sampled: NDArray[np.bool_], counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """(n,) The tokens of the texts that are counted, 0 for others; the lengths are those of sampled ones alone."""
        texts = block.columns[self._column]
        self._alphabet[np.frombuffer("".join(texts).encode("utf-32-le"), dtype=np.uint32)] = True
        sizes = np.zeros(len(block), dtype=np.int64)
        sizes[counted] = self._encoder.encode(list(compress(texts, counted.tolist()))).lengths
        self._lengths.update(sizes[sampled].tolist())
        return sizes

    def result(self) -> SideCheck:
        return SideCheck(self._codec.kind, len(self._codec), self._lengths, int(self._alphabet.sum()))


def _texts(examples: Sequence[Any], side: str) -> list[str]:
    return [getattr(example, side) for example in examples]


class _Leaks:
    """What training has seen of dev or test: scores on them would flatter."""

    def __init__(self, corpus: Corpus[Any], held_out: Mapping[str, Sequence[Any]]) -> None:
        self._format, self._question = corpus.format, corpus.format.question
        self._keys = {part: dict.fromkeys(example.key for example in examples) for part, examples in held_out.items()}
        self._found: dict[str, set[str]] = {part: set() for part in held_out}

    def add(self, block: Block) -> None:
        keys = set(self._format.column(block, self._question))
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


def _confusion_findings(confusions: Confusions, corpus: Corpus[Any]) -> Iterator[Finding]:
    if "label" not in corpus.format.columns:
        return
    found = confusions.found()
    finding = Finding("texts with several labels", serious=False, count=len(found))
    question = corpus.format.columns.index(corpus.format.question)
    first = found[:EXAMPLES]
    for (_, labels), example in zip(first, examples_at(corpus, [row for row, _ in first]), strict=True):
        finding.examples.append(f"{example.columns[question][:40]}: {', '.join(labels)}")
    yield finding


class _Oddities:
    """What stands there twice, is too long, or is no translation."""

    def __init__(self, corpus: Corpus[Any]) -> None:
        name, self._most = corpus.format.name, corpus.spec.max_length
        self._corpus, self._pairs = corpus, corpus.format.parallel
        self._twice = Finding(f"{name} that stand there twice", serious=False)
        self._long = Finding(f"{name} longer than data.max_length ({self._most} tokens)", serious=False)
        self._same = Finding("pairs whose sides are identical", serious=False)
        self._ratio = Finding(f"pairs with one side {ODD_RATIO:.0f} times as long as the other", serious=False)
        self._repeats = Repeats(_every(corpus))

    def add(self, block: Block, counted: NDArray[np.bool_], sizes: Sequence[NDArray[np.int64]]) -> None:
        """The next examples; of those that are counted, the tokens of each side."""
        self._repeats.add(["\0".join(columns) for columns in zip(*block.columns, strict=True)])
        if sizes:
            self._note(self._long, block, np.max(sizes, axis=0) > self._most)
        if self._pairs:
            source, target = block.columns
            self._note(self._same, block, np.fromiter(map(eq, source, target), dtype=bool, count=len(block)))
            odd = np.max(sizes, axis=0) > ODD_RATIO * np.maximum(1, np.min(sizes, axis=0))
            self._note(self._ratio, block, counted & odd)

    def _note(self, finding: Finding, block: Block, odd: NDArray[np.bool_]) -> None:
        for index in np.flatnonzero(odd).tolist():
            finding.add(_described(shown_at(block, index)))

    def findings(self) -> Iterator[Finding]:
        again = self._repeats.again()
        self._twice.count = len(again)
        self._twice.examples = list(map(_described, examples_at(self._corpus, again[:EXAMPLES].tolist())))
        yield from (self._same, self._twice, self._ratio, self._long)


def _described(example: Shown) -> str:
    return f"line {example.line}: {' → '.join(column[:40] for column in example.columns)}"


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
