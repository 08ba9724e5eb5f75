"""What to build, as validated data. Nothing here imports torch.

``read_recipe("tiny", "model.layers=2")`` reads a preset or a TOML file with overrides; ``register`` adds a kind.
"""

from clearhead.recipe.attention import AttentionSpec, Disentangled, Linformer, MultiHead, Place
from clearhead.recipe.data import TASKS, Data, Tokenizer
from clearhead.recipe.differences import Difference, differences
from clearhead.recipe.feedforward import FeedForwardSpec, Gated, Outer, Single, Standard
from clearhead.recipe.grid import Axial, Grid, Patches, Relative2d, Sinusoidal2d, Window
from clearhead.recipe.model import Classifier, Cross, Encoder, Init, LanguageModel, ModelSpec, Recipe, Seq2Seq
from clearhead.recipe.naming import Named, named, no_recipe, require_data, require_utf8, weights_of
from clearhead.recipe.norm import LayerNorm, NormSpec, RmsNorm
from clearhead.recipe.notes import notes_of
from clearhead.recipe.position import Alibi, Learned, NoPosition, PositionSpec, Rotary, Shaw, Sinusoidal, T5Buckets
from clearhead.recipe.reading import read_recipe, read_with_origins, recipe_from, recipe_of_header, table_with_origins
from clearhead.recipe.recurrent import (
    AlignmentSpec,
    Bahdanau,
    Luong,
    NoAlignment,
    Recurrent,
    RecurrentDecoder,
    RecurrentEncoder,
)
from clearhead.recipe.registry import Kind, Kinded, Spec, cost_of, kinds, module_of, register, slots
from clearhead.recipe.sources import Settings, preset_names, preset_text
from clearhead.recipe.stack import (
    DecoderSpec,
    Dropout,
    EncoderSpec,
    Stack,
    StackSpec,
    TransformerDecoder,
    TransformerEncoder,
    dropout_rate,
)
from clearhead.recipe.stored import FORMAT, VERSION, Header, read_header
from clearhead.recipe.training import METRICS, RISING, Decoding, Masking, Optimizer, Schedule, Training
from clearhead.recipe.vocabulary import Embedding, Vocabulary
from clearhead.recipe.writing import recipe_table, recipe_toml

__all__ = [
    "FORMAT",
    "METRICS",
    "RISING",
    "TASKS",
    "VERSION",
    "Alibi",
    "AlignmentSpec",
    "AttentionSpec",
    "Axial",
    "Bahdanau",
    "Classifier",
    "Cross",
    "Data",
    "DecoderSpec",
    "Decoding",
    "Difference",
    "Disentangled",
    "Dropout",
    "Embedding",
    "Encoder",
    "EncoderSpec",
    "FeedForwardSpec",
    "Gated",
    "Grid",
    "Header",
    "Init",
    "Kind",
    "Kinded",
    "LanguageModel",
    "LayerNorm",
    "Learned",
    "Linformer",
    "Luong",
    "Masking",
    "ModelSpec",
    "MultiHead",
    "Named",
    "NoAlignment",
    "NoPosition",
    "NormSpec",
    "Optimizer",
    "Outer",
    "Patches",
    "Place",
    "PositionSpec",
    "Recipe",
    "Recurrent",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "Relative2d",
    "RmsNorm",
    "Rotary",
    "Schedule",
    "Seq2Seq",
    "Settings",
    "Shaw",
    "Single",
    "Sinusoidal",
    "Sinusoidal2d",
    "Spec",
    "Stack",
    "StackSpec",
    "Standard",
    "T5Buckets",
    "Tokenizer",
    "Training",
    "TransformerDecoder",
    "TransformerEncoder",
    "Vocabulary",
    "Window",
    "cost_of",
    "differences",
    "dropout_rate",
    "kinds",
    "module_of",
    "named",
    "no_recipe",
    "notes_of",
    "preset_names",
    "preset_text",
    "read_header",
    "read_recipe",
    "read_with_origins",
    "recipe_from",
    "recipe_of_header",
    "recipe_table",
    "recipe_toml",
    "register",
    "require_data",
    "require_utf8",
    "slots",
    "table_with_origins",
    "weights_of",
]
