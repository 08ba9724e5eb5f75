"""What to build, as validated data. Nothing here imports torch.

``read_recipe("tiny", "model.layers=2")`` reads a preset or a TOML file with overrides; ``register`` adds a kind.
"""

from clearhead.recipe.attention import (
    AttentionPlace,
    AttentionSpec,
    DisentangledSpec,
    FreeHeadsSpec,
    LinformerSpec,
    MultiHeadSpec,
)
from clearhead.recipe.convolutional import ConvolutionalDecoderSpec, ConvolutionalEncoderSpec, ConvolutionalSpec
from clearhead.recipe.data import TASKS, DataSpec, TokenizerSpec
from clearhead.recipe.differences import Difference, differences
from clearhead.recipe.feedforward import FeedForwardSpec, GatedSpec, OuterSpec, SingleSpec, StandardSpec
from clearhead.recipe.grid import AxialSpec, GridSpec, PatchesSpec, Relative2dSpec, Sinusoidal2dSpec, WindowSpec
from clearhead.recipe.local import LocalSpec
from clearhead.recipe.metrics import (
    Material,
    MetricKind,
    metric_kinds,
    metric_rises,
    metrics_for,
    metrics_of,
    register_metric,
)
from clearhead.recipe.model import (
    ClassifierSpec,
    CrossSpec,
    EncoderModelSpec,
    InitSpec,
    LanguageModelSpec,
    ModelSpec,
    Recipe,
    Seq2SeqSpec,
)
from clearhead.recipe.naming import Named, named, no_recipe, require_data, require_utf8, weights_of
from clearhead.recipe.norm import LayerNormSpec, NormSpec, RmsNormSpec
from clearhead.recipe.notes import notes_of
from clearhead.recipe.position import (
    AlibiSpec,
    LearnedSpec,
    NoPositionSpec,
    PositionSpec,
    RotarySpec,
    ShawSpec,
    SinusoidalSpec,
    T5BucketsSpec,
)
from clearhead.recipe.reading import (
    Source,
    read_decoding,
    read_recipe,
    read_with_origins,
    recipe_from,
    recipe_of_header,
)
from clearhead.recipe.recurrent import (
    AlignmentSpec,
    BahdanauSpec,
    LuongSpec,
    NoAlignmentSpec,
    RecurrentDecoderSpec,
    RecurrentEncoderSpec,
    RecurrentSpec,
)
from clearhead.recipe.registry import Kind, cost_of, kinds, module_of, register, slots
from clearhead.recipe.settings import Given, Settings
from clearhead.recipe.sources import preset_names, preset_text, settings_of_overrides
from clearhead.recipe.spec import KindSpec, Spec
from clearhead.recipe.stack import (
    DecoderSpec,
    DropoutSpec,
    EncoderSpec,
    ResidualSpec,
    StackSpec,
    TransformerDecoderSpec,
    TransformerEncoderSpec,
    TransformerSpec,
    dropout_rate,
)
from clearhead.recipe.stored import FORMAT, VERSION, Header, read_header
from clearhead.recipe.training import DecodingSpec, MaskingSpec, OptimizerSpec, ScheduleSpec, TrainingSpec
from clearhead.recipe.vocabulary import EmbeddingSpec, VocabularySpec
from clearhead.recipe.writing import recipe_table, recipe_toml

__all__ = [
    "FORMAT",
    "TASKS",
    "VERSION",
    "AlibiSpec",
    "AlignmentSpec",
    "AttentionPlace",
    "AttentionSpec",
    "AxialSpec",
    "BahdanauSpec",
    "ClassifierSpec",
    "ConvolutionalDecoderSpec",
    "ConvolutionalEncoderSpec",
    "ConvolutionalSpec",
    "CrossSpec",
    "DataSpec",
    "DecoderSpec",
    "DecodingSpec",
    "Difference",
    "DisentangledSpec",
    "DropoutSpec",
    "EmbeddingSpec",
    "EncoderModelSpec",
    "EncoderSpec",
    "FeedForwardSpec",
    "FreeHeadsSpec",
    "GatedSpec",
    "Given",
    "GridSpec",
    "Header",
    "InitSpec",
    "Kind",
    "KindSpec",
    "LanguageModelSpec",
    "LayerNormSpec",
    "LearnedSpec",
    "LinformerSpec",
    "LocalSpec",
    "LuongSpec",
    "MaskingSpec",
    "Material",
    "MetricKind",
    "ModelSpec",
    "MultiHeadSpec",
    "Named",
    "NoAlignmentSpec",
    "NoPositionSpec",
    "NormSpec",
    "OptimizerSpec",
    "OuterSpec",
    "PatchesSpec",
    "PositionSpec",
    "Recipe",
    "RecurrentDecoderSpec",
    "RecurrentEncoderSpec",
    "RecurrentSpec",
    "Relative2dSpec",
    "ResidualSpec",
    "RmsNormSpec",
    "RotarySpec",
    "ScheduleSpec",
    "Seq2SeqSpec",
    "Settings",
    "ShawSpec",
    "SingleSpec",
    "Sinusoidal2dSpec",
    "SinusoidalSpec",
    "Source",
    "Spec",
    "StackSpec",
    "StandardSpec",
    "T5BucketsSpec",
    "TokenizerSpec",
    "TrainingSpec",
    "TransformerDecoderSpec",
    "TransformerEncoderSpec",
    "TransformerSpec",
    "VocabularySpec",
    "WindowSpec",
    "cost_of",
    "differences",
    "dropout_rate",
    "kinds",
    "metric_kinds",
    "metric_rises",
    "metrics_for",
    "metrics_of",
    "module_of",
    "named",
    "no_recipe",
    "notes_of",
    "preset_names",
    "preset_text",
    "read_decoding",
    "read_header",
    "read_recipe",
    "read_with_origins",
    "recipe_from",
    "recipe_of_header",
    "recipe_table",
    "recipe_toml",
    "register",
    "register_metric",
    "require_data",
    "require_utf8",
    "settings_of_overrides",
    "slots",
    "weights_of",
]
