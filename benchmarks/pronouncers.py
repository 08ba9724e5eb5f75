"""Systems that pronounce English words: clearhead, Phonetisaurus, g2p-en and espeak-ng behind one small interface.

A peer is a command that reads a word a line, in as many processes as are asked for; clearhead answers in this process
and its workers. All give ARPAbet without stress.
"""

import functools
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import clearhead
from benchmarks.phones import from_espeak, without_stress
from clearhead.errors import ClearheadError, DataError
from clearhead.files import sha256_of, write_whole
from clearhead.machine import keep_freed_memory
from clearhead.predictor import Predictor, WorkerPool
from clearhead.recipe import weights_of

Lexicon = Mapping[str, Sequence[str]]
"""Words, each with all its pronunciations."""
JOB = 256
"""Words that a worker of clearhead gets at once."""
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""Each process has one thread: small matrices gain nothing from more."""
G2P_EN = """
import sys, types
import nltk
nltk.data.find = lambda *_, **__: None  # nothing is looked for, so nothing is downloaded
import g2p_en.g2p
g2p_en.g2p.cmudict = types.SimpleNamespace(dict=dict)  # an empty dictionary: predict() never asks it
model = g2p_en.g2p.G2p()
for line in sys.stdin:
    print(*model.predict(line.strip()), flush=True)
"""
"""The GRU of g2p-en as a filter. The tagger and the dictionary, which nltk would download, are no part of it."""
TRAIN = """
import sys
import phonetisaurus
lexicon = {}
with open(sys.argv[1], encoding="utf-8") as lines:
    for line in lines:
        word, phones = line.rstrip("\\n").split("\\t")
        lexicon.setdefault(word, []).append(phones.split())
phonetisaurus.train(lexicon, sys.argv[2])
"""


class NotInstalled(Exception):
    """A peer is not there; the message says how to install it."""


@dataclass(frozen=True)
class Command:
    """A program that reads lines.

    Args:
        arguments: the program and its arguments.
        environment: variables that it gets beside those of this process.
    """

    arguments: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, lines: Iterable[str]) -> list[str]:
        """The lines that it writes when it has read these; it sees the end of its input."""
        done = subprocess.run(
            self.arguments,
            input="".join(f"{line}\n" for line in lines),
            env={**os.environ, **ONE_THREAD, **self.environment},
            capture_output=True,
            encoding="utf-8",
            check=False,
        )
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["no reason was given"])[-1]
            raise ClearheadError(f"{self.arguments[0]} failed with exit code {done.returncode}: {reason}")
        return done.stdout.removesuffix("\n").split("\n") if done.stdout else []


class Pronouncer(ABC):
    """A system, ready to answer.

    Args:
        name: its name in the table.
        version: of the program or package.
        start: the command that loads it and answers one word, for the time that it takes from nothing.
        model_bytes: size of what it has learnt: weights, rules.
        all_bytes: size of everything that is installed for it, Python itself left out.
        notes: what a reader of the table has to know.
        loads_each_time: whether ``answers`` starts it anew, so that its time contains the loading.
    """

    def __init__(
        self,
        name: str,
        version: str,
        start: Command,
        *,
        model_bytes: int,
        all_bytes: int,
        notes: Sequence[str] = (),
        loads_each_time: bool = False,
    ) -> None:
        self.name, self.version, self.start = name, version, start
        self.model_bytes, self.all_bytes = model_bytes, all_bytes
        self.notes, self.loads_each_time = tuple(notes), loads_each_time

    @abstractmethod
    def answers(self, words: Sequence[str]) -> list[str]:
        """A pronunciation for each word, in ARPAbet without stress; empty if it has none."""

    def written(self, word: str) -> str:
        """A word as its command reads it."""
        return word

    def first_answer(self, word: str) -> None:
        """Start it from nothing and wait for one answer."""
        self.start.run([self.written(word)])

    def close(self) -> None:
        """End what it has started."""
        return


class Clearhead(Pronouncer):
    """A model of clearhead with a width of its beam.

    Args:
        model: a model file or a run.
        beam: hypotheses; 1 is greedy.
        workers: processes.
        name: its name in the table.
    """

    def __init__(self, model: str, beam: int, workers: int, name: str) -> None:
        keep_freed_memory()  # as `clearhead run` does
        weights, _ = weights_of(model)
        self.predictor: Predictor = clearhead.load(model, f"decoding.beam_size={beam}")
        self._spaced = self.predictor.source.kind == "symbols"
        arguments = [sys.executable, "-m", "clearhead", "run", model, "--beam-size", str(beam), "--threads", "1"]
        task = self.predictor.recipe.data.task
        super().__init__(
            f"{name}, {'greedy' if beam == 1 else f'beam {beam}'}",
            importlib.metadata.version("clearhead"),
            Command(arguments),
            model_bytes=weights.stat().st_size,
            all_bytes=weights.stat().st_size + _own_bytes(),
            notes=[f"{name} was trained on the task {task}, whose training words may be among these."] if task else [],
        )
        self._pool: WorkerPool[list[str], list[str]] = WorkerPool(self.predictor.generate, workers)

    def written(self, word: str) -> str:
        return " ".join(word) if self._spaced else word

    def answers(self, words: Sequence[str]) -> list[str]:
        ordered = sorted(words, key=len)
        jobs = [[self.written(word) for word in ordered[at : at + JOB]] for at in range(0, len(ordered), JOB)]
        found = [answer for part in self._pool.results(jobs) for answer in part]
        answers = dict(zip(ordered, found, strict=True))
        return [without_stress(answers[word]) for word in words]

    def close(self) -> None:
        self._pool.__exit__(None, None, None)


class Peer(Pronouncer):
    """A system that is a command; each call of ``answers`` starts it anew, in several processes."""

    def __init__(
        self,
        name: str,
        version: str,
        start: Command,
        *,
        model_bytes: int,
        all_bytes: int,
        notes: Sequence[str],
        workers: int,
    ) -> None:
        super().__init__(
            name,
            version,
            start,
            model_bytes=model_bytes,
            all_bytes=all_bytes,
            notes=notes,
            loads_each_time=True,
        )
        self._workers = workers

    def answers(self, words: Sequence[str]) -> list[str]:
        size = max(1, -(-len(words) // self._workers))
        shares = [words[at : at + size] for at in range(0, len(words), size)]
        with ThreadPoolExecutor(self._workers) as threads:
            return [answer for share in threads.map(self._share, shares) for answer in share]

    def _share(self, words: Sequence[str]) -> list[str]:
        return self.read(words, self.start.run(words))

    @abstractmethod
    def read(self, words: Sequence[str], lines: Sequence[str]) -> list[str]:
        """The answers in what the command wrote for these words."""


class G2pEn(Peer):
    """g2p-en: what its GRU predicts, a line for each word."""

    def read(self, words: Sequence[str], lines: Sequence[str]) -> list[str]:
        del words
        return [without_stress(line) for line in lines]


class Phonetisaurus(Peer):
    """Phonetisaurus: ``word<TAB>cost<TAB>phones``; a word that has no path is not there."""

    def read(self, words: Sequence[str], lines: Sequence[str]) -> list[str]:
        found = {word: phones for word, _, phones in (line.split("\t") for line in lines if line.count("\t") == 2)}
        return [without_stress(found.get(word, "")) for word in words]


class EspeakNg(Peer):
    """espeak-ng: a line for each clause, which is a word, unless there is punctuation in it."""

    def read(self, words: Sequence[str], lines: Sequence[str]) -> list[str]:
        if len(lines) == len(words):
            return [from_espeak(line) for line in lines]
        if len(words) == 1:
            return [from_espeak(" ".join(lines))]
        half = len(words) // 2  # until the word is found that takes several lines, or none
        return [*self._share(words[:half]), *self._share(words[half:])]


def g2p_en(folder: Path | None, workers: int) -> G2pEn:
    """g2p-en in a folder of its own, or among the packages of this Python."""
    how = "pip install --target DIR g2p-en, and --g2p-en-path DIR"
    package = _installed("g2p-en", folder, how)
    checkpoint = Path(str(package.locate_file("g2p_en/checkpoint20.npz")))
    return G2pEn(
        "g2p-en, words seen",
        package.version,
        Command([sys.executable, "-W", "ignore", "-c", G2P_EN], _python_path(folder)),
        model_bytes=_size(checkpoint),
        all_bytes=installed_bytes("g2p-en", folder),
        notes=[
            "g2p-en was trained on the whole CMU dictionary: it has seen these words. Its GRU alone, no dictionary."
        ],
        workers=workers,
    )


def phonetisaurus(folder: Path | None, model: Path, trained_on: str, workers: int) -> Phonetisaurus:
    """Phonetisaurus with a trained model; its program is called directly, with the settings of its own wrapper."""
    package = _phonetisaurus(folder)
    programs = Path(str(package.locate_file("phonetisaurus")))
    machine = platform.machine()
    # the program reads all words before it answers the first one
    arguments = [str(programs / "bin" / machine / "phonetisaurus-g2pfst"), f"--model={model}", "--nbest=1"]
    arguments += ["--beam=10000", "--thresh=99", "--accumulate=false", "--pmass=0", "--wordlist=/dev/stdin"]
    return Phonetisaurus(
        "Phonetisaurus",
        package.version,
        Command(arguments, {"LD_LIBRARY_PATH": str(programs / "lib" / machine)}),
        model_bytes=_size(model),
        all_bytes=_size(model) + installed_bytes("phonetisaurus", folder),
        notes=[f"Phonetisaurus: {trained_on}; its program is called directly, without its Python wrapper."],
        workers=workers,
    )


def train_phonetisaurus(folder: Path | None, model: Path, files: Sequence[Path], lexicon: Lexicon) -> None:
    """Train a model with the package's own settings, and note what it was trained on; one that is there is kept.

    What the programs print goes to a file beside the model.
    """
    about = {"trained_on": [file.name for file in files], "sha256": [sha256_of(file) for file in files]}
    note = model.with_suffix(".json")
    if model.exists():
        if not note.exists() or json.loads(note.read_text(encoding="utf-8")) != about:
            raise DataError(f"{model}: was not trained on these files: name another file, or delete it")
        return
    _phonetisaurus(folder)
    model.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=model.parent) as room, model.with_suffix(".log").open("w") as log:
        words, made = Path(room) / "lexicon.tsv", Path(room) / "model.fst"
        rows = (f"{word}\t{phones}\n" for word, known in lexicon.items() for phones in known)
        words.write_text("".join(rows), encoding="utf-8")
        command = [sys.executable, "-c", TRAIN, str(words), str(made)]
        done = subprocess.run(
            command, env=os.environ | _python_path(folder), stdout=log, stderr=subprocess.STDOUT, check=False
        )
        if done.returncode != 0 or not made.exists():
            raise ClearheadError(f"Phonetisaurus could not be trained: see {log.name}")
        write_whole(note, json.dumps(about).encode())
        made.replace(model)


def espeak_ng(program: str, workers: int) -> EspeakNg:
    """espeak-ng, with the American voice."""
    path = shutil.which(program)
    if path is None:
        raise NotInstalled("apt install espeak-ng, or --espeak-ng PROGRAM")
    said = " ".join(Command([path, "--version"]).run([]))
    version, data = re.search(r": (\S+)", said), re.search(r"Data at: (.+)", said)
    folder = Path(data[1].strip()) if data else Path()
    english = [folder / name for name in ("en_dict", "phontab", "phonindex", "phondata", "intonations")]
    linked = Command(["ldd", path]).run([]) if shutil.which("ldd") else []
    libraries = [Path(line.split()[2]) for line in linked if "espeak" in line and "=> /" in line]
    return EspeakNg(
        "espeak-ng",
        version[1] if version else "",
        Command([path, "-q", "--ipa", "--sep=_", "-v", "en-us"]),
        model_bytes=sum(map(_size, english)),
        all_bytes=(folder_bytes(folder) if data else 0) + sum(map(_size, [Path(path), *libraries])),
        notes=[
            "espeak-ng is made of rules and a list of words, for speech: its sounds are mapped to ARPAbet by the table "
            "in benchmarks/phones.py, and what it writes differently from the CMU dictionary counts against it. All "
            "of its languages are in its size."
        ],
        workers=workers,
    )


def folder_bytes(folder: Path) -> int:
    """The size of all files in a folder; compiled Python is left out, as it comes with use."""
    return sum(_size(file) for file in folder.rglob("*") if file.suffix != ".pyc" and file.is_file())


def installed_bytes(name: str, folder: Path | None = None) -> int:
    """The size of a package's files and of all packages that it requires."""
    return sum(map(_package_bytes, _required(name, folder)))


def _required(name: str, folder: Path | None) -> Iterator[importlib.metadata.Distribution]:
    """A package and everything that it requires without extras, each once; what is not installed is left out."""
    waiting, known = [name], set[str]()
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        package = _found(name, folder)
        if name in known or package is None:
            continue
        known.add(name)
        yield package
        wanted = [text for text in package.requires or [] if "extra ==" not in text]
        waiting += [match[0] for text in wanted if (match := re.match(r"[\w.-]+", text))]


@functools.cache
def _packages(folder: Path | None) -> Mapping[str, importlib.metadata.Distribution]:
    path = sys.path if folder is None else [str(folder)]
    found: dict[str, importlib.metadata.Distribution] = {}
    for package in importlib.metadata.distributions(path=path):
        if package.metadata["Name"]:
            found.setdefault(re.sub(r"[-_.]+", "-", package.metadata["Name"]).lower(), package)
    return found


def _found(name: str, folder: Path | None) -> importlib.metadata.Distribution | None:
    return _packages(folder).get(name)


def _installed(name: str, folder: Path | None, how: str) -> importlib.metadata.Distribution:
    package = _found(name, folder)
    if package is None:
        raise NotInstalled(how)
    return package


def _phonetisaurus(folder: Path | None) -> importlib.metadata.Distribution:
    return _installed("phonetisaurus", folder, "pip install --target DIR phonetisaurus, and --phonetisaurus-path DIR")


def _python_path(folder: Path | None) -> dict[str, str]:
    return {} if folder is None else {"PYTHONPATH": str(folder)}


def _own_bytes() -> int:
    """clearhead and what it requires; an editable installation does not list the package's files."""
    required = sum(map(_package_bytes, _required("clearhead", None)))
    own = _found("clearhead", None)
    return folder_bytes(Path(clearhead.__file__).parent) + required - (_package_bytes(own) if own else 0)


def _package_bytes(package: importlib.metadata.Distribution) -> int:
    files = [Path(str(package.locate_file(file))) for file in package.files or [] if file.suffix != ".pyc"]
    return sum(map(_size, files))


def _size(file: Path) -> int:
    with suppress(OSError):
        return file.stat().st_size
    return 0
