"""Lines that were scored."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ScoredLine:
    """What a model did with one line.

    Args:
        number: Its place among the lines that were scored, from 0.
        source: The source, or the text.
        answer: The model's answer, or its label; None for a text that asks for none (lm, encoder).
        references: The answers that count as right.
        right: Whether the answer is one of them; None without an answer.
        error: How wrong the model is. Pairs: the edit distance to the closest reference over its length. Labels:
            1 − p of the right label. Texts: the mean −log p of a token.
        log_probability: log p of the right answer, of the most probable one if there are several, or of the text;
            None if it was not computed.
    """

    number: int
    source: str
    answer: str | None
    references: tuple[str, ...]
    right: bool | None
    error: float
    log_probability: float | None
