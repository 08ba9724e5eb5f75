"""What torch really does, counted: the proof of the closed forms."""

from clearhead.costing.tracing.graph import Node, Traced, trace
from clearhead.costing.tracing.layers import longest_chain
from clearhead.costing.tracing.operators import Call, OperatorCost, operator_cost
from clearhead.costing.tracing.run import (
    Watch,
    Watched,
    WorkCounter,
    attention_path,
    counted_macs,
    saved_bytes,
    watch,
    written_out,
)

__all__ = [
    "Call",
    "Node",
    "OperatorCost",
    "Traced",
    "Watch",
    "Watched",
    "WorkCounter",
    "attention_path",
    "counted_macs",
    "longest_chain",
    "operator_cost",
    "saved_bytes",
    "trace",
    "watch",
    "written_out",
]
