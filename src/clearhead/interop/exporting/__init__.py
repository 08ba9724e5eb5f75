"""Exports: a model as other libraries and engines take it, compared with the original before it gets its name."""

from clearhead.interop.exporting.result import TARGETS, Agreement, Exported, Target
from clearhead.interop.exporting.sample import Batch, Sample, make_sample

__all__ = [
    "TARGETS",
    "Agreement",
    "Batch",
    "Exported",
    "Sample",
    "Target",
    "make_sample",
]
