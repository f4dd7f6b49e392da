"""SCAFFOLD with option II control variates: Karimireddy et al. 2020 (arXiv:1910.06378), algorithm 1.

Each node keeps how its own gradient differs from the others' and steps as if it were like them: the drift of local
steps is gone. Server: x <- mean of y_i, c <- c + |S| / N * mean of (c_i+ - c_i). Node: y <- y - lr (g_i(y) - c_i + c),
then c_i+ = c_i - c + (x - y) / (K lr).
"""

import numpy as np
from quadratics import LR, STEPS, Descent

from client.learners.learner import LocalFit
from fedlearn.aggregation import ParcelPlan
from fedlearn.core.cohort import Fate
from fedlearn.core.state import layout_of
from strategies.base import RoundStrategy, Step


def zeros_of(state):
    return {name: np.zeros_like(array) for name, array in state.items()}


class Scaffold(RoundStrategy):
    learner = "scaffold:ScaffoldDescent"

    def __init__(self, *, uniform=False):
        super().__init__(uniform=uniform)
        self.control = {}

    def parcels(self, state):
        return {"control": self.control or zeros_of(state)}

    def answers(self, state):
        return {"control": ParcelPlan(layout_of(state), self.accumulator, uniform=True)}

    def next_state(self, turn):
        reported = sum(report.fate is Fate.REPORTED for report in turn.reports)
        change = turn.parcels["control"].mean(otherwise=zeros_of(turn.state))
        before = self.parcels(turn.state)["control"]
        self.control = {name: before[name] + reported / turn.clients * change[name] for name in before}
        return Step(turn.total.mean(otherwise=turn.state))

    def memory(self):
        return self.control

    def remember(self, memory):
        self.control = dict(memory)


class ScaffoldDescent(Descent):
    def fit(self, state, task):
        x, common = state["x"], task.parcels["control"]["x"]
        own = task.memory.arrays.get("control", zeros_of(state))["x"]
        y = x
        for _ in range(STEPS):
            y = y - LR * (self.model.gradient(y, task.partition_id) - own + common)
        now = own - common + (x - y) / (STEPS * LR)
        task.memory.arrays["control"] = {"x": now}
        return LocalFit({"x": y}, 1, {}, {"control": {"x": now - own}})
