"""FedAvg by hand around Opacus: DP-SGD on each node of DATA.npz; needs Opacus, not fedlearn. Prints the accuracy.

PYTHON -m experiments.private_networks.opacus_fedavg DATA.npz --model mlp --rounds 10 --steps 21 ...
"""

from __future__ import annotations

import argparse
import copy
import warnings

import numpy as np
import torch
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from opacus.utils.uniform_sampler import UniformWithReplacementSampler
from torch import nn

from experiments.private_networks.opacus_step import CNN


def main() -> None:
    """Train, and print the share of test examples that the last state gets right."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--model", choices=["mlp", "cnn"], required=True)
    for name in ("rounds", "steps", "seed"):
        parser.add_argument(f"--{name}", type=int, required=True)
    for name in ("rate", "expected", "clip", "noise-multiplier", "lr", "momentum"):
        parser.add_argument(f"--{name}", type=float, required=True)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    torch.manual_seed(given.seed)
    data = {name: torch.from_numpy(array) for name, array in np.load(given.data).items()}
    width = data["train"].shape[1]
    hidden = [nn.Linear(width, 200), nn.ReLU(), nn.Linear(200, 200), nn.ReLU(), nn.Linear(200, 2)]
    shared = CNN() if given.model == "cnn" else nn.Sequential(*hidden)
    for _ in range(given.rounds):
        states = []
        for node in data["owner"].unique():
            x, y = (data[name][data["owner"] == node] for name in ("train", "targets"))
            model = GradSampleModule(copy.deepcopy(shared))
            sgd = torch.optim.SGD(model.parameters(), given.lr, momentum=given.momentum)
            optimizer = DPOptimizer(
                sgd, noise_multiplier=given.noise_multiplier, max_grad_norm=given.clip,
                expected_batch_size=given.expected,
            )  # fmt: skip
            for rows in UniformWithReplacementSampler(num_samples=len(x), sample_rate=given.rate, steps=given.steps):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
                optimizer.step()
            states.append(model._module.state_dict())
        shared.load_state_dict({name: sum(each[name] for each in states) / len(states) for name in states[0]})
    with torch.no_grad():
        print(float((shared(data["test"]).argmax(1) == data["test_targets"]).float().mean()))


if __name__ == "__main__":
    main()
