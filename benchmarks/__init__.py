"""Benchmarks: ours and the peers in turn, in one process, ratios of medians."""
