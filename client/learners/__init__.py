"""How a node improves the state: one file a learner, named by its model or by ``training.learner``."""

from fedlearn.plugins import tables
from fedlearn.plugins.registry import Registry

LEARNERS = Registry(
    "training.learner",
    tables.LEARNERS,
    asks=("from_settings",),
)
