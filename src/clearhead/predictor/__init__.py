"""Predictors, which ``clearhead.load()`` returns: a model with its tokenizers and its decoding settings."""

from clearhead.predictor.answering import (
    CUT,
    Answered,
    AnswerFormat,
    AnsweringWork,
    answer_lines,
    answers_to_lines,
    in_order,
    warnings_about,
)
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
from clearhead.predictor.shards import Shard, ShardAnswers, ShardFolder, ShardJob, shard_answers, shard_jobs, shards_of
from clearhead.predictor.teaching import forced_batches
from clearhead.predictor.together import Together, together
from clearhead.predictor.unknown import NothingMasked, UnknownCharacters, unknown_words
from clearhead.predictor.writer import TextWriter, TracedId
from clearhead.workers import WorkerKilled, WorkerPool, leave_with, one_thread

__all__ = [
    "CUT",
    "Answer",
    "AnswerFormat",
    "Answered",
    "AnsweringWork",
    "Engine",
    "Filler",
    "ForcedLine",
    "GrowingText",
    "Journal",
    "Labeller",
    "Line",
    "NothingMasked",
    "Predictor",
    "Pronouncer",
    "ReadAs",
    "Shard",
    "ShardAnswers",
    "ShardFolder",
    "ShardJob",
    "TextWriter",
    "Together",
    "TracedId",
    "UnknownCharacters",
    "WorkerKilled",
    "WorkerPool",
    "answer_lines",
    "answers_to_lines",
    "count_lines",
    "forced",
    "forced_batches",
    "in_order",
    "input_identity",
    "leave_with",
    "lines_to_answer",
    "load",
    "look_at_ids",
    "one_thread",
    "predictor_of",
    "ready",
    "require_files",
    "shard_answers",
    "shard_jobs",
    "shards_of",
    "together",
    "unknown_words",
    "warnings_about",
]
