"""What ``clearhead.load()`` returns: a model with its tokenizers and its way of answering."""

from clearhead.predictor.base import Answer, Predictor
from clearhead.predictor.crew import Crew
from clearhead.predictor.engine import Engine
from clearhead.predictor.filler import Filler
from clearhead.predictor.forced import Forced, forced
from clearhead.predictor.labeller import Labeller
from clearhead.predictor.loading import load, predictor_of
from clearhead.predictor.writer import TextWriter

__all__ = [
    "Answer",
    "Crew",
    "Engine",
    "Filler",
    "Forced",
    "Labeller",
    "Predictor",
    "TextWriter",
    "forced",
    "load",
    "predictor_of",
]
