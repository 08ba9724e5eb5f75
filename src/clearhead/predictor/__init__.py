"""What ``clearhead.load()`` returns: a model with its tokenizers and its way of answering."""

from clearhead.predictor.answering import Answered, Layout, answer_lines
from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.crew import Crew
from clearhead.predictor.engine import Engine
from clearhead.predictor.filler import Filler
from clearhead.predictor.forced import Forced, forced
from clearhead.predictor.journal import Journal, input_identity
from clearhead.predictor.labeller import Labeller
from clearhead.predictor.lines import Line, ReadAs, count_lines, lines_to_answer, require_files
from clearhead.predictor.loading import load, predictor_of, ready
from clearhead.predictor.unknown import UnknownCharacters, unknown_words
from clearhead.predictor.writer import TextWriter

__all__ = [
    "Answer",
    "Answered",
    "Crew",
    "Engine",
    "Filler",
    "Forced",
    "Journal",
    "Labeller",
    "Layout",
    "Line",
    "Predictor",
    "ReadAs",
    "TextWriter",
    "UnknownCharacters",
    "answer_lines",
    "count_lines",
    "forced",
    "input_identity",
    "lines_to_answer",
    "load",
    "predictor_of",
    "ready",
    "require_files",
    "unknown_words",
]
