"""The table of the study of settings."""

from typing import Any

from benchmarks.learning import SETTINGS, table


def row(name: str, **scores: float) -> dict[str, Any]:
    """A row of a study."""
    return {"name": name, "seed": 1, "parameters": 3_000_000, "seconds_per_step": 0.2, "steps": 1500} | scores


def test_the_best_row_comes_first_by_what_the_task_is_judged_by() -> None:
    """Fewer wrong words, or more BLEU; the wrong variant sorts both the same way."""
    words = table([row("a", line_error=35.0, symbol_error=8.8), row("b", line_error=33.0, symbol_error=8.1)])
    assert words.splitlines() == [
        "| setting | seed | parameters | ms a step | steps | dev line_error | dev symbol_error |",
        "|---|---|---|---|---|---|---|",
        "| b | 1 | 3,000,000 | 200 | 1,500 | 33.00 | 8.10 |",
        "| a | 1 | 3,000,000 | 200 | 1,500 | 35.00 | 8.80 |",
    ]
    lines = table([row("a", bleu=26.9, chrf=48.9), row("b", bleu=32.2, chrf=54.5)]).splitlines()
    assert lines[0].endswith("| dev bleu | dev chrf |")
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| b", "| a"]


def test_rows_with_a_name_of_their_own_are_each_trained() -> None:
    assert len({name.replace(" ", "-").replace(",", "") for name in SETTINGS}) == len(SETTINGS)
