"""Lines and labels: readers, the sequences that lines become, and hidden tokens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clearhead.data import (
    BOS,
    EOS,
    LABELS,
    MASK,
    PAD,
    TEXTS,
    UNK,
    Codec,
    Labelled,
    Masker,
    Text,
    beginning,
    check_corpus,
    pieces,
    read_corpus,
    windows,
)
from clearhead.errors import DataError
from clearhead.recipe import DataSpec, MaskingSpec

tokens = st.lists(st.integers(5, 40), min_size=1, max_size=40)


def test_lines_and_labels_are_read(tmp_path: Path) -> None:
    """A tab is text in a line of text; JSONL has fields of those names."""
    lines = tmp_path / "x.txt"
    lines.write_text("one\ttwo\n\nthree \n")
    assert list(TEXTS.read(str(lines), "skip")[0]) == [Text("one\ttwo", 1), Text("three", 3)]
    with pytest.raises(DataError, match=r"x\.txt, line 2: empty line"):
        TEXTS.read(str(lines))
    table = tmp_path / "x.jsonl"
    rows = ['"a", "text": "b"', '1, "text": "b"', '1.5, "text": "c"', 'true, "text": "c"', '2, "text": 3', "null"]
    table.write_text("".join(f'{{"label": {row}}}\n' for row in rows))
    found = list(LABELS.scan(str(table)))
    assert found[:2] == [Labelled("a", "b", 1), Labelled("1", "b", 2)]  # a whole number may stand for a class
    assert [str(item) for item in found[2:]] == [
        f'{table}, line {line}: no texts "label" and "text"' for line in (3, 4, 5, 6)
    ]
    assert next(LABELS.scan(str(table))) == Labelled("a", "b", 1)
    assert [example.text for example in TEXTS.scan(str(table)) if isinstance(example, Text)] == ["b", "b", "c", "c"]
    with pytest.raises(DataError, match="lines of text stand in one file, not in two"):
        TEXTS.read(["a", "b"])


@given(tokens, st.integers(1, 45))
@settings(max_examples=200, deadline=None)
def test_windows_predict_every_token_once(ids: list[int], size: int) -> None:
    """The labels of all windows, one after the other, are the line and its end; inputs are what stands before."""
    cut = windows(ids, size)
    assert [token for window in cut for token in window[1:]] == [*ids, EOS]
    assert [token for window in cut for token in window[:-1]] == [BOS, *ids]
    assert all(2 <= len(window) <= size + 2 for window in cut)
    assert len(windows(ids, len(ids))) == 1


@given(tokens, st.integers(1, 45))
@settings(max_examples=200, deadline=None)
def test_pieces_hold_every_token_once_and_a_beginning_does_not(ids: list[int], size: int) -> None:
    cut = pieces(ids, size)
    assert [token for piece in cut for token in piece[1:-1]] == ids
    assert all((piece[0], piece[-1]) == (BOS, EOS) and len(piece) <= size + 2 for piece in cut)
    assert beginning(ids, size) == [cut[0]]


def test_hidden_tokens_are_those_of_bert() -> None:
    """15 % of a line, at least one; of these 80 % <mask>, 10 % another token, 10 % as they were (Devlin 2019)."""
    masker = Masker(MaskingSpec(), mask=4, vocabulary=1000)
    rng = np.random.default_rng(0)
    line = np.concatenate(([BOS], rng.integers(5, 1000, 100), [EOS]))
    masked = random = kept = 0
    for index in range(400):
        inputs, labels = masker.corrupted(line, (1, 0, index))
        chosen = labels != PAD
        assert chosen.sum() == 15
        assert not chosen[[0, -1]].any()
        assert (labels[chosen] == line[chosen]).all()
        assert (inputs[~chosen] == line[~chosen]).all()
        assert inputs.min() > PAD
        assert not ((inputs < 4) & chosen).any()
        masked += int((inputs[chosen] == 4).sum())
        kept += int((inputs[chosen] == line[chosen]).sum())
        random += int(((inputs[chosen] != 4) & (inputs[chosen] != line[chosen])).sum())
    total = masked + random + kept
    assert [round(100 * part / total) for part in (masked, random, kept)] == pytest.approx([80, 10, 10], abs=2)
    short = np.array([BOS, 7, EOS])
    assert (masker.corrupted(short, (1, 0, 0))[1] != PAD).sum() == 1


def test_scoring_hides_the_same_tokens_always() -> None:
    """All by <mask>, and by the line alone; other lines hide other places."""
    masker = Masker(MaskingSpec(share=0.3), mask=4, vocabulary=50)
    lines = [np.array([BOS, *range(5 + i, 25 + i), EOS]) for i in range(20)]
    places = set()
    for line in lines:
        inputs, labels = masker.hidden(line)
        again = masker.hidden(line.astype(np.int64))
        assert (inputs == again[0]).all()
        assert ((inputs == 4) == (labels != PAD)).all()
        places.add(tuple(np.flatnonzero(labels)))
    assert len(places) > 10


@pytest.mark.parametrize("kind", ["characters", "symbols", "bpe", "unigram"])
def test_mask_is_a_special(kind: Any) -> None:
    """Its name in a text is text, if only an unknown one; asked for, it is a gap, whatever stands beside it."""
    texts = [f"the {animal} sat on the {place}" for animal in ("cat", "dog", "cow") for place in ("mat", "hill")] * 30
    codec = Codec.from_json(Codec.learn(kind, texts, size=300, masked=True).to_json())
    assert codec.mask == 4
    assert codec.kind == kind
    assert codec.decode(codec.encode(texts)) == texts
    gap = f"the {MASK} sat"
    assert codec.mask not in codec.encode([gap])[0]
    (ids,) = codec.encode_gaps([gap])
    assert ids.count(codec.mask) == 1
    if kind != "characters":  # where spaces are tokens, they stay
        (whole,) = codec.encode(["the cat sat"])
        place = ids.index(codec.mask)
        assert (whole[:place], whole[len(whole) - len(ids) + place + 1 :]) == (ids[:place], ids[place + 1 :])
    assert Codec.learn(kind, texts, size=300).mask is None
    assert PAD not in codec.encode_gaps([f"<pad> {MASK}"])[0]
    assert UNK == 3


def test_the_doctor_knows_lines_and_labels(tmp_path: Path) -> None:
    train, dev = tmp_path / "train.tsv", tmp_path / "dev.tsv"
    train.write_text("".join(f"{'ab'[i % 2]}\tx y {i % 40}\n" for i in range(200)) + "b\tx y 0\nno tab\n")
    dev.write_text("a\tnew text\nc\tx y 1\n")
    checkup = check_corpus(read_corpus(DataSpec(train=str(train), dev=str(dev), bad_lines="skip"), LABELS))
    counts = {finding.what: finding.count for finding in checkup.findings}
    assert checkup.labels == {"a": 100, "b": 101}
    assert counts["lines that are no labelled texts"] == 1
    assert counts["dev texts with a label that training does not know"] == 1
    assert counts["dev texts that stand in train too"] == 1
    assert counts["texts with several labels"] == 1
    assert not checkup.healthy
    train.write_text("".join(f"a line number {i}\n" for i in range(300)))
    clean = check_corpus(read_corpus(DataSpec(train=str(train)), TEXTS))
    assert clean.healthy
    assert list(clean.sides) == ["text"]
