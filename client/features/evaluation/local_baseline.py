"""Local only (``training.baseline = "local"``): each node improves a state of its own, and takes the server's but once.

A node keeps its state in its memory and reports it; the mean that the server makes of all is used by no node. So every
engine, resume and checkpoint holds for this baseline as for a federation, and the run has a SHA-256 that all nodes'
states are in. Memory and checkpoint hold one state for each node.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from client.learners.learner import LocalFit, LocalTask
from client.memory import NodeMemory
from client.node_feature import Fit, NodeFeature
from client.request import Request
from fedlearn.config import RunConfig
from fedlearn.config.baselines import LOCAL
from fedlearn.core.state import State

OWN = "apart"  # of a node's memory: the state, and which round it is of


class LocalBaseline(NodeFeature):
    """A state of the node's own."""

    @classmethod
    def is_asked(cls, config: RunConfig) -> bool:
        """Return whether each node trains a state of its own."""
        return config.training.baseline == LOCAL

    def why_not_stacked(self) -> str:
        """Return that nodes begin with different states."""
        return "each client trains a model of its own"

    def state(self, state: State, memory: NodeMemory) -> State:
        """Return the node's own state; the server's before the node has one."""
        return memory.arrays.get(OWN, state)

    def fit(self, request: Request, state: State, task: LocalTask, fit: Fit) -> LocalFit:
        """Return the fit of a round, whose state the node keeps."""
        return made_once(request.memory, task.round_number, lambda: fit(state, task))


def made_once(memory: NodeMemory, round_number: int, fit: Callable[[], LocalFit]) -> LocalFit:
    """Return the fit of a round, made once: a node that is asked again for the round does not train twice."""
    about = json.loads(memory.texts.get(OWN, "{}"))
    if about.get("round") != round_number:
        made = fit()
        memory.arrays[OWN] = {name: array.copy() for name, array in made.arrays.items()}
        about = {"round": round_number, "examples": made.num_examples, "metrics": made.metrics}
        memory.texts[OWN] = json.dumps(about)
    return LocalFit(memory.arrays[OWN], about["examples"], about["metrics"])
