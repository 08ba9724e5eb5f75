"""Exports: a model as other libraries and engines take it, compared with the original before it gets its name."""

from clearhead.interop.exporting.result import TARGETS, Agreement, Exported, Target
from clearhead.interop.exporting.sample import Batch, Sample, make_sample
from clearhead.interop.exporting.targets import export_to, require_packages

__all__ = [
    "TARGETS",
    "Agreement",
    "Batch",
    "Exported",
    "Sample",
    "Target",
    "export_to",
    "make_sample",
    "require_packages",
]
