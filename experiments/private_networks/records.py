"""Accuracy of models that protect each record of a node, by nodes and epsilon: DP-SGD beside `dp-boosting`.

    python -m experiments.private_networks.records --dataset adult --nodes 5 25 --epsilons 1 4 --seeds 1 2

Adult is learned by `mlp`, by DP-SGD at delta 1e-6, and by `dp-boosting` at pure epsilon; CIFAR-10 by `cnn`. Epsilon inf
is plain training of the network with the same steps.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import mean

import fedlearn

STEPS = {"training.batch_size": 256, "training.local_epochs": 1, "training.lr_decay": 0.0}
NETWORKS = {"adult": "mlp", "cifar10": "cnn", "digits": "linear"}


def cells_of(dataset: str, epsilon: float, rounds: int) -> dict[str, dict[str, object]]:
    """Return model in words -> settings of its run."""
    network: dict[str, object] = {"model.name": NETWORKS[dataset], "rounds.total": rounds, **STEPS}
    if epsilon == float("inf"):
        return {NETWORKS[dataset]: network}
    private = {"privacy.protects": "records", "privacy.epsilon": epsilon, "privacy.delta": 1e-6}
    found = {f"{NETWORKS[dataset]}, DP-SGD": network | private}
    if dataset == "adult":
        found["dp-boosting"] = {"model.name": "dp-boosting", "privacy.epsilon": epsilon}
    return found


def accuracy_of(settings: Mapping[str, object], *, nodes: int, seed: int, dataset: str) -> float:
    """Return the accuracy after the last round, on the test set."""
    with tempfile.TemporaryDirectory() as folder:
        both = {"data.dataset": dataset, "rounds.cohort": 0, "seed": seed, "evaluation.every": 1000}
        out = {"out": str(Path(folder) / "run")}
        run = fedlearn.run(nodes, settings=dict(settings) | both | out, progress=False)
        return float(run.summary["accuracy"])


def main() -> None:
    """Print a line for each cell."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=NETWORKS, default="adult")
    parser.add_argument("--nodes", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10)
    given = parser.parse_args()
    print("| data | nodes | epsilon | model | accuracy | lowest, highest |\n|---|---|---|---|---|---|", flush=True)
    for nodes in given.nodes:
        for epsilon in given.epsilons:
            for name, settings in cells_of(given.dataset, epsilon, given.rounds).items():
                found = [accuracy_of(settings, nodes=nodes, seed=each, dataset=given.dataset) for each in given.seeds]
                spread = f"{min(found):.4f}, {max(found):.4f}"
                print(
                    f"| {given.dataset} | {nodes} | {epsilon:g} | {name} | {mean(found):.4f} | {spread} |", flush=True
                )


if __name__ == "__main__":
    main()
