"""What a model costs: closed forms, which need no torch, and tracing, which holds them against what torch does.

``clearhead.cost("transformer-base")`` is the way in; the names of ``tracing`` are loaded, and torch with them, only
when they are used.
"""

from importlib import import_module
from typing import Any

from clearhead.costing.forms.attention import Look
from clearhead.costing.forms.bill import Cost, ModelCost, cost
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
from clearhead.costing.forms.sketch import Ledger, Sketch

_TRACING: tuple[str, ...] = ()


def __getattr__(name: str) -> Any:
    if name not in _TRACING:
        raise AttributeError(f"module 'clearhead.costing' has no attribute {name!r}")
    return getattr(import_module("clearhead.costing.tracing"), name)


__all__ = [
    "B",
    "Cost",
    "Formula",
    "Ledger",
    "Look",
    "ModelCost",
    "Sketch",
    "attention_space",
    "attention_work",
    "convolution_layer",
    "cost",
    "letter",
    "lg",
    "m",
    "matmul_space",
    "matmul_work",
    "multihead_space",
    "multihead_work",
    "n",
    "recurrent_layer",
    "restricted_layer",
    "self_attention_layer",
    "span_of_attention",
    "span_of_dot",
    "span_of_scores",
    "span_of_softmax",
    "t",
]
