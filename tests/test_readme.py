"""What README and the guides show is what happens: Python runs, commands exist, messages and figures are real."""

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import clearhead
from clearhead.lectures import claims
from tests.cli.typed import typed

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
GUIDES = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs" / "guides").glob("*.md"))}
PAGES = {"README.md": README} | GUIDES


def python_of(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGES[page], re.DOTALL)


def shell_of(page: str) -> str:
    """What stands in blocks without a language: commands, and what they print."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", PAGES[page], re.DOTALL | re.MULTILINE)
    return "".join(block for language, block in blocks if not language)


def test_the_blocks_have_the_shapes_that_the_guide_says() -> None:
    (code,) = python_of("blocks.md")
    names: dict[str, Any] = {}
    exec(compile(code, "blocks.md", "exec"), names)
    assert names["heads"](names["torch"].randn(2, 6, 48)).shape == (2, 6, 7)
    assert names["logits"].shape == (2, 7, 10_000)
    assert names["first"].shape == (2, 10_000)
    assert names["watched"][0].shape == (2, 4, 7, 7)
    _, code = python_of("README.md")
    exec(compile(code, "README.md", "exec"), names)
    assert names["heads"](names["torch"].randn(2, 6, 48)).shape == (2, 6, 7)


@pytest.mark.parametrize("page", ["README.md", "train.md"])
def test_the_front_door_opens(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first piece of Python, line by line, with a few steps in place of minutes."""
    code = python_of(page)[0]
    assert code.count("minutes=2") == 1
    small = {"model.layers": 1, "model.width": 32, "model.feedforward.width": 32, "decoding.beam_size": 1}
    code = code.replace("minutes=2", "steps=3").replace(', settings={"model.width": 64}', "")
    code = code.replace("steps=3", f"steps=3, settings={small}").replace("range(8000)", "range(300)")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(compile(code, page, "exec"), names)
    assert isinstance(names["run"], clearhead.Run)
    assert (tmp_path / "runs" / "dates" / "best.safetensors").is_file()
    assert isinstance(names["run"].model("5 March 1984"), str)


def test_settings_are_python_objects() -> None:
    (code,) = python_of("recipes.md")
    names: dict[str, Any] = {}
    exec(compile(code, "recipes.md", "exec"), names)
    assert (names["recipe"].model.encoder.width, names["wider"].model.encoder.width) == (64, 256)
    assert names["wider"].training.seed == 2


def test_the_error_messages_are_the_real_ones() -> None:
    shown = re.findall(r"^\$ clearhead (.*)\n((?:command line: .*\n)+)", GUIDES["recipes.md"], re.MULTILINE)
    assert len(shown) == 2
    for arguments, message in shown:
        assert typed(*arguments.split()).stderr == message


def test_the_recipe_reads(tmp_path: Path) -> None:
    from clearhead.recipe import Seq2SeqSpec, TransformerSpec, read_recipe

    (text,) = re.findall(r"```toml\n(.*?)```", GUIDES["recipes.md"], re.DOTALL)
    (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
    model = read_recipe(tmp_path / "mine.toml", "model.width=256").model
    assert isinstance(model, Seq2SeqSpec)
    assert isinstance(model.decoder, TransformerSpec)
    assert isinstance(model.encoder, TransformerSpec)
    assert (model.decoder.layers, model.decoder.position.kind, model.encoder.position.kind) == (6, "rope", "sinusoidal")


def test_the_lecture_commands_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand, but for --all: one claim stands for all, which tests/lectures runs."""
    lines = re.findall(r"^clearhead (lecture.*?)\s*#", README, re.MULTILINE)
    assert len(lines) == 5
    assert lines == re.findall(r"^clearhead (lecture.*?)\s*#", GUIDES["lectures.md"], re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    for line in lines:
        result = typed(*line.replace("--all", "L2.9").split())
        assert result.returncode == 0, result.stderr
    assert (tmp_path / "lectures.html").is_file()


def test_the_lectures_are_counted_right() -> None:
    verdicts = Counter(claim.verdict for claim in claims())
    assert f"Their {len(claims())} definitions" in README
    counted = (
        f"{verdicts['holds']} hold, {verdicts['holds under a condition']} hold under a condition, "
        f"{verdicts['misprint']} are misprints, {verdicts['convention']} conventions, {verdicts['disputed']} disputed"
    )
    assert counted in " ".join(README.split())


def test_the_costs_are_what_the_command_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands with their answers, letter by letter, and commands without, which run."""
    shown = re.findall(r"^\$ clearhead (cost .*)\n((?:.*\n)+?)```", GUIDES["cost.md"], re.MULTILINE)
    assert len(shown) == 3
    monkeypatch.chdir(tmp_path)
    for arguments, answer in shown:
        said = typed(*arguments.split()).stdout
        assert [line.rstrip() for line in said.splitlines()] == answer.splitlines()
    lines = re.findall(r"^clearhead ((?:cost|show|presets) .*?)(?:\s+#.*)?$", README + GUIDES["cost.md"], re.MULTILINE)
    assert len(lines) >= 8
    for line in dict.fromkeys(lines):
        if "--table" in line:
            continue  # traces models, which the tests' checks of shapes disturb: tests/cli/test_cost.py runs it apart
        assert typed(*line.split()).returncode == 0, line
    assert (tmp_path / "crossover.svg").is_file()


@pytest.mark.parametrize("page", PAGES)
def test_every_command_exists(page: str) -> None:
    from typer.main import get_command

    from clearhead.cli.app import app

    commands = set(re.findall(r"^(?:\$ )?clearhead ([a-z]+)", shell_of(page), re.MULTILINE))
    assert commands <= get_command(app).commands.keys()  # type: ignore[attr-defined]


def test_every_row_of_the_comparison_is_measured() -> None:
    """Each ratio in README's table of speeds stands in the row of docs/evidence/speed.md that it comes from."""
    speed = (ROOT / "docs" / "evidence" / "speed.md").read_text(encoding="utf-8")
    origin = {
        "training step, tiny model": "tiny: 4+4",
        "training step, Transformer base": "base: 6+6",
        "greedy decoding, tiny, batch of 32": "tiny, batch 32, greedy",
        "greedy decoding, base, batch of 32": "base, batch 32, greedy",
        "greedy decoding, tiny, one line at a time": "tiny, batch 1, greedy",
    }
    rows = dict(re.findall(r"^\| ([a-zA-Z][^|]*?)[¹²] \|(.*)\|$", README, re.MULTILINE))
    assert rows.keys() == origin.keys()
    for name, cells in rows.items():
        (measured,) = re.findall(rf"^\| {re.escape(origin[name])}[^|]*\|(.*)\|$", speed, re.MULTILINE)
        said, found = (re.findall(r"[\d.,]*\d", row) for row in (cells, measured))
        assert len(said) >= 3
        # in evidence the decoders stand the other way round: CTranslate2 before transformers
        assert sorted(said) == sorted(found), name


def test_quality_is_what_was_measured() -> None:
    quality = (ROOT / "docs" / "evidence" / "quality.md").read_text(encoding="utf-8")
    for said, measured in {
        "21.7 %": "**21.71**",
        "23.8 %": "23.80",
        "22.6 %": "22.56",
        "25.6 %": "25.61",
        "41.2 BLEU": "**41.25**",
    }.items():
        assert said in README
        assert measured in quality


def test_every_link_of_the_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_the_picture_is_of_the_word_that_is_named() -> None:
    shown = (ROOT / "docs" / "pictures" / "look.svg").read_text(encoding="utf-8")
    word = re.search(r"<title>(\w+) → ([A-Z ]+)</title>", shown)
    assert word
    assert word[1] in README
    assert word[2] in README
