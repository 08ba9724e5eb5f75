"""What ``clearhead.load()`` returns: a model with its tokenizers and its way of decoding."""

from clearhead.predictor.crew import Crew
from clearhead.predictor.engine import Engine
from clearhead.predictor.forced import Forced, forced
from clearhead.predictor.predictor import Answer, Predictor, load

__all__ = ["Answer", "Crew", "Engine", "Forced", "Predictor", "forced", "load"]
