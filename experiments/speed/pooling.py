"""Processor time of a node's fit with our max pooling (`fedlearn.models.pooling`), times that with torch's.

    FEDLEARN_DATA=... python -m experiments.speed.pooling --model cnn --batches 10,50,100

One process of one thread, CIFAR-10, 500 images, one local epoch, lr 0.1, no momentum. Both are measured in turn, and
what is quoted is the median of their ratios: other load comes and goes. What they have learned must be the same bytes.
"""

from __future__ import annotations

import argparse
import time
from statistics import median

import numpy as np

from client.learners.base import LocalTask
from client.learners.sgd import SGD
from experiments.speed.stacks import SETTINGS, loaded
from fedlearn.config import config_from
from fedlearn.models import pooling
from fedlearn.state import State

IMAGES = 500
NEVER = 1 << 62  # numbers that come out of a pooling, for it to be ours


def main() -> None:
    """Measure, and print a line for each size of batches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--batches", default="10,50,100")
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    data, model = loaded(given.model)
    state = model.initial_state(seed=1)
    task = LocalTask(data.train, np.arange(IMAGES), 1, 1, 0, {})
    for size in map(int, given.batches.split(",")):
        learner = SGD.from_settings(model, config_from({**SETTINGS, "training.batch_size": size}))
        ratios = [ratio(learner, state, task) for _ in range(given.repeats + 1)][1:]
        print(f"batch={size} ratio={median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


def ratio(learner: SGD, state: State, task: LocalTask) -> float:
    """Return the processor time of a fit with our pooling, divided by that with torch's."""
    seconds, learned = [], []
    ours = pooling.FEWEST
    for fewest in (ours, NEVER):
        pooling.FEWEST = fewest
        begun = time.process_time()
        fit = learner.fit(state, task)
        seconds.append(time.process_time() - begun)
        learned.append({name: array.tobytes() for name, array in fit.arrays.items()})
    pooling.FEWEST = ours
    assert learned[0] == learned[1], "the two have not learned the same bytes"
    return seconds[0] / seconds[1]


if __name__ == "__main__":
    main()
