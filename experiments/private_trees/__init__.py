"""Experiments on private trees: the papers' printed results beside ours."""
