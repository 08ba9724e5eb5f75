"""Predictors, which ``clearhead.load()`` returns: a model with its tokenizers and its decoding settings."""

from clearhead.predictor.answering import CUT, Answered, AnswerFormat, answer_lines, answers_to_lines, warnings_about
from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.engine import Engine
from clearhead.predictor.filler import Filler
from clearhead.predictor.forced import ForcedLine, forced
from clearhead.predictor.growing import GrowingText
from clearhead.predictor.journal import Journal, input_identity
from clearhead.predictor.labeller import Labeller
from clearhead.predictor.lines import Line, ReadAs, count_lines, lines_to_answer, require_files
from clearhead.predictor.loading import load, predictor_of, ready
from clearhead.predictor.looking import look_at_ids
from clearhead.predictor.pronouncer import Pronouncer
from clearhead.predictor.teaching import forced_batches
from clearhead.predictor.unknown import UnknownCharacters, unknown_words
from clearhead.predictor.workers import WorkerPool, leave_with, one_thread
from clearhead.predictor.writer import TextWriter, TracedId

__all__ = [
    "CUT",
    "Answer",
    "AnswerFormat",
    "Answered",
    "Engine",
    "Filler",
    "ForcedLine",
    "GrowingText",
    "Journal",
    "Labeller",
    "Line",
    "Predictor",
    "Pronouncer",
    "ReadAs",
    "TextWriter",
    "TracedId",
    "UnknownCharacters",
    "WorkerPool",
    "answer_lines",
    "answers_to_lines",
    "count_lines",
    "forced",
    "forced_batches",
    "input_identity",
    "leave_with",
    "lines_to_answer",
    "load",
    "look_at_ids",
    "one_thread",
    "predictor_of",
    "ready",
    "require_files",
    "unknown_words",
    "warnings_about",
]
