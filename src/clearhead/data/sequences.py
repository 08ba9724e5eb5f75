"""What a model with one side reads of a line: the sequences of ids that the line becomes.

Each policy keeps every token, or says that it does not; ``size`` is ``data.max_length``.
"""

from clearhead.data.tokens import BOS, EOS


def windows(ids: list[int], size: int, first: int = BOS, last: int = EOS) -> list[list[int]]:
    """For a language model: <s> … </s>, cut so that every token after <s> is predicted exactly once.

    A window has at most ``size`` + 1 tokens to predict; the next one begins with the last token of the one before,
    which is all that it sees of it.

    >>> windows([7, 8, 9, 10], 2)
    [[1, 7, 8, 9], [9, 10, 2]]
    """
    row = [first, *ids, last]
    return [row[start : start + size + 2] for start in range(0, len(row) - 1, size + 1)]


def pieces(ids: list[int], size: int, first: int = BOS, last: int = EOS) -> list[list[int]]:
    """For an encoder: the line in pieces of at most ``size`` tokens, each between <s> and </s>.

    >>> pieces([7, 8, 9], 2)
    [[1, 7, 8, 2], [1, 9, 2]]
    """
    return [[first, *ids[start : start + size], last] for start in range(0, len(ids), size)]


def beginning(ids: list[int], size: int, first: int = BOS, last: int = EOS) -> list[list[int]]:
    """For a classifier: the first ``size`` tokens between <s> and </s>; what follows them is not read.

    >>> beginning([7, 8, 9], 2)
    [[1, 7, 8, 2]]
    """
    return [[first, *ids[:size], last]]
