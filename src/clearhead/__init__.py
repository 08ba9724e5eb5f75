"""Transformers you can see through.

One recipe describes a model; clearhead builds it, block by block as the lectures write it, and its numbers agree with
the libraries that you know. ``__all__`` lists the public names. They are loaded on first use, so that
``import clearhead`` and ``clearhead --help`` stay fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from clearhead.constants import VERSION

if TYPE_CHECKING:
    from clearhead.attention import AttentionContext as AttentionContext
    from clearhead.attention import AxialAttention as AxialAttention
    from clearhead.attention import Cache as Cache
    from clearhead.attention import GridAttention as GridAttention
    from clearhead.attention import MultiHeadAttention as MultiHeadAttention
    from clearhead.attention import WindowAttention as WindowAttention
    from clearhead.attention import attend as attend
    from clearhead.attention import causal_mask as causal_mask
    from clearhead.attention import choose as choose
    from clearhead.attention import weigh as weigh
    from clearhead.blocks import AddNorm as AddNorm
    from clearhead.blocks import BahdanauAlignment as BahdanauAlignment
    from clearhead.blocks import Embedding as Embedding
    from clearhead.blocks import GatedFeedForward as GatedFeedForward
    from clearhead.blocks import Layer as Layer
    from clearhead.blocks import LayerNorm as LayerNorm
    from clearhead.blocks import LuongAlignment as LuongAlignment
    from clearhead.blocks import Memory as Memory
    from clearhead.blocks import OuterFeedForward as OuterFeedForward
    from clearhead.blocks import Output as Output
    from clearhead.blocks import Patches as Patches
    from clearhead.blocks import Recurrence as Recurrence
    from clearhead.blocks import RecurrentDecoder as RecurrentDecoder
    from clearhead.blocks import RecurrentEncoder as RecurrentEncoder
    from clearhead.blocks import RmsNorm as RmsNorm
    from clearhead.blocks import SingleFeedForward as SingleFeedForward
    from clearhead.blocks import Stack as Stack
    from clearhead.blocks import StandardFeedForward as StandardFeedForward
    from clearhead.costing import Compared as Compared
    from clearhead.costing import Cost as Cost
    from clearhead.costing import CostReport as CostReport
    from clearhead.costing import Crossover as Crossover
    from clearhead.costing import Formula as Formula
    from clearhead.costing import ModelCost as ModelCost
    from clearhead.costing.lectures import lecture_tables as lecture_tables
    from clearhead.data import Findings as Findings
    from clearhead.decoding import Hypothesis as Hypothesis
    from clearhead.decoding import Rules as Rules
    from clearhead.decoding import Sampler as Sampler
    from clearhead.decoding import Stepper as Stepper
    from clearhead.decoding import Trie as Trie
    from clearhead.decoding import beam_search as beam_search
    from clearhead.decoding import greedy as greedy
    from clearhead.errors import ClearheadError as ClearheadError
    from clearhead.errors import DataError as DataError
    from clearhead.errors import Interrupted as Interrupted
    from clearhead.errors import Problem as Problem
    from clearhead.errors import RecipeError as RecipeError
    from clearhead.evaluation import HeadStudy as HeadStudy
    from clearhead.evaluation import Metric as Metric
    from clearhead.evaluation import Scores as Scores
    from clearhead.evaluation import StudiedHead as StudiedHead
    from clearhead.events import Event as Event
    from clearhead.inspection import InexactAttribution as InexactAttribution
    from clearhead.inspection import View as View
    from clearhead.inspection import error_rate as error_rate
    from clearhead.inspection import head_gates as head_gates
    from clearhead.inspection import head_names as head_names
    from clearhead.inspection import heads_off as heads_off
    from clearhead.inspection import pharaoh as pharaoh
    from clearhead.inspection import read_pharaoh as read_pharaoh
    from clearhead.interop import Agreement as Agreement
    from clearhead.interop import Exported as Exported
    from clearhead.interop import load_huggingface as load_huggingface
    from clearhead.lectures import LECTURES as LECTURES
    from clearhead.lectures import Break as Break
    from clearhead.lectures import BreakReport as BreakReport
    from clearhead.lectures import Claim as Claim
    from clearhead.lectures import Evidence as Evidence
    from clearhead.lectures import EvidenceTable as EvidenceTable
    from clearhead.lectures import Exercise as Exercise
    from clearhead.lectures import Judgement as Judgement
    from clearhead.lectures import Outcome as Outcome
    from clearhead.lectures import break_product as break_product
    from clearhead.lectures import breaks as breaks
    from clearhead.lectures import check_exercise as check_exercise
    from clearhead.lectures import claims as claims
    from clearhead.lectures import demonstrate as demonstrate
    from clearhead.lectures import exercises as exercises
    from clearhead.lectures import find_claims as find_claims
    from clearhead.lectures import find_exercise as find_exercise
    from clearhead.lectures import save_lecture_page as save_lecture_page
    from clearhead.lectures import serve_lecture_page as serve_lecture_page
    from clearhead.machine import keep_freed_memory as keep_freed_memory
    from clearhead.machine import refuse_torch_without_room as refuse_torch_without_room
    from clearhead.models import BlockTree as BlockTree
    from clearhead.models import ClassifierModel as ClassifierModel
    from clearhead.models import EncoderModel as EncoderModel
    from clearhead.models import LanguageModel as LanguageModel
    from clearhead.models import ModelBlock as ModelBlock
    from clearhead.models import SavedModel as SavedModel
    from clearhead.models import Seq2Seq as Seq2Seq
    from clearhead.models import build as build
    from clearhead.models import count_parameters as count_parameters
    from clearhead.models import influence as influence
    from clearhead.models import load_model as load_model
    from clearhead.models import pick_device as pick_device
    from clearhead.models import save_model as save_model
    from clearhead.positions import BucketBias as BucketBias
    from clearhead.positions import GridBias as GridBias
    from clearhead.positions import GridSinusoids as GridSinusoids
    from clearhead.positions import LearnedPosition as LearnedPosition
    from clearhead.positions import NoPosition as NoPosition
    from clearhead.positions import RotaryPosition as RotaryPosition
    from clearhead.positions import SinusoidalPosition as SinusoidalPosition
    from clearhead.positions import positions_of as positions_of
    from clearhead.positions import sinusoids as sinusoids
    from clearhead.positions import t5_bucket as t5_bucket
    from clearhead.predictor import Answer as Answer
    from clearhead.predictor import Filler as Filler
    from clearhead.predictor import Labeller as Labeller
    from clearhead.predictor import NothingMasked as NothingMasked
    from clearhead.predictor import Predictor as Predictor
    from clearhead.predictor import Pronouncer as Pronouncer
    from clearhead.predictor import TextWriter as TextWriter
    from clearhead.predictor import UnknownCharacters as UnknownCharacters
    from clearhead.recipe import Difference as Difference
    from clearhead.recipe import Recipe as Recipe
    from clearhead.recipe import kinds as kinds
    from clearhead.recipe import named as named
    from clearhead.recipe import preset_names as preset_names
    from clearhead.recipe import preset_text as preset_text
    from clearhead.recipe import read_recipe as read_recipe
    from clearhead.recipe import recipe_toml as recipe_toml
    from clearhead.recipe import register as register
    from clearhead.recipe import register_metric as register_metric
    from clearhead.recipe import slots as slots
    from clearhead.serving.server import serve as serve
    from clearhead.shipped import model_card as model_card
    from clearhead.shipped import shipped_names as shipped_names
    from clearhead.verbs import Alignments as Alignments
    from clearhead.verbs import AnswerStream as AnswerStream
    from clearhead.verbs import EngineComparison as EngineComparison
    from clearhead.verbs import Pruned as Pruned
    from clearhead.verbs import PrunedSize as PrunedSize
    from clearhead.verbs import RecipeComparison as RecipeComparison
    from clearhead.verbs import Run as Run
    from clearhead.verbs import ScoredExample as ScoredExample
    from clearhead.verbs import align as align
    from clearhead.verbs import answer_file as answer_file
    from clearhead.verbs import answer_lines as answer_lines
    from clearhead.verbs import answer_shards as answer_shards
    from clearhead.verbs import check as check
    from clearhead.verbs import compare_engines as compare_engines
    from clearhead.verbs import compare_recipes as compare_recipes
    from clearhead.verbs import cost as cost
    from clearhead.verbs import crossover as crossover
    from clearhead.verbs import evaluate as evaluate
    from clearhead.verbs import export_model as export_model
    from clearhead.verbs import import_model as import_model
    from clearhead.verbs import load as load
    from clearhead.verbs import look as look
    from clearhead.verbs import merge_adapters as merge_adapters
    from clearhead.verbs import prune as prune
    from clearhead.verbs import recipe_and_data as recipe_and_data
    from clearhead.verbs import score as score
    from clearhead.verbs import show as show
    from clearhead.verbs import study_heads as study_heads
    from clearhead.verbs import together as together
    from clearhead.verbs import train as train
    from clearhead.verbs import vector_file as vector_file
    from clearhead.verbs import vector_lines as vector_lines

__version__ = VERSION

# The front door first, then the order of a book, from the recipe to the whole model.
_CONTENTS: dict[str, list[str]] = {
    "verbs": [
        *("load", "train", "Run", "evaluate", "check", "look", "score", "ScoredExample"),
        *("align", "Alignments", "together"),
        *("study_heads", "prune", "Pruned", "PrunedSize"),
        *("answer_lines", "answer_file", "answer_shards", "AnswerStream", "vector_lines", "vector_file"),
        *("show", "cost", "crossover", "compare_recipes", "RecipeComparison", "recipe_and_data"),
        *("import_model", "export_model", "merge_adapters"),
        *("compare_engines", "EngineComparison"),
    ],
    "events": ["Event"],
    "recipe": [
        *("Recipe", "read_recipe", "recipe_toml", "preset_names", "preset_text", "slots", "kinds", "Difference"),
        *("named", "register", "register_metric"),
    ],
    "attention": [
        *("attend", "weigh", "choose", "causal_mask", "AttentionContext", "Cache", "MultiHeadAttention"),
        *("GridAttention", "AxialAttention", "WindowAttention"),
    ],
    "positions": [
        *("NoPosition", "SinusoidalPosition", "sinusoids", "LearnedPosition"),
        *("BucketBias", "t5_bucket", "RotaryPosition", "positions_of", "GridSinusoids", "GridBias"),
    ],
    "blocks": [
        *("LayerNorm", "RmsNorm", "AddNorm"),
        *("StandardFeedForward", "OuterFeedForward", "SingleFeedForward", "GatedFeedForward"),
        *("Embedding", "Patches", "Layer", "Stack", "Memory", "Output"),
        *("Recurrence", "RecurrentEncoder", "RecurrentDecoder", "BahdanauAlignment", "LuongAlignment"),
    ],
    "models": [
        *("Seq2Seq", "LanguageModel", "EncoderModel", "ClassifierModel", "build", "count_parameters"),
        "influence",
        *("ModelBlock", "BlockTree"),
        *("SavedModel", "save_model", "load_model", "pick_device"),
    ],
    "costing": ["ModelCost", "Cost", "Formula", "Compared", "Crossover", "CostReport"],
    "costing.lectures": ["lecture_tables"],
    "decoding": ["Trie", "greedy", "beam_search", "Sampler", "Rules", "Stepper", "Hypothesis"],
    "predictor": [
        *("Predictor", "TextWriter", "Pronouncer", "Labeller", "Filler", "Answer"),
        *("UnknownCharacters", "NothingMasked"),
    ],
    "shipped": ["shipped_names", "model_card"],
    "inspection": [
        "View",
        "InexactAttribution",
        "pharaoh",
        "read_pharaoh",
        "error_rate",
        "heads_off",
        "head_gates",
        "head_names",
    ],
    "interop": ["load_huggingface", "Exported", "Agreement"],
    "lectures": [
        *("claims", "find_claims", "demonstrate", "Claim", "Outcome", "Evidence", "EvidenceTable", "LECTURES"),
        *("save_lecture_page", "serve_lecture_page"),
        *("exercises", "find_exercise", "check_exercise", "Exercise", "Judgement"),
        *("breaks", "break_product", "Break", "BreakReport"),
    ],
    "serving.server": ["serve"],
    "machine": ["keep_freed_memory", "refuse_torch_without_room"],
    "data": ["Findings"],
    "evaluation": ["Scores", "Metric", "HeadStudy", "StudiedHead"],
    "errors": ["ClearheadError", "RecipeError", "DataError", "Interrupted", "Problem"],
}
_HOME = {name: layer for layer, names in _CONTENTS.items() for name in names}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'clearhead' has no attribute {name!r}")
    return getattr(import_module(f"clearhead.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
