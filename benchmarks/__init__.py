"""Benchmarks: clearhead and its peers take turns in one process; medians are compared."""
