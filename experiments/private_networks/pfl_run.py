"""Train with central noise that protects nodes, by pfl-research in the code of its users; needs pfl, not fedlearn.

    PYTHON experiments/private_networks/pfl_run.py DATA.npz --model cnn --rounds 20 --cohort 50 --seed 1 ...

`FederatedAveraging` with `GaussianMechanism` on the sum of all nodes; each round draws its nodes anew, without putting
back. DATA.npz holds images and labels, and the rows of each node. Prints a line of JSON with the accuracy after the
last round, and the processor seconds of a round, without the first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByUser
from pfl.algorithm.base import NNAlgorithmParams
from pfl.algorithm.federated_averaging import FederatedAveraging
from pfl.callback.base import TrainingProcessCallback
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.pytorch import PyTorchTensorDataset
from pfl.hyperparam.base import NNTrainHyperParams
from pfl.metrics import Metrics
from pfl.model.pytorch import PyTorchModel
from pfl.privacy.gaussian_mechanism import GaussianMechanism
from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
from torch import Tensor, nn


def layers_of(model: str) -> nn.Sequential:
    """Return `cnn` of this project, or the network of pfl's benchmark, by torch's own layers."""
    if model == "cnn":
        return nn.Sequential(
            nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip
    network = nn.Sequential(
        nn.Conv2d(3, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.25),
        nn.Flatten(), nn.Linear(64 * 14 * 14, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10),
    )  # fmt: skip
    for layer in network:
        if isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(layer.weight)
    return network


class Network(nn.Module):
    """A network with the methods that pfl needs."""

    def __init__(self, model: str) -> None:
        super().__init__()
        self.layers = layers_of(model)

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean cross entropy of a batch."""
        self.train()
        return nn.functional.cross_entropy(self.layers(images), labels)

    def metrics(self, images: Tensor, labels: Tensor) -> dict[str, Any]:
        """Return nothing: no round is measured."""
        return {}


class Clock(TrainingProcessCallback):  # type: ignore[misc]
    """A callback that notes the processor time at the end of each round."""

    def __init__(self) -> None:
        self.ended: list[float] = []

    def after_central_iteration(
        self, aggregate_metrics: Metrics, model: PyTorchModel, *, central_iteration: int
    ) -> tuple[bool, Metrics]:
        """Note it, and go on."""
        self.ended.append(time.process_time())
        return False, Metrics()


def pictures(data: Any, part: str) -> tuple[Tensor, Tensor]:
    """Return images (n, 3, 32, 32), normalized, and labels (n,)."""
    wide = torch.from_numpy(data[part]).permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.from_numpy(data[name]).view(3, 1, 1) for name in ("mean", "std"))
    return ((wide - mean) / std).contiguous(), torch.from_numpy(data[f"{part}_labels"])


def accuracy_of(layers: nn.Module, images: Tensor, labels: Tensor) -> float:
    """Return the share of images whose largest logit is that of their label."""
    layers.eval()
    with torch.no_grad():
        found = torch.cat([layers(part).argmax(1) for part in images.split(100)])
    return float((found == labels).float().mean())


def drawn(nodes: int, cohort: int, seed: int) -> Iterator[int]:
    """Yield the nodes of each round, drawn without putting back."""
    generator = np.random.default_rng(seed)
    while True:
        yield from generator.choice(nodes, cohort, replace=False).tolist()


def main() -> None:
    """Train, measure the last state, and print the line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--model", default="cnn")
    for name in ("rounds", "cohort", "batch", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("lr", "clip", "noise-multiplier"):
        parser.add_argument(f"--{name}", type=float, required=True)
    given = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    np.random.seed(given.seed)
    data = np.load(given.data)
    x, y = pictures(data, "train")
    held = [(x[rows], y[rows]) for rows in torch.from_numpy(data["rows"])]
    sampler, network, clock = drawn(len(held), given.cohort, given.seed), Network(given.model), Clock()
    noise = CentrallyAppliedPrivacyMechanism(GaussianMechanism(given.clip, given.noise_multiplier))
    users = FederatedDataset(lambda node: PyTorchTensorDataset(held[node]), lambda: next(sampler))
    FederatedAveraging().run(
        NNAlgorithmParams(given.rounds, float("nan"), given.cohort, None),
        SimulatedBackend(users, None, [WeightByUser(), noise]),
        PyTorchModel(network, torch.optim.SGD, torch.optim.SGD(network.parameters(), 1.0)),
        NNTrainHyperParams(local_num_epochs=1, local_learning_rate=given.lr, local_batch_size=given.batch),
        callbacks=[clock],
    )
    accuracy = accuracy_of(network.layers, *pictures(data, "test"))
    cpu = (clock.ended[-1] - clock.ended[0]) / (given.rounds - 1)
    print(json.dumps({"accuracy": accuracy, "cpu": cpu}))


if __name__ == "__main__":
    main()
