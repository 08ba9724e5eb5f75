"""Formulas: a subset of LaTeX, as MathML for a page and as plain Unicode for a terminal."""

from clearhead.lectures.formula.mathml import mathml
from clearhead.lectures.formula.plain import plain

__all__ = ["mathml", "plain"]
