"""A joint n-gram model of pairs: how sources and targets go together, counted (Bisani & Ney 2008).

Pairs are aligned by expectation–maximisation (``alignment``), the aligned units become the tokens of a smoothed n-gram
model (``kneser_ney``), and that model scores pairs (``ngrams``). It needs seconds where a network needs minutes, and
errs elsewhere: a beam of answers that both rank is better than what either finds alone. Only NumPy is needed.
"""

from clearhead.joint.alignment import SHAPES, aligned, unit_keys
from clearhead.joint.kneser_ney import NgramTable, count_ngrams
from clearhead.joint.ngrams import UNALIGNED, JointNgrams, explained, fit, from_bytes, in_bytes

__all__ = [
    "SHAPES",
    "UNALIGNED",
    "JointNgrams",
    "NgramTable",
    "aligned",
    "count_ngrams",
    "explained",
    "fit",
    "from_bytes",
    "in_bytes",
    "unit_keys",
]
