"""Time the same rounds on fluke, in one process, in the code of a fluke user.

    PYTHON -m experiments.speed.fluke_rounds --model cnn --workload w1 --rounds 5 --json

PYTHON is the interpreter of an environment of its own: ``pip install torch torchvision fluke-fl psutil`` and this
project. The model is that of the hand-written loop, the images are ours; fluke's FedAVG trains NCHW float batches with
`torch.optim.SGD`. No state is evaluated. There is one thread, as more made fluke slower.
"""

from __future__ import annotations

import argparse
import json
import time
from statistics import median
from typing import Any

import psutil
import torch
from fluke import DDict, FlukeENV
from fluke.algorithms.fedavg import FedAVG
from fluke.data import FastDataLoader
from fluke.utils import FederationObserver

from experiments.speed.flower_ray import BATCH, MODELS, WORKLOADS
from experiments.speed.shards import nchw_shards
from experiments.speed.two_process_loop import build_model
from fedlearn.data.cifar10 import SPEC


class Shards:
    """A data splitter that gives clients the shards of our clients."""

    def assign(self, clients: int, batch_size: int) -> tuple[tuple[list[FastDataLoader], list[None]], None]:
        """Return a loader for each client, and no test data."""
        loaders = [
            FastDataLoader(images, labels, num_labels=SPEC.classes, batch_size=batch_size, shuffle=True)
            for images, labels in nchw_shards(clients)
        ]
        return (loaders, [None] * clients), None


class Clock(FederationObserver):  # type: ignore[misc]
    """An observer that notes begin, end and processor time of each round's training."""

    def __init__(self) -> None:
        self.rounds: list[tuple[float, float]] = []
        self.first_ended = 0.0

    def start_round(self, round: int, global_model: Any) -> None:
        """Start the clock."""
        self._began = time.time(), time.process_time()

    def end_round(self, round: int) -> None:
        """Stop the clock."""
        self.rounds.append((time.time() - self._began[0], time.process_time() - self._began[1]))
        self.first_ended = self.first_ended or time.time()


def main() -> None:
    """Make a run and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", choices=MODELS, default="cnn")
    parser.add_argument("--workload", choices=WORKLOADS, default="w1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    clients, cohort = WORKLOADS[options.workload]
    FlukeENV().set_seed(1)
    FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    client = DDict(
        batch_size=BATCH,
        local_epochs=1,
        loss="CrossEntropyLoss",
        optimizer=DDict(lr=options.lr),
        scheduler=DDict(step_size=1, gamma=1.0),  # fluke needs a scheduler; this one keeps the rate
    )
    settings = DDict(client=client, server=DDict(weighted=True), model=build_model(options.model))
    algorithm = FedAVG(clients, Shards(), settings)
    clock = Clock()
    algorithm.set_callbacks(clock)
    algorithm.run(options.rounds, cohort / clients, finalize=False)
    steady, spent = (median(column) for column in zip(*clock.rounds[1:], strict=True))
    result = {
        "median_steady_seconds": steady,
        "cpu_seconds": spent,
        "startup_seconds": clock.first_ended - psutil.Process().create_time() - steady,
    }
    print(json.dumps(result) if options.json else result)


if __name__ == "__main__":
    main()
