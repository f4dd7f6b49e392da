"""Fine-tune one network three ways, and print the accuracy and the bytes that each client sends and gets.

    python -m experiments.algorithms.few_bytes
    python -m experiments.algorithms.few_bytes --seeds 1 --rounds 20

A network learns ten classes of generated rows. Then the rows are rotated, and 20 clients, each with few of the classes
(Dirichlet 0.3), five in each round, train all weights by FedAvg, or low-rank adapters by FFA-LoRA; or send
directional derivatives of all weights, or of the adapters (DeComFL).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Mapping
from time import process_time
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import fedlearn
from fedlearn.data import Dataset, from_arrays

WIDTH, FEATURES, CLASSES, RANK = 128, 40, 10, 8
CLIENTS, COHORT, EXAMPLES = 20, 5, 2000


class Adapted(nn.Module):
    """A frozen layer with a low-rank adapter."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.lora_A = nn.Linear(layer.in_features, RANK, bias=False)
        self.lora_B = nn.Linear(RANK, layer.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return W x + B A x."""
        return self.layer(x) + self.lora_B(self.lora_A(x))  # type: ignore[no-any-return]


def rows(seed: int, *, angle: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return examples of ten classes around random centers, rotated in pairs of columns."""
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(0).normal(size=(CLASSES, FEATURES)) * 0.6
    y = rng.integers(0, CLASSES, EXAMPLES)
    X = centers[y] + rng.normal(size=(EXAMPLES, FEATURES))
    left, right = X[:, ::2].copy(), X[:, 1::2].copy()
    X[:, ::2], X[:, 1::2] = (
        np.cos(angle) * left - np.sin(angle) * right, np.sin(angle) * left + np.cos(angle) * right
    )  # fmt: skip
    return X.astype("float32"), y


def pretrained(seed: int) -> nn.Sequential:
    """Return the network after training in one place, on rows that are not rotated."""
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    made = nn.Sequential(nn.Linear(FEATURES, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                         nn.Linear(WIDTH, CLASSES))  # fmt: skip
    X, y = map(torch.from_numpy, rows(seed))
    optimizer = torch.optim.Adam(made.parameters(), lr=1e-3)
    for _ in range(5):
        for batch in torch.randperm(len(y)).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(made(X[batch]), y[batch]).backward()
            optimizer.step()
    return made


def adapted(base: nn.Sequential) -> nn.Sequential:
    """Return the network with an adapter in each layer, and no other trained weight."""
    return nn.Sequential(*(Adapted(each) if isinstance(each, nn.Linear) else each for each in base))


WAYS: dict[str, dict[str, Any]] = {
    "all weights, fedavg": {"strategy": "fedavg", "lr": 0.02, "settings": {"training.local_epochs": 1}},
    "adapters, ffa-lora": {"strategy": "ffa-lora", "lr": 0.1, "settings": {"training.local_epochs": 1}},
    "all weights, decomfl": {"strategy": "decomfl", "lr": 0.01, "settings": {}},
    "adapters, decomfl": {"strategy": "decomfl", "lr": 0.05, "settings": {}},
}


def one(way: str, seed: int, rounds: int, lr: float | None) -> Mapping[str, float]:
    """Return accuracy, bytes of a client of the cohort over all rounds, and processor seconds."""
    about = WAYS[way]
    base = pretrained(seed)
    X, y = rows(seed + 100, angle=0.9)
    X_test, y_test = rows(seed + 200, angle=0.9)
    data: Dataset = from_arrays(X, y, X_test, y_test, mean=0, std=1)
    begun = process_time()
    with tempfile.TemporaryDirectory() as folder:
        run = fedlearn.run(
            clients=CLIENTS, cohort=COHORT, data=data, model=adapted(base) if way.startswith("adapters") else base,
            strategy=about["strategy"], rounds=rounds, lr=lr or about["lr"], batch_size=200, seed=seed,
            partition="dirichlet", engine="inline", progress=False, out=folder + "/run",
            settings={"data.alpha": 0.3, "training.lr_schedule": "constant", **about["settings"]},
        )  # fmt: skip
        accuracy = run.summary["accuracy"]
        before = run.evaluate()["accuracy"] if not rounds else _accuracy(base, X_test, y_test)
        up, down = (run.summary[name] / COHORT for name in ("bytes_up", "bytes_down"))
    seconds = process_time() - begun
    return {"before": before, "accuracy": accuracy, "up": up, "down": down, "seconds": seconds}


def _accuracy(module: nn.Module, X: np.ndarray, y: np.ndarray) -> float:
    with torch.no_grad():
        return float((module.eval()(torch.from_numpy(X)).argmax(1).numpy() == y).mean())


def main() -> None:
    """Print a table, one line for each way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--lr", type=float, help="learning rate of all ways, in place of their own")
    parser.add_argument(
        "--ways", default="", help="only ways whose names have one of these texts, separated by commas: ffa,decomfl"
    )
    options = parser.parse_args()
    print("| way | accuracy, before | after | bytes up | bytes down | CPU s |\n|---|---|---|---|---|---|")
    for way in (each for each in WAYS if any(text in each for text in options.ways.split(","))):
        found = [one(way, seed, options.rounds, options.lr) for seed in range(1, options.seeds + 1)]
        mean = {name: statistics.mean(each[name] for each in found) for name in found[0]}
        spread = max(each["accuracy"] for each in found) - min(each["accuracy"] for each in found)
        print(f"| {way} | {mean['before']:.3f} | {mean['accuracy']:.3f} (spread {spread:.3f}) | {mean['up']:,.0f} | "
              f"{mean['down']:,.0f} | {mean['seconds']:.0f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
