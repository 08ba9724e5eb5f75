"""The data doctor: what is odd about pairs, before anybody trains on them."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from clearhead.data.corpus import Corpus
from clearhead.data.pairs import Pair
from clearhead.data.tokens import UNK, Codec, learn_codecs

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
class Checkup:
    """What the doctor found."""

    sizes: dict[str, int]
    """Pairs of train, dev and test."""
    kinds: tuple[str, str]
    """The tokenizers that would be chosen."""
    vocabulary: tuple[int, int]
    lengths: tuple[Counter[int], Counter[int]]
    """How many training lines have how many tokens, for source and target."""
    alphabet: tuple[int, int]
    """Distinct characters."""
    unknown: dict[str, float]
    """Share of dev and test tokens that the training side does not know, in percent."""
    lost: dict[str, float]
    """Share of dev and test lines that do not come back from their tokens as they were, in percent."""
    findings: list[Finding]

    @property
    def healthy(self) -> bool:
        """Whether nothing serious was found."""
        return not any(finding.serious and finding.count for finding in self.findings)


def check_corpus(corpus: Corpus) -> Checkup:
    """Examine train, dev and test."""
    train = list(corpus.train())
    source, target = learn_codecs([p.source for p in train], [p.target for p in train], corpus.spec)
    left, right = source.encode([p.source for p in train]), target.encode([p.target for p in train])
    bad = Finding("lines that are no pairs", serious=True, count=len(corpus.skipped))
    bad.examples = [str(line) for line in corpus.skipped.first[:EXAMPLES]]
    held_out = {"dev": corpus.dev, "test": corpus.test}
    return Checkup(
        sizes={"train": len(train), "dev": len(corpus.dev), "test": len(corpus.test)},
        kinds=(source.kind, target.kind),
        vocabulary=(len(source), len(target)),
        lengths=(Counter(map(len, left)), Counter(map(len, right))),
        alphabet=(_alphabet(p.source for p in train), _alphabet(p.target for p in train)),
        unknown={part: _unknown(source, target, pairs) for part, pairs in held_out.items() if pairs},
        lost={part: _lost(source, target, pairs) for part, pairs in held_out.items() if pairs},
        findings=[bad, *_leaks(train, held_out), *_oddities(train, left, right, corpus.spec.max_length)],
    )


def _leaks(train: Sequence[Pair], held_out: dict[str, list[Pair]]) -> list[Finding]:
    """Sources of dev or test that training has seen: scores on them would flatter."""
    known = {pair.source for pair in train}
    findings = []
    for part, pairs in held_out.items():
        finding = Finding(f"{part} sources that stand in train too", serious=True)
        for text in dict.fromkeys(pair.source for pair in pairs):
            if text in known:
                finding.add(text)
        findings.append(finding)
    return findings


def _oddities(
    train: Sequence[Pair], left: Sequence[Sequence[int]], right: Sequence[Sequence[int]], max_length: int
) -> list[Finding]:
    same = Finding("pairs whose sides are identical", serious=False)
    twice = Finding("pairs that stand there twice", serious=False)
    ratio = Finding(f"pairs with one side {ODD_RATIO:.0f} times as long as the other", serious=False)
    long = Finding(f"pairs longer than data.max_length ({max_length} tokens)", serious=False)
    seen: set[tuple[str, str]] = set()
    for pair, s, t in zip(train, left, right, strict=True):
        example = f"line {pair.line}: {pair.source[:40]} → {pair.target[:40]}"
        if pair.source == pair.target:
            same.add(example)
        if (pair.source, pair.target) in seen:
            twice.add(example)
        seen.add((pair.source, pair.target))
        if max(len(s), len(t)) > ODD_RATIO * max(1, min(len(s), len(t))):
            ratio.add(example)
        if max(len(s), len(t)) > max_length:
            long.add(example)
    return [same, twice, ratio, long]


def _alphabet(texts: Iterable[str]) -> int:
    return len(set(chain.from_iterable(texts)))


def _unknown(source: Codec, target: Codec, pairs: Sequence[Pair]) -> float:
    rows = source.encode([p.source for p in pairs]) + target.encode([p.target for p in pairs])
    total = sum(map(len, rows))
    return 100 * sum(row.count(UNK) for row in rows) / max(1, total)


def _lost(source: Codec, target: Codec, pairs: Sequence[Pair]) -> float:
    lost = 0
    for codec, texts in ((source, [p.source for p in pairs]), (target, [p.target for p in pairs])):
        lost += sum(back != text for back, text in zip(codec.decode(codec.encode(texts)), texts, strict=True))
    return 100 * lost / (2 * len(pairs))
