"""What a worker does with a message, without a process around it."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import clearhead
from clearhead.recipe import read_recipe
from clearhead.serving import work

if TYPE_CHECKING:
    from clearhead.predictor import Predictor


class Noting:
    """Notes the examples that it is asked to score."""

    def __init__(self) -> None:
        self.model = SimpleNamespace(spec=read_recipe(None).model)
        self.examples: list[Any] = []

    def unfamiliar(self, examples: Sequence[Any]) -> list[Any]:
        self.examples.extend(examples)
        return []

    def forced(self, examples: Sequence[Any]) -> list[Any]:
        return [SimpleNamespace(log_probability=-1.0, log_probabilities=[-1.0], cut=False) for _ in examples]

    def forced_tokens(self, examples: Sequence[Any]) -> list[list[str]]:
        return [["x"] for _ in examples]


def test_space_around_a_text_does_not_count_for_its_score() -> None:
    """As in a data file: ``clearhead score`` would give the same numbers."""
    predictor = Noting()
    reply = work.score(cast("Predictor", predictor), {"rows": [[" cat ", "K AE T\t"], ["cat", "K AE T"]]})
    assert [row["log_probability"] for row in reply["scores"]] == [-1.0, -1.0]
    spaced, plain = predictor.examples
    assert (spaced.source, spaced.target) == (plain.source, plain.target) == ("cat", "K AE T")


def test_a_sentence_for_the_pronouncer_is_answered_at_once_and_a_word_in_pieces() -> None:
    predictor = clearhead.load("g2p-en")
    asked = {"verbatim": False, "settings": {"beam_size": 1}}
    whole = work.Stream(predictor, asked | {"line": "Cabbage patch."}).advance()
    assert whole["done"]["text"] == whole["rest"] == predictor("cabbage patch", beam_size=1)
    stream, pieces = work.Stream(predictor, asked | {"line": "Cabbage."}), []
    while "done" not in (reply := stream.advance()):
        pieces.append(reply["piece"])
    assert len(pieces) > 2
    assert "".join(pieces) + reply["rest"] == predictor("cabbage", beam_size=1) == reply["done"]["text"]
