"""The demonstrations: each takes seconds, calls clearhead's own modules, and returns Evidence. They import torch."""
