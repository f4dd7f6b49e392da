"""What workers need that train trees: numba and scikit-learn, which take a second, and no torch."""

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.models.relay
    import fedlearn.trees.classes.classification
    import fedlearn.trees.classes.permute_and_flip_forest  # noqa: F401
