"""Exports: a model as other libraries and engines take it, compared with the original before it gets its name."""

from clearhead.interop.exporting.result import Agreement, Exported, Target
from clearhead.interop.exporting.sample import Sample, SampleBatch, make_sample

__all__ = [
    "Agreement",
    "Exported",
    "Sample",
    "SampleBatch",
    "Target",
    "make_sample",
]
