"""Accuracy of models that protect each record of a node, by nodes and epsilon: DP-SGD beside `dp-boosting`.

    python -m experiments.private_networks.records --dataset adult --out runs/records

Adult is learned by `mlp`, by DP-SGD at delta 1e-6, and by `dp-boosting` at pure epsilon; CIFAR-10 by `cnn`. With
`--opacus-python` the same is also learned by Opacus, in an environment of its own: same nodes, rate, steps, noise
multiplier, clip and step size, with FedAvg by hand (`opacus_fedavg.py`). Epsilon inf is plain training of the network
with as many steps. Each cell that has ended is a line of FOLDER/cells.jsonl, with its commit and date: the same command
goes on from there. `--table` runs nothing.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

import fedlearn
from experiments.private_networks.beside_opacus import opacus_accuracy
from experiments.private_networks.kept import ended, keep

STEPS = {"training.batch_size": 256, "training.local_epochs": 1, "training.lr_decay": 0.0}
NETWORKS = {"adult": "mlp", "cifar10": "cnn", "digits": "linear"}
RATES = {"adult": (0.05, 0.05), "cifar10": (0.1, 0.02), "digits": (0.1, 0.1)}  # learning rates: DP-SGD on FEW, plain
FEW = 5  # nodes; those of n nodes have FEW / n as many steps a round, of clipped gradients, so n / FEW of that rate
EPSILONS = (1.0, 2.0, 4.0, 8.0, math.inf)
PATIENCE = 3600.0  # seconds: on a busy machine a round takes minutes
OPACUS = ", DP-SGD by Opacus"
KEY = ("dataset", "rounds", "nodes", "epsilon", "model", "seed")


def cells_of(
    dataset: str, epsilon: float, rounds: int, *, nodes: int, with_opacus: bool
) -> dict[str, dict[str, object]]:
    """Return model in words -> settings of its run."""
    private, plain = RATES[dataset]
    network: dict[str, object] = {"model.name": NETWORKS[dataset], "rounds.total": rounds, **STEPS}
    if epsilon == math.inf:
        return {f"{NETWORKS[dataset]}, plain": network | {"training.lr": plain}}
    noisy = {"privacy.protects": "records", "privacy.epsilon": epsilon, "privacy.delta": 1e-6}
    noisy["training.lr"] = private * nodes / FEW
    noisy["training.learner"] = "dp-sgd"
    found = {f"{NETWORKS[dataset]}, DP-SGD": network | noisy}
    if with_opacus and dataset != "digits":
        found[NETWORKS[dataset] + OPACUS] = network | noisy
    if dataset == "adult":
        found["dp-boosting"] = {"model.name": "dp-boosting", "privacy.epsilon": epsilon}
    return found


def wanted(given: argparse.Namespace) -> Iterator[tuple[dict[str, Any], dict[str, object]]]:
    """Yield the key of each cell that is asked for, and the settings of its run; all cells of a seed come first."""
    for seed, nodes, epsilon in product(given.seeds, given.nodes, given.epsilons):
        cells = cells_of(given.dataset, epsilon, given.rounds, nodes=nodes, with_opacus=bool(given.opacus_python))
        for model, settings in cells.items():
            if given.models and model not in given.models:
                continue
            values = (given.dataset, given.rounds, nodes, epsilon, model, seed)
            yield dict(zip(KEY, values, strict=True)), settings


def run(cell: dict[str, Any], settings: dict[str, object], opacus_python: str) -> dict[str, Any]:
    """Return the cell with accuracy after the last round on the test set, and seconds."""
    begin = time.monotonic()
    place: dict[str, object] = {
        "data.dataset": cell["dataset"], "rounds.cohort": 0, "seed": cell["seed"], "evaluation.every": 1000,
        "rounds.reporting_deadline": PATIENCE,
    }  # fmt: skip
    if cell["model"].endswith(OPACUS):
        accuracy = opacus_accuracy({**settings, **place, "clients": cell["nodes"]}, opacus_python)
    else:
        with tempfile.TemporaryDirectory() as folder:
            out = {"out": str(Path(folder) / "run"), "engine.workers": 1}
            accuracy = fedlearn.run(cell["nodes"], settings=settings | place | out, progress=False).summary["accuracy"]
    return cell | {"accuracy": float(accuracy), "seconds": round(time.monotonic() - begin, 1)}


def minutes_left(done: list[dict[str, Any]], missing: list[dict[str, Any]]) -> float:
    """Return an estimate from cells of the same model, or of all models where there are none; NaN without any."""

    def seconds(model: str) -> float:
        alike = [each["seconds"] for each in done if each["model"] == model] or [each["seconds"] for each in done]
        return mean(alike) if alike else math.nan

    return sum(seconds(each["model"]) for each in missing) / 60


def table(done: list[dict[str, Any]]) -> str:
    """Return a row for each cell, over its seeds; there is none for a cell that has not been run."""
    rows: dict[tuple[Any, ...], list[float]] = {}
    for each in sorted(done, key=lambda each: (each["dataset"], each["nodes"], each["model"], each["epsilon"])):
        rows.setdefault(tuple(each[name] for name in KEY[:-1]), []).append(each["accuracy"])
    lines = ["| data | rounds | nodes | epsilon | model | accuracy | lowest, highest | seeds |", "|---" * 8 + "|"]
    for (dataset, rounds, nodes, epsilon, model), found in rows.items():
        spread = f"{min(found):.4f}, {max(found):.4f}"
        lines.append(
            f"| {dataset} | {rounds} | {nodes} | {epsilon:g} | {model} | {mean(found):.4f} | {spread} | {len(found)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Run the cells that are missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", choices=NETWORKS, default="adult")
    parser.add_argument("--nodes", type=int, nargs="+", default=[5, 25])
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--models", nargs="+", default=[], help="only these, by their words in the table")
    parser.add_argument("--opacus-python", default="", help="also Opacus, by the Python of an environment with it")
    parser.add_argument("--out", type=Path, default=Path("runs/records"))
    parser.add_argument("--table", action="store_true", help="run nothing")
    given = parser.parse_args()
    done = ended(given.out / "cells.jsonl")
    keys = [{name: each[name] for name in KEY} for each in done]
    missing = [each for each in wanted(given) if each[0] not in keys]
    for number, (cell, settings) in enumerate([] if given.table else missing):
        left = minutes_left(done, [each for each, _ in missing[number:]])
        print(f"{len(missing) - number} cells are missing, about {left:.1f} minutes; now {cell}", flush=True)
        done.append(keep(given.out / "cells.jsonl", run(cell, settings, given.opacus_python)))
    print(table(done))


if __name__ == "__main__":
    main()
