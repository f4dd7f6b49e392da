"""How a node improves the state: one file a learner, named by its model or by ``training.learner``."""

from fedlearn import plugins
from fedlearn.plugging.registry import Registry

LEARNERS = Registry(
    "training.learner",
    plugins.LEARNERS,
    asks=("from_settings",),
)
