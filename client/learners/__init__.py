"""How a node improves the state: one file a learner, named by its model or by ``training.learner``."""

from fedlearn.plugging.registry import Registry

LEARNERS = Registry(
    "training.learner",
    {
        "sgd": "client.learners.sgd:SGD",
        "tree": "fedlearn.private_trees.federated.learners.tree:TreeLearner",
        "sums": "fedlearn.private_trees.federated.learners.sums:SumsLearner",
    },
    asks=("from_settings",),
)
