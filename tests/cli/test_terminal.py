"""Every verb at a real terminal: what is sent to a file is what a pipe gets, whatever the screen shows meanwhile."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.cli.forked import forked
from tests.cli.terminal import PLAIN, at_terminal
from tests.interop import references
from tests.training.toy import SMALL, write_pairs

SHORT = ["decoding.beam_size=1", "decoding.max_length=4"]
VERBS = {
    "train": ["train", "pairs.tsv", "-o", "RUN", "--max-steps", "5", *SMALL, *SHORT],
    "eval": ["eval", "run", "pairs.tsv", *SHORT],
    "run": ["run", "run", "lines.txt", *SHORT],
    "score": ["score", "run", "pairs.tsv"],
    "look": ["look", "run", "abc"],
    "check": ["check", "pairs.tsv"],
    "presets": ["presets"],
    "show": ["show", "tiny"],
    "cost": ["cost", "tiny"],
    "lecture": ["lecture", "L0.2"],
    "import": ["import", "foreign", "-o", "FILE.safetensors"],
}


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data, a run, and a foreign model."""
    folder = tmp_path_factory.mktemp("terminal")
    write_pairs(folder / "pairs.tsv", count=200)
    lines = [line.partition("\t")[0] for line in (folder / "pairs.tsv").read_text().splitlines()]
    # more lines than a worker takes at a time; of the long ones a warning tells
    (folder / "lines.txt").write_text("\n".join([*lines, "ab" * 600, *lines, *lines]) + "\n")
    references.save(references.gpt2(), folder / "foreign")
    trained = piped(folder, ["train", "pairs.tsv", "-o", "run", "--max-steps", "5", *SMALL, *SHORT])
    assert trained.returncode == 0, trained.stderr
    return folder


def piped(folder: Path, words: list[str]) -> subprocess.CompletedProcess[str]:
    return forked(*words, env=PLAIN, cwd=folder, text=True)


def timeless(text: str) -> str:
    """Without what a clock says."""
    text = re.sub(r"[\d.,]+ (min|tokens/s|s)\b", r"0 \1", text)
    return re.sub(r"(RUN|FILE)\d", r"\1", text)


def plain(screen: str) -> str:
    """Without colours and movements."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", screen)


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_gets_what_a_pipe_gets(place: Path, verb: str, tmp_path: Path) -> None:
    """Both ways out to the screen, one of them or both to a file; the old `run` left its file empty."""

    def words(number: int) -> list[str]:
        return [re.sub("RUN|FILE", rf"\g<0>{number}", word) for word in VERBS[verb]]

    usual = piped(place, words(0))
    assert usual.returncode == 0, usual.stderr
    out, err = tmp_path / "out", tmp_path / "err"
    modes: list[tuple[Path | None, Path | None]] = [(out, None), (None, err), (out, err), (None, None)]
    for number, (to, errors_to) in enumerate(modes, start=1):
        shown = at_terminal(words(number), out=to, err=errors_to, cwd=place)
        assert shown.code == 0, shown
        if shown.out is not None:
            assert timeless(shown.out) == timeless(usual.stdout), (to, errors_to)
        if shown.err is not None:
            assert timeless(shown.err) == timeless(usual.stderr), (to, errors_to)
        if shown.out is not None and shown.err is not None:
            assert shown.terminal == ""
        if shown.out is None and usual.stdout:
            assert timeless(usual.stdout).split()[0] in timeless(shown.terminal)


def test_warnings_stand_beside_the_bar(place: Path, tmp_path: Path) -> None:
    """On the screen: a bar, and a warning in one piece; in the file: neither."""
    shown = at_terminal(VERBS["run"], out=tmp_path / "answers", cwd=place)
    number = (place / "lines.txt").read_text().splitlines().index("ab" * 600) + 1
    flat = plain(shown.terminal)
    assert f"lines.txt, line {number}: is longer than decoding.max_source allows; only its beginning was read" in flat
    assert "lines ━" in flat
    assert shown.out is not None
    assert len(shown.out.splitlines()) == len((place / "lines.txt").read_text().splitlines())


def test_a_bar_with_an_output_file(place: Path, tmp_path: Path) -> None:
    """-o shows how far it is, though standard output is the screen; the screen gets no answers."""
    answers = tmp_path / "answers.txt"
    shown = at_terminal([*VERBS["run"], "-o", str(answers)], cwd=place)
    assert shown.code == 0, shown
    assert "lines ━" in plain(shown.terminal)
    assert answers.read_text() == piped(place, VERBS["run"]).stdout
