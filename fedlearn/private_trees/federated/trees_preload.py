"""Import what workers need to train trees, before they are forked: numba and scikit-learn take a second; no torch."""

from fedlearn.engine.processes import importing

with importing():
    import fedlearn.private_trees.estimators
    import fedlearn.private_trees.federated.models.boosting_model
    import fedlearn.private_trees.federated.models.forest_classification
    import fedlearn.private_trees.federated.models.naive_bayes_model
    import fedlearn.private_trees.federated.models.relay_model  # noqa: F401
