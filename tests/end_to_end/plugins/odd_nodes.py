"""A model with a 0-d parameter, and nodes whose changes a test chooses; some nodes are not there at all.

What a node does is a table of this process, so the runs are those of the inline engine.
"""

import numpy as np

from client.learners.base import Learner, LocalFit
from fedlearn.models.base import Evaluation
from fedlearn.words.metric import TRAIN_LOSS, Metric
from fedlearn.words.metrics import Metrics
from fedlearn.words.state import UpdateKind

CHANGES = {}  # (partition, round number) -> change of each parameter; 0.01 in each entry unless given
ABSENT = set()  # partitions


class Odd:
    update_kind = UpdateKind.DENSE
    learner = "odd_nodes:Chosen"
    metrics = Metrics((TRAIN_LOSS,), (Metric("size", better="down", headline=True),))

    def initial_state(self, *, seed):
        return {"scale": np.array(1.0), "weight": np.full((2, 3), 0.5, np.float32), "bias": np.zeros(2, np.float32)}

    def evaluate(self, state, examples):
        total = sum(float(np.abs(array).sum()) for array in state.values())
        return Evaluation({"size": total * len(examples)}, len(examples))


class Counting(Odd):
    def initial_state(self, *, seed):
        return {**super().initial_state(seed=seed), "batches": np.array(7)}


class Chosen(Learner):
    """Returns the change that the table says."""

    @classmethod
    def from_settings(cls, model, config):
        return cls()

    def fit(self, state, task):
        if task.partition_id in ABSENT:
            raise RuntimeError("this node is not there")
        change = CHANGES.get((task.partition_id, task.round_number), {name: 0.01 for name in state})
        with np.errstate(all="ignore"):
            after = {name: (array + np.asarray(change[name])).astype(array.dtype) for name, array in state.items()}
        return LocalFit(after, 1 + 10 * task.partition_id, {TRAIN_LOSS.name: 0.123456 + task.partition_id})


def model():
    return Odd()


def counting():
    return Counting()
