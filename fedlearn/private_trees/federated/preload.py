"""What workers need that train trees: numba and scikit-learn, which take a second, and no torch."""

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.private_trees.estimators
    import fedlearn.private_trees.federated.models.relay
    import fedlearn.private_trees.federated.models.sums  # noqa: F401
