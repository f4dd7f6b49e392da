"""Accuracy of a model whose training protects nodes, by epsilon and by the way in which nodes take part.

    python -m experiments.private_networks.nodes --out runs/nodes

A linear model of digits on 100 nodes, 20 of them in a round, 30 rounds, delta 1e-5; three seeds. The ways: Poisson
sampling; fixed cohorts; fixed cohorts of nodes that wait 5, or 4, rounds between their turns, with correlated noise;
fixed cohorts with distributed noise (shares) and with local noise. Each run that has ended is a line of
FOLDER/cells.jsonl: the same command goes on from there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import fedlearn
from experiments.private_networks.kept import ended, keep

SEEDS = (1, 2, 3)
EPSILONS = (1.0, 2.0, 4.0, 8.0, None)
SETTINGS: dict[str, Any] = {
    "dataset": "digits", "model": "linear", "clients": 100, "cohort": 20, "rounds": 30, "lr": 0.1, "workers": 1,
    "progress": False,
}  # fmt: skip
CLIP = 0.5
KEY = ("way", "epsilon", "seed")
WAYS: dict[str, dict[str, Any]] = {
    "poisson": {"rounds.selector": "poisson"},
    "uniform": {},
    "5 apart": {"privacy.separation": 5},
    "4 apart": {"privacy.separation": 4},
    "shares": {"privacy.trust": "distributed", "rounds.quorum": 1.0, "rounds.minimum_ready": 1.0},
    "local": {"privacy.trust": "local"},
}


def measured(epsilon: float | None, way: str, seed: int) -> dict[str, float]:
    """Return accuracy after the last round, noise multiplier and seconds; an epsilon of None adds no noise."""
    private: dict[str, Any] = {"private": "nodes", "epsilon": epsilon, "delta": 1e-5} if epsilon else {}
    clip = {"privacy.clip": CLIP} if epsilon else {}
    how = WAYS[way] if epsilon or way == "poisson" else {}
    settings = {**how, "evaluation.every": SETTINGS["rounds"], **clip}
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        run = fedlearn.run(**SETTINGS, **private, seed=seed, settings=settings, out=Path(folder) / "run")
        found = {"accuracy": run.summary["accuracy"], "noise_multiplier": run.summary.get("noise_multiplier", 0.0)}
    return found | {"seconds": round(time.monotonic() - begin, 1)}


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, epsilon 8 and none")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--seeds", nargs="+", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=Path("runs/nodes"))
    options = parser.parse_args(arguments)
    seeds, epsilons = (SEEDS[:1], (8.0, None)) if options.quick else (options.seeds, options.epsilons)
    file = options.out / "cells.jsonl"
    kept = {(each["way"], each["epsilon"], each["seed"]): each for each in ended(file)}
    print("epsilon  way      noise multiplier  accuracy (mean, lowest, highest)")
    for way, epsilon in product(options.ways, epsilons):
        for seed in seeds:
            key = (way, epsilon, seed)
            if key not in kept:
                kept[key] = keep(file, dict(zip(KEY, key, strict=True)) | measured(epsilon, way, seed))
        found = [kept[way, epsilon, seed] for seed in seeds]
        accuracy = [each["accuracy"] for each in found]
        spread = f"{statistics.mean(accuracy):.4f}  {min(accuracy):.4f}  {max(accuracy):.4f}"
        print(f"{epsilon or 'none':>7}  {way:<7}  {found[0]['noise_multiplier']:>16.4f}  {spread}", flush=True)


if __name__ == "__main__":
    main()
