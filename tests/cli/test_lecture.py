"""`clearhead lecture` as a student meets it."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clearhead.lectures import claims
from tests.cli.test_cli import run


def test_the_list_names_every_claim_without_torch() -> None:
    code = (
        "import runpy, sys\n"
        "sys.argv = ['clearhead', 'lecture']\n"
        "try: runpy.run_module('clearhead', run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print(sorted({'torch', 'sympy'} & set(sys.modules)))\n"
    )
    lines = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines[-1] == "[]"
    for claim in claims():
        assert any(line.split()[:1] == [claim.id] and claim.title in line for line in lines)
    assert any("disputed: the ReLU belongs between the two maps" in line for line in lines)
    listed = json.loads(run("lecture", "--json").stdout)["claims"]
    assert [entry["id"] for entry in listed] == [claim.id for claim in claims()]


def test_one_claim_states_runs_and_shows() -> None:
    result = run("lecture", "L4.8")
    assert result.returncode == 0, result.stderr
    for words in (
        "holds under a condition",
        "Var[q·k] = Var[Σ_{i=1}^{d_k} q_i k_i] = d_k",
        "256 ± 25.6",
        "✓ agrees",
        "✓ rejected",
        "└───",
        "module clearhead.attention.score",
        "test_L4_8_the_variance_of_a_score_is_its_size",
        "✓ reproduced",
    ):
        assert words in result.stdout, words


def test_json_is_what_scripts_rely_on() -> None:
    result = run("lecture", "L2.9", "L4.8", "--json")
    table = json.loads(result.stdout)
    assert list(table) == ["claims"]
    for entry, name in zip(table["claims"], ("L2.9", "L4.8"), strict=True):
        assert list(entry)[:6] == ["id", "verdict", "predicted", "observed", "wrong_variant_rejected", "reproduced"]
        assert entry["wrong"]
        assert all(wrong["rejected"] for wrong in entry["wrong"])
        assert (entry["id"], entry["wrong_variant_rejected"], entry["reproduced"]) == (name, True, True)
        assert entry["predicted"].keys() == entry["observed"].keys()
    assert table["claims"][0]["verdict"] == "misprint"


def test_claims_are_found_by_word() -> None:
    """Several are listed, without running them; one is run; nothing found says what is near."""
    found = json.loads(run("lecture", "softmax", "--json").stdout)["claims"]
    assert {"L0.3", "L1.5"} <= {entry["id"] for entry in found} < {claim.id for claim in claims()}
    both = json.loads(run("lecture", "L1", "Softmax", "mask", "--json").stdout)["claims"]
    assert [entry["id"] for entry in both] == ["L1.9"]
    assert both[0]["reproduced"]
    lines = run("lecture", "softmax").stdout.splitlines()
    assert any(line.split()[:1] == ["L0.3"] for line in lines)
    assert not any("reproduced" in line for line in lines)


def test_a_page_and_figures(tmp_path: Path) -> None:
    result = run(
        "lecture", "L2.9", "L0.2", "--html", str(tmp_path / "page.html"), "--figures", str(tmp_path / "figures")
    )
    assert result.returncode == 0, result.stderr
    assert "2 of 2 claims reproduced" in result.stdout
    assert '<article id="L0.2">' in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert [file.name for file in (tmp_path / "figures").iterdir()] == ["L2.9-1.svg"]


def test_a_claim_that_is_not_reproduced_is_a_failure() -> None:
    """The mutation: a product whose scores are twice too large fails L4.8 with exit code 1, and says why."""
    code = textwrap.dedent("""
        import sys
        from clearhead.lectures.demonstrations.broken import broken
        sys.argv = ["clearhead", "lecture", "L4.7", "L4.8"] + sys.argv[1:]
        from clearhead.cli import main
        def twice(right):
            return lambda scores, mask=None, choice="soft": right(2 * scores, mask, choice)
        with broken("clearhead.attention.choice.choose", twice):
            main()
    """)
    for flags in ([], ["--json"]):
        result = subprocess.run([sys.executable, "-c", code, *flags], capture_output=True, text=True, check=False)
        assert result.returncode == 1
        assert "Traceback" not in result.stderr
        if flags:
            assert [entry["reproduced"] for entry in json.loads(result.stdout)["claims"]] == [True, False]
        else:
            assert "✗ does not agree" in result.stdout
            assert "1 of 2 claims reproduced" in result.stdout
            assert "not reproduced: L4.8" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["L48"], 2, "L48: no such claim; did you mean L4.8?"),
        (["L4.8", "L7.1"], 2, "L7.1: no such claim"),
        (["sofmax"], 2, "sofmax: no claim has this word; did you mean softmax?"),
        (["linformer", "telephone"], 2, "linformer: found in L2.14, but no claim has all of these words"),
        (["--all", "L4.8"], 2, "--all runs every claim"),
        (["L4.8", "--html", "nowhere/page.html"], 1, "the folder nowhere does not exist"),
    ],
)
def test_what_is_typed_wrong_is_told(arguments: list[str], code: int, message: str) -> None:
    result = run("lecture", *arguments)
    assert result.returncode == code
    assert message in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr
