"""Additive models made of noisy sums over declared cells: boosting and naive Bayes."""
