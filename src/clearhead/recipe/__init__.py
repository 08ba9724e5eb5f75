"""What to build, as validated data. Nothing here imports torch.

``read_recipe("tiny", "model.layers=2")`` reads a preset or a TOML file with overrides; ``register`` adds a kind.
"""

from clearhead.recipe.attention import AttentionSpec, Disentangled, Linformer, MultiHead, Place
from clearhead.recipe.data import Data, Tokenizer
from clearhead.recipe.feedforward import FeedForwardSpec, Gated, Outer, Single, Standard
from clearhead.recipe.model import (
    Classifier,
    Cross,
    Dropout,
    Embedding,
    Encoder,
    Init,
    LanguageModel,
    ModelSpec,
    Recipe,
    Seq2Seq,
    Stack,
    Vocabulary,
    dropout_rate,
)
from clearhead.recipe.norm import LayerNorm, NormSpec, RmsNorm
from clearhead.recipe.position import Alibi, Learned, NoPosition, PositionSpec, Rotary, Shaw, Sinusoidal, T5Buckets
from clearhead.recipe.reading import read_recipe, recipe_from
from clearhead.recipe.registry import Kind, Kinded, Spec, cost_of, kinds, module_of, register, slots
from clearhead.recipe.sources import preset_names, preset_text
from clearhead.recipe.training import Decoding, Optimizer, Schedule, Training
from clearhead.recipe.writing import recipe_table, recipe_toml

__all__ = [
    "Alibi",
    "AttentionSpec",
    "Classifier",
    "Cross",
    "Data",
    "Decoding",
    "Disentangled",
    "Dropout",
    "Embedding",
    "Encoder",
    "FeedForwardSpec",
    "Gated",
    "Init",
    "Kind",
    "Kinded",
    "LanguageModel",
    "LayerNorm",
    "Learned",
    "Linformer",
    "ModelSpec",
    "MultiHead",
    "NoPosition",
    "NormSpec",
    "Optimizer",
    "Outer",
    "Place",
    "PositionSpec",
    "Recipe",
    "RmsNorm",
    "Rotary",
    "Schedule",
    "Seq2Seq",
    "Shaw",
    "Single",
    "Sinusoidal",
    "Spec",
    "Stack",
    "Standard",
    "T5Buckets",
    "Tokenizer",
    "Training",
    "Vocabulary",
    "cost_of",
    "dropout_rate",
    "kinds",
    "module_of",
    "preset_names",
    "preset_text",
    "read_recipe",
    "recipe_from",
    "recipe_table",
    "recipe_toml",
    "register",
    "slots",
]
