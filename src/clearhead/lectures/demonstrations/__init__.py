"""The demonstrations: each takes seconds, calls the product's own parts, and returns Evidence. These import torch."""
