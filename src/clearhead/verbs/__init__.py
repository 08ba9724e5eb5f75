"""The front door: train, evaluate, check, answer and score as functions; the command line calls these and prints.

Nothing here imports torch before it is needed, so that a mistake in what was asked for is reported at once.
"""

from clearhead.verbs.align import Alignments, align
from clearhead.verbs.answer import AnswerStream, answer_file, answer_lines
from clearhead.verbs.check import check
from clearhead.verbs.compare import RecipeComparison, compare_recipes
from clearhead.verbs.cost import cost, crossover
from clearhead.verbs.engines import EngineComparison, compare_engines
from clearhead.verbs.evaluate import ScoredExample, evaluate, score
from clearhead.verbs.exporting import export_model
from clearhead.verbs.heads import study_heads
from clearhead.verbs.importing import import_model
from clearhead.verbs.inputs import recipe_and_data
from clearhead.verbs.look import look
from clearhead.verbs.merge import merge_adapters
from clearhead.verbs.naming import load, model_named, recipe_named
from clearhead.verbs.prune import Pruned, PrunedSize, prune
from clearhead.verbs.run import Run
from clearhead.verbs.shards import answer_shards
from clearhead.verbs.show import show
from clearhead.verbs.together import together
from clearhead.verbs.train import train
from clearhead.verbs.vectors import vector_file, vector_lines

__all__ = [
    "Alignments",
    "AnswerStream",
    "EngineComparison",
    "Pruned",
    "PrunedSize",
    "RecipeComparison",
    "Run",
    "ScoredExample",
    "align",
    "answer_file",
    "answer_lines",
    "answer_shards",
    "check",
    "compare_engines",
    "compare_recipes",
    "cost",
    "crossover",
    "evaluate",
    "export_model",
    "import_model",
    "load",
    "look",
    "merge_adapters",
    "model_named",
    "prune",
    "recipe_and_data",
    "recipe_named",
    "score",
    "show",
    "study_heads",
    "together",
    "train",
    "vector_file",
    "vector_lines",
]
