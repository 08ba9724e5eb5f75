"""Search: from a step function to answers. It knows no model."""

from clearhead.decoding.greedy import greedy

__all__ = ["greedy"]
