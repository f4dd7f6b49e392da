"""Time the same rounds on pfl-research, by two processes of torchrun, in the code of its users.

    PYTHON -m experiments.speed.pfl_rounds --model cnn --workload w1 --rounds 5 --json

PYTHON is the interpreter of an environment of its own: ``pip install torch torchvision psutil 'pfl[pytorch]'`` and this
project. The model is that of the hand-written loop, the images are ours, the training is pfl's: `FederatedAveraging`
over NCHW float batches with `torch.optim.SGD`. No state is evaluated: pfl evaluates in rounds whose number divides its
frequency, so the frequency is NaN. Each process has one thread. On a GPU, which pfl takes where there is one, the
workload is that of pfl's published benchmark: ``--workload pfl --model pfl --batch 10 --processes 1``.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from experiments.speed.flower_ray import WORKLOADS

NODES_AND_COHORT = {**WORKLOADS, "pfl": (1000, 50)}


def train(options: argparse.Namespace) -> None:
    """Train as one of the processes, and write end and processor time of each round."""
    import torch
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByDatapoints
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.data.pytorch import PyTorchTensorDataset
    from pfl.data.sampling import MinimizeReuseUserSampler
    from pfl.hyperparam.base import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel
    from torch import nn

    from experiments.speed.pfl_cnn import PflCNN
    from experiments.speed.shards import nchw_shards
    from experiments.speed.two_process_loop import build_model
    from fedlearn.data.cifar10 import SPEC

    class Network(nn.Module):
        """The network with the methods that pfl needs."""

        def __init__(self) -> None:
            super().__init__()
            self.network = PflCNN(SPEC) if options.model == "pfl" else build_model(options.model)

        def loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            return nn.functional.cross_entropy(self.network(images), labels)

        def metrics(self, images: torch.Tensor, labels: torch.Tensor) -> dict[str, Any]:
            return {}

    class Clock(TrainingProcessCallback):  # type: ignore[misc]
        """A callback that notes when a round has ended."""

        def __init__(self) -> None:
            self.ended: list[tuple[float, float]] = []

        def after_central_iteration(
            self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
        ) -> tuple[bool, Metrics]:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.ended.append((time.time(), time.process_time()))
            return False, Metrics()

    torch.set_num_threads(1)
    nodes, cohort = NODES_AND_COHORT[options.workload]
    held = nchw_shards(nodes)
    network = Network()
    clock = Clock()
    FederatedAveraging().run(
        NNAlgorithmParams(options.rounds, float("nan"), cohort, None),
        SimulatedBackend(
            FederatedDataset(
                lambda node: PyTorchTensorDataset(held[node]), MinimizeReuseUserSampler(list(range(nodes)))
            ),
            None,
            [WeightByDatapoints()],
        ),
        PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=options.lr, local_batch_size=options.batch),
        callbacks=[clock],
    )
    Path(options.folder, os.environ["RANK"]).write_text(json.dumps(clock.ended))


def main() -> None:
    """Start the processes and print the measurements."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", default="cnn")
    parser.add_argument("--workload", choices=NODES_AND_COHORT, default="w1")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--folder", default="", help=argparse.SUPPRESS)  # passed by the first process to the others
    options = parser.parse_args()
    if options.folder:
        train(options)
        return
    began = time.time()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(options.processes)]
        command += ["-m", "experiments.speed.pfl_rounds", "--folder", folder, "--model", options.model]
        command += ["--workload", options.workload, "--rounds", str(options.rounds), "--lr", str(options.lr)]
        command += ["--batch", str(options.batch)]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
        ranks = [json.loads(path.read_text()) for path in sorted(Path(folder).iterdir())]
    ended = [max(moments) for moments in zip(*([wall for wall, _ in rank] for rank in ranks), strict=True)]
    spent = [sum(parts) for parts in zip(*([cpu for _, cpu in rank] for rank in ranks), strict=True)]
    steady = median(after - before for before, after in pairwise(ended))
    result = {
        "median_steady_seconds": steady,
        "cpu_seconds": median(after - before for before, after in pairwise(spent)),
        "startup_seconds": ended[0] - began - steady,
    }
    print(json.dumps(result) if options.json else result)


if __name__ == "__main__":
    main()
