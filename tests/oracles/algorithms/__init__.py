"""Algorithms as their papers write them, each in at most 40 lines: slow, obvious, float64, no class of ours."""
