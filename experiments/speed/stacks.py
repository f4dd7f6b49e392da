"""Measure the processor time of a node's fit by the number of nodes in one computation (``training.stack``).

    FEDLEARN_DATA=... python -m experiments.speed.stacks --model cnn --images 50 --stacks 0,10

One process of one thread, CIFAR-10, one local epoch of batches of 100, lr 0.1, no momentum. A stack of 0 is the
default: ten nodes, with the bytes of single nodes. Stacks take turns, A B C A B C, and the table has the median of the
ratios to single nodes in the same turn, as other load comes and goes.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from statistics import median

import numpy as np

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from fedlearn.config import config_from
from fedlearn.core.state import State
from fedlearn.data import load_dataset
from fedlearn.data.dataset import Dataset
from fedlearn.engine.prepare import STACK
from fedlearn.models import load_model
from fedlearn.models.torch.torch_model import TorchModel

SETTINGS = {"training.local_epochs": 1, "training.lr": 0.1, "training.momentum": 0.0}


def main() -> None:
    """Measure and print a line for each stack."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--images", type=int, default=50, help="of each node")
    parser.add_argument("--nodes", type=int, default=40)
    parser.add_argument("--stacks", default="0,2,5,10")
    parser.add_argument("--batch-size", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=7)
    given = parser.parse_args()
    data, model = loaded(given.model)
    stacks = [1, *map(int, given.stacks.split(","))]
    settings = {**SETTINGS, "training.batch_size": given.batch_size}
    learners = [SGD.from_settings(model, config_from({**settings, "training.stack": stack})) for stack in stacks]
    rows = np.random.default_rng(0).permutation(len(data.train))[: given.nodes * given.images]
    tasks = [LocalTask(data.train, mine, 1, 1, k, {}) for k, mine in enumerate(np.split(rows, given.nodes))]
    state = model.initial_state(seed=1)
    seconds = [[cpu_seconds(learner, state, tasks) for learner in learners] for _ in range(given.repeats + 1)][1:]
    for place, stack in enumerate(stacks):
        each = 1000 * median(turn[place] for turn in seconds) / given.nodes
        ratios = sorted(turn[place] / turn[0] for turn in seconds)
        print(f"stack={stack} ms_a_node={each:.1f} ratio={median(ratios):.2f} ({ratios[0]:.2f}-{ratios[-1]:.2f})")


def loaded(name: str) -> tuple[Dataset, TorchModel]:
    """Return CIFAR-10, and a network for it."""
    data = load_dataset("cifar10", "")
    model = load_model(name, data.spec)
    assert isinstance(data, Dataset)
    assert isinstance(model, TorchModel)
    return data, model


def cpu_seconds(learner: SGD, state: State, tasks: list[LocalTask]) -> float:
    """Return the processor time of all fits."""
    begun = time.process_time()
    for first in range(0, len(tasks), size := learner.training.stack or STACK):
        deque(learner.fit_many(state, tasks[first : first + size]), maxlen=0)
    return time.process_time() - begun


if __name__ == "__main__":
    main()
