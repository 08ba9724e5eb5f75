"""The comparison of pronunciations: words, errors, times and tables, without any of the peers."""

import itertools
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks.pronouncers import Command, EspeakNg, NotInstalled, Phonetisaurus, Pronouncer, espeak_ng, g2p_en
from benchmarks.pronunciation import (
    WIDTH,
    Errors,
    Row,
    Times,
    aligned,
    document,
    errors,
    folded_errors,
    judged,
    page,
    read_lexicon,
    remarks,
    shown_command,
    speed,
    tables,
    times_in_turns,
)

from clearhead.errors import DataError
from clearhead.evaluation import Metric

CONDITIONS: dict[str, Any] = {
    "command": "python -m benchmarks.pronunciation g2p --words test.tsv",
    **{"words": 3, "pronunciations": 4, "rounds": 5, "timed_words": 3, "workers": 2, "cores": 2, "load": 0.1},
    **{"python": "3.11", "torch": "2.13"},
}
NOWHERE = Command(["nowhere"])


class Parrot(Pronouncer):
    """Knows some words by heart."""

    def __init__(self, known: dict[str, str]) -> None:
        super().__init__("parrot", "1", NOWHERE, model_bytes=1, all_bytes=2)
        self.known = known

    def answers(self, words: Sequence[str]) -> list[str]:
        return [self.known.get(word, "") for word in words]

    def first_answer(self, word: str) -> None:
        del word


class Scripted(EspeakNg):
    """espeak-ng that splits a word at a dot and says nothing to a dash."""

    def __init__(self) -> None:
        super().__init__("e", "1", NOWHERE, model_bytes=0, all_bytes=0, notes=[], workers=2)

    def _share(self, words: Sequence[str]) -> list[str]:
        lines = [part for word in words for part in word.split(".") if part != "-"]
        return self.read(words, lines)


def row(name: str, wrong: float, times: Times | None = None, notes: tuple[str, ...] = ()) -> Row:
    found = Errors(Metric(wrong, wrong - 1, wrong + 1), Metric(wrong / 4, None, None))
    return Row(name, "1.0", found, found, 12_541_552, 877_600_000, notes, times)


def test_words_are_read_with_and_without_spaces_and_stress(tmp_path: Path) -> None:
    file = tmp_path / "words.tsv"
    file.write_text("t o\tT UW\nto\tT UW1\nto\tT AH0\n\ni t's\tIH T S\n", encoding="utf-8")
    assert read_lexicon(file) == {"to": ["T UW", "T AH"], "it's": ["IH T S"]}


@pytest.mark.parametrize("line", ["to T UW", "to\t", "\tT UW"])
def test_a_line_that_is_no_pronunciation_is_named(tmp_path: Path, line: str) -> None:
    file = tmp_path / "words.tsv"
    file.write_text(f"a\tAH\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match="line 2"):
        read_lexicon(file)


def test_any_listed_pronunciation_is_right_and_the_closest_one_counts() -> None:
    references = [["T UW", "T AH"], ["K AE T S"], ["R OW Z IH Z"]]
    found = errors(["T AH", "K AE T", "R OW Z AH Z"], references, 20)
    assert found.words.value == pytest.approx(100 * 2 / 3)
    assert found.phones.value == pytest.approx(100 * 2 / 11)
    assert found.words.low is not None
    only_first = errors(["T AH", "K AE T", "R OW Z AH Z"], [known[:1] for known in references], 0)
    assert only_first.words.value == 100  # the wrong variant


def test_folding_forgives_notation_and_not_mistakes() -> None:
    found = folded_errors(["R OW Z AH Z", "K AE T"], [["R OW Z IH Z"], ["K AE T S"]], 0)
    assert found.words.value == 50


def test_a_system_is_judged_on_all_words_and_says_how_far_it_is() -> None:
    said: list[str] = []
    lexicon = {"to": ["T UW"], "cat": ["K AE T"]}
    found = judged(Parrot({"cat": "K AE T"}), lexicon, 0, said.append)
    assert found.strict.words.value == 50
    assert said == ["parrot: 2 of 2 words"]


def test_phonetisaurus_lines_are_found_by_their_word_and_a_missing_one_is_wrong() -> None:
    system = Phonetisaurus("p", "1", NOWHERE, model_bytes=0, all_bytes=0, notes=[], workers=1)
    assert system.read(["b", "a", "c"], ["a\t1.5\tAH0", "b\t2\tB IY1"]) == ["B IY", "AH", ""]


def test_a_word_of_several_lines_does_not_shift_the_others() -> None:
    assert Scripted().answers(["k", "b.d", "t", "-", "p"]) == ["K", "B D", "T", "", "P"]


def test_peers_that_are_not_there_say_how_to_install_them(tmp_path: Path) -> None:
    with pytest.raises(NotInstalled, match="pip install"):
        g2p_en(tmp_path, 1)
    with pytest.raises(NotInstalled, match="apt install"):
        espeak_ng(str(tmp_path / "espeak-ng"), 1)


def test_loading_is_subtracted_round_by_round() -> None:
    assert speed(10, [2.0, 4.0, 2.0], None) == 5
    assert speed(10, [3.0, 13.0, 4.0], [2.0, 10.0, 1.0]) == 3  # 9 words in the median of 1, 3 and 3 seconds
    assert math.isnan(speed(10, [1.0], [2.0]))


def test_systems_take_turns() -> None:
    ticks = itertools.count(0.0, 1.0)
    said: list[str] = []
    found = times_in_turns([Parrot({}), Parrot({})], ["a", "b"], 3, said.append, lambda: next(ticks))
    assert found == [Times(2.0, 1.0)] * 2
    assert len(said) == 3


def test_the_table_fits_its_width_with_long_names() -> None:
    rows = [row("clearhead " + 60 * "x", 100.0, Times(2345.6, 1.5)), row("other", 25.41, Times(float("nan"), 0.01))]
    lines = [line for table in tables(rows) for line in aligned(table)]
    assert max(map(len, lines)) <= WIDTH
    assert "25.41 [24.41, 26.41]" in lines[2]
    assert lines[4].split()[-5:] == ["2,346", "1.00×", "1.50", "12.5", "877.6"]
    assert lines[5].split() == ["other", "–", "–", "0.01", "12.5", "877.6"]


def test_page_and_json_hold_the_same_figures_notes_and_what_is_missing() -> None:
    rows = [
        row("clearhead, greedy", 20.0, Times(2000, 1.5)),
        row("peer", 25.0, Times(float("nan"), 0.5), ("It peeked.",)),
    ]
    missing = {"g2p-en": "pip install g2p-en"}
    text, table = page(rows, missing, CONDITIONS), document(rows, missing, CONDITIONS)
    assert "| peer | 25.00 [24.00, 26.00] | 6.25 |" in text
    assert "It peeked." in text
    assert "g2p-en is left out: pip install g2p-en" in text
    assert "BUSY" not in text
    systems = json.loads(json.dumps(table, allow_nan=False))["systems"]
    assert systems[0]["strict"]["line_error"] == {"value": 20.0, "low": 19.0, "high": 21.0}
    assert systems[1]["words_per_second"] is None


def test_a_busy_machine_is_told() -> None:
    assert any("BUSY" in remark for remark in remarks([row("a", 1.0)], {}, CONDITIONS | {"load": 17.0}))


def test_the_command_names_no_folders() -> None:
    assert shown_command(["/home/me/runs/g2p", "--words", "/data/test.tsv"]).endswith(
        "pronunciation g2p --words test.tsv"
    )
