"""The algorithms that the field compares, one file each: a strategy, a learner, or both, as guests from outside."""
