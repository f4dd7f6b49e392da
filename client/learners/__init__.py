"""How a node improves the state: one file a learner, named by its model."""

from fedlearn.registry import Registry

LEARNERS = Registry(
    "model.name",
    {
        "sgd": "client.learners.sgd:SGD",
        "tree": "client.learners.tree:TreeLearner",
    },
)
