"""The command line as a user meets it: help, results on stdout, errors on stderr, exit codes, no tracebacks."""

import ctypes
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import clearhead
from clearhead.recipe import preset_names, read_recipe
from tests.cli.typed import typed
from tests.interop import references


def imported_by(*words: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['clearhead', *{words!r}]\n"
        "try: runpy.run_module('clearhead', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(*sys.modules)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(result.stdout.splitlines()[-1].split())


def test_help_imports_little() -> None:
    """`clearhead --help` starts quickly, told by what it imports: a time would depend on the machine."""
    heavy = {"torch", "transformers", "pydantic", "numpy", "sympy"}
    loaded = imported_by("--help")
    assert not heavy & loaded
    assert len(loaded) < 450
    assert heavy & imported_by("presets", "tiny")  # a command that reads a recipe is noticed


def test_help_teaches() -> None:
    result = typed("--help")
    assert result.returncode == 0
    for word in ("train", "eval", "check", "presets", "show", "lecture", "import", "section.key=value"):
        assert word in result.stdout
    for command in ("train", "eval", "check", "presets", "show", "import"):
        assert typed(command, "--help").returncode == 0


def test_presets_lists_prints_and_resolves(tmp_path: Path) -> None:
    listed = typed("presets").stdout.splitlines()
    assert [line.split()[0] for line in listed] == [*preset_names(), *clearhead.shipped_names()]
    assert all(len(line) > 30 for line in listed)
    file = tmp_path / "mine.toml"
    for flags in ([], ["--full"]):
        file.write_text(typed("presets", "gpt2", *flags).stdout, encoding="utf-8")
        assert read_recipe(file) == read_recipe("gpt2")
    assert "multihead" in typed("presets", "--kinds").stdout
    assert typed("presets", "g2p-en").stdout == clearhead.model_card("g2p-en")
    wrong = typed("presets", "gtp2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "did you mean gpt2?" in wrong.stderr


@pytest.mark.parametrize("preset", ["tiny", "lecture", "ttic"])
def test_show_prints_the_blocks(preset: str) -> None:
    result = typed("show", preset, "model.layers=2", "--line", "hello")
    assert result.returncode == 0, result.stderr
    assert "layers 1–2, each:" in result.stdout
    assert "1 × 5 × " in result.stdout


def test_show_and_import_a_model_file(tmp_path: Path) -> None:
    folder, file = references.save(references.gpt2(), tmp_path / "gpt2"), tmp_path / "gpt2.safetensors"
    result = typed("import", str(folder), "-o", str(file))
    assert result.returncode == 0, result.stderr
    assert "lm, " in result.stdout
    assert "without a tokenizer" in result.stdout
    assert "decoder" in typed("show", str(file)).stdout
    again = typed("import", str(folder), "-o", str(file))
    assert again.returncode == 1
    assert "exists already; add --force" in again.stderr
    assert typed("import", str(folder), "-o", str(file), "--force").returncode == 0
    changed = typed("show", str(file), "model.layers=2")
    assert changed.returncode == 2
    assert "cannot be changed by overrides" in changed.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "tiny", "model.layers=0"], 2, "must be a whole number ≥ 1"),
        (["show", "tinny"], 2, "did you mean tiny?"),
        (["show", "gpt2", "model.layers=1", "--line", "x" * 1100], 3, "past the end of the table of"),
        (["show", "tiny", "--line", ""], 3, "is empty"),
        (["show", "nowhere.safetensors"], 3, "cannot be read"),
        (["import", "nowhere", "-o", "x.safetensors"], 3, "no such folder"),
        (["show", "tiny", "model.width=1000000", "model.heads=1"], 4, "the model needs about 178,906.0 GiB"),
        (["show", "x" * 3000], 2, "no such file or preset"),
        (["show", "."], 2, "is a folder, not a recipe"),
        (["import", "tests", "-o", "x.txt"], 1, "a model file is called something.safetensors"),
        (["import", "tests", "-o", "nowhere/x.safetensors"], 1, "the folder nowhere does not exist"),
        (["presets", "--full"], 2, "--full needs the name of a preset"),
        (["shwo"], 2, "No such command"),
        (["show"], 2, "Missing argument"),
    ],
)
def test_what_a_user_types_never_gives_a_traceback(arguments: list[str], code: int, message: str) -> None:
    result = typed(*arguments)
    assert result.returncode == code
    assert message in result.stderr
    assert result.stdout == ""


def test_a_reader_that_leaves_is_no_failure() -> None:
    command = f"{sys.executable} -m clearhead presets --kinds | true"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")


def test_a_full_disk_is_one_message() -> None:
    with Path("/dev/full").open("w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "clearhead", "presets"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert result.returncode == 1
    assert result.stderr == "output: No space left on device\n"


def test_a_terminal_without_our_letters_is_served_too() -> None:
    command = [sys.executable, "-m", "clearhead", "show", "tiny", "model.layers=1"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, check=False, env=environment)
    assert (result.returncode, result.stderr) == (0, b"")
    assert b"1 ? 26 ? 128" in result.stdout


def test_show_names_what_makes_models_different() -> None:
    """Settings without weights are visible too."""
    shown = typed("show", "lecture", "model.layers=1", "model.decoder.position.kind=rope", "model.heads=8").stdout
    for words in ("no gain", "OuterFeedForward relu", "RotaryPosition halves", "8 heads", "norm(x + f(x))"):
        assert words in shown
    bare = typed("show", "tiny", "model.attention.projections=false", "model.attention.output=false").stdout
    assert "MultiHeadAttention 4 heads" in bare


@pytest.mark.parametrize(
    ("given", "spins"), [({}, "30000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, None)]
)
def test_threads_do_not_spin_unless_asked_to(given: dict[str, str], spins: str | None) -> None:
    """It is set before torch is loaded, and an own choice is respected."""
    names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    environment = {name: value for name, value in os.environ.items() if name not in names} | given
    code = (
        "import os, sys\n"
        "from clearhead.cli import main\n"
        "sys.argv = ['clearhead', '--version']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('torch' in sys.modules, os.environ.get('GOMP_SPINCOUNT'))\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.splitlines()[-1] == f"False {spins}"


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "gnu_get_libc_version"), reason="the C library is not glibc")
@pytest.mark.parametrize(("given", "kept"), [({}, True), ({"MALLOC_ARENA_MAX": "2"}, False)])
def test_freed_memory_is_used_again(given: dict[str, str], kept: bool) -> None:
    """Tensors that come and go need no new pages, unless a user has decided on malloc otherwise."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")} | given
    code = (
        "import resource, sys\n"
        "from clearhead.cli import main\n"
        "sys.argv = ['clearhead', '--version']\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "import numpy as np\n"
        "def pages():\n"
        "    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "    for _ in range(20):\n"
        "        some = [np.ones(20 << 20, np.uint8) for _ in range(4)]\n"
        "        del some\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before\n"
        "pages()\n"
        "print(pages())\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    once = (4 * 20 << 20) // resource.getpagesize()
    assert (int(result.stdout.splitlines()[-1]) < once) is kept
