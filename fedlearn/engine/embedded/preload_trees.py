"""What `preload` does, for models of trees: numba and scikit-learn, which take a second, and no torch."""

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.engine.embedded.tidying
    import fedlearn.engine.embedded.worker
    import fedlearn.models.relay
    import fedlearn.trees.classes.classification
    import fedlearn.trees.classes.permute_and_flip_forest  # noqa: F401
