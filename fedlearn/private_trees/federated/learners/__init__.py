"""Learners of private models: how a node grows private trees or sends noisy sums."""
