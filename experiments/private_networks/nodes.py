"""Accuracy of a model whose training protects nodes, by epsilon and by the way in which nodes take part.

    python -m experiments.private_networks.nodes

A linear model of digits on 100 nodes, 20 of them in a round, 30 rounds, delta 1e-5; three seeds. The ways: Poisson
sampling; fixed cohorts; fixed cohorts of nodes that wait 5, or 4, rounds between their turns, with correlated noise;
fixed cohorts with distributed noise (shares) and with local noise.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fedlearn

SEEDS = (1, 2, 3)
EPSILONS = (1.0, 2.0, 4.0, 8.0, None)
SETTINGS: dict[str, Any] = {
    "dataset": "digits", "model": "linear", "clients": 100, "cohort": 20, "rounds": 30, "lr": 0.1, "workers": 2,
    "progress": False,
}  # fmt: skip
CLIP = 0.5
WAYS: dict[str, dict[str, Any]] = {
    "poisson": {"rounds.selector": "poisson"},
    "uniform": {},
    "5 apart": {"privacy.separation": 5},
    "4 apart": {"privacy.separation": 4},
    "shares": {"privacy.trust": "distributed", "rounds.quorum": 1.0, "rounds.minimum_ready": 1.0},
    "local": {"privacy.trust": "local"},
}


def measured(epsilon: float | None, way: str, seed: int, folder: Path) -> tuple[float, float]:
    """Return accuracy after the last round and noise multiplier; an epsilon of None adds no noise."""
    private: dict[str, Any] = {"private": "nodes", "epsilon": epsilon, "delta": 1e-5} if epsilon else {}
    clip = {"privacy.clip": CLIP} if epsilon else {}
    how = WAYS[way] if epsilon or way == "poisson" else {}
    settings = {**how, "evaluation.every": SETTINGS["rounds"], **clip}
    run = fedlearn.run(**SETTINGS, **private, seed=seed, settings=settings, out=folder / f"{epsilon}-{way}-{seed}")
    return run.summary["accuracy"], run.summary.get("noise_multiplier", 0.0)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each epsilon."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed, epsilon 8 and none")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    options = parser.parse_args(arguments)
    seeds, epsilons = (SEEDS[:1], (8.0, None)) if options.quick else (SEEDS, EPSILONS)
    print("epsilon  way      noise multiplier  accuracy (mean, lowest, highest)")
    with tempfile.TemporaryDirectory() as folder:
        for way in options.ways:
            for epsilon in epsilons:
                rows = [measured(epsilon, way, seed, Path(folder)) for seed in seeds]
                found = [accuracy for accuracy, _ in rows]
                spread = f"{statistics.mean(found):.4f}  {min(found):.4f}  {max(found):.4f}"
                print(f"{epsilon or 'none':>7}  {way:<7}  {rows[0][1]:>16.4f}  {spread}", flush=True)


if __name__ == "__main__":
    main()
