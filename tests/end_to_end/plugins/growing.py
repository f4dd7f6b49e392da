"""A model of one number that grows by 1 in each round, and is judged by the targets of whoever measures it."""

import numpy as np

from client.learners.learner import Learner, LocalFit
from fedlearn.core.metric import Metric
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import UpdateKind
from fedlearn.data import from_arrays
from fedlearn.models.model import Evaluation

OF_CLIENTS, OF_SERVER = 2.0, 4.0  # targets


def load(data_dir):
    rows = np.zeros((40, 1), np.float32)
    targets = np.full(40, OF_CLIENTS), np.full(40, OF_SERVER)
    return from_arrays(rows, targets[0], rows, targets[1], name="growing")


class Growing:
    update_kind = UpdateKind.DENSE
    learner = "growing:Step"
    metrics = Metrics((), (Metric("gap", better="down", headline=True),))

    def initial_state(self, *, seed):
        return {"x": np.zeros(1)}

    def evaluate(self, state, examples):
        return Evaluation({"gap": float(np.abs(state["x"] - examples.targets).sum())}, len(examples))


class Step(Learner):
    @classmethod
    def from_settings(cls, model, config):
        return cls()

    def fit(self, state, task):
        return LocalFit({"x": state["x"] + 1}, 1, {})


def model():
    return Growing()
