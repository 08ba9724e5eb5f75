"""Closed forms: what a recipe costs, by sums over sketches of its mechanisms. Nothing here imports torch."""
