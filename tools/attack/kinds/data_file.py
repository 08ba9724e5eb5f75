"""Bad data files: bytes, encodings, compression, formats, and paths that are not files."""

import gzip
import json
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.attack.case import Case
from tools.attack.kinds.damage import BYTES, copied, damaged
from tools.attack.kinds.recipe import family_settings
from tools.attack.victims import SMALL, Victim

RIGHT = frozenset({0, 2, 3})
"""Usable; a wrong word or family; bad data."""


def cases(chance: random.Random, victims: Sequence[Victim]) -> Iterator[Case]:
    """Yield every kind of bad file × every command that reads data, without end."""
    while True:
        victim = chance.choice(victims)
        yield _case(victim, chance.choice(list(FILES)), chance.choice(COMMANDS), chance.randrange(2**32))


COMMANDS = ("check", "train", "eval", "score", "run", "train --dev", "piped check", "piped train", "piped run")


def _case(victim: Victim, bad: str, command: str, seed: int) -> Case:
    name, make = FILES[bad]

    def prepare(folder: Path) -> None:
        copied(victim.home, folder)
        if not name.startswith("/"):
            make(folder / name, (folder / victim.data).read_bytes(), random.Random(seed))

    if command.startswith("piped") and name.startswith(("fifo", "/", "folder", "loop", "nowhere")):
        command = command.removeprefix("piped ")
    verb, _, option = command.removeprefix("piped ").partition(" ")
    what = "-" if command.startswith("piped") else name
    words = [verb]
    if verb in ("eval", "score", "run"):
        words += ["run", *([] if command == "piped run" else [what])]
    elif option:
        words += [victim.data, "--dev", what]
    else:
        words += [what]
    if verb in ("train", "check"):
        words += family_settings(victim)
    if verb == "train":
        words += ["-o", "other", "--max-steps", "1", *SMALL]
    allowed = RIGHT | ({1} if victim.family == "encoder" and verb == "score" else set())
    content = b""
    if command.startswith("piped"):
        content = _made(make, victim, seed)
    return Case(
        "data file", f"{victim.family}: {bad} (seed {seed}), then {command}", words, allowed, prepare, input=content
    )


def _made(make: "Make", victim: Victim, seed: int) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made"
        make(path, (victim.home / victim.data).read_bytes(), random.Random(seed))
        return path.read_bytes() if path.is_file() else b""


Make = Callable[[Path, bytes, random.Random], None]


def _write(change: Callable[[bytes, random.Random], bytes]) -> Make:
    return lambda path, content, chance: (path.write_bytes(change(content, chance)), None)[1]


def _inserted(*pieces: bytes) -> Callable[[bytes, random.Random], bytes]:
    def change(content: bytes, chance: random.Random) -> bytes:
        place = chance.randrange(len(content))
        return content[:place] + chance.choice(pieces) + content[place:]

    return change


def _bad_gzip(content: bytes, chance: random.Random) -> bytes:
    packed = bytearray(gzip.compress(content * 50))
    place = chance.randrange(10, len(packed))
    packed[place] ^= 1 << chance.randrange(8)
    return bytes(packed)


def _json_lines(content: bytes, chance: random.Random) -> bytes:
    values: list[Any] = [1, None, [], {}, "", " ", "\ud800", "ok", True, 1e999, "é" * 5000]
    names = [("source", "target"), ("text",), ("label", "text"), ("src", "tgt"), ("label", "pixels"), ()]
    rows = [json.dumps({name: chance.choice(values) for name in chance.choice(names)}) for _ in range(50)]
    rows += chance.choices(["[]", "null", "{", '{"a":' * 2000, '"\\ud800"', "{}", "NaN", "1" * 5000, ""], k=5)
    chance.shuffle(rows)
    return "\n".join(rows).encode()


def _csv(content: bytes, chance: random.Random) -> bytes:
    quote = chance.choice(["", '"', '""', '"\n'])
    head = chance.choice(["", "source,target\n", "label;text\n", "a,b,c\n", ",\n"])
    rows = "".join(f"{quote}{chance.randrange(9)}{quote},{chance.choice(['x', '', 'y,z'])}\n" for _ in range(60))
    return (head + rows).encode()


def _columns(content: bytes, chance: random.Random) -> bytes:
    return b"\n".join(b"\t".join([b"x"] * chance.choice([1, 2, 3, 7])) for _ in range(60))


def _nothing(path: Path, content: bytes, chance: random.Random) -> None:
    """There is no such file."""


def _bytes(change: Callable[[bytes], bytes]) -> Make:
    return _write(lambda content, chance: change(content))


ODD_BYTES = (b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\r", b"\r\r\n", b"\t\t\t", b"\x1a", b"\n\n\n\n")
ODD_LETTERS = tuple(text.encode() for text in ("\u2028", "\u0085", "\ufeff", "\U0001f4a5", "e\u0301"))
BLANKS = (b"", b"\n", b" \n\t\n", b"\xef\xbb\xbf", b"\t")
SPECIAL = ("/dev/null", "/dev/zero", "/dev/stdin", "/dev/fd/9", "/proc/self/mem")
FILES: dict[str, tuple[str, Make]] = {
    "damaged bytes": ("bad.tsv", _write(lambda content, chance: damaged(content, chance.choice(BYTES), chance))),
    "odd bytes inside": ("bad.tsv", _write(_inserted(*ODD_BYTES))),
    "odd letters inside": ("bad.tsv", _write(_inserted(*ODD_LETTERS))),
    "utf-16": ("bad.tsv", _bytes(lambda content: content.decode().encode("utf-16"))),
    "utf-16 without a mark": ("bad.tsv", _bytes(lambda content: content.decode().encode("utf-16-le"))),
    "utf-32": ("bad.txt", _bytes(lambda content: content.decode().encode("utf-32"))),
    "latin-1": ("bad.tsv", _bytes(lambda content: content.replace(b"a", b"\xe4"))),
    "old Mac ends of lines": ("bad.tsv", _bytes(lambda content: content.replace(b"\n", b"\r"))),
    "only blanks": ("bad.tsv", _write(lambda content, chance: chance.choice(BLANKS))),
    "one line": ("bad.tsv", _bytes(lambda content: content.partition(b"\n")[0])),
    "a line of 5,000 words": ("bad.tsv", _bytes(lambda content: b"abc " * 5000 + b"\tA\n" + content)),
    "a line of 1 MB": ("bad.tsv", _bytes(lambda content: b"abc " * 250_000 + b"\tA\n" + content)),
    "gzip, bad block": ("bad.tsv.gz", _write(_bad_gzip)),
    "gzip, cut": ("bad.tsv.gz", _write(lambda content, chance: gzip.compress(content)[: chance.randrange(200)])),
    "gzip, garbage after": (
        "bad.tsv.gz",
        _write(lambda content, chance: gzip.compress(content) + chance.randbytes(20)),
    ),
    "not gzip at all": ("bad.txt.gz", _bytes(lambda content: content)),
    "gzip without its name": ("bad.tsv", _bytes(gzip.compress)),
    "JSON lines": ("bad.jsonl", _write(_json_lines)),
    "CSV": ("bad.csv", _write(_csv)),
    "columns": ("bad.tsv", _write(_columns)),
    "another family's data": ("bad.tsv", _bytes(lambda content: b"\n".join([b"x y z"] * 60))),
    "a fifo that nobody writes to": ("fifo", lambda path, content, chance: os.mkfifo(path)),
    "a folder": ("folder.tsv", lambda path, content, chance: path.mkdir()),
    "a link to itself": ("loop.tsv", lambda path, content, chance: path.symlink_to(path.name)),
    "nothing": ("nowhere.tsv", _nothing),
    "an odd name": ("a=b ü 'x\".tsv", _bytes(lambda content: content)),
    "a name that is not UTF-8": (os.fsdecode(b"\xff\xfe.tsv"), _bytes(lambda content: content)),
    "a very long name": ("n" * 5000, _nothing),
    **{name: (name, _nothing) for name in SPECIAL},
}
