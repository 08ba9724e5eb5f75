"""What a model costs: closed forms, which need no torch, and tracing, which holds them against what torch does.

``clearhead.cost("transformer-base")`` is the way in. ``costing.tracing`` is not imported here, and torch with it.
"""

from clearhead.costing.comparison import Compared, side_by_side
from clearhead.costing.crossovers import Crossover, crossover
from clearhead.costing.forms.attention import AttentionForm, AttentionSetting, keep, remembered
from clearhead.costing.forms.bill import Cost
from clearhead.costing.forms.crossings import Crossing
from clearhead.costing.forms.formula import Formula
from clearhead.costing.forms.lecture import (
    attention_space,
    attention_work,
    convolution_layer,
    matmul_space,
    matmul_work,
    multihead_space,
    multihead_work,
    recurrent_layer,
    restricted_layer,
    self_attention_layer,
    span_of_attention,
    span_of_dot,
    span_of_scores,
    span_of_softmax,
)
from clearhead.costing.forms.letters import B, letter, lg, m, n, t
from clearhead.costing.forms.parallel import Cluster, Parallel, Prediction, predicted
from clearhead.costing.forms.sketch import Ledger, Sketch
from clearhead.costing.memory import require_training_memory, training_bytes
from clearhead.costing.model import ModelCost, cost, cost_of_recipe, title_of
from clearhead.costing.sheet import CostReport

__all__ = [
    "AttentionForm",
    "AttentionSetting",
    "B",
    "Cluster",
    "Compared",
    "Cost",
    "CostReport",
    "Crossing",
    "Crossover",
    "Formula",
    "Ledger",
    "ModelCost",
    "Parallel",
    "Prediction",
    "Sketch",
    "attention_space",
    "attention_work",
    "convolution_layer",
    "cost",
    "cost_of_recipe",
    "crossover",
    "keep",
    "letter",
    "lg",
    "m",
    "matmul_space",
    "matmul_work",
    "multihead_space",
    "multihead_work",
    "n",
    "predicted",
    "recurrent_layer",
    "remembered",
    "require_training_memory",
    "restricted_layer",
    "self_attention_layer",
    "side_by_side",
    "span_of_attention",
    "span_of_dot",
    "span_of_scores",
    "span_of_softmax",
    "t",
    "title_of",
    "training_bytes",
]
