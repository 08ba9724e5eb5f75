"""Whole models, built from a recipe, and the file that keeps one."""

from clearhead.models.base import Model, State, Writer
from clearhead.models.build import build, count_parameters
from clearhead.models.device import pick_device
from clearhead.models.encoder import ClassifierModel, EncoderModel
from clearhead.models.file import SavedModel, add_tensors, load_model, save_model, stored_tensors, write_whole
from clearhead.models.influence import influence
from clearhead.models.lm import LanguageModel
from clearhead.models.seq2seq import Seq2Seq

__all__ = [
    "ClassifierModel",
    "EncoderModel",
    "LanguageModel",
    "Model",
    "SavedModel",
    "Seq2Seq",
    "State",
    "Writer",
    "add_tensors",
    "build",
    "count_parameters",
    "influence",
    "load_model",
    "pick_device",
    "save_model",
    "stored_tensors",
    "write_whole",
]
