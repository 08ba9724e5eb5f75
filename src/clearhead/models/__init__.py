"""Whole models, built from recipes, and model files."""

from clearhead.models.base import Model, State, Writer
from clearhead.models.build import build, count_parameters
from clearhead.models.device import computes_bfloat16, pick_device, use_cores
from clearhead.models.encoder import ClassifierModel, EncoderModel
from clearhead.models.evaluating import AttentionChoice, device_of, evaluating
from clearhead.models.file import (
    SavedModel,
    add_tensors,
    fingerprint_of,
    load_model,
    save_model,
    stored_tensors,
    without_joint,
)
from clearhead.models.influence import influence
from clearhead.models.joint import JointTable
from clearhead.models.lm import LanguageModel
from clearhead.models.outline import model_bytes, outline, require_model_memory
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.tree import BlockTree, ModelBlock, block_tree

__all__ = [
    "AttentionChoice",
    "BlockTree",
    "ClassifierModel",
    "EncoderModel",
    "JointTable",
    "LanguageModel",
    "Model",
    "ModelBlock",
    "SavedModel",
    "Seq2Seq",
    "State",
    "Writer",
    "add_tensors",
    "block_tree",
    "build",
    "computes_bfloat16",
    "count_parameters",
    "device_of",
    "evaluating",
    "fingerprint_of",
    "influence",
    "load_model",
    "model_bytes",
    "outline",
    "pick_device",
    "require_model_memory",
    "save_model",
    "stored_tensors",
    "use_cores",
    "without_joint",
]
