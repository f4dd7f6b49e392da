"""How a node improves the state: one file a learner, named by its model or by ``training.learner``."""

from fedlearn.registry import Registry

LEARNERS = Registry(
    "training.learner",
    {
        "sgd": "client.learners.sgd:SGD",
        "tree": "client.learners.tree:TreeLearner",
        "sums": "client.learners.sums:SumsLearner",
    },
    asks=("from_settings",),
)
