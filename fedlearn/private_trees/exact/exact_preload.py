"""Import what workers need to grow trees of exact sums, before they are forked; no torch."""

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.private_trees.exact.exact_model  # noqa: F401
