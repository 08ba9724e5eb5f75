"""``clearhead show A --against B``: settings that differ, and costs side by side."""

import json
import subprocess
import sys
from pathlib import Path

from tests.cli.typed import typed


def test_words_after_against_belong_to_it() -> None:
    done = typed("show", "tiny", "model.layers=2", "--against", "tiny", "model.layers=3", "model.width=64", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["recipes"] == ["tiny model.layers=2", "tiny model.layers=3 model.width=64"]
    assert {one["setting"]: one["values"] for one in answer["differences"]} == {
        "model.{encoder,decoder}.width": [128, 64],
        "model.{encoder,decoder}.layers": [2, 3],
    }
    cost = json.loads(typed("cost", "tiny", "model.layers=2", "--n", "128", "--json").stdout)
    for key in ("parameters", "macs", "saved_bytes", "saved_bytes_fused"):
        assert answer["costs"][key][0] == cost[key]


def test_it_fits_eighty_columns_and_says_what_comes_along() -> None:
    words = ["show", "tiny", "model.attention.kind=disentangled", "--against", "tiny", "model.position.kind=rope"]
    command = [sys.executable, "-m", "clearhead", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"COLUMNS": "80", **_environment()})
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "disentangled attention knows distances itself" in " ".join(done.stdout.split())
    assert "{encoder,decoder}.position.kind" in done.stdout
    assert "parameters" in done.stdout


def _environment() -> dict[str, str]:
    import os

    return {name: value for name, value in os.environ.items() if name != "COLUMNS"}


def test_torch_is_not_imported() -> None:
    code = (
        "import sys, clearhead; found = clearhead.compare_recipes('tiny', 'gpt2'); "
        "assert found.costs; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_equal_recipes_and_changes_alone() -> None:
    assert "the recipes are the same" in typed("show", "tiny", "--against", "tiny").stdout
    done = typed("show", "model.layers=2", "--against=model.layers=3", "--json")
    assert json.loads(done.stdout)["differences"] == [{"setting": "model.{encoder,decoder}.layers", "values": [2, 3]}]


def test_mistakes_are_named(tmp_path: Path) -> None:
    assert typed("show", "tiny", "--against").returncode == 2
    assert typed("show", "tiny", "--json").returncode == 2
    done = typed("show", "tiny", "--against", "tinny")
    assert done.returncode == 2
    assert "did you mean tiny?" in done.stderr


def test_show_cost_and_json_say_what_comes_along() -> None:
    for words in (["show"], ["cost"], ["cost", "--json"]):
        done = typed(words[0], "tiny", "model.attention.kind=disentangled", *words[1:])
        assert "disentangled attention knows distances itself" in done.stdout
