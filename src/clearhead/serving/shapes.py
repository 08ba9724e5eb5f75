"""What a ``Room`` gives back: plain data, ready for JSON."""

from dataclasses import dataclass, field
from typing import Any, TypedDict


@dataclass(frozen=True)
class ModelFacts:
    """What is known of a model that is served."""

    name: str
    """The name that requests use."""
    family: str
    """seq2seq, recurrent, lm, encoder or classifier."""
    fingerprint: str
    """A checksum of recipe, tokenizers and weights: it changes exactly when the model does."""
    parameters: int
    reads: str
    """``text`` or ``picture`` (pixels row by row, separated by spaces)."""
    columns: tuple[str, ...]
    """The columns of a row to score, as ``("source", "target")``; empty if it cannot score."""
    sides: dict[str, str]
    """How each side is cut into tokens: ``{"source": "characters", "target": "symbols"}``."""
    direction: tuple[str, str] | None
    """The languages it translates from and to, if its name says so, as de-en."""
    labels: tuple[str, ...]
    """The labels of a classifier."""
    mask: str | None
    """How a gap is written in a text, of an encoder."""
    streams: bool
    """Whether it writes text, token by token."""
    beam_size: int
    """The width of its beam, unless a request says otherwise."""
    decoding: dict[str, Any]
    """All settings of ``[decoding]``, unless a request says otherwise."""
    loaded: float
    """When this version was loaded, in seconds since 1970."""
    ready: bool
    """Whether a worker has it."""
    picture: tuple[int, ...] | None = None
    """Height, width and channels of the pictures that it reads, if it does."""
    trouble: str | None = None
    """Why a newer version was not taken, if that is so."""


@dataclass(frozen=True, slots=True)
class LineAnswer:
    """The answers to one line, the best first.

    Each is a table: ``text``; with details also ``log_probability``, ``score`` (None if there is none), ``finished``,
    ``ids`` and ``tokens`` (as people read them), and where the family has them ``probabilities`` (of labels, or for a
    single gap) and ``masks`` (for each gap its likely tokens).
    """

    answers: list[dict[str, Any]]
    warnings: list[str] = field(default_factory=list)
    """What was cut or unknown, in words."""

    @property
    def text(self) -> str:
        """The best answer."""
        return str(self.answers[0]["text"])


class StreamPiece(TypedDict, total=False):
    """One item of a stream: ``text``, what was written since the last one; or, at the end, ``done``."""

    text: str
    done: LineAnswer


class LineScore(TypedDict):
    """The score of one row."""

    log_probability: float
    tokens: list[str]
    token_log_probabilities: list[float]
    warnings: list[str]


class TracedToken(TypedDict):
    """One token of a text that a language model reads or wrote. The texts of all of them join to the text."""

    text: str
    log_probability: float | None
    """None for the first token of a model whose texts have no start token."""
    top: dict[str, float]
    """The most probable tokens at its place, with log p."""
    given: bool
    """Whether it belongs to the prompt."""


@dataclass(frozen=True)
class RoomState:
    """A look at the work, for health checks and metrics; counts are totals since the start."""

    ready: bool
    """Whether every model has a worker, and the room is not stopping."""
    stopping: bool
    workers: int
    workers_alive: int
    workers_restarted: int
    waiting_lines: int
    working_lines: int
    open_streams: int
    waiting_looks: int
    batches: int
    batch_sizes: dict[int, int]
    """Batches by the number of lines: those with at most 1, 2, 4, 8 … lines, each batch counted once."""
    answered_lines: int
    characters_read: int
    tokens_written: int
    requests: dict[str, int]
    """Requests by how they ended: answered, refused, busy, late, left, lost."""
    reloads: int
    troubles: dict[str, str]
    """By model: why a newer version was not taken."""
