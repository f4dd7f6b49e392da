"""Measure the processor time of a node's fit with our pooled convolution (`fedlearn.kernels`), relative to torch's.

    OMP_NUM_THREADS=1 FEDLEARN_DATA=... python -m experiments.speed.convolution --model cnn --batches 10,50,100

One process of one thread, CIFAR-10, 500 images, one local epoch, lr 0.1, no momentum. The two take turns,
and the table has the median of their ratios, as other load comes and goes. `moved apart` is the difference between the
two trained states, relative to the change by training.
"""

from __future__ import annotations

import argparse
import time
from statistics import median
from unittest import mock

import numpy as np

from client.learners.learner import LocalTask
from client.learners.sgd import SGD
from experiments.speed.stacks import SETTINGS, loaded
from fedlearn.config import config_from
from fedlearn.core.state import State
from fedlearn.kernels import pooled_convolution

IMAGES = 500


def main() -> None:
    """Measure, and print a line for each batch size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--batches", default="10,50,100")
    parser.add_argument("--repeats", type=int, default=9)
    given = parser.parse_args()
    data, model = loaded(given.model)
    state = model.initial_state(seed=1)
    task = LocalTask(data.train, np.arange(IMAGES), 1, 1, 0, {})
    for size in map(int, given.batches.split(",")):
        learner = SGD.from_settings(model, config_from({**SETTINGS, "training.batch_size": size}))
        ratios, apart = zip(*[compared(learner, state, task) for _ in range(given.repeats + 1)][1:], strict=True)
        spread = f"({min(ratios):.2f}-{max(ratios):.2f})"
        print(f"batch={size} ratio={median(ratios):.2f} {spread} moved apart={max(apart):.1g}")


def compared(learner: SGD, state: State, task: LocalTask) -> tuple[float, float]:
    """Return the processor time of a fit with our loops over that with torch's, and the difference of the results."""
    seconds, moved = [], []
    for ours in (True, False):
        with mock.patch.object(pooled_convolution, "has_vectors", lambda ours=ours: ours):
            begun = time.process_time()
            fit = learner.fit(state, task)
            seconds.append(time.process_time() - begun)
            moved.append(np.concatenate([np.ravel(np.float64(fit.arrays[name]) - state[name]) for name in state]))
    return seconds[0] / seconds[1], float(np.linalg.norm(moved[0] - moved[1]) / np.linalg.norm(moved[1]))


if __name__ == "__main__":
    main()
