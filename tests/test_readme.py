"""What README shows is what happens: its Python runs, its commands exist, its error messages are the real ones."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_python_runs_and_has_the_shapes_it_says() -> None:
    # the first one needs a trained model: tests/predictor runs it
    _, code = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["heads"](names["torch"].randn(2, 6, 48)).shape == (2, 6, 7)
    assert names["logits"].shape == (2, 7, 10_000)
    assert names["first"].shape == (2, 10_000)
    assert names["watched"][0].shape == (2, 4, 7, 7)


def test_the_error_messages_are_the_real_ones() -> None:
    shown = re.findall(r"^\$ clearhead (.*)\n((?:command line: .*\n)+)", README, re.MULTILINE)
    assert len(shown) == 2
    for arguments, message in shown:
        command = [sys.executable, "-m", "clearhead", *arguments.split()]
        assert subprocess.run(command, capture_output=True, text=True, check=False).stderr == message


def test_the_recipe_reads(tmp_path: Path) -> None:
    from clearhead.recipe import Seq2SeqSpec, TransformerSpec, read_recipe

    (text,) = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    model = read_recipe(tmp_path / "mine.toml", "model.width=256").model
    assert isinstance(model, Seq2SeqSpec)
    assert isinstance(model.decoder, TransformerSpec)
    assert isinstance(model.encoder, TransformerSpec)
    assert (model.decoder.layers, model.decoder.position.kind, model.encoder.position.kind) == (6, "rope", "sinusoidal")


def test_the_lecture_commands_run(tmp_path: Path) -> None:
    """As they stand, but for --all: one claim stands for all, which tests/lectures runs."""
    lines = re.findall(r"^clearhead (lecture.*?)\s*#", README, re.MULTILINE)
    assert len(lines) == 3
    for line in lines:
        words = line.replace("--all", "L2.9").split()
        command = [sys.executable, "-m", "clearhead", *words]
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "lectures.html").is_file()


def test_the_costs_are_what_the_command_prints(tmp_path: Path) -> None:
    """Commands with their answers, letter by letter, and commands without, which run."""
    shown = re.findall(r"^\$ clearhead (cost .*)\n((?:.+\n)+?)```", README, re.MULTILINE)
    assert len(shown) == 2
    environment = os.environ | {"NO_COLOR": "1", "COLUMNS": "100"}
    for arguments, answer in shown:
        command = [sys.executable, "-m", "clearhead", *arguments.split()]
        said = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
        assert [line.rstrip() for line in said.splitlines()] == answer.splitlines()
    for line in re.findall(r"^clearhead (cost .*?)(?:\s+#.*)?$", README, re.MULTILINE):
        command = [sys.executable, "-m", "clearhead", *line.split()]
        assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0, line
    assert (tmp_path / "crossover.svg").is_file()


def test_every_command_exists() -> None:
    commands = set(re.findall(r"^(?:\$ )?clearhead (\w+)", README, re.MULTILINE))
    helped = subprocess.run([sys.executable, "-m", "clearhead", "--help"], capture_output=True, text=True, check=True)
    assert commands
    assert all(re.search(rf"\b{command}\b", helped.stdout) for command in commands)
