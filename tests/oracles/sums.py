"""A federation of sums without messages: nodes count and add noise, their reports are added up in Python's integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from client.learners.learner import LocalTask
from client.learners.sums_learner import SumsLearner
from fedlearn.config import RunConfig, config_from
from fedlearn.core.state import State
from fedlearn.data.data_spec import Examples


def config_of(**changes: object) -> RunConfig:
    given = {name.replace("__", "."): value for name, value in changes.items()}
    return config_from({"privacy.noise": "seeded", "rounds.cohort": 0} | given)


def task_of(train: Examples, rows: np.ndarray, node: int, round_number: int, seed: int = 1) -> LocalTask:
    return LocalTask(train, rows, seed, round_number, node, {})


def federated(
    model: object, config: RunConfig, train: Examples, shards: Sequence[np.ndarray], *, silent: Sequence[int] = ()
) -> State:
    """Return the state after all rounds; nodes that are silent never report."""
    learner = SumsLearner.from_settings(model, config)
    state = learner.model.initial_state(seed=1)
    for number in range(1, config.rounds.total + 1):
        reports = [
            learner.fit(state, task_of(train, rows, node, number, config.seed)).arrays
            for node, rows in enumerate(shards)
            if node not in silent
        ]
        sums = [sum(int(each["sums"][at]) for each in reports) for at in range(len(reports[0]["sums"]))]
        state = {
            "sums": np.concatenate([state["sums"], np.array(sums, np.int64)]),
            "reports": np.append(state["reports"], len(reports)),
        }
    return state
