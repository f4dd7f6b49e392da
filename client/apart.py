"""Local only (``training.baseline = "local"``): each node improves a state of its own, and takes the server's but once.

A node keeps its state in its memory and reports it; the mean that the server makes of all is used by no node. So every
engine, resume and checkpoint holds for this baseline as for a federation, and the run has a SHA-256 that all nodes'
states are in. Memory and checkpoint hold one state for each node.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from client.learners.base import LocalFit
from client.memory import NodeMemory
from client.request import Request
from fedlearn.config import RunConfig
from fedlearn.config.baselines import LOCAL
from fedlearn.core.state import State

KEPT = "apart"  # of a node's memory: the state, and which round it is of


def is_apart(config: RunConfig) -> bool:
    """Return whether each node trains a state of its own."""
    return config.training.baseline == LOCAL


def own_state(request: Request, state: State) -> State:
    """Return the state that the node goes on from and measures: the server's, or its own where nodes train apart."""
    return request.memory.arrays.get(KEPT, state) if is_apart(request.config) else state


def kept_apart(memory: NodeMemory, round_number: int, fit: Callable[[], LocalFit]) -> LocalFit:
    """Return the fit of a round, made once: a node that is asked again for the round does not train twice."""
    about = json.loads(memory.texts.get(KEPT, "{}"))
    if about.get("round") != round_number:
        made = fit()
        memory.arrays[KEPT] = {name: array.copy() for name, array in made.arrays.items()}
        about = {"round": round_number, "examples": made.num_examples, "metrics": made.metrics}
        memory.texts[KEPT] = json.dumps(about)
    return LocalFit(memory.arrays[KEPT], about["examples"], about["metrics"])
