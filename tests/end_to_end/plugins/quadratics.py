"""Heterogeneous quadratics: node i wants x near its own point b_i, and pulls as hard as its own curvature a_i.

The mean of the nodes' losses a_i / 2 * ||x - b_i||^2 is least at sum(a_i b_i) / sum(a_i). Federated averaging ends
elsewhere: the steeper a node, the nearer it is to its own point after a few steps, whatever the others want.
"""

import numpy as np

from client.learners.learner import Learner, LocalFit
from fedlearn.core.metric import Metric
from fedlearn.core.metrics import Metrics
from fedlearn.core.state import UpdateKind
from fedlearn.models.model import Evaluation

STEPS, LR = 10, 0.1
NODES = 12


def curvature(node):
    return 0.2 + 1.8 * (node % 4) / 3


def target(node):
    return np.array([np.cos(node), node / NODES, (-1.0) ** node])


OPTIMUM = sum(curvature(n) * target(n) for n in range(NODES)) / sum(map(curvature, range(NODES)))


class Quadratics:
    update_kind = UpdateKind.DENSE
    learner = "quadratics:Descent"
    metrics = Metrics((), (Metric("gap", better="down", headline=True, note="distance to the optimum"),))

    def initial_state(self, *, seed):
        return {"x": np.full(3, 4.0)}

    def gradient(self, x, node):
        return curvature(node) * (x - target(node))

    def evaluate(self, state, examples):
        return Evaluation({"gap": float(np.linalg.norm(state["x"] - OPTIMUM)) * len(examples)}, len(examples))


class Descent(Learner):
    """Gradient descent on the node's own quadratic."""

    def __init__(self, model):
        self.model = model

    @classmethod
    def from_settings(cls, model, config):
        return cls(model)

    def fit(self, state, task):
        x = state["x"]
        for _ in range(STEPS):
            x = x - LR * self.model.gradient(x, task.partition_id)
        return LocalFit({"x": x}, 1, {})


def model():
    return Quadratics()
