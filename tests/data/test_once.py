"""Every file is read once, and what comes of it is what a plain, line-by-line way of doing it gives, bit for bit."""

import gzip
import hashlib
import json
import random
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from clearhead.data import (
    PAIRS,
    Codec,
    beginning,
    check_corpus,
    corpus,
    formats,
    lines,
    pieces,
    read_corpus,
    spool,
    windows,
)
from clearhead.data import inputs as inputs_module
from clearhead.data.corpus import _parts
from clearhead.data.hashing import hashes
from clearhead.data.rows import OneFile
from clearhead.data.spool import Spool, SpooledBlock
from clearhead.errors import ClearheadError, DataError
from clearhead.recipe import DataSpec, read_recipe
from clearhead.training import Prepared, prepare, reopen
from tests.data import plain
from tests.training.toy import SMALL

STEPS = [*SMALL, "training.steps=2"]


def sentences(count: int, seed: int = 0) -> list[str]:
    """Words that come again, now and then with what is no single space, or what means something to a tokenizer."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdeéßλ日", k=rng.randint(1, 6))) for _ in range(200)]
    odd = ["  ", "\u00a0", "\u2003", " \x1c", " ▁", "▁", " <s> ", " <mask> ", "'s ", " 12,5 ", " \x85"]
    lines = []
    for _ in range(count):
        line = rng.choice(words)
        for _ in range(rng.randint(0, 12)):
            line += (rng.choice(odd) if rng.random() < 0.05 else " ") + rng.choice(words)
        lines.append(line)
    return lines


def write_pairs(path: Path, count: int = 700, end: str = "\n", bom: str = "") -> str:
    left, right = sentences(count), sentences(count, seed=1)
    left[5:9] = ["very " * 300] * 4  # too long, and there four times
    if path.name.startswith("x.jsonl"):
        rows = [json.dumps({"source": f" {s}\t\n", "target": t}) for s, t in zip(left, right, strict=True)]
    else:
        rows = [f"{s} \t{t}" for s, t in zip(left, right, strict=True)]
    content = (bom + "".join(row + end for row in rows)).encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
    return str(path)


class Reads:
    """How often each file was opened, and how many lines of it were parsed."""

    def __init__(self) -> None:
        self.opened: Counter[str] = Counter()
        self.parsed = 0


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Reads]:
    reads = Reads()
    opening, iterating, parsing = inputs_module.open_input, OneFile.__iter__, formats.Scan.parse

    def open_input(name: str | Path) -> Any:
        reads.opened[Path(name).name] += 1
        return opening(name)

    def rows(self: Any) -> Iterator[Any]:
        for row in iterating(self):
            reads.parsed += 1
            yield row

    def parse(self: Any, part: Any) -> Any:
        block, bad = parsing(self, part)
        reads.parsed += len(block) + len(bad)
        return block, bad

    with monkeypatch.context() as patch:
        patch.setattr(formats.Scan, "parse", parse)
        for module in ("inputs", "lines", "fingerprint"):
            patch.setattr(f"clearhead.data.{module}.open_input", open_input)
        patch.setattr(OneFile, "__iter__", rows)
        yield reads


def assert_read_once(reads: Reads, lines: int, *files: str) -> None:
    assert reads.opened == dict.fromkeys(files, 1)
    assert reads.parsed == lines


def test_preparing_a_run_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {part: write_pairs(tmp_path / f"{part}.tsv", size) for part, size in (("train", 700), ("dev", 40))}
    split = read_recipe(None, f"data.train={files['train']}", *STEPS)
    explicit = read_recipe(None, *(f"data.{part}={file}" for part, file in files.items()), *STEPS)
    with counted(monkeypatch) as reads:
        prepare(split, tmp_path / "split")
    assert_read_once(reads, 700, "train.tsv")
    with counted(monkeypatch) as reads:
        run = prepare(explicit, tmp_path / "explicit")
        assert run.corpus.fingerprint() == run.manifest.fingerprint
    assert_read_once(reads, 740, "train.tsv", "dev.tsv")
    with counted(monkeypatch) as reads:
        reopen(tmp_path / "split")
    assert_read_once(reads, 700, "train.tsv")
    (tmp_path / "split" / "run.json").unlink()
    with counted(monkeypatch) as reads:
        assert "rebuilt" in reopen(tmp_path / "split").notes[0]
    assert_read_once(reads, 700, "train.tsv")


def test_the_doctor_reads_each_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = DataSpec(train=write_pairs(tmp_path / "x.tsv"))
    with counted(monkeypatch) as reads:
        check_corpus(read_corpus(spec, PAIRS))
    assert_read_once(reads, 700, "x.tsv")


@pytest.mark.parametrize("variant", ["corpus", "notes", "family"])
def test_reading_twice_would_be_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    """Wrong variants: the file is parsed again for dev, or only its head for the layout, or its first line."""
    spec = DataSpec(train=write_pairs(tmp_path / "x.tsv"))
    again: dict[str, Callable[[], object]] = {
        "corpus": lambda: list(PAIRS.scan(str(spec.train))),
        "notes": lambda: PAIRS.notes(spec.train),
        "family": lambda: PAIRS.fits(str(spec.train)),
    }
    with counted(monkeypatch) as reads:
        check_corpus(read_corpus(spec, PAIRS))
        again[variant]()
    with pytest.raises(AssertionError):
        assert_read_once(reads, 700, "x.tsv")


def test_shares_that_follow_from_the_count_hash_the_bytes_again_and_parse_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large corpus: its fingerprint begins with shares that only its end tells; the same value as ever."""
    monkeypatch.setattr(corpus, "MOST_EXAMPLES", 20)
    spec = DataSpec(train=write_pairs(tmp_path / "x.tsv"))
    with counted(monkeypatch) as reads:
        found = read_corpus(spec, PAIRS)
        assert reads.opened == {"x.tsv": 1}
        assert found.fingerprint() == found.fingerprint() == plain.fingerprint_of(spec, (20 / 700, 20 / 700))
    assert (reads.opened, reads.parsed) == ({"x.tsv": 2}, 700)
    changed = read_corpus(spec, PAIRS)
    with Path(str(spec.train)).open("a") as stream:
        stream.write("one\tmore\n")
    with pytest.raises(DataError, match=r"x\.tsv: has changed while it was read"):
        changed.fingerprint()
    Path(str(spec.train)).unlink()
    with pytest.raises(DataError, match=r"x\.tsv: cannot be read"):
        changed.fingerprint()


@pytest.mark.parametrize(
    ("name", "end", "bom", "workers"),
    [
        ("x.tsv", "\n", "", 1),
        ("x.tsv", "\r\n", "\ufeff", 2),
        ("x.tsv.gz", "\n", "", 1),
        ("x.jsonl", "\n", "", 2),
    ],
)
def test_pairs_come_out_as_they_would_line_by_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, end: str, bom: str, workers: int
) -> None:
    monkeypatch.setattr(corpus, "LARGE", 0)
    monkeypatch.setattr(formats, "_EXAMPLES", 64)
    monkeypatch.setattr(lines, "_PIECE", 1 << 11)
    recipe = read_recipe(
        None, f"data.train={write_pairs(tmp_path / name, end=end, bom=bom)}", *STEPS, f"training.threads={workers}"
    )
    run = prepare(recipe, tmp_path / "run")
    rows = plain.rows_of(str(recipe.data.train), "source", "target")
    shares = plain.shares_of(recipe.data, len(rows))
    parts = split(rows, shares, key=0)
    assert [(pair.source, pair.target) for pair in run.corpus.dev] == parts["dev"]
    assert [(pair.source, pair.target) for pair in run.corpus.test] == parts["test"]
    assert run.manifest.fingerprint == plain.fingerprint_of(recipe.data, shares)
    source, target = run.codecs
    assert_written(run, plain.pair_arrays(parts["train"], source, target, recipe.data.max_length))
    assert run.examples.too_long >= 4


@pytest.mark.parametrize("family", ["lm", "encoder", "classifier"])
@pytest.mark.parametrize("settings", [[], ["data.max_length=5"], ["data.target.kind=unigram", "data.target.size=60"]])
def test_texts_come_out_as_they_would_line_by_line(tmp_path: Path, family: str, settings: list[str]) -> None:
    texts = sentences(500)
    file = tmp_path / "x.txt"
    labels = ["good", "bad"] if family == "classifier" else []
    if labels:
        texts = [f"{random.Random(text).choice(labels)}\t{text}" for text in texts]
    file.write_text("\n".join(texts))
    recipe = read_recipe(None, f"data.train={file}", f"model.family={family}", *settings, *STEPS)
    run = prepare(recipe, tmp_path / "run")
    rows = plain.rows_of(str(file), *(["label"] if labels else []), "text")
    parts = split(rows, plain.shares_of(recipe.data, len(rows)), key=-1)
    cut = {"lm": windows, "encoder": pieces, "classifier": beginning}[family]
    size = recipe.data.max_length
    known = sorted(labels)
    assert_written(run, plain.text_arrays(parts["train"], run.codecs[0], size, partial(cut, size=size), known))


def split(rows: list[plain.Row], shares: tuple[float, float], *, key: int) -> dict[str, list[plain.Row]]:
    """By the source of a pair, or the text."""
    parts: dict[str, list[plain.Row]] = {"train": [], "dev": [], "test": []}
    for row in rows:
        parts[plain.part_of(row[0] if len(row) == 2 and row[0] not in ("good", "bad") else row[-1], *shares)].append(
            row
        )
    assert all(parts.values())
    return parts


def assert_written(run: Prepared, files: dict[str, bytes]) -> None:
    others = {"tokenizers.json", "held_out.json", "stamps.json"}
    assert files.keys() | others == {path.name for path in (run.folder / "data").iterdir()}
    for name, content in files.items():
        assert (run.folder / "data" / name).read_bytes() == content, name


def test_the_split_is_that_of_every_run_folder() -> None:
    """For many keys and shares; also for places next to a border, where 64 bits are rounded to a float's 53."""
    keys = [f"key {number}" for number in range(2000)]
    for shares in ((0.05, 0.05), (0.3, 0.0), (0.0, 0.2), (2000 / 996_020, 2000 / 996_020)):
        found = [("dev", "test", "train")[part] for part in _parts(hashes(keys), shares).tolist()]
        assert found == [plain.part_of(key, *shares) for key in keys]
    for share in (0.05, 0.1, 1 - 2**-53):
        border = [int(share * 2**64) + step * 2**power for power in range(13) for step in (-1, 0, 1)]
        places = [place for place in border if 0 <= place < 2**64]
        found_dev = _parts(np.array(places, dtype=np.uint64), (share, 0.0)) == 0
        assert found_dev.tolist() == [place / 2**64 < share for place in places]


def test_old_run_folders_are_still_accepted(tmp_path: Path) -> None:
    """The fingerprint in ``run.json`` and the one in the prepared data are those of the rule that wrote them."""
    recipe = read_recipe(None, f"data.train={write_pairs(tmp_path / 'x.tsv')}", *STEPS)
    run = prepare(recipe, tmp_path / "run")
    expected = plain.fingerprint_of(recipe.data, (0.05, 0.05))
    kept = json.loads((run.folder / "data" / "tokenizers.json").read_text())
    assert run.manifest.fingerprint == kept["fingerprint"] == expected
    (run.folder / "data" / "train.source.ids").write_bytes(b"")
    assert "rebuilt from the data" in reopen(run.folder).notes[0]
    write_pairs(tmp_path / "x.tsv", 701)
    with pytest.raises(DataError, match="the data have changed"):
        reopen(run.folder)


def test_parallel_files(tmp_path: Path) -> None:
    """They are read side by side, and hashed one after the other; each by itself, too."""
    left, right = tmp_path / "a.en", tmp_path / "a.de"
    left.write_text("\n".join(f"one {i}" for i in range(400)))
    right.write_text("\n".join(f"eins {i}" for i in range(400)))
    spec = DataSpec(train=[str(left), str(right)])
    found = read_corpus(spec, PAIRS)
    assert found.checksums == {str(file): hashlib.sha256(file.read_bytes()).hexdigest() for file in (left, right)}
    assert found.fingerprint() == plain.fingerprint_of(spec, (0.05, 0.05))


def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading, learning and encoding four times the pairs takes about the same; keeping them in a list would not."""
    monkeypatch.setattr(spool, "_IN_MEMORY", 1 << 12)
    monkeypatch.setattr(formats, "_EXAMPLES", 100)
    monkeypatch.setattr(lines, "_PIECE", 1 << 12)

    def peak(count: int, *, all_in_memory: bool = False) -> int:
        file, dev = tmp_path / f"{count}.tsv", tmp_path / "dev.tsv"
        file.write_text("".join(f"w{i % 97} w{i % 89} n{i}\tW{i % 83}\n" for i in range(count)))
        dev.write_text("a\tb\n")
        spec = DataSpec(train=str(file), dev=str(dev))
        tracemalloc.start()
        found = read_corpus(spec, PAIRS)
        kept = list(found.train()) if all_in_memory else []
        codec = Codec.learn("characters", found.train_texts("source"))
        assert len(codec) == 4 + len(" wn0123456789")
        assert sum(len(block) for block in found.train_blocks()) == count
        size = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert len(kept) in (0, count)
        return size

    assert peak(6_000) < 1.3 * peak(1_500)
    assert peak(6_000, all_in_memory=True) > 1.3 * peak(1_500)


# ---- the spool itself ----


def filled(*, folder: Path | None = None) -> Spool:
    found = Spool("x.tsv", folder)
    for number in range(5):
        texts = [f"text {number} {row} ä\n日" for row in range(3)]
        found.add(SpooledBlock.of(formats.Block(range(3), (texts, texts[::-1])), hashes(texts)))
    return found


def test_several_readers_do_not_disturb_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit in (1 << 20, 16):  # in memory, and in a file
        monkeypatch.setattr(spool, "_IN_MEMORY", limit)
        kept = filled(folder=tmp_path)
        blocks = list(zip(kept, kept, strict=True))
        assert [left.column(0) for left, _ in blocks] == [right.column(1)[::-1] for _, right in blocks]
        assert [block.column(0)[2] for block in kept] == [f"text {number} 2 ä\n日" for number in range(5)]
        assert not list(tmp_path.iterdir())  # the file has no name


def test_a_released_corpus_says_so(tmp_path: Path) -> None:
    found = read_corpus(DataSpec(train=write_pairs(tmp_path / "x.tsv")), PAIRS)
    found.release()
    assert found.dev
    with pytest.raises(ClearheadError, match="were released"):
        next(found.train())


@pytest.mark.parametrize("inside", [True, False])
def test_a_disk_that_is_full_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, inside: bool) -> None:
    monkeypatch.setattr(spool, "_IN_MEMORY", 1 << 10)
    file = write_pairs(tmp_path / "x.tsv")
    folder = tmp_path if inside else None
    free = type("Usage", (), {"free": 1000})
    monkeypatch.setattr(formats, "_EXAMPLES", 50)
    monkeypatch.setattr(lines, "_PIECE", 1 << 11)
    monkeypatch.setattr("shutil.disk_usage", lambda _: free)
    with pytest.raises(DataError, match=r"x\.tsv: its examples do not fit into .* are free\): make room there, or"):
        read_corpus(DataSpec(train=file), PAIRS, folder)

    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.undo()
    monkeypatch.setattr(formats, "_EXAMPLES", 50)
    monkeypatch.setattr(lines, "_PIECE", 1 << 11)
    monkeypatch.setattr("tempfile.SpooledTemporaryFile.write", refuse)
    with pytest.raises(DataError, match="No space left on device"):
        read_corpus(DataSpec(train=file), PAIRS, folder)
